package main

import (
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestFileless: code without a file is listed by name, and its samples are
// neither an error nor counted twice.
func TestFileless(t *testing.T) {
	rec, err := sample.Decode([]byte(testtool.Read(t, first(programRecording(t)))))
	if err != nil {
		t.Fatal(err)
	}
	jit := testtool.Write(t, t.TempDir(), "perf-1234.map", "1000 100 Script:~loop\n")
	c := rec.Counts[0]
	kernel, js := c.Image(sample.ImageID{Path: "[kernel]", Build: sample.BuildID{1}}), c.Image(sample.ImageID{Path: jit})
	c.AddSample(kernel, 0x100, 400)
	c.AddStack([]sample.Frame{{Image: kernel, Off: 0x100}}, 400)
	c.AddSample(js, 0x1010, 300)
	c.AddSample(js, 0x2010, 20)
	total := rec.Samples()
	path := testtool.Write(t, t.TempDir(), "rec", string(sample.Merge(rec).Encode()))

	rows := itemsOf[report.ProfRow](t, "backfeed.prof/2", must(t, "prof", path, "--format", "json"))
	got := map[string]uint64{}
	sum := uint64(0)
	for _, r := range rows {
		got[r.Procedure+r.Lost] += r.Samples
		sum += r.Samples
	}
	if sum != total || got["Script:~loop"] != 300 || got["anonymous memory"] != 20 || got["kernel"] != 407 {
		t.Errorf("%d samples, want %d: %v", sum, total, got)
	}
	if out := must(t, "images", path); !strings.Contains(out, "kernel  ") || !strings.Contains(out, "JIT") {
		t.Errorf("images:\n%s", out)
	}
}

func first(a, _ string) string { return a }
