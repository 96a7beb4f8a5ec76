package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

func TestDiffRecordings(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tinyRecording(t, dir, "a.bfr", "/v1/tiny", map[string]uint64{"exported": 500, "twice": 400}, 10)
	tinyRecording(t, dir, "b.bfr", "/v1/tiny", map[string]uint64{"exported": 510, "twice": 200, "never": 150}, 12)
	tinyRecording(t, dir, "c.bfr", "/v2/tiny", map[string]uint64{"exported": 1000, "twice": 810}, 20)
	for name, procs := range map[string]map[string]uint64{"a": {"exported": 500, "twice": 400}, "b": {"exported": 510, "twice": 200, "never": 150}} {
		rec := tinyRecording(t, dir, "", "/v1/tiny", procs, 10)
		rec.Counts[0].Weight = rec.Counts[0].Delivered() * 1e6 // ns
		testtool.Write(t, dir, "timed-"+name+".bfr", string(rec.Encode()))
		rec = tinyRecording(t, dir, "", "/v1/tiny", procs, 0)
		user := rec.Counts[0].Delivered() * 1e3 // us
		rec.Counts[0].Weight = user * 1e3
		rec.Runs = []sample.Run{{Command: []string{"tiny"}, Usage: sample.Usage{User: user, System: 400e3}}}
		testtool.Write(t, dir, "user-"+name+".bfr", string(rec.Encode()))
	}
	symfs := filepath.Join(here, filepath.Dir(statsELF))
	t.Chdir(dir)
	var text strings.Builder
	for _, args := range []string{"a.bfr b.bfr", "a.bfr c.bfr --format markdown", "b.bfr a.bfr --by block", "a.bfr b.bfr --proc twice",
		"timed-a.bfr timed-b.bfr --units 100,80", "timed-a.bfr timed-a.bfr --units 100,50 -n 2", "user-a.bfr user-b.bfr --units 100,80 -n 1"} {
		text.WriteString("$ backfeed diff " + args + "\n")
		text.WriteString(must(t, append([]string{"diff", "--symfs", symfs}, strings.Fields(args)...)...) + "\n")
	}
	golden(t, filepath.Join(here, "testdata/diffrecordings.txt"), text.String())

	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"a.bfr b.bfr --for go", exitUsage, "--for, --fail-on and --unclear are about profiles"},
		{"a.bfr b.bfr --proc absent", exitNothing, "no samples of a procedure absent"},
		{"a.bfr absent", exitFailed, "no such file"},
		{"a.bfr b.bfr --event cycles", exitNothing, "cycles"},
		{"a.bfr b.bfr --units 3,4", exitUsage, "how much a sample of cpu-clock stands for"},
		{"timed-a.bfr timed-b.bfr --units 3", exitUsage, "--units: 1 numbers"},
		{"timed-a.bfr timed-b.bfr --units 3,0", exitUsage, "0 was done"},
		{"timed-a.bfr timed-b.bfr --units 3,NaN", exitUsage, "NaN was done"},
		{"timed-a.bfr timed-b.bfr --units 3,x", exitUsage, `"x" is no number`},
	} {
		if code, _, stderr := runCLI(t, append([]string{"diff", "--symfs", symfs}, strings.Fields(tt.args)...)...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("diff %s: exit code %d, %q", tt.args, code, stderr)
		}
	}
}

// TestDiffBuilds compares recordings of two builds of a program: procedures and
// blocks find each other, whatever their addresses and names.
func TestDiffBuilds(t *testing.T) {
	builds := built(t, "c")
	record := func(path string, procs map[string]uint64) string {
		im, c := openSampled(t, path)
		for name, n := range procs {
			for _, b := range proc(t, im, name).Blocks {
				off, _ := im.OffsetOf(b.Start)
				c.AddSample(0, off, n)
			}
		}
		return save(t, c)
	}
	before := record(builds.old, map[string]uint64{"same": 100, "edited": 100, "renamed": 100})
	after := record(builds.new, map[string]uint64{"same": 100, "edited": 300, "newname": 100, "added": 100})
	read := func(args ...string) (doc report.RecordingDiff) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, append([]string{"diff", before, after, "--format", "json", "-n", "0"}, args...)...)), &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	doc := read()
	for _, want := range []struct {
		proc     string
		old, new bool
	}{{"same", true, true}, {"edited", true, true}, {"newname", true, true}, {"added", false, true}} {
		i := slices.IndexFunc(doc.Rows, func(r report.DiffRow) bool { return r.Procedure == want.proc })
		if i < 0 {
			t.Errorf("no row for %s: %+v", want.proc, doc.Rows)
			continue
		}
		if r := doc.Rows[i]; r.Old.Samples > 0 != want.old || r.New.Samples > 0 != want.new || r.New.CPI == nil || r.New.Executions == nil {
			t.Errorf("%+v", r)
		}
	}
	if slices.ContainsFunc(doc.Rows, func(r report.DiffRow) bool { return r.Procedure == "renamed" }) {
		t.Errorf("renamed did not find newname")
	}

	doc = read("--proc", "edited")
	if doc.Blocks == nil || doc.Blocks.Tied == 0 || doc.Blocks.New == 0 {
		t.Fatalf("edited: %+v", doc.Blocks)
	}
	var old uint64
	im := openImage(t, builds.old)
	for _, r := range doc.Rows {
		old += r.Old.Samples
		if r.Tie == "new" != (r.Old.Addr == nil) || r.Tie == "gone" != (r.New.Addr == nil) {
			t.Errorf("%+v", r)
		}
	}
	if want := 100 * len(proc(t, im, "edited").Blocks); old != uint64(want) {
		t.Errorf("edited had %d samples, %d are listed", want, old)
	}
	if doc = read("--proc", "same"); doc.Blocks.Tied != len(doc.Rows) || doc.Blocks.Moved != 0 {
		t.Errorf("same: %+v of %d", doc.Blocks, len(doc.Rows))
	}
}

// TestDiffPprof: two pprof profiles stay profiles unless recordings are asked for.
func TestDiffPprof(t *testing.T) {
	profile := filepath.Join(root, "sample/testdata/busy.pprof")
	if out := must(t, "diff", profile, profile); !strings.Contains(out, "0 decisions change") {
		t.Error(out)
	}
	if code, _, errs := runCLI(t, "diff", profile, profile, "--by", "procedure"); code == exitUsage || strings.Contains(errs, "decisions") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

func TestIsRecording(t *testing.T) {
	dir := t.TempDir()
	bfr := recording(t, dir, "a.bfr", sample.ImageID{Path: "/x"})
	for path, want := range map[string]bool{
		bfr: true, dir: false, dir + "/absent": false, testtool.Write(t, dir, "empty", ""): false, testtool.Write(t, dir, "text", "main:12:3\n"): false,
		testtool.Write(t, dir, "perf", "PERFILE2\x68\x00\x00\x00\x00\x00\x00\x00"): true, filepath.Join(root, "sample/testdata/busy.pprof"): false,
	} {
		if got := input.IsRecording(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
