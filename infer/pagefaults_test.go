package infer

import (
	"math"
	"testing"

	"backfeed/sample"
	"backfeed/testdata/sets"
)

// TestPageFaultsIn: what a fault brings is what it brings at instructions with few samples beside, where enough faults were seen beside a timer.
func TestPageFaultsIn(t *testing.T) {
	app := sample.ImageID{Path: "/app"}
	counts := func(event, unit string, at map[sample.Offset]uint64) *sample.Counts {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: event, Period: 1, Unit: unit})
		for off, n := range at {
			c.AddSample(c.Image(app), off, n)
		}
		return c
	}
	// 0.2 samples for each fault; at 0x30 there is code that takes time, too.
	at := map[sample.Offset]uint64{0x10: 200, 0x20: 40, 0x30: 900, 0x40: 500}
	faults := map[sample.Offset]uint64{0x10: 1000, 0x20: 200, 0x30: 500}
	few := map[sample.Offset]uint64{0x10: 5, 0x20: 10}
	with := func(c *sample.Counts, faults map[sample.Offset]uint64) *sample.Counts {
		for off, n := range faults {
			c.AddFaults(0, off, n)
		}
		return c
	}
	every := func(ns uint64, at map[sample.Offset]uint64) *sample.Counts {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: ns, Unit: "ns"})
		for off, n := range at {
			c.AddSample(c.Image(app), off, n)
		}
		return c
	}
	for _, tt := range []struct {
		name   string
		of     []*sample.Counts // the first are those that are inferred from
		each   float64
		places map[sample.Offset]uint64 // samples that are those of faults
	}{
		{"none", []*sample.Counts{counts("cpu-clock", "ns", at)}, 0, nil},
		{"watched beside the timer", []*sample.Counts{with(counts("cpu-clock", "ns", at), faults)}, 0.2, map[sample.Offset]uint64{0x10: 200, 0x20: 40, 0x30: 120, 0x40: 0}},
		{"an event of perf's", []*sample.Counts{counts("cpu-clock", "ns", at), counts("page-faults:u", "events", faults)}, 0.2, map[sample.Offset]uint64{0x10: 200, 0x30: 120, 0x40: 0}},
		{"both: those beside the timer", []*sample.Counts{with(counts("cpu-clock", "ns", at), faults), counts("page-faults", "events", at)}, 0.2, map[sample.Offset]uint64{0x10: 200, 0x40: 0}},
		{"told of one of two machines", []*sample.Counts{with(counts("cpu-clock", "ns", at), faults), counts("cpu-clock", "ns", at)}, 0.2, map[sample.Offset]uint64{0x10: 200, 0x40: 0}},
		{"all in hot loops", []*sample.Counts{with(every(1_000_000, at), map[sample.Offset]uint64{0x10: 3, 0x20: 2, 0x30: 20, 0x40: 8})}, 0.1, map[sample.Offset]uint64{0x10: 1, 0x30: 5, 0x40: 3}},
		{"too few", []*sample.Counts{with(counts("cpu-clock", "ns", at), few)}, 0, nil},
		{"no timer", []*sample.Counts{counts("cycles", "cycles", at), counts("page-faults", "events", faults)}, 0, nil},
		{"faults where no sample is", []*sample.Counts{counts("cpu-clock", "ns", map[sample.Offset]uint64{0x50: 100}), counts("page-faults", "events", faults)}, 0, nil},
	} {
		f := pageFaultsIn(&sample.Recording{Counts: tt.of}, timers(tt.of))
		if f == nil != (tt.each == 0) || f != nil && !near(f.each, tt.each, 1e-9) {
			t.Errorf("%s: %+v, want %g samples for each", tt.name, f, tt.each)
		}
		for off, want := range tt.places {
			if got := f.brought(app, off, at[off]); got != want {
				t.Errorf("%s: %d of %d samples at %#x are those of faults, want %d", tt.name, got, at[off], off, want)
			}
		}
	}
	if n := (*pageFaults)(nil).brought(app, 0x10, 5); n != 0 {
		t.Errorf("where no faults are known, %d samples are theirs", n)
	}
}

// timers are those counts that are inferred from: of the event of the first.
func timers(all []*sample.Counts) (of []*sample.Counts) {
	for _, c := range all {
		if c.Event == all[0].Event {
			of = append(of, c)
		}
	}
	return of
}

// TestFaultsTellNothing: samples of page faults make no executions, and others the less sure, the more they were.
func TestFaultsTellNothing(t *testing.T) {
	const loop = "a4>b b9>b b>c c6!"
	solve := func(samples, faulted uint64) *Result {
		r := newResult(graph(loop))
		r.BlockSamples, r.Samples = []uint64{40, samples, 40}, 80+samples
		if faulted > 0 {
			r.faulted = []uint64{0, faulted, 0}
		}
		pose([]*Result{r}, testCost, timerParams(false), nil).run(false)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	none, some := solve(400, 0), solve(10_400, 10_000)
	if n, want := some.Block[1].N, none.Block[1].N; math.Abs(math.Log(n/want)) > math.Log(1.5) {
		t.Errorf("with 10,000 samples of faults, a block runs %.3g times, without %.3g", n, want)
	}
	if blind := solve(10_400, 0); blind.Block[1].N < 5*none.Block[1].N {
		t.Errorf("10,000 samples more have a block run %.3g times, not %.3g: what is this test of?", blind.Block[1].N, none.Block[1].N)
	}
	if none.Block[1].Within < some.Block[1].Within {
		t.Errorf("confidence %v with faults, %v without", some.Block[1].Within, none.Block[1].Within)
	}
	if got := some.EntrySamples(); got > 480 {
		t.Errorf("%d samples tell of entries, of 480 that are no faults'", got)
	}
}

// TestOnlyFaults: a procedure whose samples are all of page faults ran, as often as it faulted at least.
func TestOnlyFaults(t *testing.T) {
	r := newResult(graph("a4>b b9>b b>c c6!"))
	r.BlockSamples, r.Samples, r.Seen = []uint64{0, 30, 0}, 30, true
	r.faulted, r.faults = []uint64{0, 30, 0}, 200
	pr := pose([]*Result{r}, testCost, timerParams(false), nil)
	pr.run(false)
	mix := sets.Load(t, "../testdata/mix")
	im, err := mix.Open(mix.Rec.Counts[0].Images[0].ID) // of none of whose procedures anything is said
	if err != nil {
		t.Fatal(err)
	}
	for im.Once(r.Proc.Index) {
		r.Proc.Index++
	}
	pr.follow(followed(&ImageProfile{Image: im, Procs: []*Result{r}, Counts: &sample.ImageCounts{}}))
	if n := r.Entries.N; n < 100 || n > 400 {
		t.Errorf("entered %g times, of 200 faults", n)
	}
}
