package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestCounterCounts: what is inferred from samples of instructions that a counter took is what ran, blocks
// among one another and how often, on a machine that has counters and where exact counts are at hand: the AArch64
// guest of testdata/kernels. There, 520 samples alone have a block overlap of 0.85, as 0.82 to 0.87 of as many
// would by chance; what is inferred of them had 0.92.
func TestCounterCounts(t *testing.T) {
	truth := filepath.Join(testtool.Prebuilt(), mixTruth)
	if _, err := os.Stat(truth); testtool.Prebuilt() == "" || err != nil {
		t.Skip("no exact counts of mix: TestPrograms makes them, on QEMU, for the AArch64 guest of testdata/kernels")
	}
	dir := t.TempDir()
	rec, doc := filepath.Join(dir, "mix.bfr"), filepath.Join(dir, "mix.json")
	code, _, errs := runCLI(t, "record", "--event", "instructions", "-o", rec, "--", program(t, "mix"), "16")
	if code == exitMachine {
		t.Skip(errs)
	}
	if code != exitDone || strings.Contains(errs, "multiplexing") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	must(t, "infer", rec, "--format", "json", "-o", doc)
	var got struct {
		BlockOverlap float64 `json:"block_overlap"`
		Scale        float64 `json:"scale"`
	}
	if err := json.Unmarshal([]byte(must(t, "verify", doc, "--truth", truth, "--samples", rec, "--format", "json")), &got); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s block overlap %.3f, %.2f of 16 rounds", errs, got.BlockOverlap, 1/got.Scale)
	if got.BlockOverlap < 0.87 {
		t.Errorf("block overlap %.3f, want what chance leaves to the samples alone, at least 0.87", got.BlockOverlap)
	}
	if rounds := 1 / got.Scale; rounds < 13 || rounds > 17 { // sampling pauses for some of the time
		t.Errorf("%.2f rounds, want 16", rounds)
	}
}
