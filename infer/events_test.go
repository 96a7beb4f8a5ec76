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
