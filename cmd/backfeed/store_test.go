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

// storeOf makes a store with samples of an image in each of four hours, of two
// hosts; those of hour h have 10 samples more than those before.
func storeOf(t *testing.T, id sample.ImageID) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.Create(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for hour := range 4 {
		for _, host := range []string{"a", "b"} {
			c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Unit: "ns"})
			c.AddSample(c.Image(id), 0x1000, uint64(10*hour+1))
			rec := &sample.Recording{}
			rec.Add(c)
			at := time.Date(2026, 1, 2, hour, 30, 0, 0, time.UTC)
			if err := s.Put(sample.EpochAt(at, time.Hour), rec, map[string]string{"host": host}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestStore: what is put into a store is listed, summed up, checked, merged and
// dropped.
func TestStore(t *testing.T) {
	dir := storeOf(t, sample.ImageID{Path: "/nowhere", Build: sample.BuildID{1}})
	rows := itemsOf[report.SegmentRow](t, "backfeed.store.ls/2", must(t, "store", "ls", dir, "--format", "json"))
	if len(rows) != 8 || rows[0].Samples != 1 || rows[7].Samples != 31 || rows[7].Labels["host"] == "" || rows[7].Bytes == 0 || rows[7].Puts != 1 {
		t.Errorf("%+v", rows)
	}
	if out := must(t, "store", "ls", dir); !strings.Contains(out, "2026-01-02 03:00:00  1h0m0s       31") || !strings.Contains(out, "host=b") {
		t.Errorf("ls:\n%s", out)
	}
	if n := storeSamples(t, dir); n != 128 {
		t.Errorf("%d samples, want 128", n)
	}
	if out := must(t, "store", "stats", dir); !strings.Contains(out, "2026-01-02 00:00:00 to 2026-01-02 04:00:00 UTC") {
		t.Errorf("stats:\n%s", out)
	}
	if out := must(t, "store", "fsck", dir); !strings.Contains(out, "8 segments") {
		t.Errorf("fsck:\n%s", out)
	}

	// A second segment of one host and hour, to merge.
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := s.Read(store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(sample.EpochAt(time.Date(2026, 1, 2, 0, 40, 0, 0, time.UTC), time.Hour), rec, map[string]string{"host": "a"}); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "store", "compact", dir); !strings.Contains(out, "others: 2\n") {
		t.Errorf("compact: %s", out)
	}
	if n := storeSamples(t, dir); n != 256 {
		t.Errorf("%d samples, want 256", n)
	}
	if out := must(t, "store", "gc", dir, "--retain-size", "1"); !strings.Contains(out, "dropped: 1 epochs in 2 segments") {
		t.Errorf("gc: %s", out)
	}
	if n := storeSamples(t, dir); n != 126 {
		t.Errorf("%d samples, want those of three hours: 126", n)
	}
}

// TestStoreDamaged: fsck tells, with exit code 1, and the rest can be read.
func TestStoreDamaged(t *testing.T) {
	dir := storeOf(t, sample.ImageID{Path: "/nowhere", Build: sample.BuildID{1}})
	files, err := filepath.Glob(filepath.Join(dir, "segments", "*"))
	if err != nil || len(files) != 8 {
		t.Fatal(files, err)
	}
	b := []byte(testtool.Read(t, files[7]))
	testtool.Put(t, files[7], with(b, 6, b[6]^1))
	testtool.Put(t, files[0], []byte(testtool.Read(t, files[0]))[:20]) // torn
	code, out, errs := runCLI(t, "store", "fsck", dir, "--format", "json")
	var doc report.StoreCheck
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if code != exitFailed || doc.Clean || len(doc.Damaged) != 1 || len(doc.Unfinished) != 1 || doc.Segments != 7 || doc.Partly != 1 || !strings.Contains(errs, "damaged") {
		t.Errorf("exit code %d, %s: %+v", code, errs, doc)
	}
	if _, out, _ := runCLI(t, "store", "fsck", dir); !strings.Contains(out, "6 segments and 0 copies of images are right, damaged segments are used in part: 1, 127 samples") {
		t.Errorf("the damaged one is right:\n%s", out)
	}
	if out := must(t, "store", "stats", dir); !strings.Contains(out, "unused files") {
		t.Errorf("stats:\n%s", out)
	}
	if err := os.Remove(files[7]); err != nil {
		t.Fatal(err)
	}
	code, out, _ = runCLI(t, "store", "fsck", dir, "--repair")
	if code != exitFailed || !strings.Contains(out, "files removed: 1") || !strings.Contains(out, filepath.Base(files[7])+": 31 samples of epoch ") {
		t.Errorf("repair, exit code %d: %s", code, out)
	}
	if out := must(t, "store", "fsck", dir); strings.Contains(out, "damaged") || strings.Contains(out, "unfinished") {
		t.Errorf("after the repair: %s", out)
	}
}

// TestStoreSource: a store is a source like any other, by time and label.
func TestStoreSource(t *testing.T) {
	dir := storeOf(t, sample.ImageID{Path: "/nowhere", Build: sample.BuildID{1}})
	for _, tt := range []struct {
		args string
		want uint64 // samples; 0 is none
	}{
		{"", 128},
		{"--since 2026-01-02T02:00:00Z", 104},
		{"--until 2026-01-02T02:00:00Z", 24},
		{"--since 2026-01-02T01:15:00Z --until 2026-01-02T01:20:00Z", 22},
		{"--label host=a", 64},
		{"--label host=a --since 2026-01-02T03:00:00Z", 31},
		{"--label host=c", 0},
		{"--since 2026-01-03", 0},
		{"--since 1s", 0},
	} {
		args := append([]string{"merge", dir, "-o", "-"}, strings.Fields(tt.args)...)
		code, out, errs := runCLI(t, args...)
		if tt.want == 0 {
			if code != exitNothing {
				t.Errorf("%s: exit code %d: %s", tt.args, code, errs)
			}
			continue
		}
		if rec, err := sample.Decode([]byte(out)); err != nil || rec.Samples() != tt.want {
			t.Errorf("%s: %d samples, want %d: %v", tt.args, rec.Samples(), tt.want, err)
		}
	}
	for args, want := range map[string]string{
		"--since tomorrow":   "want a time such as",
		"--label host":       "--label host: want name=value, such as service=api",
		"--since 2026-13-01": "want a time such as",
	} {
		if code, _, errs := runCLI(t, append([]string{"images", dir}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
}

// TestStoreImages: a copy in the store stands in for a file that is gone.
func TestStoreImages(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	id := sample.ImageID{Path: filepath.Join(t.TempDir(), "gone"), Build: sample.BuildID{7}}
	dir := storeOf(t, id)
	if out := must(t, "images", dir); !strings.Contains(out, "not found") {
		t.Errorf("images:\n%s", out)
	}
	testtool.Put(t, id.Path, tiny.ELF(id.Build))
	f, err := os.Open(id.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.KeepImage(t.Context(), id, f, store.KindFile); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(id.Path); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "images", dir); !strings.Contains(out, "found") || strings.Contains(out, "not found") {
		t.Errorf("images:\n%s", out)
	}
}

// TestStoreUsage: mistakes in the command line, and directories that are no store.
func TestStoreUsage(t *testing.T) {
	dir := storeOf(t, sample.ImageID{Path: "/nowhere"})
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"store", exitUsage, "want ls, stats, fsck, compact, gc"},
		{"store ls", exitUsage, "wrong number of arguments"},
		{"store list " + dir, exitUsage, `no "list": want ls, stats, fsck, compact, gc`},
		{"store gc " + dir, exitUsage, "want --retain or --retain-size"},
		{"store gc --retain -1h " + dir, exitUsage, "want a positive time"},
		{"store ls " + t.TempDir(), exitNothing, "a directory, but no store"},
		{"store ls " + dir + "/absent", exitFailed, "backfeed: " + dir + "/absent: no such file or directory"},
		{"record -a --store " + dir + " -o x", exitUsage, "not both"},
		{"record -a --label a=b", exitUsage, "goes with --store"},
		{"record -a -- true", exitUsage, "want a command or -a, not both"},
		{"record --tick -- true", exitUsage, "go with -a"},
		{"record -a -F 0", exitUsage, "want a positive number"},
		{"record -a --tick --event cycles", exitUsage, "want --event or --tick"},
		{"agent --store /dev/null/store", exitFailed, "not a directory"},
		{"agent now", exitUsage, "wrong number of arguments"},
		{"agent --max-cpu 0", exitUsage, "above 0"},
		{"agent --config " + dir + "/absent", exitFailed, "no such file"},
	} {
		code, _, errs := runCLI(t, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("backfeed %s: exit code %d, %q; want %d, %q", tt.args, code, errs, tt.code, tt.want)
		}
	}
}
