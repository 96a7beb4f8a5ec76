package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// tinyELF is the least that is an image: one loaded segment with a return
// instruction, and a build ID note.
func tinyELF(id sample.BuildID) []byte {
	const headers = 64 + 2*56
	note := append([]byte{4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0}, id[:]...)
	size := uint64(headers + len(note) + 1)
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Entry: size - 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64,
	})
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Filesz: size, Memsz: size, Align: 0x1000})
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_NOTE), Flags: uint32(elf.PF_R), Off: headers, Vaddr: headers, Filesz: uint64(len(note)), Memsz: uint64(len(note)), Align: 4})
	b.Write(note)
	b.WriteByte(0xc3)
	return b.Bytes()
}

// put writes a file and the directories that it needs.
func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFind puts one image, or one that looks like it, in the places where
// images are looked up.
func TestFind(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	want, other := sample.BuildID{0xab, 1, 2, 3, 19: 9}, sample.BuildID{0xcd, 19: 1}
	hex := want.String()
	right, wrong := tinyELF(want), tinyELF(other)
	none := tinyELF(sample.BuildID{})
	clear(none[64+2*56 : 64+2*56+16]) // no note at all
	for _, tt := range []struct {
		name  string
		files map[string][]byte // below symfs
		build sample.BuildID    // as recorded
		found string            // below symfs
		err   error
	}{
		{"nothing there", nil, want, "", errNotFound},
		{"below symfs", map[string][]byte{"usr/bin/app": right}, want, "usr/bin/app", nil},
		{"below symfs, moved", map[string][]byte{"bin/elsewhere/a.out": right}, want, "bin/elsewhere/a.out", nil},
		{"moved, another in its place", map[string][]byte{"usr/bin/app": wrong, "old/app": right}, want, "old/app", nil},
		{"tree of links", map[string][]byte{".build-id/" + hex[:2] + "/" + hex[2:]: right, "usr/bin/app": right}, want, ".build-id/" + hex[:2] + "/" + hex[2:], nil},
		{"perf's cache", map[string][]byte{".build-id/" + hex[:2] + "/" + hex[2:] + "/elf": right}, want, ".build-id/" + hex[:2] + "/" + hex[2:] + "/elf", nil},
		{"cache that lies", map[string][]byte{".build-id/" + hex[:2] + "/" + hex[2:]: wrong, "usr/bin/app": right}, want, "usr/bin/app", nil},
		{"another build", map[string][]byte{"usr/bin/app": wrong}, want, "", errOtherID},
		{"no build ID in the file", map[string][]byte{"usr/bin/app": none}, want, "", errOtherID},
		{"no build ID in the recording", map[string][]byte{"usr/bin/app": right}, sample.BuildID{}, "usr/bin/app", nil},
		{"no build ID in the recording, moved", map[string][]byte{"old/app": right}, sample.BuildID{}, "", errNotFound},
		{"only a debug file", map[string][]byte{"old/app.debug": right}, want, "", errNotFound},
		{"text", map[string][]byte{"usr/bin/app": []byte("#!/bin/sh\n")}, want, "", image.ErrFormat},
		{"empty", map[string][]byte{"usr/bin/app": nil}, want, "", image.ErrFormat},
		{"cut off", map[string][]byte{"usr/bin/app": right[:100]}, want, "", image.ErrFormat},
		{"32 bits", map[string][]byte{"usr/bin/app": with(right, 4, byte(elf.ELFCLASS32))}, want, "", image.ErrUnsupported},
		{"another processor", map[string][]byte{"usr/bin/app": with(right, 18, byte(elf.EM_RISCV))}, want, "", image.ErrUnsupported},
		{"big-endian", map[string][]byte{"usr/bin/app": with(right, 5, byte(elf.ELFDATA2MSB))}, want, "", image.ErrUnsupported},
	} {
		symfs := t.TempDir()
		for name, b := range tt.files {
			put(t, filepath.Join(symfs, name), b)
		}
		f, err := newFinder(symfs)
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

// with gives a copy of b with one byte changed.
func with(b []byte, off int, v byte) []byte {
	b = bytes.Clone(b)
	b[off] = v
	return b
}

// TestFindPath: without --symfs the recorded path must do, and a deleted file's
// successor at the same path is not taken for it.
func TestFindPath(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	id := sample.BuildID{0xab, 19: 9}
	path := filepath.Join(t.TempDir(), "app")
	put(t, path, tinyELF(id))
	f, err := newFinder("")
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if im, err := f.open(sample.ImageID{Build: id, Path: path + " (deleted)"}); err != nil || im.Path != path {
		t.Errorf("%v", err)
	}
	if _, err := f.open(sample.ImageID{Path: path + " (deleted)"}); !errors.Is(err, errNotFound) {
		t.Errorf("a deleted file without a build ID: %v, want %v", err, errNotFound)
	}
	if _, err := f.open(sample.ImageID{Build: sample.BuildID{1}, Path: path}); !errors.Is(err, errOtherID) || !strings.Contains(err.Error(), path) {
		t.Errorf("another build: %v, want %v and the path", err, errOtherID)
	}
	if _, err := f.open(sample.ImageID{Path: "relative/app"}); !errors.Is(err, errNotFound) {
		t.Errorf("a relative path: %v, want %v", err, errNotFound)
	}
}

// TestFindGiven: a file that the user named is used wherever it lies.
func TestFindGiven(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	id := sample.BuildID{0xab, 19: 9}
	path := filepath.Join(t.TempDir(), "build", "app")
	put(t, path, tinyELF(id))
	f, err := newFinder("")
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

// TestImages: the state of every image is told, and what has none.
func TestImages(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	id := sample.BuildID{0xab, 19: 9}
	put(t, filepath.Join(dir, "root/usr/bin/app"), tinyELF(id))
	put(t, filepath.Join(dir, "root/usr/bin/old"), tinyELF(id))
	put(t, filepath.Join(dir, "root/usr/bin/text"), []byte("#!/bin/sh\n"))
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	for n, im := range []sample.ImageID{{Path: "/usr/bin/none"}, {Path: "/usr/bin/text"}, {Build: sample.BuildID{1, 19: 1}, Path: "/usr/bin/old"}, {Build: id, Path: "/usr/bin/app"}} {
		c.AddSample(c.Image(im), 176, uint64(n+1))
	}
	c.Lose(sample.LostKernel, 10)
	rec := &sample.Recording{}
	rec.Add(c)
	path := file(t, dir, "rec", string(rec.Encode()))

	code, stdout, stderr := runCLI(t, "images", path, "--symfs", filepath.Join(dir, "root"))
	want := `samples  share  state           build ID                                  image
      4  20.0%  found           ab00000000000000000000000000000000000009  /usr/bin/app
      3  15.0%  other build ID  0100000000000000000000000000000000000001  /usr/bin/old
      2  10.0%  malformed                                                 /usr/bin/text
      1   5.0%  not found                                                 /usr/bin/none
     10  50.0%  lost                                                      (kernel)
`
	if code != exitDone || stderr != "" || stdout != want {
		t.Errorf("exit code %d, %q, printed\n%s\nwant\n%s", code, stderr, stdout, want)
	}
}

// TestSourceImage: an image is found by its recorded path, its build ID, a file that
// has it, and the name of a file; a file of the same build that was recorded without its build ID, too.
func TestSourceImage(t *testing.T) {
	id := sample.BuildID{0xab, 19: 9}
	path := filepath.Join(t.TempDir(), "app")
	put(t, path, tinyELF(id))
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
		{"another name", "ap", sample.ImageID{Path: "/usr/bin/app", Build: id}, false},
	} {
		ip := &infer.ImageProfile{ID: tt.id, Image: &image.Image{Build: id}}
		s := &source{profile: &infer.Profile{Images: []*infer.ImageProfile{ip}}}
		got, err := s.image(tt.want)
		if (got == ip) != tt.found || (err == nil) != tt.found {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}
