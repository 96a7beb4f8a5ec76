package source

import (
	"errors"
	"slices"
	"strings"

	"backfeed/infer/image"
)

// A Text reads lines of source files that debug information names.
type Text struct {
	trees   []*Tree          // of directories that the user named: files are looked up by the ends of their paths
	roots   []*root          // files are looked up where they were
	votes   map[string]*vote // of files that may be several ones below trees
	lines   map[string][]string
	why     map[string]error // that a recorded file is not shown
	missing []string         // files that were asked for and are not shown
}

// NewText looks files up below dirs, by the ends of their paths. What is not there
// is looked up where compilers, languages and distributions keep source and, if no
// directory is named, in the working directory's tree.
func NewText(dirs, symfs []string) (*Text, error) {
	s, err := Only(dirs)
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		if r := workingRoot(); r != nil {
			s.roots = append(s.roots, r)
		}
	}
	s.roots = append(s.roots, toolchainRoots(symfs)...)
	return s, nil
}

// Only looks files up below dirs and nowhere else.
func Only(dirs []string) (*Text, error) {
	s := &Text{votes: map[string]*vote{}, lines: map[string][]string{}, why: map[string]error{}}
	for _, dir := range dirs {
		t, err := OpenTree(dir)
		if err != nil {
			return nil, err
		}
		s.trees = append(s.trees, t)
	}
	return s, nil
}

// Line returns a line of a file, and reports whether the file is shown.
func (s *Text) Line(file string, n int) (string, bool) {
	lines, ok := s.lines[file]
	if !ok {
		text, err := s.read(file)
		if err != nil {
			if s.why[file] == nil {
				s.missing = append(s.missing, file)
			}
			s.why[file] = err
		} else {
			lines = strings.Split(string(text), "\n")
		}
		s.lines[file] = lines
	}
	if lines == nil || n < 1 || n > len(lines) {
		return "", lines != nil
	}
	return strings.TrimRight(strings.ReplaceAll(lines[n-1], "\t", "    "), " \r"), true
}

// Missing returns the files that lines were asked of and that are not shown, in the order in
// which they were asked for.
func (s *Text) Missing() []string { return s.missing }

// Why returns the reason why a file is not shown, mostly a Withheld; nil if it is, or was not
// asked for.
func (s *Text) Why(file string) error { return s.why[file] }

// read reads a file, or returns the reason of the place that comes nearest to having it.
func (s *Text) read(file string) ([]byte, error) {
	reason := error(notOurs)
	if len(s.trees) > 0 {
		reason = notHere
	}
	if kernelPath(file) {
		reason = ofKernel
	}
	places := s.vote(file).order()
	for i, p := range places {
		b, err := p.tree.root.read(p.rel)
		if err == nil {
			return b, nil
		}
		if i == 0 {
			reason = err
		}
	}
	for _, r := range s.roots {
		rel, ok := r.below(file)
		if !ok {
			continue
		}
		b, err := r.read(rel)
		if err == nil {
			return b, nil
		}
		if len(places) == 0 && (reason == notOurs || !errors.Is(err, notHere)) {
			reason = err
		}
	}
	return nil, reason
}

// A candidate is a file of a tree that a recorded one may be.
type candidate struct {
	tree *Tree
	rel  string
}

// A vote is about which of several files a recorded one is.
type vote struct {
	places []candidate // those in the first tree first, then those with the fewest directories
	likely []int       // of each place, how much speaks for it
	seen   map[image.Frame]bool
}

// What speaks for a file is that it has the line, that it has the function, and that this stands where it stood.
const (
	hasLine     = 1
	hasFunction = 2
	hasStart    = 4
)

// vote returns the one about a recorded file, among those whose paths have the longest end in common with it.
func (s *Text) vote(recorded string) *vote {
	if v := s.votes[recorded]; v != nil {
		return v
	}
	v, longest := &vote{seen: map[image.Frame]bool{}}, 0
	for _, t := range s.trees {
		rels, n := t.nearest(recorded, anyFile)
		if n > longest {
			v.places, longest = nil, n
		}
		for _, rel := range rels {
			if n == longest {
				v.places = append(v.places, candidate{t, rel})
			}
		}
	}
	v.likely = make([]int, len(v.places))
	s.votes[recorded] = v
	return v
}

// order returns the files, the likeliest first.
func (v *vote) order() []candidate {
	by := make([]int, len(v.places))
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int { return v.likely[b] - v.likely[a] })
	places := make([]candidate, len(by))
	for i, k := range by {
		places[i] = v.places[k]
	}
	return places
}

// Expect prepares for the lines of a procedure: of several files below the named directories that a recorded one may be, by the
// names of files and directories, that one is shown which has its functions where they were.
func (s *Text) Expect(im *image.Image, p *image.Proc) {
	if s == nil || len(s.trees) == 0 {
		return
	}
	lines, err := im.Lines()
	if err != nil {
		return
	}
	for i := range p.Blocks {
		for _, in := range im.Insts(&p.Blocks[i]) {
			for _, fr := range lines.Frames(in.Addr) {
				s.expect(fr)
			}
		}
	}
}

func (s *Text) expect(fr image.Frame) {
	v := s.vote(fr.File)
	fr.Disc = 0
	if len(v.places) < 2 || v.seen[fr] {
		return
	}
	v.seen[fr] = true
	for i, p := range v.places {
		f := p.tree.read(p.rel)
		if f == nil {
			continue
		}
		if fr.Line <= f.lines {
			v.likely[i] += hasLine
		}
		if start, _, ok := f.function(fr); ok {
			v.likely[i] += hasFunction
			if start == fr.StartLine {
				v.likely[i] += hasStart
			}
		}
	}
	delete(s.lines, fr.File) // another may be likelier now
}
