package input

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// TestReplaced: a program that runs is found though another build, or none, has its place, and can be kept.
func TestReplaced(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	testtool.Need(t, "sleep")
	from, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "app")
	testtool.Put(t, path, []byte(testtool.Read(t, from)))
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	build, err := image.ReadBuildID(path)
	if err != nil || build.IsZero() {
		t.Skipf("%s has no build ID: %v", from, err)
	}
	cmd := exec.Command(path, "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	id := sample.ImageID{Path: path, Build: build}
	for _, replace := range []func(){
		func() {
			testtool.Put(t, path+".new", tiny.ELF(sample.BuildID{1}))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
		func() {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		replace()
		rec := &sample.Recording{}
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
		c.AddSample(c.Image(id), 1, 3)
		rec.Add(c)
		s, err := Of(rec, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if im, err := s.Open(id); err != nil || im.Build != build {
			t.Fatalf("%v", err)
		}
		for _, keep := range []func(dir BuildDir) (Copies, error){
			func(dir BuildDir) (Copies, error) { return s.CopyImages(t.Context(), dir) },
			func(dir BuildDir) (Copies, error) { return KeepSampled(t.Context(), rec, dir, s.notify) },
		} {
			dir := BuildDir(t.TempDir())
			if n, err := keep(dir); err != nil || n.Images != 1 {
				t.Errorf("%+v, %v", n, err)
			}
			if kept, err := New(Options{Symfs: []string{string(dir)}}); err != nil {
				t.Error(err)
			} else if im, err := kept.Open(sample.ImageID{Path: "/elsewhere", Build: build}); err != nil || im.Build != build {
				t.Errorf("what was kept: %v", err)
			}
		}
		s.Close()
	}
}
