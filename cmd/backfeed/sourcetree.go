package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A sourceTree is what a directory has of the files that a program was built from.
type sourceTree struct {
	root   *sourceRoot
	byName map[string][]string    // paths below dir by their last elements, slashes between all
	files  map[string]*sourceFile // by path below dir
	own    relocation             // of the files that are the program's own
	seen   map[declared][]string  // recorded paths of the lines of a function
}

// A relocation is where files lay when the program was built, and where they lie
// below the tree's directory.
type relocation struct{ from, to string }

// A declared is a function as debug information tells of it.
type declared struct {
	name  string
	start int
}

// A sourceFile finds functions in a file: the first and last line that the function of
// a frame has now.
type sourceFile struct {
	lines    int
	function func(image.Frame) (start, end int, ok bool)
}

// A fate is what has become of the source of sampled code, the worst last.
type fate int

const (
	outside fate = iota // not in the tree, and never was
	inPlace
	movedLines
	beyondEnd
	functionGone
	fileGone
	fates // how many there are
)

// openTree lists the files below dir, which may be a link, but not hidden ones, nor those
// of hidden directories and of the kernel.
func openTree(dir string) (*sourceTree, error) {
	t := &sourceTree{root: newSourceRoot(dir), byName: map[string][]string{}, files: map[string]*sourceFile{}, seen: map[declared][]string{}}
	root := dir + string(filepath.Separator)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", filepath.Clean(name), fail.Cause(err))
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

// nearest gives the file below the directory whose path has the longest end in
// common with a recorded one, and what that says of where files were.
func (t *sourceTree) nearest(recorded string) (string, relocation) {
	best, longest := "", 0
	for _, rel := range t.byName[path.Base(recorded)] {
		if n := commonEnd(recorded, rel); n > longest {
			best, longest = rel, n
		}
	}
	return best, relocation{recorded[:len(recorded)-longest], best[:len(best)-longest]}
}

// commonEnd gives the length of the last path elements that a and b share.
func commonEnd(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for i := 1; i <= min(len(as), len(bs)) && as[len(as)-i] == bs[len(bs)-i]; i++ {
		n += len(as[len(as)-i]) + len("/")
	}
	return max(0, n-len("/"))
}

// file gives the file that a recorded path of the program's own is now, nil if it is
// gone. Moved files are still found by the names that they have in C; in Go, the
// names of their functions are others.
func (t *sourceTree) file(recorded string) *sourceFile {
	rel := t.own.to + strings.TrimPrefix(recorded, t.own.from)
	if f := t.read(rel); f != nil || strings.HasSuffix(recorded, ".go") {
		return f
	}
	rel, _ = t.nearest(recorded)
	return t.read(rel)
}

// read reads a file below the directory; nil if there is none.
func (t *sourceTree) read(rel string) *sourceFile {
	if f, ok := t.files[rel]; ok {
		return f
	}
	var f *sourceFile
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

// placesOf gives those that samples were taken at.
func placesOf(ip *infer.ImageProfile, rec *sample.Recording, event string, ln *image.Lines) []sampledPlace {
	var places []sampledPlace
	for _, c := range rec.Counts {
		for _, ic := range c.Images {
			if c.Event.Name != event || ic.ID.Key() != ip.ID.Key() {
				continue
			}
			for _, off := range slices.Sorted(maps.Keys(ic.At)) {
				if a, ok := ip.Image.AddrOf(off); ok {
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
func (t *sourceTree) locate(places []sampledPlace) {
	var files, functions relocations
	for _, p := range places {
		for _, fr := range p.frames {
			d := declared{fr.Func, fr.StartLine}
			if !slices.Contains(t.seen[d], fr.File) {
				t.seen[d] = append(t.seen[d], fr.File)
			}
			rel, moved := t.nearest(fr.File)
			f := t.read(rel)
			if f == nil {
				continue
			}
			files.add(moved, p.samples)
			if _, _, ok := f.function(fr); ok {
				functions.add(moved, p.samples)
			}
		}
	}
	if t.own = functions.most; len(functions.samples) == 0 {
		t.own = files.most
	}
}

// relocations knows the one with the most samples.
type relocations struct {
	samples map[relocation]uint64
	most    relocation
}

func (rs *relocations) add(r relocation, n uint64) {
	if rs.samples == nil {
		rs.samples = map[relocation]uint64{}
	}
	rs.samples[r] += n
	if rs.samples[r] > rs.samples[rs.most] {
		rs.most = r
	}
}

// fateOf tells what has become of the source of an inlined stack: the worst of its
// frames that are of the program's own files.
func (t *sourceTree) fateOf(frames []image.Frame) fate {
	worst := outside
	for _, fr := range frames {
		if strings.HasPrefix(fr.File, t.own.from) {
			worst = max(worst, t.fate(fr))
		}
	}
	return worst
}

func (t *sourceTree) fate(fr image.Frame) fate {
	f := t.file(fr.File)
	if f == nil {
		return fileGone
	}
	start, end, ok := f.function(fr)
	switch {
	case !ok && t.elsewhere(fr):
		// Lines of a function whose body includes this file.
		if fr.Line > f.lines {
			return beyondEnd
		}
		return inPlace
	case !ok:
		return functionGone
	case fr.StartLine > 0 && fr.Line > 0 && (fr.Line < fr.StartLine || fr.Line-fr.StartLine > end-start):
		return beyondEnd
	case start != fr.StartLine && fr.StartLine > 0:
		return movedLines
	}
	return inPlace
}

// elsewhere tells whether another file that has lines of a function declares it.
func (t *sourceTree) elsewhere(fr image.Frame) bool {
	for _, name := range t.seen[declared{fr.Func, fr.StartLine}] {
		if f := t.file(name); name != fr.File && f != nil {
			if _, _, ok := f.function(fr); ok {
				return true
			}
		}
	}
	return false
}

// sourceGates compare the sampled functions and lines with those of a source tree.
func sourceGates(src *input.Session, ip *infer.ImageProfile, dir string, lim limits) ([]gate, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	ln, err := ip.Image.Lines()
	if err != nil {
		return nil, err
	}
	places := placesOf(ip, src.Recording, src.Profile.Event.Name, ln)
	t.locate(places)
	var n [fates]uint64
	var own uint64
	for _, p := range places {
		fate := t.fateOf(p.frames)
		n[fate] += p.samples
		if fate != outside {
			own += p.samples
		}
	}
	share := func(f fate) float64 { return part(n[f], own) }
	return []gate{
		atLeast("source tree", part(own, own+n[outside]), lim.MinSource, fmt.Sprintf("it ran little that is in %s: is it this program's source?", dir)),
		atMost("files gone", share(fileGone), lim.MaxFilesGone, "the tree lacks files that were hot"),
		atMost("functions gone", share(functionGone), lim.MaxFunctionsGone, "its files lack functions that were hot"),
		atMost("functions moved", share(movedLines), lim.MaxMoved, "its functions stand on other lines"),
		atMost("lines beyond", share(beyondEnd), lim.MaxBeyond, "hot lines are beyond the end of their functions"),
	}, nil
}
