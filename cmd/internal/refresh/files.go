package refresh

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/layout"
)

// A file is one that an output makes.
type file struct {
	path   string // as configured
	format string // as in a lock
	image  *infer.ImageProfile
	name   string // of the image in the configuration

	old     []byte // what is there; nil is nothing
	pending []byte // what was proposed in its place and is not there yet; nil is nothing
	bytes   []byte
	why     string
	holds   []string
	saving  *report.Saving
	diff    *report.DecisionDiff
	hot     map[string]float64 // as in a lock
}

// make makes the files of an output.
func (r *run) make(o *Output, ip *infer.ImageProfile) ([]*file, error) {
	f, err := r.file(o.Path, o, ip)
	if err != nil {
		return nil, err
	}
	opt := emit.Options{Image: emit.NameOf(f.image.ID), Form: o.Form, GCC: o.GCC}
	files := []*file{f}
	var w bytes.Buffer
	switch o.Kind {
	case "go":
		return files, r.settle(f, emit.Go, opt)
	case "llvm":
		return files, r.settle(f, emit.LLVM, opt)
	case "gcc":
		f.holds, err = emit.GCC(&w, r.src, opt)
	case "bolt":
		f.holds, err = emit.BOLT(&w, r.src, opt)
	case "propeller":
		ld, err := r.file(o.LD, o, ip)
		if err != nil {
			return nil, err
		}
		ld.format += "-order"
		files = append(files, ld)
		opt.LD = o.LD
		opt.Write = func(_ string, write func(io.Writer) error) error {
			var b bytes.Buffer
			err := write(&b)
			ld.bytes = b.Bytes()
			return err
		}
		f.holds, err = emit.Propeller(&w, r.src, opt)
	case "layout":
		f.holds, err = f.order(&w, o.For, r.src.Profile.Images)
	}
	if f.bytes = w.Bytes(); err != nil {
		return nil, err
	}
	r.compare(files)
	return files, nil
}

// order writes an order of functions; the one that is there, where a new one is worse than the image as it is linked. program is all images.
func (f *file) order(w io.Writer, target string, program []*infer.ImageProfile) (holds []string, err error) {
	ip := f.image
	if err := emit.Unordered(target, ip.Image); err != nil {
		return nil, err
	}
	o := layout.Functions(ip)
	o.Beside(program)
	o.Settle(nil)
	format, ok := o.Sections(ip.Image).Format(target)
	if !ok || len(o.Symbols) == 0 {
		return nil, fail.Errorf(fail.Nothing, "%s: no function that a linker could move ran: %d ran without a symbol of the image's own", ip.ID.Path, o.Unnamed)
	}
	gain := o.Gain()
	switch {
	case !gain.Worse():
		return []string{emit.Ordered(ip.ID, o, gain)}, format.Write(w)
	case f.old == nil:
		return nil, emit.Unclear(ip.ID, target, gain)
	default:
		_, err = w.Write(f.old)
		return []string{emit.Unclear(ip.ID, target, gain).Error()}, err
	}
}

// file returns a file of an output, with what is there.
func (r *run) file(path string, o *Output, ip *infer.ImageProfile) (f *file, err error) {
	f = &file{path: path, format: o.Kind, image: ip, name: r.imageOf(o)}
	if f.old, err = r.version(r.here, path); err == nil && r.pending != nil {
		f.pending, err = r.version(r.pending, path)
	}
	return f, err
}

// version returns what an output has in a version: the file at its path, or of mode pin what the lock names in the store. It is nil
// if there is nothing.
func (r *run) version(v *version, path string) ([]byte, error) {
	at := r.place(path, v.lock.Find(slashed(path)))
	if at == "" {
		return nil, nil
	}
	if v.files != nil && r.Mode != Pin {
		return v.files[filepath.ToSlash(r.rel(at))], nil
	}
	b, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, fail.Cause(err))
	}
	return b, nil
}

