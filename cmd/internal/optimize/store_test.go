package optimize

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// TestStore: with recordings of a store, it is done again if the program runs otherwise than before, and not because the store has
// grown.
func TestStore(t *testing.T) {
	testtool.Need(t, "sh")
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("runs a program of Linux on x86-64")
	}
	const mix = "../../../testdata/mix"
	dir, bin := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	testtool.Write(t, bin, "llvm-bolt", "#!/bin/sh\ncat \"$1\" >\"$3\" && chmod +x \"$3\"\n") // it rewrites nothing
	testtool.Write(t, dir, "mix", testtool.Read(t, mix, "mix"))
	for _, path := range []string{filepath.Join(bin, "llvm-bolt"), filepath.Join(dir, "mix")} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := sample.Decode([]byte(testtool.Read(t, mix, "samples.bfr")))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Create(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hour := 0
	put := func() {
		t.Helper()
		hour++
		if err := s.Put(sample.EpochAt(time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC), time.Hour), rec, nil); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Parse([]byte(`optimize: {targets: {mix: {binary: mix, run: "{binary} 2", sources: store, recorded: `+mixPath(rec)+`, pairs: 6, output: fast}}}`), dir)
	if err != nil {
		t.Fatal(err)
	}
	did := func(unchanged bool, what string) *report.OptimizeTarget {
		t.Helper()
		doc, err := Run(context.Background(), c, Options{Notify: report.Quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := doc.Targets[0].State == report.OptimizeUnchanged; got != unchanged {
			t.Errorf("%s: unchanged %v, want %v: %+v", what, got, unchanged, doc.Targets[0])
		}
		return &doc.Targets[0]
	}
	put()
	first := did(false, "first")
	if c := first.Candidates[0]; !made(&c) || first.Recording == nil || len(first.Recording.Hot) < 3 {
		t.Fatalf("%+v", first)
	}
	did(true, "the same")
	put()
	did(true, "more of the same")
	counts := rec.Counts[0]
	for i := range counts.Images {
		if offs := slices.Sorted(maps.Keys(counts.Images[i].At)); len(offs) > 0 {
			counts.AddSample(i, offs[0], 1e6)
		}
	}
	put()
	did(false, "something else")
}

// mixPath is the path that most samples have.
func mixPath(rec *sample.Recording) string { return report.MostFirst(rec.ByImage())[0].Path }
