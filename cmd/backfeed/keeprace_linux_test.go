package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/testdata/tiny"
)

// TestKeepRace: while a user puts now a program and now a link to another's file in one
// place, what is opened there is the program or nothing.
func TestKeepRace(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	build := sample.BuildID{1, 19: 1}
	program := tiny.ELF(build)
	testtool.Put(t, in("program"), program)
	testtool.Put(t, in("secret"), "secret")
	path := in("at")
	ctx, stop := context.WithCancel(t.Context())
	var swapping sync.WaitGroup
	swaps := 0
	swapping.Go(func() {
		for ; ctx.Err() == nil; swaps++ {
			var err error
			if swaps%2 == 0 {
				err = os.Link(in("program"), in("next"))
			} else {
				err = os.Symlink("secret", in("next"))
			}
			if err = errors.Join(err, os.Rename(in("next"), path)); err != nil {
				t.Error(err)
				return
			}
			os.Remove(in("next")) // a link to what is there already is not renamed
		}
	})
	opened, tries := 0, 0
	for until := time.Now().Add(10 * time.Second); opened < 20_000 && time.Now().Before(until); tries++ {
		p := input.Running{Proc: in("no proc")}
		f, _, err := p.Open(sample.ImageID{Path: path, Build: build})
		if err != nil {
			continue
		}
		opened++
		b, err := io.ReadAll(f)
		if f.Close(); err != nil || !bytes.Equal(b, program) {
			t.Fatalf("%q was opened, %v", b, err)
		}
	}
	stop()
	swapping.Wait()
	if opened == 0 {
		t.Error("it was never there")
	}
	t.Logf("%d swaps, opened %d of %d times", swaps, opened, tries)
}

// TestOpenBelow: links lead nowhere, or to what is below the root.
func TestOpenBelow(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	testtool.Put(t, filepath.Join(dir, "secret"), "secret")
	testtool.Put(t, filepath.Join(root, "a/file"), "file")
	links := map[string]string{ // to what: from what
		"a/link": "file", "up": "../secret", "abs": filepath.Join(dir, "secret"), "b": "a", "inside": "/a/file", "self": "/proc/self/exe",
	}
	for from, to := range links {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path          string
		below, inRoot bool // opens
	}{
		{"a/file", true, true}, {"/a/file", true, true}, {"../../a/file", true, true},
		{"a/link", false, true}, {"b/file", false, true}, {"inside", false, true},
		{"up", false, false}, {"abs", false, false}, {"self", false, false},
		{"pipe", false, false}, {"a", false, false}, {"none", false, false}, {"", false, false},
	} {
		for name, open := range map[string]func(string, string) (*os.File, error){"OpenBelow": collect.OpenBelow, "OpenInRoot": collect.OpenInRoot} {
			f, err := open(root, tt.path)
			want := tt.below
			if name == "OpenInRoot" {
				want = tt.inRoot
			}
			if (err == nil) != want {
				t.Errorf("%s(%q): %v", name, tt.path, err)
			}
			if err != nil {
				continue
			}
			if b, _ := io.ReadAll(f); string(b) != "file" {
				t.Errorf("%s(%q) is %q", name, tt.path, b)
			}
			f.Close()
		}
	}
}
