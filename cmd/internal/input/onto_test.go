package input

import (
	"os"
	"path/filepath"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// TestBuildsOf: older builds are named as images are elsewhere.
func TestBuildsOf(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	build, err := image.ReadBuildID(exe)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(exe))
	for _, tt := range []struct {
		id   sample.ImageID
		want string
		is   bool
	}{
		{sample.ImageID{Path: "/srv/server"}, "", true},
		{sample.ImageID{Path: "/srv/server (deleted)"}, "", true},
		{sample.ImageID{Path: "/srv/old"}, "", false},
		{sample.ImageID{Path: "/srv/old"}, "/srv/old", true},
		{sample.ImageID{Path: "/srv/old"}, "old", true},
		{sample.ImageID{Path: "/srv/old"}, "server", false},
		{sample.ImageID{Path: "/srv/old", Build: build}, build.String(), true},
		{sample.ImageID{Path: "/srv/old", Build: build}, exe, true}, // a copy of it under another name
		{sample.ImageID{Path: "/srv/old", Build: build}, "./" + filepath.Base(exe), true},
		{sample.ImageID{Path: exe}, "./" + filepath.Base(exe), true},
		{sample.ImageID{Path: exe, Build: sample.BuildID{1}}, "./" + filepath.Base(exe), false},
	} {
		if got := BuildsOf("/new/server", tt.want)(tt.id); got != tt.is {
			t.Errorf("%v is of %q: %v", tt.id, tt.want, got)
		}
	}
}
