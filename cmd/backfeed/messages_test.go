package main

import (
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/sample"
)

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
