package main

import (
	"errors"
	"strings"

	"backfeed/cmd/internal/report"
)

// A sourceText reads lines of source files that debug information names.
type sourceText struct {
	trees   []*sourceTree // of directories that the user named: files are looked up by the ends of their paths
	roots   []*sourceRoot // files are looked up where they were
	lines   map[string][]string
	why     map[string]error // that a recorded file is not shown
	missing []string         // files that were asked for and are not shown
}

// newSourceText looks files up below dirs, by the ends of their paths. What is not there
// is looked up where compilers, languages and distributions keep source and, if no
// directory is named, in the working directory's tree.
func newSourceText(dirs, symfs []string) (*sourceText, error) {
	s, err := onlySource(dirs)
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

// onlySource looks files up below dirs and nowhere else.
func onlySource(dirs []string) (*sourceText, error) {
	s := &sourceText{lines: map[string][]string{}, why: map[string]error{}}
	for _, dir := range dirs {
		t, err := openTree(dir)
		if err != nil {
			return nil, err
		}
		s.trees = append(s.trees, t)
	}
	return s, nil
}

// line returns a line of a file, and reports whether the file is shown.
func (s *sourceText) line(file string, n int) (string, bool) {
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

// read reads a file, or returns the reason of the place that comes nearest to having it.
func (s *sourceText) read(file string) ([]byte, error) {
	reason := error(notOurs)
	if len(s.trees) > 0 {
		reason = notHere
	}
	if kernelPath(file) {
		reason = ofKernel
	}
	var best *sourceTree
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

// andMore names the first of some files and says how many there are.
func andMore(files []string) string {
	name := report.Clean(files[0])
	switch n := len(files); {
	case n == 2:
		name += " and another file"
	case n > 2:
		name += " and " + report.Integer(uint64(n-1)) + " more files"
	}
	return name
}

// sourceHelp explains where source comes from.
const sourceHelp = `Source is looked up below each --source DIR by the ends of the paths in the debug information. Without
--source, files of code in the working directory's tree are shown, if they lie where the debug
information says. So are, always, the files of compilers, languages and distributions: GOROOT, Go's
module cache, those of rustup and cargo, and below /usr what include, src, lib/gcc and clang hold, of
--symfs first. No other file is read, whatever its name in the debug information, nor a hidden one, one
behind a link that leads out of the directory, one that is not text or larger than 64 MiB, or one of
/proc, /sys or /dev. Nothing tells whether the source is that which was compiled.`
