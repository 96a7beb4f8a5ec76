package collect

import (
	"context"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestClimb: the best way that opens is taken, and what was tried before it is told.
func TestClimb(t *testing.T) {
	defer func(old bool) { heedsPrecise = old }(heedsPrecise)
	for _, tt := range []struct {
		machine string
		opens   func(a *unix.PerfEventAttr) bool
		want    string
		tried   int
		ignores bool // takes precise events for others, as on Arm
	}{
		{"all counters", func(*unix.PerfEventAttr) bool { return true }, cyclesBranches, 1, false},
		{"no branch records", func(a *unix.PerfEventAttr) bool { return a.Branch_sample_type == 0 }, preciseInstructions, 2, false},
		{"Arm without branch records", func(a *unix.PerfEventAttr) bool { return a.Branch_sample_type == 0 }, cycles, 3, true},
		{"no PEBS either", func(a *unix.PerfEventAttr) bool {
			return a.Branch_sample_type == 0 && a.Bits&(unix.PerfBitPreciseIPBit1|unix.PerfBitPreciseIPBit2) == 0
		}, cycles, 3, false},
		{"no counters", func(a *unix.PerfEventAttr) bool { return a.Type == unix.PERF_TYPE_SOFTWARE }, cpuClock, 4, false},
		{"nothing", func(*unix.PerfEventAttr) bool { return false }, "", 4, false},
	} {
		heedsPrecise = !tt.ignores
		system := &sampler{opt: SystemOptions{Frequency: 199}}
		for _, attr := range []func(*perfEvent) *unix.PerfEventAttr{system.attr, func(w *perfEvent) *unix.PerfEventAttr { return samplerAttr(w, 1000, false) }} {
			w, tried := climb(ladder, func(w *perfEvent) error {
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
		ways   []string
		events []string
		unit   string
	}{
		"branches":     {[]string{cyclesBranches}, []string{"cycles"}, "cycles"},
		"instructions": {[]string{preciseInstructions, "instructions"}, []string{"instructions:pp", "instructions"}, "instructions"},
		"cycles":       {[]string{cycles}, []string{"cycles"}, "cycles"},
		"cpu-clock":    {[]string{cpuClock}, []string{"cpu-clock"}, "ns"},
		"coffee":       {},
	} {
		var names []string
		for i, w := range eventsFor(name) {
			names = append(names, w.name)
			if e := w.sampled(7); i >= len(want.events) || e.Name != want.events[i] || e.Unit != want.unit || e.Period != 7 {
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

// TestEventWay: events are known by perf's names, and by number.
func TestEventWay(t *testing.T) {
	for _, tt := range []struct {
		name   string
		typ    uint32
		config uint64
		unit   string
		period uint64 // at 1000 Hz, on a processor of 3 GHz
	}{
		{"cycles", unix.PERF_TYPE_HARDWARE, 0, "cycles", 3_000_000},
		{"cache-misses", unix.PERF_TYPE_HARDWARE, 3, "events", 100_003},
		{"cpu-clock", unix.PERF_TYPE_SOFTWARE, 0, "ns", 1_000_000},
		{"page-faults", unix.PERF_TYPE_SOFTWARE, 2, "events", 1},
		{"r1c2", unix.PERF_TYPE_RAW, 0x1c2, "events", 100_003},
	} {
		w, err := eventNamed(tt.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if a := samplerAttr(w, 7, false); a.Type != tt.typ || a.Config != tt.config || w.unit != tt.unit || w.event != tt.name || w.eventPeriod(1000, 3000) != tt.period {
			t.Errorf("%s: %+v, period %d", tt.name, w, w.eventPeriod(1000, 3000))
		}
	}
	for _, name := range []string{"", "r", "rxyz", "nonsense", "r11111111111111111"} {
		if _, err := eventNamed(name); !errors.Is(err, ErrEvent) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestRecordEvent: each page fault is a sample, and the event is counted all the time.
func TestRecordEvent(t *testing.T) {
	exe := build(t, "a")
	c, stats := run(t, Options{Command: []string{exe}, Events: []string{"page-faults"}})
	if c.Event != (sample.Event{Name: "page-faults", Period: 1, Unit: "events"}) || c.Total < 50 || c.Weight != c.Total {
		t.Errorf("%d samples, weight %d, of %+v", c.Total, c.Weight, c.Event)
	}
	if stats.Times[0].Enabled == 0 || float64(stats.Times[0].Running) < 0.9*float64(stats.Times[0].Enabled) || !stats.Chosen {
		t.Errorf("%+v", stats)
	}
	if _, _, err := Record(context.Background(), Options{Command: []string{exe}, Events: []string{"nonsense"}}); !errors.Is(err, ErrEvent) {
		t.Error(err)
	}
}

// TestRecordEvents: several events are sampled at once, each with its own samples, also of threads that begin meanwhile.
func TestRecordEvents(t *testing.T) {
	exe := build(t, "a")
	rec, stats, err := Record(t.Context(), Options{Command: []string{exe, "tree", "200"}, Events: []string{"cpu-clock", "page-faults", "minor-faults"}})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*sample.Counts{}
	for _, c := range rec.Counts {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		byName[c.Event.Name] = c
	}
	clock, faults, minor := byName["cpu-clock"], byName["page-faults"], byName["minor-faults"]
	if len(rec.Counts) != 3 || clock == nil || faults == nil || minor == nil {
		t.Fatalf("counts of %d events", len(rec.Counts))
	}
	if d := float64(faults.Total) / float64(minor.Total); faults.Total < 20 || d < 0.98 || d > 1.02 { // none is read from a disk
		t.Errorf("%d page faults, %d minor ones", faults.Total, minor.Total)
	}
	if testtool.Prebuilt() == "" { // an emulated processor may be late with every second interrupt
		near(t, "processor time of samples", float64(clock.Weight), float64(stats.Command.UserTime()), 0.25)
	}
	if len(stats.Times) != 3 || stats.Times[1].Name != "page-faults" || stats.Times[1].Counted < faults.Total {
		t.Errorf("times %v", stats.Times)
	}
	for _, events := range [][]string{{"cpu-clock", "cpu-clock"}, {"cpu-clock", "ptrace-clock"}, {"cpu-clock", "nonsense"}} {
		if _, _, err := Record(t.Context(), Options{Command: []string{exe}, Events: events}); !errors.Is(err, ErrEvent) {
			t.Errorf("%q: %v, want an error about the events", events, err)
		}
	}
}
