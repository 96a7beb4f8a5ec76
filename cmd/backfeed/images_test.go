package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// with returns a copy of b with one byte changed.
func with(b []byte, off int, v byte) []byte {
	b = bytes.Clone(b)
	b[off] = v
	return b
}

// TestImages: the state of every image is told, and what has none.
func TestImages(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	id := sample.BuildID{0xab, 19: 9}
	testtool.Put(t, filepath.Join(dir, "root/usr/bin/app"), tiny.ELF(id))
	testtool.Put(t, filepath.Join(dir, "root/usr/bin/old"), tiny.ELF(id))
	testtool.Put(t, filepath.Join(dir, "root/usr/bin/text"), "#!/bin/sh\n")
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	for n, im := range []sample.ImageID{{Path: "/usr/bin/none"}, {Path: "/usr/bin/text"}, {Build: sample.BuildID{1, 19: 1}, Path: "/usr/bin/old"}, {Build: id, Path: "/usr/bin/app"}} {
		c.AddSample(c.Image(im), 176, uint64(n+1))
	}
	c.Lose(sample.LostKernel, 10)
	rec := &sample.Recording{}
	rec.Add(c)
	path := testtool.Write(t, dir, "rec", string(rec.Encode()))

	code, stdout, stderr := runCLI(t, "images", path, "--symfs", filepath.Join(dir, "root"))
	want := `samples  share  state           build ID                                  image          found at
      4  20.0%  found           ab00000000000000000000000000000000000009  /usr/bin/app   DIR/root/usr/bin/app
      3  15.0%  other build ID  0100000000000000000000000000000000000001  /usr/bin/old
      2  10.0%  malformed                                                 /usr/bin/text
      1   5.0%  not found                                                 /usr/bin/none
     10  50.0%  lost                                                      (kernel)
`
	stdout = strings.ReplaceAll(stdout, dir, "DIR")
	if code != exitDone || stderr != "" || stdout != want {
		t.Errorf("exit code %d, %q, printed\n%s\nwant\n%s", code, stderr, stdout, want)
	}
}

// TestImagesElsewhere: where another build lies at the recorded path, it is said which file is used; a file at that path needs no word.
func TestImagesElsewhere(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	id, here := sample.BuildID{0xab, 19: 9}, sample.BuildID{0xcd, 19: 9}
	app, other := filepath.Join(dir, "app"), filepath.Join(dir, "other")
	testtool.Put(t, app, tiny.ELF(sample.BuildID{1, 19: 1}))
	testtool.Put(t, other, tiny.ELF(here))
	kept := filepath.Join(home, ".debug/.build-id", id.String()[:2], id.String()[2:], "elf")
	testtool.Put(t, kept, tiny.ELF(id))
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	c.AddSample(c.Image(sample.ImageID{Build: here, Path: other}), 176, 1)
	save := func(name string) string {
		rec := &sample.Recording{}
		rec.Add(c)
		return testtool.Write(t, dir, name, string(rec.Encode()))
	}
	if code, out, errs := runCLI(t, "images", save("a.bfr")); code != exitDone || strings.Contains(out, "found at") {
		t.Errorf("exit code %d, %s, printed\n%s", code, errs, out)
	}
	c.AddSample(c.Image(sample.ImageID{Build: id, Path: app}), 176, 1)
	code, out, errs := runCLI(t, "images", save("b.bfr"))
	if code != exitDone || !strings.Contains(out, app+"    "+kept) && !strings.Contains(out, app+"  "+kept) || strings.Count(out, other) != 1 {
		t.Errorf("exit code %d, %s, printed\n%s\nwant %s found at %s", code, errs, out, app, kept)
	}
}