// place returns where a version of an output lies; "" if it is not known. k is nil of one that has none yet.
func (r *run) place(path string, k *Locked) string {
	switch {
	case r.Mode == Pin && k == nil, strings.Contains(path, Hash) && k == nil:
		return ""
	case r.Mode == Pin:
		return filepath.Join(r.under(r.Store)[0], k.Name)
	case strings.Contains(path, Hash):
		return filepath.Join(r.config.Dir, filepath.Dir(path), k.Name)
	}
	return r.under(path)[0]
}

// settle makes a profile of a consumer whose decisions are known. One that is proposed already stays, too.
func (r *run) settle(f *file, write emit.Format, opt emit.Options) error {
	settle := func(old []byte) (*emit.Settled, error) {
		return emit.Settle(f.format, old, func(w io.Writer, old []byte) (err error) {
			opt.Old = old
			f.holds, err = write(w, r.src, opt)
			return err
		})
	}
	var saves [2]float64
	opt.Saves = &saves
	s, err := settle(f.old)
	if err != nil {
		return err
	}
	if saves[1] > 0 {
		f.saving = &report.Saving{Least: digits(saves[0], 2), Most: digits(saves[1], 2)}
	}
	f.bytes, f.diff = s.Bytes, s.Diff
	var why []string
	for _, n := range s.Notes {
		why = append(why, n.Why)
	}
	f.why = strings.Join(why, "; ")
	if s.Stays || f.pending == nil {
		return nil
	}
	if s, err = settle(f.pending); err == nil && s.Stays {
		f.bytes = f.pending
	}
	return err
}

// compare decides whether files of a format whose decisions are not known stay, which belong together.
func (r *run) compare(files []*file) {
	f := files[0]
	f.hot = feedback.HotFunctions(f.image)
	stays, why, diff := compare(r.here, files, func(f *file) []byte { return f.old })
	for _, g := range files {
		g.why = why
	}
	f.diff = diff
	pending := false
	if !stays && r.pending != nil {
		pending, _, _ = compare(r.pending, files, func(f *file) []byte { return f.pending })
	}
	for _, g := range files {
		switch {
		case stays:
			g.bytes = g.old
		case pending:
			g.bytes = g.pending
		}
	}
}

// compare decides whether what files are in a version may stay, why, and what the new ones decide otherwise. What those in the version
// were made of, its lock says.
func compare(v *version, files []*file, in func(*file) []byte) (stays bool, why string, diff *report.DecisionDiff) {
	f := files[0]
	entry := v.lock.Find(slashed(f.path))
	same, whole, known := true, true, true
	for _, f := range files {
		old := in(f)
		same = same && bytes.Equal(old, f.bytes)
		whole = whole && old != nil
		k := v.lock.Find(slashed(f.path))
		known = known && k != nil && k.SHA256 == sumOf(old)
	}
	switch {
	case !whole:
		return false, "there was none", nil
	case same:
		return true, "it is the same", nil
	case !known || len(entry.Hot) == 0:
		return false, "the lock does not say what the old one was made of", nil
	}
	before, after := feedback.DecideFunctions(entry.Hot, float64(entry.Samples)), feedback.DecideFunctions(f.hot, float64(f.image.Samples))
	diff = report.NewDecisionDiff(f.format, before, after)
	return diff.Alike(), diff.Summary(), diff
}

// digits keeps so many significant digits.
func digits(x float64, n int) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', n, 64), 64)
	return x
}

