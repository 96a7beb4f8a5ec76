package sample

import (
	"math"
	"strings"
	"testing"
)

// clocked is a recording in which the clock is known of half of the time.
func clocked() *Recording {
	c := NewCounts(CPU{Arch: "x86_64"}, Event{Name: "cpu-clock", Period: 1e6, Unit: "ns"})
	c.AddSample(c.Image(ImageID{Build: id(0xb1, 0xd0), Path: "/app"}), 0x1150, 40)
	c.Weight, c.Clocked, c.Cycles = 40e6, 20e6, 74e6
	return &Recording{Counts: []*Counts{c}}
}

// TestDumpClocked pins what the clock adds to the format.
func TestDumpClocked(t *testing.T) {
	checkDump(t, clocked(), "testdata/clocked.dump")
}

// TestClockAdds: the clock of a sum is the mean over the time, in whatever order it was made; where none is known, none is
// added. It stays what it is if everything is scaled.
func TestClockAdds(t *testing.T) {
	slow, none := clocked(), clocked()
	slow.Counts[0].Clocked, slow.Counts[0].Cycles = 40e6, 80e6
	none.Counts[0].Clocked, none.Counts[0].Cycles = 0, 0
	for _, rs := range [][]*Recording{{clocked(), slow, none}, {none, slow, clocked()}} {
		sum := Merge(rs...).Counts[0]
		if want := (74.0 + 80) / 60; sum.Clocked != 60e6 || math.Abs(sum.Clock()-want) > 1e-9 {
			t.Errorf("%g cycles per ns of %d ns, want %g of 60000000", sum.Clock(), sum.Clocked, want)
		}
	}
	for _, w := range []float64{1e-9, 0.3, 7, 1e12} {
		c := clocked().Scale(w).Counts
		if len(c) == 0 {
			continue
		}
		if err := c[0].Check(); err != nil || w >= 0.3 && math.Abs(c[0].Clock()-3.7) > 1e-6 {
			t.Errorf("%g times as much has a clock of %g: %v", w, c[0].Clock(), err)
		}
	}
}

// TestClockFaults: what is no clock is refused.
func TestClockFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		spot func(c *Counts)
		says string
	}{
		{"no time", func(c *Counts) { c.Clocked = 0 }, "in no time"},
		{"too slow", func(c *Counts) { c.Cycles = c.Clocked / 20 }, "a clock of 0.05"},
		{"too fast", func(c *Counts) { c.Cycles = c.Clocked * 20 }, "a clock of 20"},
		{"of instructions", func(c *Counts) { c.Event.Unit = "instructions" }, `counted in "instructions"`},
	} {
		r := clocked()
		tt.spot(r.Counts[0])
		if err := r.Counts[0].Check(); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

// TestReliability: the part of the time in which an event was counted is that of a sum, and is kept in files and when it is scaled.
func TestReliability(t *testing.T) {
	shared := func(enabled, running uint64) *Recording {
		c := NewCounts(CPU{Arch: "x86_64"}, Event{Name: "cache-misses", Period: 1009, Unit: "events"})
		c.AddSample(c.Image(ImageID{Path: "/app"}), 0x10, 4)
		c.Weight, c.Enabled, c.Running = 4036, enabled, running
		return &Recording{Counts: []*Counts{c}}
	}
	if r, known := Reliability(shared(0, 0).Counts); known {
		t.Errorf("where it is not known, %g", r)
	}
	for _, rs := range [][]*Recording{{shared(3000, 1000), shared(1000, 1000)}, {shared(1000, 1000), shared(3000, 1000)}} {
		sum := Merge(rs...)
		back, err := Decode(sum.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Counts{sum.Counts[0], back.Counts[0], back.Scale(1e3).Counts[0]} {
			if r, known := Reliability([]*Counts{c}); r != 0.5 || !known {
				t.Errorf("counted for %d of %d ns, want half", c.Running, c.Enabled)
			}
		}
	}
	if err := shared(1, 2).Counts[0].Check(); err == nil || !strings.Contains(err.Error(), "counted for 2 of 1 ns") {
		t.Errorf("counted for longer than it was to be: %v", err)
	}
}

// returned is a recording in which it is known how long returns of system calls hold interrupts up.
func returned(calls, cycles uint64) *Recording {
	r := clocked()
	r.Counts[0].Returns, r.Counts[0].Held = calls, cycles
	return r
}

// TestDumpReturns pins what the returns of system calls add to the format.
func TestDumpReturns(t *testing.T) {
	checkDump(t, returned(3000, 4_200_000), "testdata/returns.dump")
}

// TestReturnsAdd: the cycles of a return are the mean over those that were timed, and stay so if everything is scaled.
func TestReturnsAdd(t *testing.T) {
	for _, rs := range [][]*Recording{{returned(100, 10_000), returned(300, 390_000), clocked()}, {clocked(), returned(300, 390_000), returned(100, 10_000)}} {
		sum := Merge(rs...)
		back, err := Decode(sum.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Counts{sum.Counts[0], back.Counts[0], back.Scale(0.3).Counts[0]} {
			if err := c.Check(); err != nil || c.ReturnCycles() != 1000 {
				t.Errorf("%g cycles of %d returns, want 1000: %v", c.ReturnCycles(), c.Returns, err)
			}
		}
	}
	if n := clocked().Counts[0].ReturnCycles(); n != 0 {
		t.Errorf("where it is not known, %g cycles", n)
	}
	cycles := returned(10, 1000)
	cycles.Counts[0].Event.Unit, cycles.Counts[0].Clocked, cycles.Counts[0].Cycles = "cycles", 0, 0
	for _, r := range []*Recording{returned(0, 1), returned(10, 10*MostHeld+10), cycles} {
		if err := r.Counts[0].Check(); err == nil || !strings.Contains(err.Error(), "returns of system calls") {
			t.Errorf("%d cycles in %d returns: %v", r.Counts[0].Held, r.Counts[0].Returns, err)
		}
	}
}
