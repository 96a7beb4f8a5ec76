package report

import (
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/sample"
)

// TestToldEntries: what executions may be off by is said by how many samples there are, and beside what all are off by together.
func TestToldEntries(t *testing.T) {
	if got, want := ToldEntries(&infer.Profile{Common: infer.TimeFactor, Calibrated: true, Samples: infer.Samples{Used: 442}}), "Walks and probes told where branches go, not how often all of it runs, which time tells, of 442 samples: with 90 % confidence, executions are within a factor of 200 "; !strings.HasPrefix(got, want) {
		t.Errorf("calibrated: %q, want %q", got, want)
	}
	for _, tt := range []struct {
		common, counted float64
		used, faulted   uint64
		want            string
	}{
		{0, 0, 442, 0, ""}, {1.2, 1, 442, 0, "may be off by one factor of up to 1.2, with 90 % confidence."},
		{1.2, 0, 442, 0, "Beside that, those of procedures are within a factor of 200 for procedures with 3 samples or more outside their loops, and 3000 for others; less where confidence is medium or high."},
		{2.5, 0, 20000, 0, "All executions, and what follows from them, may be off by one factor of up to 2.5, with 90 % confidence. Beside that, those of procedures are within a factor of 5 for procedures with 128 samples or more outside their loops, 20 for those with 8 or more, 80 for those with 3 or more, and 500 for others; less where confidence is medium or high."},
		{infer.TimeFactor, 0, 442, 0, "of 442 samples: with 90 % confidence, within a factor of 200 for procedures with 3 samples or more outside their loops, and 3000 for others."},
		{infer.TimeFactor, 0, 20000, 0, "within a factor of 12 for procedures with 8 samples or more outside their loops, 80 for those with 3 or more, and 500 for others."},
		{infer.TimeFactor, 0.995, 442, 0, "it may be off by up to 12, with 90 % confidence. Others are inferred from time alone: within a factor of 200 for procedures with 3 samples or more outside their loops, and 3000 for others."},
		{infer.TimeFactor, 0, 20000, 8000, "within a factor of 80 for procedures with 32 samples or more outside their loops, and 500 for others."},
		{infer.TimeFactor, 0, 442, 200, "within a factor of 200 for procedures with 32 samples or more outside their loops, 500 for those with 3 or more, and 3000 for others."},
	} {
		got := ToldEntries(&infer.Profile{Common: tt.common, Counted: tt.counted, Samples: infer.Samples{Used: tt.used, Faulted: tt.faulted}})
		if !strings.HasSuffix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%d samples: %q, want %q", tt.used, got, tt.want)
		}
	}
}

// TestParts: time off the processor is said as time, so that a part of it is told from all.
func TestParts(t *testing.T) {
	for _, tt := range []struct {
		event     string
		part, all uint64
		want      string
	}{
		{"cpu-clock", 12, 34, "12 of 34 samples"},
		{sample.OffCPU, 82080480, 82086397, "82.08 s of 82.09 s"},
		{sample.OffCPU + ":runnable", 1_200_000, 3_400_000, "1.20 s of 3.40 s"},
		{sample.Wall, 5_000_000, 5_000_000, "5 s of 5 s"},
		{sample.Wall, 22993663, 22993664, "22.993663 s of 22.993664 s"},
	} {
		if got := Parts(tt.event, tt.part, tt.all); got != tt.want {
			t.Errorf("%d of %d of %s: %q, want %q", tt.part, tt.all, tt.event, got, tt.want)
		}
	}
	if got := LossesOf(sample.Wall, map[sample.Loss]uint64{sample.LostVDSO: 5917}, 82086397); got != "5.92 ms vdso (<0.1%)" {
		t.Error(got)
	}
}

// TestBlind: stacks without callers are said to lack them, and how to have them.
func TestBlind(t *testing.T) {
	for _, tt := range []struct {
		s    UsertimeStacks
		want string
	}{
		{UsertimeStacks{Samples: 100, Complete: 60, Bare: 40, uncalled: 40}, ""},
		{UsertimeStacks{Samples: 100, Cut: 100}, ""}, // Go's 8 frames
		{UsertimeStacks{Samples: 1000, Complete: 41, Cut: 7, Bare: 900, uncalled: 952}, "95.2% of the samples have no caller, "},
	} {
		got := tt.s.Blind("cpu-clock")
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") || got != "" && !strings.Contains(got, "record --callers") {
			t.Errorf("%+v: %q, want %q", tt.s, got, tt.want)
		}
		off := tt.s.Blind(sample.OffCPU)
		if (off == "") != (tt.want == "") || off != "" && (!strings.Contains(off, "off-cpu:unknown") || strings.Contains(off, "record --callers") || strings.Contains(off, "samples")) {
			t.Errorf("%+v, of time off the processor: %q", tt.s, off)
		}
	}
}
