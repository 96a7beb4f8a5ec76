package main

import (
	"os"
	"path/filepath"
	"strings"

	"backfeed/cmd/internal/report"
)

// A sourceText reads lines of source files that debug information names.
type sourceText struct {
	tree  *sourceTree // files are below its directory; nil if the user named none
	symfs string
	lines map[string][]string // by recorded path; nil is not here
	gone  []string            // files that were asked for and are not here
}

// newSourceText looks files up below dir, by the ends of their paths; for "" below
// symfs, and where they were.
func newSourceText(dir, symfs string) (*sourceText, error) {
	s := &sourceText{symfs: symfs, lines: map[string][]string{}}
	if dir != "" {
		tree, err := openTree(dir)
		if err != nil {
			return nil, err
		}
		s.tree = tree
	}
	return s, nil
}

// maxSource is the largest source file that is read, in bytes: the largest known to be
// compiled, amalgamations, have 10 MB.
const maxSource = 64 << 20

// line gives a line of a file, and whether the file is here.
func (s *sourceText) line(file string, n int) (string, bool) {
	lines, ok := s.lines[file]
	if !ok {
		lines = s.read(file)
		s.lines[file] = lines
		if lines == nil {
			s.gone = append(s.gone, file)
		}
	}
	if lines == nil || n < 1 || n > len(lines) {
		return "", lines != nil
	}
	return strings.TrimRight(strings.ReplaceAll(lines[n-1], "\t", "    "), " \r"), true
}

func (s *sourceText) read(file string) []string {
	var paths []string
	if s.tree != nil {
		if rel, _ := s.tree.nearest(file); rel != "" {
			paths = append(paths, filepath.Join(s.tree.dir, filepath.FromSlash(rel)))
		}
	} else if filepath.IsAbs(file) { // others are relative to a directory that only the compiler knew
		if s.symfs != "" {
			paths = append(paths, filepath.Join(s.symfs, file))
		}
		paths = append(paths, file)
	}
	for _, path := range paths {
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Size() > maxSource {
			continue
		}
		if b, err := os.ReadFile(path); err == nil {
			return strings.Split(string(b), "\n")
		}
	}
	return nil
}

// tellGone says once which source files are not here.
func (c *cli) tellGone(s *sourceText) {
	if len(s.gone) == 0 {
		return
	}
	names := report.Clean(s.gone[0])
	switch n := len(s.gone); {
	case n == 2:
		names += " and another file"
	case n > 2:
		names += " and " + report.Integer(uint64(n-1)) + " more files"
	}
	c.warn("the source of %s is not here, so that its code is shown without; --source DIR looks for files below DIR", names)
}
