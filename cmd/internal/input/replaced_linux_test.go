package input

import (
	"fmt"
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
			func(dir BuildDir) (Copies, error) {
				return KeepSampled(t.Context(), rec, &Running{Proc: "/proc"}, dir, s.notify)
			},
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

// TestHoldImages: what is held is found by its build though its file is deleted or another build has its place, under the name that
// it had, and is let go in the end. What is not held is not found.
func TestHoldImages(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	var ids []sample.ImageID
	for i := range MostHeld + 2 {
		id := sample.ImageID{Path: filepath.Join(dir, fmt.Sprint(i)), Build: sample.BuildID{1, byte(i), 19: 1}}
		testtool.Put(t, id.Path, tiny.ELF(id.Build))
		ids = append(ids, id)
	}
	p := &Running{Proc: "/proc"}
	defer p.Close()
	p.HoldImages([]sample.ImageID{{Path: filepath.Join(dir, "none"), Build: sample.BuildID{2}}, {Path: ids[0].Path}, {Path: "[vdso]", Build: sample.BuildID{3}}})
	if n := len(testtool.OpenBelow(t, dir)); n != 0 {
		t.Errorf("%d are held of what cannot be had", n)
	}
	p.HoldImages(ids[:1])
	p.HoldImages(ids)
	if n := len(testtool.OpenBelow(t, dir)); n != MostHeld {
		t.Errorf("%d are held, want %d", n, MostHeld)
	}
	for i, id := range ids {
		if err := os.Remove(id.Path); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			testtool.Put(t, id.Path, tiny.ELF(sample.BuildID{4}))
		}
	}
	s, err := New(Options{Running: p})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec := &sample.Recording{}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	for i, id := range ids {
		im, err := s.Open(id)
		if found := i < MostHeld; (err == nil) != found || found && (im.Build != id.Build || im.Path != id.Path) {
			t.Fatalf("image %d: %v", i, err)
		}
		c.AddSample(c.Image(id), 1, 3)
	}
	rec.Add(c)
	if n, err := KeepSampled(t.Context(), rec, p, BuildDir(filepath.Join(t.TempDir(), "kept")), s.notify); err != nil || n.New != MostHeld || n.NotFound != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	s.Close()
	if p.Close(); len(testtool.OpenBelow(t, dir)) != 0 {
		t.Errorf("left open: %q", testtool.OpenBelow(t, dir))
	}
}

// TestFresh: of a program that was in a container which has ended, the file is found by what was open then; those that came last are held.
func TestFresh(t *testing.T) {
	dir := t.TempDir()
	p := &Running{Proc: "/proc", Fresh: new(Fresh)}
	defer p.Close()
	var ids []sample.ImageID
	for i := range MostHeld + 2 {
		id := sample.ImageID{Path: filepath.Join(dir, fmt.Sprint(i)), Build: sample.BuildID{1, byte(i), 19: 1}}
		testtool.Put(t, id.Path, tiny.ELF(id.Build))
		f, err := os.Open(id.Path)
		if err != nil {
			t.Fatal(err)
		}
		p.Fresh.Add(id, f)
		f.Close()
		if err := os.Remove(id.Path); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for i, id := range ids {
		f, _, err := p.Open(id)
		if found := i >= 2; (err == nil) != found {
			t.Errorf("image %d: %v", i, err)
		}
		f.Close()
	}
	last := ids[len(ids)-1]
	p.HoldImages([]sample.ImageID{last})
	p.Fresh.Close()
	if f, _, err := p.Open(last); err != nil {
		t.Errorf("a sampled one: %v", err)
	} else {
		f.Close()
	}
	if p.Close(); len(testtool.OpenBelow(t, dir)) != 0 {
		t.Errorf("left open: %q", testtool.OpenBelow(t, dir))
	}
	(*Fresh)(nil).Add(last, nil)
	(*Fresh)(nil).Close()
}
