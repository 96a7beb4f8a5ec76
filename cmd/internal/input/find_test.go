package input

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// TestFind puts one image, or one that looks like it, in the places where
// images are looked up.
func TestFind(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	want, other := sample.BuildID{0xab, 1, 2, 3, 19: 9}, sample.BuildID{0xcd, 19: 1}
	hex := want.String()
	right, wrong := tiny.ELF(want), tiny.ELF(other)
	none := tiny.ELF(sample.BuildID{})
	clear(none[64+2*56 : 64+2*56+16]) // no note at all
	for _, tt := range []struct {
		name  string
		files map[string][]byte // below symfs
		build sample.BuildID    // as recorded
		found string            // below symfs
		err   error
	}{
		{"nothing there", nil, want, "", ErrNotFound},
		{"below symfs", map[string][]byte{"usr/bin/app": right}, want, "usr/bin/app", nil},
		{"below symfs, moved", map[string][]byte{"bin/elsewhere/a.out": right}, want, "bin/elsewhere/a.out", nil},
		{"moved, another in its place", map[string][]byte{"usr/bin/app": wrong, "old/app": right}, want, "old/app", nil},
		{"tree of links", map[string][]byte{".build-id/" + hex[:2] + "/" + hex[2:]: right, "usr/bin/app": right}, want, ".build-id/" + hex[:2] + "/" + hex[2:], nil},
		{"perf's cache", map[string][]byte{".build-id/" + hex[:2] + "/" + hex[2:] + "/elf": right}, want, ".build-id/" + hex[:2] + "/" + hex[2:] + "/elf", nil},
		{"cache that lies", map[string][]byte{".build-id/" + hex[:2] + "/" + hex[2:]: wrong, "usr/bin/app": right}, want, "usr/bin/app", nil},
		{"another build", map[string][]byte{"usr/bin/app": wrong}, want, "", ErrOtherID},
		{"no build ID in the file", map[string][]byte{"usr/bin/app": none}, want, "", ErrOtherID},
		{"no build ID in the recording", map[string][]byte{"usr/bin/app": right}, sample.BuildID{}, "usr/bin/app", nil},
		{"no build ID in the recording, moved", map[string][]byte{"old/app": right}, sample.BuildID{}, "", ErrNotFound},
		{"only a debug file", map[string][]byte{"old/app.debug": right}, want, "", ErrNotFound},
		{"text", map[string][]byte{"usr/bin/app": []byte("#!/bin/sh\n")}, want, "", image.ErrFormat},
		{"empty", map[string][]byte{"usr/bin/app": nil}, want, "", image.ErrFormat},
		{"cut off", map[string][]byte{"usr/bin/app": right[:100]}, want, "", image.ErrFormat},
		{"32 bits", map[string][]byte{"usr/bin/app": with(right, 4, byte(elf.ELFCLASS32))}, want, "", image.ErrUnsupported},
		{"another processor", map[string][]byte{"usr/bin/app": with(right, 18, byte(elf.EM_RISCV))}, want, "", image.ErrUnsupported},
		{"big-endian", map[string][]byte{"usr/bin/app": with(right, 5, byte(elf.ELFDATA2MSB))}, want, "", image.ErrUnsupported},
	} {
		symfs := t.TempDir()
		for name, b := range tt.files {
			testtool.Put(t, filepath.Join(symfs, name), b)
		}
		f, err := newFinder([]string{symfs}, "--symfs")
		if err != nil {
			t.Fatal(err)
		}
		im, err := f.open(sample.ImageID{Build: tt.build, Path: "/usr/bin/app"})
		switch {
		case tt.err != nil && !errors.Is(err, tt.err):
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
		case tt.err == nil && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.err == nil && im.Path != filepath.Join(symfs, tt.found):
			t.Errorf("%s: found %s, want %s", tt.name, im.Path, tt.found)
		}
		f.close()
	}
}

