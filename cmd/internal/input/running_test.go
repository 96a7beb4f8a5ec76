package input

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// TestRunning: the file of an image is found here, in the mount namespace of a
// process, and as what a process runs though it was removed; never another one.
func TestRunning(t *testing.T) {
	dir := t.TempDir()
	want, other := sample.BuildID{1, 19: 1}, sample.BuildID{2, 19: 1}
	link := func(to, at string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	here, inner, gone := filepath.Join(dir, "here"), "/opt/nowhere/inner", "/opt/nowhere/gone"
	testtool.Put(t, here, tiny.ELF(want))
	testtool.Put(t, filepath.Join(dir, "inside", inner), tiny.ELF(want))
	testtool.Put(t, filepath.Join(dir, "inside", gone), tiny.ELF(other))
	proc := filepath.Join(dir, "proc")
	link("mnt:[1]", filepath.Join(proc, "self/ns/mnt"))
	link("mnt:[1]", filepath.Join(proc, "10/ns/mnt"))
	link("mnt:[2]", filepath.Join(proc, "20/ns/mnt"))
	link("mnt:[2]", filepath.Join(proc, "21/ns/mnt"))
	link(filepath.Join(dir, "inside"), filepath.Join(proc, "20/root"))
	link(filepath.Join(dir, "no such root"), filepath.Join(proc, "21/root"))
	if roots := mountRoots(proc); len(roots) != 2 || roots[1] != filepath.Join(proc, "20/root") {
		t.Errorf("roots %q, want / and that of 20", roots)
	}
	for path, found := range map[string]bool{here: true, here + " (deleted)": true, inner: true, gone: false} {
		p := Running{Proc: proc}
		f, _, err := p.Open(sample.ImageID{Path: path, Build: want})
		if (err == nil) != found {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			if b, _ := io.ReadAll(f); string(b) != string(tiny.ELF(want)) {
				t.Errorf("%s: another file", path)
			}
			f.Close()
		}
	}
}
