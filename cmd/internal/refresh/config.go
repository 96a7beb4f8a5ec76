package refresh

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/feedback/gate"
)

// Section is the key of a configuration that is for this package.
const Section = "refresh"

// A Config is what a repository wants to keep fresh. Paths in it are below Dir, unless they are absolute.
type Config struct {
	Dir     string // of the configuration's file
	Lock    string // path of the lock
	Targets []*Target
}

// A Target is outputs that are made of one merge of samples.
type Target struct {
	Name      string
	Sources   []input.Source // of which a path may be a pattern of names
	Image     string         // file of the newest build, which older ones are carried onto; or the path or build ID of a recorded image
	Recorded  string         // path or build ID of older builds; "" is any of Image's file name
	Builds    []string       // where sampled builds are found, as --symfs
	Tree      string         // source that the samples are held against; "" is none
	Since     time.Duration
	HalfLife  time.Duration
	Normalise bool
	LeaveOut  bool // leave out a source that cannot be read
	Labels    map[string]string
	Event     string
	Model     string
	Limits    gate.Limits
	Mode      Mode
	Store     string // of Pin: the directory that profiles go to
	Outputs   []Output

	line int // of the configuration
}

// A Mode says where profiles are kept.
type Mode string

const (
	Commit Mode = "commit" // at their paths, in the repository
	Pin    Mode = "pin"    // in a store; the repository has the lock
)

// An Output is one file that a target makes.
type Output struct {
	Kind  string // of Kinds
	Path  string // where; Hash in it stands for the digits of its content
	Form  string // of llvm: text or extbinary
	For   string // of layout: who reads the order
	LD    string // of propeller: path of the order for the linker
	GCC   int    // of gcc: its major version; 0 is that of the image
	Image string // another image than the target's
}

// Hash in the path of an output stands for the first digits of the SHA-256 of its content.
const Hash = "{hash}"

// Kinds are the formats of outputs: those of emit, and an order of functions.
var Kinds = []string{"go", "llvm", "gcc", "bolt", "propeller", "layout"}

// Orders are those who read an order of functions, of an output of kind layout.
var Orders = []string{"lld", "gold", "ld", "ld-script", "bolt"}

// defaultLock is the lock where a configuration names none.
const defaultLock = "backfeed.lock"

// Parse reads the section of the configuration text, which lies in directory dir. limits returns a set with the flags of
// check that are limits, and these: a target's are set by its own section, and else by that of check.
func Parse(text []byte, dir string, limits func() (*flagset.Set, *gate.Limits)) (*Config, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	c := &Config{Dir: filepath.Clean(dir), Lock: defaultLock}
	if doc.Kind == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("no section %q", Section)
	}
	var section, check *yaml.Node
	for i := 0; i+1 < len(doc.Content[0].Content); i += 2 {
		switch doc.Content[0].Content[i].Value {
		case Section:
			section = doc.Content[0].Content[i+1]
		case "check":
			check = doc.Content[0].Content[i+1]
		}
	}
	if section == nil {
		return nil, fmt.Errorf("no section %q", Section)
	}
	r := reader{limits: func(target *yaml.Node) (gate.Limits, error) {
		fs, lim := limits()
		err := fs.ConfigureSection(target, false)
		if err == nil {
			err = fs.ConfigureSection(check, true)
		}
		return *lim, err
	}}
	err := fields(section, map[string]func(*yaml.Node) error{
		"lock": scalar(&c.Lock),
		"targets": func(n *yaml.Node) error {
			return each(n, func(name string, n *yaml.Node) error {
				t, err := r.target(name, n)
				c.Targets = append(c.Targets, t)
				return err
			})
		},
	})
	if err != nil {
		return nil, err
	}
	if len(c.Targets) == 0 {
		return nil, fmt.Errorf("line %d: %s: no targets", section.Line, Section)
	}
	return c, c.check()
}

// check reports what does not go together.
func (c *Config) check() error {
	if c.Lock != filepath.Base(c.Lock) || c.Lock == "." || c.Lock == ".." {
		return fmt.Errorf("lock: %s: want a name beside the configuration", c.Lock)
	}
	paths := map[string]string{c.Lock: "the lock"}
	for _, t := range c.Targets {
		for _, o := range t.Outputs {
			for _, path := range o.files() {
				if !filepath.IsLocal(path) {
					return fmt.Errorf("line %d: %s: %s: outputs lie below the configuration's directory", t.line, t.Name, path)
				}
				if other := paths[filepath.Clean(path)]; other != "" {
					return fmt.Errorf("line %d: %s: %s is an output of %s, too", t.line, t.Name, path, other)
				}
				paths[filepath.Clean(path)] = t.Name
			}
		}
	}
	return nil
}