// TestFindUnstripped: what was recorded stripped is found as it was built, if that is where the path says; perf's cache has the
// other.
func TestFindUnstripped(t *testing.T) {
	testtool.Need(t, "gcc", "strip", "objcopy")
	home := t.TempDir()
	t.Setenv("HOME", home)
	dir := t.TempDir()
	app := filepath.Join(dir, "app")
	testtool.Write(t, dir, "app.c", "int main(void) { return 0; }\n")
	testtool.Run(t, dir, "gcc", "-g", "-Wl,--build-id", "-o", "app", "app.c")
	build, err := image.ReadBuildID(app)
	if err != nil {
		t.Fatal(err)
	}
	hex := build.String()
	cached := filepath.Join(home, ".debug/.build-id", hex[:2], hex[2:], "elf")
	if err := os.MkdirAll(filepath.Dir(cached), 0o700); err != nil {
		t.Fatal(err)
	}
	whole, named := testtool.Read(t, dir, "app"), filepath.Join(dir, "named")
	testtool.Run(t, dir, "strip", "-o", cached, "app")
	testtool.Run(t, dir, "objcopy", "--strip-debug", "app", named)
	for _, tt := range []struct {
		name, there, want string
	}{
		{"as it was built", whole, app},
		{"with symbols alone", testtool.Read(t, dir, "named"), app},
		{"stripped, too", testtool.Read(t, filepath.Dir(cached), "elf"), cached},
		{"gone", "", cached},
	} {
		os.Remove(app)
		if tt.there != "" {
			testtool.Put(t, app, []byte(tt.there))
		}
		f, err := newFinder(nil, "--symfs")
		if err != nil {
			t.Fatal(err)
		}
		if im, err := f.open(sample.ImageID{Build: build, Path: app}); err != nil || im.Path != tt.want {
			t.Errorf("%s: found %v, %v; want %s", tt.name, im, err, tt.want)
		}
		f.close()
	}
}

