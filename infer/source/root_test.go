package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kept is what lies beside the root, or is hidden in it.
const kept = "not to be shown"

// TestBelow: a root reads by directories, whatever it is the root of.
func TestBelow(t *testing.T) {
	for _, tt := range []struct{ dir, file string }{
		{"/", "/proc/self/environ"}, {"/", "proc/self/status"}, {"/proc", "self/status"}, {"/proc/self", "status"}, {"/sys", "kernel/notes"}, {"/dev", "null"},
	} {
		if _, err := newRoot(tt.dir).read(strings.TrimPrefix(tt.file, "/")); err == nil {
			t.Errorf("%s below %s is shown", tt.file, tt.dir)
		}
	}
	// A copy of /proc elsewhere is still /proc.
	if f, err := os.Open("/proc/self/status"); err == nil {
		defer f.Close()
		if !MadeByKernel(f) {
			t.Error("/proc/self/status passes for a file of a disk")
		}
	}
	name := filepath.Join(t.TempDir(), "a.c")
	if err := os.WriteFile(name, []byte("int a;\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if MadeByKernel(f) {
		t.Error("a file of a disk passes for one of the kernel")
	}
}

// FuzzBelow: no path, link or not, leads to what lies beside the root.
func FuzzBelow(f *testing.F) {
	for _, name := range []string{"a.c", "../secret.c", "d/../../secret.c", "out/secret.c", "l.c", "d/l.c", "d/up/a.c", "..", "", ".", "/", "a.c/", "d//a.c", "\x00", ".h/x.c"} {
		f.Add(name)
	}
	base := f.TempDir()
	dir := filepath.Join(base, "root")
	for _, d := range []string{"root/d", "root/.h"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o777); err != nil {
			f.Fatal(err)
		}
	}
	for name, text := range map[string]string{"secret.c": kept, "root/a.c": "fine", "root/.h/x.c": kept} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o666); err != nil {
			f.Fatal(err)
		}
	}
	for name, to := range map[string]string{"out": "..", "l.c": "../secret.c", "d/l.c": "../../secret.c", "d/up": "..", "self": "self"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, name string) {
		r := newRoot(dir)
		b, err := r.read(name)
		if err == nil && string(b) != "fine" {
			t.Errorf("%q: %q", name, b)
		}
		if r.root != nil {
			r.root.Close()
		}
	})
}
