package infer

import (
	"testing"

	"backfeed/sample"
)

// TestPreciseEvent: what perf calls precise is so if a counter counts it.
func TestPreciseEvent(t *testing.T) {
	for _, tt := range []struct {
		name, unit string
		want       bool
	}{
		{"cycles", "cycles", false},
		{"cycles:u", "cycles", false},
		{"cycles:pp", "cycles", true},
		{"cycles:upp", "cycles", true},
		{"cpu_core/cycles/p", "cycles", true},
		{"vendor:cpu_clk_unhalted.thread_p", "cycles", false},
		{"cpu-clock:ppp", "ns", false},
	} {
		if got := PreciseEvent(sample.Event{Name: tt.name, Unit: tt.unit}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestNeedsCounter: events of the kernel's own need no counter of the processor.
func TestNeedsCounter(t *testing.T) {
	for name, want := range map[string]bool{
		"cycles": true, "cycles:u": true, "cpu_core/cycles/pp": true, "ex_ret_ops:ppu": true, "raw 0x20c4": true, "mem:0x4011f0": true, "cpu/event=0xc0,umask=1/": true,
		"page-faults": false, "page-faults:u": false, "context-switches": false, "sched:sched_switch": false, "sigfpe:divide": false,
	} {
		if got := NeedsCounter(sample.Event{Name: name, Unit: "events"}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if NeedsCounter(sample.Event{Name: "cpu-clock", Unit: "ns"}) {
		t.Error("time needs a counter")
	}
}
