package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// samplesIn decodes a recording and returns its samples per image.
func samplesIn(t *testing.T, encoded string) map[string]uint64 {
	t.Helper()
	rec, err := sample.Decode([]byte(encoded))
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]uint64{}
	for id, k := range rec.ByImage() {
		n[id.Path] = k
	}
	return n
}

// oneImage is a recording of n samples at one place.
func oneImage(path string, n uint64) *sample.Recording {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	c.AddSample(c.Image(sample.ImageID{Path: path}), 0x10, n)
	rec := &sample.Recording{}
	rec.Add(c)
	return rec
}

func TestMergeWeights(t *testing.T) {
	dir := t.TempDir()
	a := testtool.Write(t, dir, "a.bfr", string(oneImage("/bin/a", 100).Encode()))
	b := testtool.Write(t, dir, "b@2", string(oneImage("/bin/b", 10).Encode()))
	code, out, errs := runCLI(t, "merge", a+"@0.25", b, b+"@3", "-o", "-")
	if got := samplesIn(t, out); code != exitDone || got["/bin/a"] != 25 || got["/bin/b"] != 40 {
		t.Errorf("exit code %d, %v: %s", code, got, errs)
	}
	if _, again, _ := runCLI(t, "merge", b+"@3", a+"@0.25", b, "-o", "-"); again != out {
		t.Error("another order gives other bytes")
	}
	for _, args := range [][]string{{a + "@0"}, {a + "@-1"}, {a + "@much"}, {a, "--half-life", "1h"}} {
		if code, _, errs := runCLI(t, append([]string{"merge", "-o", "-"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
}

// TestMergeNormalise: sources count alike, however much each has, before weights.
func TestMergeNormalise(t *testing.T) {
	dir := t.TempDir()
	a := testtool.Write(t, dir, "a.bfr", string(oneImage("/bin/a", 1000).Encode()))
	b := testtool.Write(t, dir, "b.bfr", string(oneImage("/bin/b", 10).Encode()))
	code, out, errs := runCLI(t, "merge", "--normalise", a, b+"@0.2", "-o", "-")
	if got := samplesIn(t, out); code != exitDone || got["/bin/a"] != 505 || got["/bin/b"] != 101 {
		t.Errorf("exit code %d, %v: %s", code, got, errs)
	}
	if _, again, _ := runCLI(t, "merge", "--normalise", b+"@0.2", a, "-o", "-"); again != out {
		t.Error("another order gives other bytes")
	}
}

func TestMergeFailureMode(t *testing.T) {
	dir := t.TempDir()
	good := testtool.Write(t, dir, "good", string(oneImage("/bin/a", 100).Encode()))
	bad := testtool.Write(t, dir, "bad", "no recording")
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{good, bad}, exitNothing},
		{[]string{good, bad, "--failure-mode", "all"}, exitDone},
		{[]string{bad, bad, "--failure-mode", "all"}, exitNothing},
	} {
		code, out, errs := runCLI(t, append([]string{"merge", "-o", "-"}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, filepath.Base(bad)) {
			t.Errorf("%v: exit code %d, want %d: %s", tt.args, code, tt.code, errs)
		}
		if code == exitDone && samplesIn(t, out)["/bin/a"] != 100 {
			t.Errorf("%v: %v", tt.args, samplesIn(t, out))
		}
	}
}

// TestMergeHalfLife: an epoch one half-life older than the newest counts half, also
// where a shorter epoch lies in a longer one; a recording beside the store counts whole.
func TestMergeHalfLife(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Create(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	put := func(at time.Time, length time.Duration, path string) {
		t.Helper()
		if err := s.Put(sample.EpochAt(at, length), oneImage(path, 100), nil); err != nil {
			t.Fatal(err)
		}
	}
	put(now, time.Hour, "/bin/new")
	put(now.Add(-24*time.Hour), time.Hour, "/bin/old")
	put(now.Add(-24*time.Hour), 5*time.Minute, "/bin/inside")
	code, out, errs := runCLI(t, "merge", dir, "--half-life", "24h", "-o", "-")
	got := samplesIn(t, out)
	if code != exitDone || got["/bin/new"] != 100 || got["/bin/old"] != 50 || got["/bin/inside"] != 50 {
		t.Errorf("exit code %d, %v: %s", code, got, errs)
	}
	beside := testtool.Write(t, t.TempDir(), "beside.bfr", string(oneImage("/bin/beside", 100).Encode()))
	for _, args := range [][]string{{dir, beside}, {beside, dir}} {
		code, out, errs = runCLI(t, append([]string{"merge", "--half-life", "24h", "-o", "-"}, args...)...)
		got = samplesIn(t, out)
		if code != exitDone || got["/bin/beside"] != 100 || got["/bin/new"] != 100 || got["/bin/old"] != 50 {
			t.Errorf("%q: exit code %d, %v: %s", args, code, got, errs)
		}
	}
}

// exactImage is oneImage with exact counts at two places of the image.
func exactImage(path string, n uint64) *sample.Recording {
	rec := oneImage(path, n)
	c := rec.Counts[0]
	c.Weight = 1000 * n
	c.AddProbed(0, 0x20, sample.Probed{Windows: 3, Covered: 1000 * n, Runs: 40, Variance: sample.SquareOf(16), Outcomes: 20, Taken: 10, Spread: sample.SquareOf(4)})
	c.AddCounted(0, 0x10, 8)
	return rec
}

// TestMergeObserved: what was counted exactly is kept in stores, ages with the samples,
// and is told of.
func TestMergeObserved(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Create(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{now, now.Add(-24 * time.Hour)} {
		if err := s.Put(sample.EpochAt(at, time.Hour), exactImage("/bin/a", 100), nil); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := runCLI(t, "merge", dir, "--half-life", "24h", "-o", "-")
	if code != exitDone || !strings.Contains(errs, "observed counts: 1 places probed, 1 counted") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	rec, err := sample.Decode([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	ic := rec.Counts[0].Images[0]
	want := sample.Probed{Windows: 6, Covered: 150e3, Runs: 60, Variance: sample.SquareOf(20), Outcomes: 30, Taken: 15, Spread: sample.SquareOf(5)}
	if got := ic.Probed[0x20]; got != want || ic.Counted[0x10] != 12 || rec.Counts[0].Weight != 150e3 {
		t.Errorf("%+v, weight %d, counted %v, want %+v", got, rec.Counts[0].Weight, ic.Counted, want)
	}
	table := must(t, "images", testtool.Write(t, t.TempDir(), "aged.bfr", out))
	if !strings.Contains(table, "probed  counted") || !strings.Contains(table, "     1        1  ") {
		t.Errorf("images:\n%s", table)
	}
}
