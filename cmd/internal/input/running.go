package input

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/sample"
	"backfeed/sample/collect"
)

// Running finds the images of running processes where these may see them: here, in their
// own mount namespaces, or nowhere any more but as their executables.
type Running struct {
	Proc  string   // where /proc is mounted
	roots []string // of mount namespaces; nil is not looked for yet
}

// Open opens the file of an image, under whatever name, and returns the root that the
// image's path is below. A file with another build ID is not opened.
func (p *Running) Open(id sample.ImageID) (f *os.File, root string, err error) {
	if p.roots == nil {
		p.roots = mountRoots(p.Proc)
	}
	path := strings.TrimSuffix(id.Path, " (deleted)")
	for _, root := range p.roots {
		if f := withBuild(id.Build)(collect.OpenBelow(root, path)); f != nil {
			return f, root, nil
		}
	}
	links, _ := filepath.Glob(filepath.Join(p.Proc, "[0-9]*/exe"))
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || strings.TrimSuffix(to, " (deleted)") != path {
			continue
		}
		if f := withBuild(id.Build)(sample.OpenRegular(link)); f != nil {
			return f, filepath.Join(filepath.Dir(link), "root"), nil
		}
	}
	return nil, "", errors.New("gone, or out of reach")
}

// withBuild returns a function that returns a file that was opened if it has that build
// ID, and nil if not. A path is opened once: what lies there can change at any time, and
// who can change it may have less privilege than this process.
func withBuild(build sample.BuildID) func(*os.File, error) *os.File {
	return func(f *os.File, err error) *os.File {
		if err != nil {
			return nil
		}
		if e, err := sample.ReadELF(f); err != nil || e.Build != build {
			f.Close()
			return nil
		}
		return f
	}
}

// mountRoots returns the roots of all mount namespaces that processes have, this
// one's first.
func mountRoots(proc string) []string {
	seen := map[string]bool{}
	if own, err := os.Readlink(filepath.Join(proc, "self/ns/mnt")); err == nil {
		seen[own] = true
	}
	roots := []string{"/"}
	all, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	slices.Sort(all)
	for _, dir := range all {
		ns, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		if err == nil && !seen[ns] {
			seen[ns] = true
			roots = append(roots, filepath.Join(dir, "root"))
		}
	}
	return roots
}
