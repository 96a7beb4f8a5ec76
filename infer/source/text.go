package source

import (
	"errors"
	"strings"
)

// A Text reads lines of source files that debug information names.
type Text struct {
	trees   []*Tree // of directories that the user named: files are looked up by the ends of their paths
	roots   []*root // files are looked up where they were
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
	s := &Text{lines: map[string][]string{}, why: map[string]error{}}
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
			s.why[file] = err
			s.missing = append(s.missing, file)
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
	var best *Tree
	found, longest := "", 0
	for _, t := range s.trees {
		if rel, _ := t.nearest(file); commonEnd(file, rel) > longest {
			best, found, longest = t, rel, commonEnd(file, rel)
		}
	}
	if best != nil {
		b, err := best.root.read(found)
		if err == nil {
			return b, nil
		}
		reason = err
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
		if best == nil && (reason == notOurs || !errors.Is(err, notHere)) {
			reason = err
		}
	}
	return nil, reason
}
