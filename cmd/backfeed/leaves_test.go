package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// TestWhatLeaves: what is kept of a process is where its code lay and how often it was met, its name and those of its threads: nothing
// of its arguments, its environment, its directory or its data. A recording has the host's name; a store, and so what leaves a machine, has none.
func TestWhatLeaves(t *testing.T) {
	testtool.Live(t, "records")
	sh := testtool.Path(t, "sh")
	dir := t.TempDir()
	for name, value := range map[string]string{"SECRET_IN_ENVIRONMENT": secret, secret: "1"} {
		t.Setenv(name, value)
	}
	rec := filepath.Join(dir, "rec.bfr")
	code, _, errs := runCLI(t, "record", "-o", rec, "--", sh, "-c",
		`cd "$2"; x=$1; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); y=$x$i; done`, secret, secret+"-argument", t.TempDir())
	if code == exitMachine {
		t.Skip(errs)
	}
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	r := decode(t, rec)
	if r.Samples() < 10 {
		t.Skipf("%d samples alone: this machine was too busy", r.Samples())
	}
	into := filepath.Join(dir, "store")
	s, err := store.Create(into, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a segment, and one of two that were merged
		if err := s.Put(sample.EpochAt(time.Unix(1e9, 0), time.Hour), r, map[string]string{"host": "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Compact(time.Time{}); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"the recording": string(r.Encode())}
	err = filepath.WalkDir(into, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		texts[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	back, err := s.Read(store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	texts["what the store returns"] = string(back.Encode()) // its files are compressed
	hostname, _ := os.Hostname()
	for where, text := range texts {
		for what, word := range map[string]string{"arguments or environment": secret, "environment": "SECRET_IN", "the host's name": hostname, "the user's directory": os.Getenv("HOME")} {
			if where == "the recording" && what == "the host's name" {
				continue
			}
			if len(word) > 3 && strings.Contains(text, word) && !anyPath(r, word) {
				t.Errorf("%s has %s: %q", where, what, word)
			}
		}
	}
	// All text that there is: paths of images, the processor's name, the event.
	for _, c := range r.Counts {
		for _, ic := range c.Images {
			if p := ic.ID.Path; !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "[") {
				t.Errorf("an image is called %q", p)
			}
		}
	}
}

// anyPath reports whether an image's own path has a word.
func anyPath(r *sample.Recording, word string) bool {
	for id := range r.ByImage() {
		if strings.Contains(id.Path, word) {
			return true
		}
	}
	return false
}

// TestMergeHashPaths: what merge writes with --hash-paths has no path of an image, and the samples of before.
func TestMergeHashPaths(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.bfr")
	from := filepath.Join(root, "testdata/mix/samples.bfr")
	if code, _, errs := runCLI(t, "merge", "--hash-paths", from, "-o", out); code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	before, after := decode(t, from), decode(t, out)
	if before.Samples() != after.Samples() {
		t.Errorf("%d samples, want %d", after.Samples(), before.Samples())
	}
	for _, c := range after.Counts {
		for _, ic := range c.Images {
			if !strings.HasPrefix(ic.ID.Path, "/hashed/") && sample.NotFile(ic.ID.Path) == "" {
				t.Errorf("%s is left", ic.ID.Path)
			}
		}
	}
}
