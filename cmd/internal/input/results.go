package input

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/wire"
)

// Results is a directory of what was inferred, for commands that ask the same of the same recording again. A file has the name of
// its key, which is made of all that the result hangs on: this program, the options, the recording, and the files of the images.
// It is written whole, or not at all; who can read it is who can read the directory. What cannot be read or written
// is inferred anew: nothing fails by it.
//
//	offset  size  field
//	0       4     magic "bfi1"; the digit is the version of the format
//	4       4     CRC-32C of the rest of the file, little-endian
//	8       32    key
//	40      -     as infer.Profile.Keep has it, or explain.Explainer.Stalls
type Results string

const (
	resultMagic  = "bfi1"
	resultHeader = 8
	resultSuffix = ".bfi"
)

// There are at most so many bytes of results, and so many files; the one that was asked for the longest ago goes first. gcc's
// cc1 with 12,000 procedures takes 20 MB.
const (
	mostResultBytes = 1 << 30
	mostResults     = 1000
)

type opener func(sample.ImageID) (*image.Image, error)

// A readFrom is a recording that was read from bytes of the stored form, and their sum, which says all that is in it. It says so
// as long as nobody changes the recording.
type readFrom struct {
	rec *sample.Recording
	sum [sha256.Size]byte
}

// of reports whether rec is what was read.
func (s *readFrom) of(rec *sample.Recording) bool { return s.rec != nil && s.rec == rec }

// infer is infer.Infer. What from is of need not be encoded to be known. What else is made of the Profile may be kept in beside, which
// is nil if nothing is.
func (d Results) infer(ctx context.Context, rec *sample.Recording, from readFrom, open opener, opt infer.Options) (p *infer.Profile, beside *result, err error) {
	anew := func() (*infer.Profile, error) { return infer.Infer(ctx, rec, open, opt) }
	if d == "" || !opt.Keepable() {
		p, err = anew()
		return p, nil, err
	}
	key, ok := resultKey(ctx, rec, from, open, opt)
	if !ok {
		p, err = anew()
		return p, nil, err
	}
	of := &result{d, key}
	if b := of.Load(); b != nil {
		p, err := infer.Restore(ctx, b, rec, open, opt)
		if err == nil || ctx.Err() != nil {
			return p, of, err
		}
	}
	if p, err = anew(); err == nil {
		if b, err := p.Keep(rec, opt); err == nil {
			of.Store(b)
		}
	}
	return p, of, err
}

// A result is the place of one result.
type result struct {
	dir Results
	key [sha256.Size]byte
}

// Load returns what was kept there, or nil.
func (r *result) Load() []byte { return r.dir.read(r.key) }

// Store keeps b there.
func (r *result) Store(b []byte) { r.dir.write(r.key, b) }

// stalls is where those of the procedures of a result are kept: they hang on all that it does, and on nothing else.
func (r *result) stalls() *result {
	return &result{r.dir, sha256.Sum256(append([]byte("stalls"), r.key[:]...))}
}

// self is the fingerprint of this program; "" if it cannot be said.
var self = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := sample.OpenRegular(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return image.Fingerprint(f)
})

// resultKey returns the key of what is inferred of a recording, and whether all that it is made of can be told. It opens the
// images that Infer would.
func resultKey(ctx context.Context, rec *sample.Recording, from readFrom, open opener, opt infer.Options) (key [sha256.Size]byte, ok bool) {
	if self() == "" {
		return key, false
	}
	h := sha256.New()
	say := func(s string) {
		h.Write(binary.AppendUvarint(nil, uint64(len(s))))
		io.WriteString(h, s)
	}
	event, images, err := infer.Chosen(rec, opt)
	if err != nil {
		return key, false // Infer says so, too
	}
	say(self())
	say(fmt.Sprintf("%q %q %v %v %v", event, opt.Model, opt.NoCallers, opt.Part, opt.Only != nil))
	if from.of(rec) {
		say("stored")
		h.Write(from.sum[:])
	} else {
		say("encoded")
		h.Write(rec.Encode())
	}
	for _, id := range images {
		im, err := open(id)
		if ctx.Err() != nil {
			return key, false
		}
		say(id.String())
		if err != nil {
			say("")
			continue
		}
		print := im.Fingerprint()
		if print == "" {
			return key, false
		}
		say(print)
	}
	return [sha256.Size]byte(h.Sum(nil)), true
}

func (d Results) path(key [sha256.Size]byte) string {
	return filepath.Join(string(d), hex.EncodeToString(key[:])+resultSuffix)
}

// read returns what was kept for a key, or nil. From here on, it was asked for just now.
func (d Results) read(key [sha256.Size]byte) []byte {
	f, err := sample.OpenRegular(d.path(key))
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() > mostResultBytes || st.Size() < int64(resultHeader+len(key)) {
		return nil
	}
	b := make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil
	}
	rest := b[resultHeader:]
	if string(b[:4]) != resultMagic || binary.LittleEndian.Uint32(b[4:]) != wire.Checksum(rest) || [sha256.Size]byte(rest) != key {
		return nil
	}
	now := time.Now()
	os.Chtimes(f.Name(), now, now)
	return rest[len(key):]
}

// write keeps b for a key, and lets go of what there is too much of.
func (d Results) write(key [sha256.Size]byte, b []byte) {
	if len(b) > mostResultBytes/2 || os.MkdirAll(string(d), 0o700) != nil {
		return
	}
	st, err := os.Stat(string(d))
	if err != nil {
		return
	}
	head := make([]byte, resultHeader, resultHeader+len(key))
	copy(head, resultMagic)
	head = append(head, key[:]...)
	binary.LittleEndian.PutUint32(head[4:], wire.Extend(wire.Checksum(head[resultHeader:]), b))
	err = place(d.path(key), 0o600|st.Mode().Perm()&0o044, func(f *os.File) error { // for those who can read d
		if _, err := f.Write(head); err != nil {
			return err
		}
		_, err := f.Write(b)
		return err
	})
	if err == nil {
		d.shed(time.Now())
	}
}

// shed removes the files that were asked for the longest ago until there are no more than may be, and what was left unfinished.
func (d Results) shed(now time.Time) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return
	}
	var all []fs.FileInfo
	var sum int64
	for _, e := range entries {
		st, err := e.Info()
		switch {
		case err != nil || !st.Mode().IsRegular():
		case isResult(e.Name()):
			all = append(all, st)
			sum += st.Size()
		case strings.HasPrefix(e.Name(), tempPrefix) && now.Sub(st.ModTime()) > staleTemp:
			os.Remove(filepath.Join(string(d), e.Name()))
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for len(all) > mostResults || sum > mostResultBytes {
		if err := os.Remove(filepath.Join(string(d), all[0].Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		sum -= all[0].Size()
		all = all[1:]
	}
}

// isResult reports whether write would name a file so.
func isResult(name string) bool {
	key, ok := strings.CutSuffix(name, resultSuffix)
	if !ok || len(key) != 2*sha256.Size {
		return false
	}
	_, err := hex.DecodeString(key)
	return err == nil
}
