package source

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/infer/image"
	"backfeed/sample"
)

// A Tree is what a directory has of the files that a program was built from.
type Tree struct {
	root   *root
	byName map[string][]string   // paths below dir by their last elements, slashes between all
	files  map[string]*file      // by path below dir
	own    relocation            // of the files that are the program's own
	seen   map[declared][]string // recorded paths of the lines of a function
}

// A relocation is where files lay when the program was built, and where they lie
// below the tree's directory.
type relocation struct{ from, to string }

func (r relocation) before(o relocation) bool {
	return cmp.Or(shallower(r.to, o.to), cmp.Compare(r.from, o.from)) < 0
}

// A declared is a function as debug information tells of it.
type declared struct {
	name  string
	start int
}

// A file finds functions in the text of one: the first and last line that the function of
// a frame has now.
type file struct {
	lines    int
	function func(image.Frame) (start, end int, ok bool)
}

// A Fate is what has become of the source of sampled code, the worst last.
type Fate int

const (
	Outside Fate = iota // not in the tree, and never was
	InPlace
	MovedLines
	BeyondEnd
	FunctionGone
	FileGone
	NumFates // how many there are
)

// ErrNoFiles is the error of a tree without files.
var ErrNoFiles = errors.New("no files in it")

// OpenTree lists the files below dir, which may be a link, but not hidden ones, nor those
// of hidden directories and of the kernel.
func OpenTree(dir string) (*Tree, error) {
	t := &Tree{root: newRoot(dir), byName: map[string][]string{}, files: map[string]*file{}, seen: map[declared][]string{}}
	root := dir + string(filepath.Separator)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", filepath.Clean(name), cause(err))
		case name != root && strings.HasPrefix(d.Name(), "."), kernelPath(filepath.Clean(name)):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				return err
			}
			t.byName[d.Name()] = append(t.byName[d.Name()], filepath.ToSlash(rel))
		}
		return nil
	})
	return t, err
}

// Find returns the file below the directory whose path is the end of a recorded one, or has as its end one that was recorded
// without a directory to begin at; of several the longest, then the one with the fewest directories.
func (t *Tree) Find(recorded string) (rel string, ok bool) {
	recorded = path.Clean(recorded)
	found, _ := t.nearest(recorded, func(r string, n int) bool { return n == len(r) || n == len(recorded) })
	if len(found) == 0 {
		return "", false
	}
	return found[0], true
}

// anyFile lets nearest return all files.
func anyFile(string, int) bool { return true }

// nearest returns the files below the directory whose paths have the longest end in common with a recorded one, of those
// that suit, and its length: those with the fewest directories first, which are equally likely by their names.
func (t *Tree) nearest(recorded string, suits func(rel string, common int) bool) (rels []string, longest int) {
	for _, rel := range t.byName[path.Base(recorded)] {
		switch n := commonEnd(recorded, rel); {
		case n == 0 || n < longest || !suits(rel, n):
		case n > longest:
			rels, longest = []string{rel}, n
		default:
			rels = append(rels, rel)
		}
	}
	slices.SortFunc(rels, shallower)
	return rels, longest
}

// shallower orders paths, those with the fewest directories first.
func shallower(a, b string) int {
	return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
}

// commonEnd returns the length of the last path elements that a and b share.
func commonEnd(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for i := 1; i <= min(len(as), len(bs)) && as[len(as)-i] == bs[len(bs)-i]; i++ {
		n += len(as[len(as)-i]) + len("/")
	}
	return max(0, n-len("/"))
}

// file returns the file that has a frame's function, or would have it: nil if it is gone. It is recorded as name, which is of
// the program's own. Moved files are still found by the names that they have in C; in Go, the names of their functions are others.
func (t *Tree) file(name string, fr image.Frame) *file {
	rel := t.own.to + strings.TrimPrefix(name, t.own.from)
	if f := t.read(rel); f != nil || strings.HasSuffix(name, ".go") {
		return f
	}
	var first *file
	rels, _ := t.nearest(name, anyFile)
	for _, rel := range rels {
		f := t.read(rel)
		if f == nil {
			continue
		}
		if _, _, ok := f.function(fr); ok {
			return f
		}
		if first == nil {
			first = f
		}
	}
	return first
}

// read reads a file below the directory; nil if there is none.
func (t *Tree) read(rel string) *file {
	if f, ok := t.files[rel]; ok {
		return f
	}
	var f *file
	if slices.Contains(t.byName[path.Base(rel)], rel) {
		if b, err := t.root.read(rel); err == nil {
			f = parseSource(rel, string(b))
		}
	}
	t.files[rel] = f
	return f
}

// A sampledPlace is the inlined stack of source lines at an address.
type sampledPlace struct {
	frames  []image.Frame
	samples uint64
}

