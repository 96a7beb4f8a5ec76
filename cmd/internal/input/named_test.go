package input

import (
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestNamedPath: a file without a build ID is meant by any path of it.
func TestNamedPath(t *testing.T) {
	dir := t.TempDir()
	testtool.Write(t, dir, "app", "no ELF file, and so without a build ID")
	ids := []sample.ImageID{{Path: "/lib/other"}, {Path: filepath.Join(dir, "app")}, {Path: filepath.Join(dir, "app"), Build: sample.BuildID{1}}}
	t.Chdir(dir)
	for want, at := range map[string]int{"./app": 1, filepath.Join(dir, "app"): 1, "app": 1, "./other": -1} {
		if i, _ := Named(want, len(ids), func(i int) sample.ImageID { return ids[i] }, nil); i != at {
			t.Errorf("%s is image %d, want %d", want, i, at)
		}
	}
}
