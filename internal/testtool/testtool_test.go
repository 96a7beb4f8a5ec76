package testtool

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A spy is a test that only notes what is said to it.
type spy struct {
	testing.TB
	said string
}

func (s *spy) Helper()                           {}
func (s *spy) Logf(string, ...any)               {}
func (s *spy) Errorf(format string, args ...any) { s.said += fmt.Sprintf(format, args...) }

// TestPackages: what .ci/run installs is what tests are said to need.
func TestPackages(t *testing.T) {
	script := Read(t, "../../.ci/run")
	_, list, ok := strings.Cut(script, "\npackages=(\n")
	list, _, end := strings.Cut(list, "\n)\n")
	if !ok || !end {
		t.Fatal(".ci/run has no list of packages")
	}
	var installed []string
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		installed = append(installed, strings.Fields(line)...)
	}
	for _, program := range slices.Sorted(maps.Keys(packages)) {
		if p := packages[program]; !slices.Contains(installed, p) {
			t.Errorf("%s is of package %s, which .ci/run does not install", program, p)
		}
	}
}

func TestMissing(t *testing.T) {
	for program, want := range map[string]string{
		"ld.lld-19":  "needs ld.lld-19: apt-get install lld-19",
		"rustc":      "needs rustc: https://rustup.rs",
		"no-such-cc": "needs no-such-cc",
	} {
		if got := missing(program); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestGolden: a golden file that differs, or is not there, is told of.
func TestGolden(t *testing.T) {
	if *Update {
		t.Skip("-update makes golden files of what differs")
	}
	dir := t.TempDir()
	path := Write(t, dir, "sub/golden", "one\ntwo\nthree\n")
	for _, tt := range []struct{ path, got, want string }{
		{path, "one\ntwo\nthree\n", ""},
		{path, "one\n2\nthree\n", path + `: line 2 is "2\n", want "two\n"`},
		{path, "one\ntwo\n", path + `: line 3 is "", want "three\n"`},
		{path, "one\ntwo\nthree", path + `: line 3 is "three", want "three\n"`},
		{path, "one\ntwo\nthree\nfour\n", path + `: line 4 is "four\n", want ""`},
		{filepath.Join(dir, "none"), "one\n", "no such file"},
	} {
		s := &spy{TB: t}
		Golden(s, tt.path, tt.got)
		if ok := strings.Contains(s.said, tt.want); !ok || (tt.want == "") != (s.said == "") {
			t.Errorf("of %q: %q, want %q", tt.got, s.said, tt.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a golden file was made without -update")
	}
}