// TestFindPath: without --symfs the recorded path must do, and a deleted file's
// successor at the same path is not taken for it.
func TestFindPath(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	id := sample.BuildID{0xab, 19: 9}
	path := filepath.Join(t.TempDir(), "app")
	testtool.Put(t, path, tiny.ELF(id))
	f, err := newFinder(nil, "--symfs")
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if im, err := f.open(sample.ImageID{Build: id, Path: path + " (deleted)"}); err != nil || im.Path != path {
		t.Errorf("%v", err)
	}
	if _, err := f.open(sample.ImageID{Path: path + " (deleted)"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted file without a build ID: %v, want %v", err, ErrNotFound)
	}
	if _, err := f.open(sample.ImageID{Build: sample.BuildID{1}, Path: path}); !errors.Is(err, ErrOtherID) || !strings.Contains(err.Error(), path) {
		t.Errorf("another build: %v, want %v and the path", err, ErrOtherID)
	}
	if _, err := f.open(sample.ImageID{Path: "relative/app"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a relative path: %v, want %v", err, ErrNotFound)
	}
}

// TestFindGiven: a file that the user named is used wherever it lies.
func TestFindGiven(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	id := sample.BuildID{0xab, 19: 9}
	path := filepath.Join(t.TempDir(), "build", "app")
	testtool.Put(t, path, tiny.ELF(id))
	f, err := newFinder(nil, "--symfs")
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	f.give(path)
	f.give("") // nothing was named
	if im, err := f.open(sample.ImageID{Build: id, Path: "/usr/bin/app"}); err != nil || im.Path != path {
		t.Errorf("%v", err)
	}
}

// TestFindBeside: an image that another session has opened is not opened again, whatever its path was, and stays that session's.
func TestFindBeside(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	id := sample.BuildID{0xab, 19: 9}
	path := filepath.Join(t.TempDir(), "app")
	testtool.Put(t, path, tiny.ELF(id))
	one, err := New(Options{Images: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	im, err := one.Open(sample.ImageID{Build: id, Path: "/usr/bin/app"})
	if err != nil {
		t.Fatal(err)
	}
	two, err := New(Options{Beside: one})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := two.Open(sample.ImageID{Build: id, Path: "/opt/app"}); err != nil || got != im {
		t.Errorf("%p, %v; want %p", got, err, im)
	}
	if _, err := two.Open(sample.ImageID{Path: "/nowhere/app"}); err == nil {
		t.Error("one without a build ID is taken for another")
	}
	if _, err := two.Open(sample.ImageID{Build: sample.BuildID{1}, Path: "/nowhere/app"}); err == nil {
		t.Error("one of another build is taken for it")
	}
	two.Close()
	if _, err := im.Proc(0); err != nil {
		t.Errorf("it was closed with the session that did not open it: %v", err)
	}
}

// TestSessionImage: an image is found by its recorded path, its build ID, a file that
// has it, and the name of a file; a file of the same build that was recorded without its build ID, too.
func TestSessionImage(t *testing.T) {
	id := sample.BuildID{0xab, 19: 9}
	path := filepath.Join(t.TempDir(), "app")
	testtool.Put(t, path, tiny.ELF(id))
	for _, tt := range []struct {
		name, want string
		id         sample.ImageID
		found      bool
	}{
		{"path", "/usr/bin/app", sample.ImageID{Path: "/usr/bin/app"}, true},
		{"build ID", id.String(), sample.ImageID{Path: "/usr/bin/app", Build: id}, true},
		{"file", path, sample.ImageID{Path: "/usr/bin/app", Build: id}, true},
		{"file, recorded without a build ID", path, sample.ImageID{Path: "/usr/bin/app"}, true},
		{"file of another build", path, sample.ImageID{Path: "/usr/bin/app", Build: sample.BuildID{1}}, false},
		{"name", "app", sample.ImageID{Path: "/usr/bin/app", Build: id}, true},
		{"file of another program", path, sample.ImageID{Path: "/usr/bin/other", Build: sample.BuildID{1}}, false},
		{"another name", "ap", sample.ImageID{Path: "/usr/bin/app", Build: id}, false},
	} {
		ip := &infer.ImageProfile{ID: tt.id, Image: &image.Image{Build: id}}
		s := &Session{Profile: &infer.Profile{Images: []*infer.ImageProfile{ip}}}
		got, err := s.Image(tt.want)
		if (got == ip) != tt.found || (err == nil) != tt.found {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
		if other := err != nil && strings.Contains(err.Error(), "another build of it was recorded"); other != (tt.name == "file of another build") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestFindSeveral: directories are searched one after the other, each in all ways that
// the path suggests before any is scanned.
func TestFindSeveral(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	want, other := sample.BuildID{0xab, 19: 9}, sample.BuildID{0xcd, 19: 1}
	for _, tt := range []struct {
		name          string
		first, second map[string]sample.BuildID
		found         string // below the directory of both
	}{
		{"in both", map[string]sample.BuildID{"usr/bin/app": want}, map[string]sample.BuildID{"usr/bin/app": want}, "first/usr/bin/app"},
		{"in the second", nil, map[string]sample.BuildID{"usr/bin/app": want}, "second/usr/bin/app"},
		{"another build in the first", map[string]sample.BuildID{"usr/bin/app": other}, map[string]sample.BuildID{"usr/bin/app": want}, "second/usr/bin/app"},
		{"moved in the first", map[string]sample.BuildID{"old/app": want}, map[string]sample.BuildID{"usr/bin/app": want}, "second/usr/bin/app"},
		{"moved in the second", map[string]sample.BuildID{"old/app": other}, map[string]sample.BuildID{"old/app": want}, "second/old/app"},
	} {
		dir := t.TempDir()
		for sub, files := range map[string]map[string]sample.BuildID{"first": tt.first, "second": tt.second} {
			testtool.Put(t, filepath.Join(dir, sub, "README"), "")
			for name, id := range files {
				testtool.Put(t, filepath.Join(dir, sub, name), tiny.ELF(id))
			}
		}
		wantFound(t, tt.name, want, filepath.Join(dir, tt.found), filepath.Join(dir, "first"), filepath.Join(dir, "second"))
	}
}

// wantFound fails the test, in what is so called, unless the image of that build ID is the file want where directories are searched.
func wantFound(t *testing.T, name string, id sample.BuildID, want string, symfs ...string) {
	t.Helper()
	s, err := New(Options{Symfs: symfs})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if im, err := s.Open(sample.ImageID{Build: id, Path: "/usr/bin/app"}); err != nil || im.Path != want {
		t.Errorf("%s: found %v, %v, want %s", name, im, err, want)
	}
}

// writeParts writes a program into dir: whole, its debug file alone, and stripped.
func writeParts(t *testing.T, dir string) {
	t.Helper()
	testtool.Write(t, dir, "p.c", "__attribute__((noinline)) static int work(int n) { return n * 7; }\nint main(int argc, char **argv) { return work(argc); }\n")
	testtool.Run(t, dir, "gcc", "-O1", "-g", "-Wl,--build-id", "-o", "whole", "p.c")
	testtool.Run(t, dir, "objcopy", "--only-keep-debug", "whole", "debug")
	testtool.Run(t, dir, "objcopy", "--strip-all", "whole", "stripped")
}

// TestFindWhole: of files with one build ID below --symfs, the one that tells most is the image: a kernel's build leaves what
// it compresses, without symbols, beside vmlinux. A debug file that is named as no such is none.
func TestFindWhole(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	writeParts(t, dir)
	testtool.Run(t, dir, "objcopy", "--strip-debug", "whole", "symbols")
	for _, tt := range []struct {
		files []string // by the names a, b, ...
		found string
	}{
		{[]string{"stripped", "symbols", "whole"}, "c"},
		{[]string{"whole", "stripped", "whole"}, "a"},
		{[]string{"stripped", "stripped"}, "a"},
		{[]string{"debug", "stripped"}, "b"},
		{[]string{"stripped", "debug", "symbols"}, "c"},
	} {
		symfs := t.TempDir()
		for i, name := range tt.files {
			testtool.Write(t, symfs, string(rune('a'+i)), testtool.Read(t, dir, name))
		}
		id, err := image.ReadBuildID(filepath.Join(symfs, "a"))
		if err != nil {
			t.Fatal(err)
		}
		wantFound(t, fmt.Sprint(tt.files), id, filepath.Join(symfs, tt.found), symfs)
	}
}

// TestFindDebug: the separate debug file of an image may be below another directory than the image.
func TestFindDebug(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	writeParts(t, dir)
	id, err := image.ReadBuildID(filepath.Join(dir, "whole"))
	if err != nil {
		t.Fatal(err)
	}
	hex := id.String()
	images, symbols := filepath.Join(dir, "images"), filepath.Join(dir, "symbols")
	testtool.Write(t, images, "usr/bin/p", testtool.Read(t, dir, "stripped"))
	for _, at := range []string{".build-id", "usr/lib/debug/.build-id"} {
		debug := testtool.Write(t, symbols, filepath.Join(at, hex[:2], hex[2:]+".debug"), testtool.Read(t, dir, "debug"))
		s, err := New(Options{Symfs: []string{images, symbols}})
		if err != nil {
			t.Fatal(err)
		}
		im, err := s.Open(sample.ImageID{Build: id, Path: "/usr/bin/p"})
		if err != nil || im.Path != filepath.Join(images, "usr/bin/p") || im.Lookup("work") < 0 {
			t.Errorf("%s: %v, %v", at, im, err)
		}
		s.Close()
		if err := os.Remove(debug); err != nil {
			t.Fatal(err)
		}
	}
}

// with returns a copy of b with one byte changed.
func with(b []byte, off int, v byte) []byte {
	b = bytes.Clone(b)
	b[off] = v
	return b
}

// TestOwnFile: people are told of the file that they know, where it is the recorded build, and of a copy in a cache where it is not.
func TestOwnFile(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	build := sample.BuildID{0xab, 1, 19: 9}
	hex := build.String()
	symfs, dir := t.TempDir(), t.TempDir()
	cached, own := filepath.Join(symfs, ".build-id", hex[:2], hex[2:], "elf"), filepath.Join(dir, "app")
	testtool.Put(t, cached, tiny.ELF(build))
	for _, tt := range []struct {
		name string
		file []byte
		want string
	}{
		{"gone", nil, cached},
		{"the same build", tiny.ELF(build), own},
		{"another build", tiny.ELF(sample.BuildID{0xcd, 19: 1}), cached},
		{"text", []byte("#!/bin/sh\n"), cached},
	} {
		if tt.file != nil {
			testtool.Put(t, own, tt.file)
		}
		s, err := New(Options{Symfs: []string{symfs}})
		if err != nil {
			t.Fatal(err)
		}
		id := sample.ImageID{Path: own, Build: build}
		if _, err := s.Open(id); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := s.OwnFile(id); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		s.Close()
	}
}