// placesOf returns those that samples were taken at.
func placesOf(im *image.Image, id sample.ImageID, rec *sample.Recording, event string, ln *image.Lines) []sampledPlace {
	var places []sampledPlace
	for _, c := range rec.Counts {
		for _, ic := range c.Images {
			if c.Event.Name != event || ic.ID.Key() != id.Key() {
				continue
			}
			for _, off := range slices.Sorted(maps.Keys(ic.At)) {
				if a, ok := im.AddrOf(off); ok {
					if fs := ln.Frames(a); len(fs) > 0 {
						places = append(places, sampledPlace{fs, ic.At[off]})
					}
				}
			}
		}
	}
	return places
}

// locate decides which files are the program's own: most samples of functions that
// the nearest files have are of lines in files that lay below one directory; most
// samples of such files, if these have no function that was sampled.
func (t *Tree) locate(places []sampledPlace) {
	files, functions := relocations{}, relocations{}
	for _, p := range places {
		for _, fr := range p.frames {
			d := declared{fr.Func, fr.StartLine}
			if !slices.Contains(t.seen[d], fr.File) {
				t.seen[d] = append(t.seen[d], fr.File)
			}
			rels, n := t.nearest(fr.File, anyFile)
			for _, rel := range rels {
				f := t.read(rel)
				if f == nil {
					continue
				}
				moved := relocation{fr.File[:len(fr.File)-n], rel[:len(rel)-n]}
				files[moved] += p.samples
				if _, _, ok := f.function(fr); ok {
					functions[moved] += p.samples
				}
			}
		}
	}
	if t.own = functions.most(); len(functions) == 0 {
		t.own = files.most()
	}
}

// relocations have samples each.
type relocations map[relocation]uint64

// most returns the one with the most samples. Of several to which files of one directory may have moved, it is the one with
// the fewest directories that has at least half of the samples: further down lie copies of files, which need not have been edited,
// and other programs, whose files have the same names.
func (rs relocations) most() (most relocation) {
	for r, n := range rs {
		if c := cmp.Compare(n, rs[most]); c > 0 || c == 0 && r.before(most) {
			most = r
		}
	}
	n := rs[most]
	for r := range rs {
		if r.from == most.from && rs[r] >= n-rs[r] && r.before(most) {
			most = r
		}
	}
	return most
}

// fateOf says what has become of the source of an inlined stack: the worst of its
// frames that are of the program's own files.
func (t *Tree) fateOf(frames []image.Frame) Fate {
	worst := Outside
	for _, fr := range frames {
		if strings.HasPrefix(fr.File, t.own.from) {
			worst = max(worst, t.fate(fr))
		}
	}
	return worst
}

func (t *Tree) fate(fr image.Frame) Fate {
	f := t.file(fr.File, fr)
	if f == nil {
		return FileGone
	}
	start, end, ok := f.function(fr)
	switch {
	case !ok && t.elsewhere(fr):
		// Lines of a function whose body includes this file.
		if fr.Line > f.lines {
			return BeyondEnd
		}
		return InPlace
	case !ok:
		return FunctionGone
	case fr.StartLine > 0 && fr.Line > 0 && (fr.Line < fr.StartLine || fr.Line-fr.StartLine > end-start):
		return BeyondEnd
	case start != fr.StartLine && fr.StartLine > 0:
		return MovedLines
	}
	return InPlace
}

// elsewhere reports whether another file that has lines of a function declares it.
func (t *Tree) elsewhere(fr image.Frame) bool {
	for _, name := range t.seen[declared{fr.Func, fr.StartLine}] {
		if f := t.file(name, fr); name != fr.File && f != nil {
			if _, _, ok := f.function(fr); ok {
				return true
			}
		}
	}
	return false
}

// Fates are how many samples each fate has.
type Fates [NumFates]uint64

// Own returns how many samples are of the program's own files: those that lie in the tree,
// or once lay beside files that do.
func (n *Fates) Own() uint64 {
	var own uint64
	for _, k := range n[InPlace:] {
		own += k
	}
	return own
}

// Fates says what has become of the source that samples of an event are of, those of the
// image that rec knows as id. It is an error if the image has no lines, and ErrNoFiles if the tree has no files.
func (t *Tree) Fates(im *image.Image, id sample.ImageID, rec *sample.Recording, event string) (n Fates, err error) {
	if len(t.byName) == 0 { // all would be gone, or none be of the tree, by where it lies
		return n, fmt.Errorf("%s: %w: want the tree of the program's source", t.root.dir, ErrNoFiles)
	}
	ln, err := im.Lines()
	if err != nil {
		return n, err
	}
	places := placesOf(im, id, rec, event, ln)
	t.locate(places)
	for _, p := range places {
		n[t.fateOf(p.frames)] += p.samples
	}
	return n, nil
}
