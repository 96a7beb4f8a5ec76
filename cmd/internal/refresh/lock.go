package refresh

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer/document"
)

// LockSchema names the form of a lock: lock.schema.json.
const LockSchema = "backfeed.lock/1"

//go:embed lock.schema.json
var lockJSONSchema []byte

var lockRules = sync.OnceValue(func() *document.Rules { return document.MustParseRules(lockJSONSchema) })

// A Lock says what each profile of a repository is, and what it was made of. An entry changes only with its profile.
type Lock struct {
	Schema  string   `json:"schema"`
	Outputs []Locked `json:"outputs"` // by path
}

// A Locked is one profile. What it was made of is not there where refresh did not make it.
type Locked struct {
	Path   string `json:"path"` // below the lock's directory, as configured
	Target string `json:"target"`
	Format string `json:"format"`          // go, llvm, gcc, bolt, propeller, propeller-order or layout
	SHA256 string `json:"sha256"`          // of the file
	Bytes  int64  `json:"bytes"`           // of the file
	Name   string `json:"name"`            // the last element of Path with the first digits of SHA256
	Store  string `json:"store,omitempty"` // where Name is to be had, of mode pin: a directory, below the lock's unless it is absolute

	Image     string         `json:"image,omitempty"` // build ID of the build that it is for
	Event     string         `json:"event,omitempty"`
	Samples   uint64         `json:"samples,omitempty"` // of all images
	From      string         `json:"from,omitempty"`    // of stores, the first and last moment that samples are of: RFC 3339
	To        string         `json:"to,omitempty"`
	Hosts     int            `json:"hosts,omitempty"` // of stores, different values of the label "host"
	Builds    []LockedBuild  `json:"builds,omitempty"`
	Tool      string         `json:"tool,omitempty"`
	Decisions *LockedChange  `json:"decisions,omitempty"`       // what this profile decides otherwise than the one before
	Saving    *report.Saving `json:"expected_saving,omitempty"` // of go
	// Of formats whose decisions no rule predicts, what the next version is compared with: by name of function, its share of all
	// executed instructions of the image; 1 is all.
	Hot map[string]float64 `json:"hot,omitempty"`
}

// A LockedBuild is a build that was sampled.
type LockedBuild struct {
	ID      string `json:"build_id"`
	Samples uint64 `json:"samples"`
}

// A LockedChange counts decisions.
type LockedChange struct {
	Changed int `json:"changed"`
	Clear   int `json:"clear"`
}

// maxLock bounds a lock, in bytes.
const maxLock = 16 << 20

// ReadLock reads the lock at path; one that is not there is empty.
func ReadLock(path string) (*Lock, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Lock{Schema: LockSchema}, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	l, err := ParseLock(b)
	if err != nil {
		return nil, fail.Errorf(fail.Nothing, "%s: %w", path, err)
	}
	return l, nil
}

// ParseLock reads a lock, which is checked whole against its schema first. Paths lead out of its directory in none.
func ParseLock(b []byte) (*Lock, error) {
	if len(b) > maxLock {
		return nil, fmt.Errorf("a lock of %d bytes: want at most %d", len(b), maxLock)
	}
	if err := lockRules().Check(b); err != nil {
		return nil, fmt.Errorf("%w: no lock of backfeed", err)
	}
	var l Lock
	if err := json.Unmarshal(b, &l); err != nil { // numbers that the schema allows, and Go's do not hold
		return nil, document.JSONError(err)
	}
	seen := map[string]bool{}
	for i := range l.Outputs {
		if err := l.Outputs[i].check(); err != nil {
			return nil, fmt.Errorf("outputs[%d]: %w", i, err)
		}
		if seen[l.Outputs[i].Path] {
			return nil, fmt.Errorf("outputs[%d].path: %q is there twice", i, l.Outputs[i].Path)
		}
		seen[l.Outputs[i].Path] = true
	}
	return &l, nil
}

func (k *Locked) check() error {
	sum, err := hex.DecodeString(k.SHA256)
	switch {
	case !filepath.IsLocal(filepath.FromSlash(k.Path)):
		return fmt.Errorf("path: %q leads out of the lock's directory", k.Path)
	case err != nil || len(sum) != sha256.Size:
		return fmt.Errorf("sha256: %q, want %d hexadecimal digits", k.SHA256, 2*sha256.Size)
	case k.Name != hashed(k.Path, k.SHA256):
		return fmt.Errorf("name: %q, want %q, after path and sha256", k.Name, hashed(k.Path, k.SHA256))
	case slices.ContainsFunc(slices.Collect(maps.Values(k.Hot)), func(x float64) bool { return x < 0 || x > 1 }):
		return errors.New("hot: a share that is not between 0 and 1")
	case k.Bytes < 0:
		return fmt.Errorf("bytes: %d", k.Bytes)
	}
	return nil
}

// Find returns the entry of an output, or nil.
func (l *Lock) Find(path string) *Locked {
	i := slices.IndexFunc(l.Outputs, func(k Locked) bool { return k.Path == path })
	if i < 0 {
		return nil
	}
	return &l.Outputs[i]
}

// Put replaces the entry of an output, or adds it.
func (l *Lock) Put(k Locked) {
	if old := l.Find(k.Path); old != nil {
		*old = k
		return
	}
	l.Outputs = append(l.Outputs, k)
	slices.SortFunc(l.Outputs, func(a, b Locked) int { return cmp.Compare(a.Path, b.Path) })
}

// keep drops the entries of what a configuration does not have any more.
func (l *Lock) keep(c *Config) {
	wanted := map[string]bool{}
	for _, t := range c.Targets {
		for _, o := range t.Outputs {
			for _, path := range o.files() {
				wanted[slashed(path)] = true
			}
		}
	}
	l.Outputs = slices.DeleteFunc(l.Outputs, func(k Locked) bool { return !wanted[k.Path] })
}

// Encode returns the lock as its file has it.
func (l *Lock) Encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if l.Outputs == nil {
		l.Outputs = []Locked{}
	}
	if err := e.Encode(l); err != nil {
		panic(err) // plain values
	}
	return b.Bytes()
}

// slashed is a path as a lock has it.
func slashed(path string) string { return filepath.ToSlash(filepath.Clean(path)) }

// hashDigits is how many digits of a SHA-256 tell the versions of one profile apart, in names.
const hashDigits = 12

// hashed is the name of a file with such content: digits stand where its path has Hash, or before its extension.
func hashed(path, sum string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	digits := sum[:min(hashDigits, len(sum))]
	if strings.Contains(base, Hash) {
		return strings.Replace(base, Hash, digits, 1)
	}
	ext := filepath.Ext(base)
	return strings.TrimSuffix(base, ext) + "-" + digits + ext
}

// sumOf returns the SHA-256 of b in hexadecimal digits.
func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