// write writes the files that change, and the lock: all of them, or none.
func (r *run) write(files []*file) error {
	here := r.here.lock
	lock := &Lock{Schema: LockSchema, Outputs: slices.Clone(here.Outputs)}
	changes := map[string][]byte{} // by path from here
	var gone []string
	for _, f := range files {
		was := here.Find(slashed(f.path))
		k := r.entry(f, was)
		lock.Put(k)
		at := r.place(f.path, &k)
		out := report.RefreshOutput{Path: slashed(f.path), Format: f.format, SHA256: k.SHA256, Why: f.why, Holds: f.holds, Changes: f.diff, Saving: f.saving}
		if r.Mode == Pin || strings.Contains(f.path, Hash) {
			out.File = filepath.ToSlash(cmp.Or(r.rel(at), at))
		}
		switch {
		case f.old == nil:
			out.State, out.Why = report.RefreshNew, "there was none"
			changes[at] = f.bytes
		case bytes.Equal(f.old, f.bytes):
			out.State = report.RefreshUnchanged
		default:
			out.State = report.RefreshChanged
			changes[at] = f.bytes
			if before := r.place(f.path, was); r.Mode == Commit && before != at {
				gone = append(gone, before)
				r.touched = append(r.touched, before)
			}
		}
		r.doc.Outputs = append(r.doc.Outputs, out)
		if r.Mode == Commit {
			r.touched = append(r.touched, at)
		}
	}
	if r.opt.DryRun {
		return nil
	}
	lockPath := filepath.Join(r.config.Dir, r.config.Lock)
	if encoded := lock.Encode(); !bytes.Equal(encoded, here.Encode()) {
		changes[lockPath] = encoded
	}
	if err := writeAll(changes, lockPath); err != nil {
		return err
	}
	for _, path := range gone {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.notify.Warn("%s: %v; nothing reads it any more", path, fail.Cause(err))
		}
	}
	here.Outputs = lock.Outputs
	return nil
}

// rel is a path from the directory of the configuration; "" if it lies elsewhere.
func (r *run) rel(path string) string {
	rel, err := filepath.Rel(r.config.Dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return rel
}

// step is called between any two changes of the disk; tests are killed there.
var step = func() {}

// writeAll puts files on the disk and then at their places, that at the path last last: where the machine or the process stops
// between two of them, the next run finds that they do not fit it.
func writeAll(files map[string][]byte, last string) error {
	paths := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		if (a == last) != (b == last) {
			if a == last {
				return 1
			}
			return -1
		}
		return cmp.Compare(a, b)
	})
	var staged []*output.Staged
	defer func() {
		for _, s := range staged {
			s.Drop()
		}
	}()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		output.Sweep(path)
		s, err := output.Stage(path, files[path])
		if err != nil {
			return err
		}
		staged = append(staged, s)
		step()
	}
	for _, s := range staged {
		if err := s.Commit(); err != nil {
			return err
		}
		step()
	}
	return nil
}

// entry is what the lock says of a file from now on. was is what it says, or nil.
func (r *run) entry(f *file, was *Locked) Locked {
	sum := sumOf(f.bytes)
	stays := f.old != nil && bytes.Equal(f.old, f.bytes)
	k := Locked{Path: slashed(f.path), Target: r.Name, Format: f.format, SHA256: sum, Bytes: int64(len(f.bytes)), Name: hashed(slashed(f.path), sum)}
	if r.Mode == Pin {
		k.Store = filepath.ToSlash(r.Store)
	}
	if stays && was != nil && was.SHA256 == sum {
		k2 := *was
		k2.Target, k2.Format, k2.Name, k2.Store = k.Target, k.Format, k.Name, k.Store
		return k2
	}
	if r.pending != nil && f.pending != nil && bytes.Equal(f.pending, f.bytes) && !stays {
		if p := r.pending.lock.Find(k.Path); p != nil && p.SHA256 == sum {
			return *p
		}
	}
	if stays && f.diff != nil { // it was there before refresh was, or somebody else has written it since
		return k
	}
	k.Image, k.Event, k.Samples = f.image.Image.Build.String(), r.doc.Event, f.image.Samples
	k.From, k.To, k.Hosts, k.Builds, k.Tool = r.doc.From, r.doc.To, r.doc.Hosts, r.builds[f.name], r.opt.Tool
	k.Hot, k.Saving = f.hot, f.saving
	if f.diff != nil {
		k.Decisions = &LockedChange{len(f.diff.Changes), f.diff.Clear}
	}
	return k
}
