package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/store"
)

// fillHosts makes a store of eight hosts, of which one runs something else and one has a hundred times the samples.
func fillHosts(t *testing.T, dir string) {
	t.Helper()
	s, err := store.Create(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		n, path := uint64(1000+10*i), "/app"
		switch i {
		case 6:
			path = "/miner"
		case 7:
			n *= 100
		}
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1e6, Unit: "ns"})
		for k, path := range []string{path, "/lib"} {
			c.AddSample(c.Image(sample.ImageID{Path: path}), 1, n*uint64(9-8*k)/10)
		}
		if err := s.Put(sample.EpochAt(time.Unix(1e9, 0), time.Hour), &sample.Recording{Counts: []*sample.Counts{c}}, map[string]string{"host": fmt.Sprintf("h%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHosts: hosts that are odd are shown, can be left out, and be bounded, of a directory and of a bucket.
func TestHosts(t *testing.T) {
	for name, dir := range map[string]string{"directory": filepath.Join(t.TempDir(), "store"), "bucket": bucketStore(t)} {
		t.Run(name, func(t *testing.T) {
			fillHosts(t, dir)
			testHosts(t, dir)
		})
	}
}

func testHosts(t *testing.T, dir string) {
	t.Helper()
	code, out, errs := runCLI(t, "stats", dir, "--by", "host", "--format", "json")
	var doc report.Hosts
	if err := json.Unmarshal([]byte(out), &doc); code != exitDone || err != nil {
		t.Fatalf("exit code %d: %v: %s", code, err, errs)
	}
	odd := map[string]string{}
	for _, r := range doc.Rows {
		if len(r.Odd) > 0 {
			odd[r.Host] = strings.Join(r.Odd, ", ")
		}
	}
	if len(doc.Rows) != 8 || doc.Odd != 2 || odd["h6"] != "another workload" || odd["h7"] != "far more samples" {
		t.Errorf("odd are %v of %d: %s", odd, len(doc.Rows), out)
	}
	file := filepath.Join(t.TempDir(), "out.bfr")
	merged := func(args ...string) (map[string]uint64, string) {
		t.Helper()
		code, _, errs := runCLI(t, append([]string{"merge", dir, "-o", file}, args...)...)
		if code != exitDone {
			t.Fatalf("%q: exit code %d: %s", args, code, errs)
		}
		n := map[string]uint64{}
		for id, k := range decode(t, file).ByImage() {
			n[id.Path] = k
		}
		return n, errs
	}
	if n, _ := merged("--label", "host!=h6|h7"); n["/miner"] != 0 || n["/app"] != 9*(6000+150)/10 {
		t.Errorf("without two hosts, %v", n)
	}
	n, said := merged("--max-host-share", "20%")
	total := n["/app"] + n["/miner"] + n["/lib"]
	if usual := uint64(7*1000 + 210); total < usual+usual/4 || total > usual+usual/4+2 || !strings.Contains(said, "host h7: 107000 samples count as 1802") {
		t.Errorf("bounded, %v, %d in all: %s", n, total, said)
	}
	if _, said := merged("--max-host-share", "1%"); !strings.Contains(said, "all have equally many") {
		t.Errorf("of too few hosts is said: %s", said)
	}
	if code, _, errs := runCLI(t, "stats", file, "--by", "host"); code != exitUsage || !strings.Contains(errs, "only a store") {
		t.Errorf("of a file: exit code %d: %s", code, errs)
	}
}