// Files are the paths of all outputs and of the lock, below Dir. Of an output with Hash in its path, the lock knows the file.
func (c *Config) Files() []string {
	all := []string{c.Lock}
	for _, t := range c.Targets {
		for _, o := range t.Outputs {
			for _, path := range o.files() {
				if t.Mode == Commit && !strings.Contains(path, Hash) {
					all = append(all, path)
				}
			}
		}
	}
	return all
}

// files are the paths that an output has.
func (o *Output) files() []string {
	if o.LD != "" {
		return []string{o.Path, o.LD}
	}
	return []string{o.Path}
}

// A reader reads targets.
type reader struct {
	limits func(*yaml.Node) (gate.Limits, error)
}

func (r *reader) target(name string, n *yaml.Node) (*Target, error) {
	t := &Target{Name: name, Mode: Commit, line: n.Line}
	var limits *yaml.Node
	err := fields(n, map[string]func(*yaml.Node) error{
		"sources":      list(func(n *yaml.Node) error { return t.addSource(n) }),
		"image":        scalar(&t.Image),
		"recorded":     scalar(&t.Recorded),
		"builds":       list(func(n *yaml.Node) error { t.Builds = append(t.Builds, n.Value); return nil }),
		"source":       scalar(&t.Tree),
		"since":        span(&t.Since),
		"half-life":    span(&t.HalfLife),
		"normalise":    boolean(&t.Normalise),
		"failure-mode": choice(map[string]func(){"any": func() { t.LeaveOut = false }, "all": func() { t.LeaveOut = true }}),
		"label": func(n *yaml.Node) error {
			t.Labels = map[string]string{}
			return each(n, func(key string, v *yaml.Node) error {
				return scalarOf(v, func(s string) error { t.Labels[key] = s; return nil })
			})
		},
		"event":  scalar(&t.Event),
		"model":  scalar(&t.Model),
		"limits": func(n *yaml.Node) error { limits = n; return nil },
		"mode":   choice(map[string]func(){string(Commit): func() { t.Mode = Commit }, string(Pin): func() { t.Mode = Pin }}),
		"store":  scalar(&t.Store),
		"outputs": list(func(n *yaml.Node) error {
			o, err := outputOf(n)
			t.Outputs = append(t.Outputs, o)
			return err
		}),
	})
	if err == nil {
		t.Limits, err = r.limits(limits)
	}
	switch {
	case err != nil:
	case len(t.Sources) == 0:
		err = fmt.Errorf("line %d: no sources", n.Line)
	case t.Image == "" && slices.ContainsFunc(t.Outputs, func(o Output) bool { return o.Image == "" }):
		err = fmt.Errorf("line %d: no image: the file of the newest build, or the path of a recorded one", n.Line)
	case len(t.Outputs) == 0:
		err = fmt.Errorf("line %d: no outputs", n.Line)
	case (t.Mode == Pin) != (t.Store != ""):
		err = fmt.Errorf("line %d: mode pin, and no other, wants a store: the directory that profiles go to", n.Line)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// addSource reads SRC or SRC@WEIGHT.
func (t *Target) addSource(n *yaml.Node) error {
	return scalarOf(n, func(text string) error {
		s, err := input.ParseSource(text)
		if err == nil && s.Path == "" {
			err = errors.New("want a recording, a store or an address")
		}
		t.Sources = append(t.Sources, s)
		return err
	})
}

// outputOf reads a map of one kind with its path, and what else there is to say.
func outputOf(n *yaml.Node) (o Output, err error) {
	keys := map[string]func(*yaml.Node) error{
		"format": scalar(&o.Form), "for": scalar(&o.For), "ld": scalar(&o.LD), "image": scalar(&o.Image),
		"gcc-version": func(n *yaml.Node) error {
			return scalarOf(n, func(s string) (err error) {
				if o.GCC, err = strconv.Atoi(s); err == nil && o.GCC < 12 {
					err = errors.New("want 12 or later")
				}
				return err
			})
		},
	}
	for _, kind := range Kinds {
		keys[kind] = func(n *yaml.Node) error {
			if o.Kind != "" {
				return fmt.Errorf("line %d: an output is %s or %s: make it two", n.Line, o.Kind, kind)
			}
			o.Kind = kind
			return scalar(&o.Path)(n)
		}
	}
	if err := fields(n, keys); err != nil {
		return o, err
	}
	switch {
	case o.Kind == "" || o.Path == "":
		err = fmt.Errorf("want one of %s with the path of a file", strings.Join(Kinds, ", "))
	case o.Form != "" && (o.Kind != "llvm" || o.Form != "text" && o.Form != "extbinary"):
		err = errors.New("format: llvm has text and extbinary, and no other kind has one")
	case (o.Kind == "propeller") != (o.LD != ""):
		err = errors.New("propeller, and no other, wants ld, the path of the order for the linker")
	case o.GCC != 0 && o.Kind != "gcc":
		err = errors.New("gcc-version goes with gcc")
	case o.Kind == "layout" && !slices.Contains(Orders, o.For):
		err = fmt.Errorf("layout wants for: %s", strings.Join(Orders, ", "))
	case o.Kind != "layout" && o.For != "":
		err = errors.New("for goes with layout")
	case strings.Contains(o.LD, Hash) || strings.Count(o.Path, Hash) > 1 || strings.Contains(filepath.Dir(o.Path), Hash):
		err = fmt.Errorf("%s may stand once, in the last element of an output's path", Hash)
	}
	if err != nil {
		err = fmt.Errorf("line %d: %w", n.Line, err)
	}
	return o, err
}

// fields reads a map whose keys are known.
func fields(n *yaml.Node, known map[string]func(*yaml.Node) error) error {
	return each(n, func(key string, v *yaml.Node) error {
		read := known[key]
		if read == nil {
			return fmt.Errorf("line %d: %q: want one of %s", v.Line, key, names(known))
		}
		return read(v)
	})
}

// names are the keys of a map, in words.
func names[V any](of map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(of)), ", ")
}

