package main

import (
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/sample"
)

// TestLeftOut: what a profile lacks is said with what it is worth, and with what to do only where that helps.
func TestLeftOut(t *testing.T) {
	type weights map[feedback.Reason]float64
	for _, tt := range []struct {
		name    string
		skipped feedback.Skipped
		dropped weights
		weight  float64
		want    string
	}{
		{"nothing", feedback.Skipped{}, nil, 1, ""},
		{"cold", feedback.Skipped{feedback.SkipUnseen: 6150}, weights{feedback.SkipUnseen: 20}, 980,
			"; left out: 6150 calls between procedures without samples (2.0% of the weight): nothing to do"},
		{"much is not seen", feedback.Skipped{feedback.SkipUnseen: 6150, feedback.SkipIndirect: 3}, weights{feedback.SkipUnseen: 500}, 500,
			"; left out: 6150 calls between procedures without samples (50.0% of the weight), 3 of other kinds (0.0%): to have more, record for longer"},
		{"not in the source", feedback.Skipped{feedback.SkipAdded: 7}, weights{feedback.SkipAdded: 900}, 100,
			"; left out: 7 calls of the runtime that the compiler adds (90.0% of the weight): nothing to do"},
		{"no weights", feedback.Skipped{feedback.SkipNoLines: 2, feedback.SkipNoInstLine: 1}, nil, 0,
			"; left out: 2 procedures without line numbers, 1 instructions without a line: to have more, compile with -g, or have the debug file where --symfs looks"},
	} {
		if got := leftOut(tt.skipped, tt.dropped, tt.weight); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestRecordSays: what is not recorded is said with its share and with what to do, and what
// nothing came of is said as such.
func TestRecordSays(t *testing.T) {
	if got, want := report.Losses(map[sample.Loss]uint64{sample.LostKernel: 14, sample.LostVDSO: 1}, 100),
		"14 kernel (14.0%), 1 vdso (1.0%); kernel: the time of system calls; record -a --kernel has it, and counts of the program need it not"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := report.Losses(map[sample.Loss]uint64{sample.LostKernel: 4}, 100), "4 kernel (4.0%)"; got != want {
		t.Errorf("%q, want %q: too few to act", got, want)
	}
}
