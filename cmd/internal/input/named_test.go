package input

import (
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestNamedPath: a file without a build ID is meant by any path of it, and so is one that is gone.
func TestNamedPath(t *testing.T) {
	dir := t.TempDir()
	testtool.Write(t, dir, "app", "no ELF file, and so without a build ID")
	ids := []sample.ImageID{{Path: "/lib/other"}, {Path: filepath.Join(dir, "app")}, {Path: filepath.Join(dir, "app"), Build: sample.BuildID{1}},
		{Path: filepath.Join(dir, "was"), Build: sample.BuildID{2}}, {Path: "/srv/replaced (deleted)", Build: sample.BuildID{3}}}
	t.Chdir(dir)
	for want, at := range map[string]int{"./app": 1, filepath.Join(dir, "app"): 1, "app": 1, "./other": -1, "./was": 3, "was": 3, "replaced": 4} {
		if i, _ := Named(want, len(ids), func(i int) sample.ImageID { return ids[i] }, nil); i != at {
			t.Errorf("%s is image %d, want %d", want, i, at)
		}
	}
}