// each calls f for the keys of a map and their values: its own, and those of maps that it merges where it has no such
// key itself.
func each(n *yaml.Node, f func(key string, v *yaml.Node) error) error {
	own := map[string]bool{}
	return eachOf(n, 0, func(key string, v *yaml.Node, depth int) error {
		if depth > 0 && own[key] {
			return nil
		}
		own[key] = own[key] || depth == 0
		return f(key, v)
	})
}

// maxMerge is how deep merged maps may merge others: one that merges itself has no end.
const maxMerge = 8

// eachOf calls f for the keys of a map, and then for those of the maps that it merges, one deeper.
func eachOf(n *yaml.Node, depth int, f func(key string, v *yaml.Node, depth int) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want names, each with what it holds", n.Line)
	}
	if depth > maxMerge {
		return fmt.Errorf("line %d: maps are merged more than %d deep", n.Line, maxMerge)
	}
	var merged []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, n.Content[i+1])
			continue
		case seen[key.Value]: // which only decoding into values refuses
			return fmt.Errorf("line %d: %q is there twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if err := f(key.Value, n.Content[i+1], depth); err != nil {
			return err
		}
	}
	for _, m := range merged {
		if err := eachOf(m, depth+1, f); err != nil {
			return err
		}
	}
	return nil
}

// list returns a reader of a list, or of one thing that is one.
func list(f func(*yaml.Node) error) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind != yaml.SequenceNode {
			return f(n)
		}
		for _, item := range n.Content {
			if err := f(item); err != nil {
				return err
			}
		}
		return nil
	}
}

// scalarOf reads a plain value.
func scalarOf(n *yaml.Node, f func(string) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return fmt.Errorf("line %d: want a plain value", n.Line)
	}
	if err := f(n.Value); err != nil {
		return fmt.Errorf("line %d: %q: %w", n.Line, n.Value, err)
	}
	return nil
}

func scalar(p *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error { return scalarOf(n, func(s string) error { *p = s; return nil }) }
}

func span(p *time.Duration) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return scalarOf(n, func(s string) (err error) { *p, err = flagset.ParseTimeSpan(s, false); return err })
	}
}

func boolean(p *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return scalarOf(n, func(s string) (err error) { *p, err = strconv.ParseBool(s); return err })
	}
}

func choice(of map[string]func()) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return scalarOf(n, func(s string) error {
			f := of[s]
			if f == nil {
				return fmt.Errorf("want one of %s", names(of))
			}
			f()
			return nil
		})
	}
}
