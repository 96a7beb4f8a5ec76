package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
	"backfeed/testdata/tiny"
)

// statsELF is an image in this repository, of testdata/elf/tiny.c.
const statsELF = "../../infer/image/testdata/elf/x86.elf"

// tinyRecording writes a recording of statsELF that has so many samples at the start
// of each of the procedures, and some of the kernel. Its image is said to be at path.
func tinyRecording(t *testing.T, dir, name, path string, procs map[string]uint64, kernel uint64) *sample.Recording {
	t.Helper()
	rec := tiny.Recording(t, openImage(t, statsELF), path, procs, kernel)
	if name != "" {
		testtool.Write(t, dir, name, string(rec.Encode()))
	}
	return rec
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	testtool.Golden(t, name, got)
}

func TestStats(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tinyRecording(t, dir, "a.bfr", "/v1/tiny", map[string]uint64{"exported": 500, "twice": 400}, 10)
	tinyRecording(t, dir, "b.bfr", "/v1/tiny", map[string]uint64{"exported": 510, "twice": 200, "never": 150}, 12)
	tinyRecording(t, dir, "c.bfr", "/v2/tiny", map[string]uint64{"exported": 1000, "twice": 800, "never": 1}, 20)
	symfs := filepath.Join(here, filepath.Dir(statsELF))
	t.Chdir(dir)
	args := []string{"stats", "a.bfr", "b.bfr", "c.bfr"}
	var text strings.Builder
	for _, more := range []string{"", "--value samples", "--by image --format markdown"} {
		text.WriteString("$ backfeed stats a.bfr b.bfr c.bfr " + more + "\n")
		with := append(args, strings.Fields(more)...)
		if !strings.Contains(more, "--by image") {
			with = append(with, "--symfs", symfs)
		}
		text.WriteString(must(t, with...) + "\n")
	}
	golden(t, filepath.Join(here, "testdata/stats.txt"), text.String())

	var doc report.Stats
	if err := json.Unmarshal([]byte(must(t, append(args, "--format", "json")...)), &doc); err != nil {
		t.Fatal(err)
	}
	var all uint64
	for _, r := range doc.Rows {
		all += r.Samples
		if len(r.Values) != 3 || r.Min > r.Mean || r.Max < r.Mean {
			t.Errorf("%s%s: %+v", r.Procedure, r.Lost, r)
		}
	}
	if all != 910+872+1821 {
		t.Errorf("rows have %d samples, the recordings %d", all, 910+872+1821)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"stats a.bfr", exitUsage, "want two recordings or more"},
		{"stats a.bfr --epochs", exitUsage, "none of the sources is a store"},
		{"stats a.bfr b.bfr --event cycles", exitNothing, `not all of the recordings have samples of event "cycles": a.bfr has cpu-clock`},
		{"stats a.bfr absent", exitFailed, "no such file"},
	} {
		if code, _, stderr := runCLI(t, strings.Fields(tt.args)...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, %q", tt.args, code, stderr)
		}
	}
}

// TestStatsEpochs: the epochs of a store are sets of their own.
func TestStatsEpochs(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Create(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i, n := range []uint64{300, 100, 100} {
		rec := tinyRecording(t, "", "", "/v1/tiny", map[string]uint64{"exported": n, "twice": 200}, 0)
		if err := s.Put(sample.EpochAt(start.Add(time.Duration(i)*time.Hour), time.Hour), rec, nil); err != nil {
			t.Fatal(err)
		}
	}
	var doc report.Stats
	if err := json.Unmarshal([]byte(must(t, "stats", dir, "--epochs", "--symfs", filepath.Dir(statsELF), "--format", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Sets) != 3 || len(doc.Rows) != 2 || !doc.Rows[0].Varies || doc.Rows[0].Max != 2.0/3 && doc.Rows[0].Max != 0.6 {
		t.Errorf("%+v", doc)
	}
}
