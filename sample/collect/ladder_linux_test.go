package collect

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClimb: the best way that opens is taken, and what was tried before it is told.
func TestClimb(t *testing.T) {
	for _, tt := range []struct {
		machine string
		opens   func(a *unix.PerfEventAttr) bool
		want    string
		tried   int
	}{
		{"all counters", func(*unix.PerfEventAttr) bool { return true }, cyclesBranches, 1},
		{"no branch records", func(a *unix.PerfEventAttr) bool { return a.Branch_sample_type == 0 }, preciseInstructions, 2},
		{"no PEBS either", func(a *unix.PerfEventAttr) bool {
			return a.Branch_sample_type == 0 && a.Bits&(unix.PerfBitPreciseIPBit1|unix.PerfBitPreciseIPBit2) == 0
		}, cycles, 3},
		{"no counters", func(a *unix.PerfEventAttr) bool { return a.Type == unix.PERF_TYPE_SOFTWARE }, cpuClock, 4},
		{"nothing", func(*unix.PerfEventAttr) bool { return false }, "", 4},
	} {
		system := &System{hz: 199}
		for _, attr := range []func(*way) *unix.PerfEventAttr{system.attr, func(w *way) *unix.PerfEventAttr { return sampler(w, 1000) }} {
			w, tried := climb(ladder, func(w *way) error {
				if !tt.opens(attr(w)) {
					return unix.EOPNOTSUPP
				}
				return nil
			})
			got := ""
			if w != nil {
				got = w.name
			}
			if got != tt.want || len(tried) != tt.tried || (tried[len(tried)-1].Err == nil) != (got != "") {
				t.Errorf("%s: %q after %v; want %q after %d", tt.machine, got, tried, tt.want, tt.tried)
			}
		}
	}
}

// TestWays: what can be asked for by name, and what it is recorded as.
func TestWays(t *testing.T) {
	for name, want := range map[string]struct {
		ways        []string
		event, unit string
	}{
		"branches":     {[]string{cyclesBranches}, "cycles", "cycles"},
		"instructions": {[]string{preciseInstructions, "instructions"}, "instructions", "instructions"},
		"cycles":       {[]string{cycles}, "cycles", "cycles"},
		"cpu-clock":    {[]string{cpuClock}, "cpu-clock", "ns"},
		"coffee":       {},
	} {
		var names []string
		for _, w := range waysTo(name) {
			names = append(names, w.name)
			if e := w.sampled(7); e.Name != want.event || e.Unit != want.unit || e.Period != 7 {
				t.Errorf("%s: event %+v", name, e)
			}
		}
		if !slices.Equal(names, want.ways) {
			t.Errorf("%s: %v, want %v", name, names, want.ways)
		}
	}
	if n := ladder[3].period(1000, 3000); n != 1_000_000 {
		t.Errorf("cpu-clock at 1000 Hz: period %d, want 1000000 ns", n)
	}
	if n := ladder[2].period(1000, 3000); n != 3_000_000 {
		t.Errorf("cycles at 1000 Hz and 3 GHz: period %d, want 3000000", n)
	}
}
