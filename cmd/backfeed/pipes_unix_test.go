//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// TestPipesInPlaceOfFiles: pipes that a recording, its build IDs or a store lead to make no
// command wait.
func TestPipesInPlaceOfFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	build := sample.BuildID{0xab, 19: 1}
	named, symfs := filepath.Join(dir, "program"), filepath.Join(dir, "symfs")
	rec := sample.Merge(oneImage(named, 100), oneImage("/opt/other", 100))
	recording := filepath.Join(dir, "a.bfr")
	testtool.Put(t, recording, rec.Encode())
	byID := filepath.Join(symfs, ".build-id", build.String()[:2], build.String()[2:])
	for _, d := range []string{filepath.Dir(byID), filepath.Join(symfs, "opt")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in, err := store.Create(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Put(sample.EpochAt(time.Unix(1e9, 0), time.Hour), rec, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{named, byID, filepath.Join(symfs, "opt/other"), filepath.Join(dir, "store/segments/20260101T000000Z-00.bfs")} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"images", recording, "--symfs", symfs}, {"images", filepath.Join(dir, "store"), "--symfs", symfs},
		{"infer", recording, "--symfs", symfs}, {"prof", recording}, {"emit", "go", recording},
		{"layout", named, recording}, {"check", recording, "--image", named, "--binary", named},
		{"store", "fsck", filepath.Join(dir, "store")}, {"merge", recording, "--onto", named, "-o", filepath.Join(dir, "merged.bfr")},
	} {
		done := make(chan int)
		go func() {
			code, _, _ := runCLI(t, args...)
			done <- code
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("%q waits", args)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "merged.bfr")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("merge --onto a pipe wrote a file: %v", err)
	}
}
