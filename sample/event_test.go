package sample

import "testing"

// TestEventNames: how an event is sampled is no part of its name, however perf was told.
func TestEventNames(t *testing.T) {
	for _, tt := range []struct {
		name, unsampled, bare string
		timer                 bool
	}{
		{"cycles", "cycles", "cycles", false},
		{"cycles:u", "cycles:u", "cycles", false},
		{"cpu_core/cycles/u", "cpu_core/cycles/u", "cycles", false},
		{"cpu-clock", "cpu-clock", "cpu-clock", true},
		{"cpu-clock/freq=997/", "cpu-clock", "cpu-clock", true},
		{"cpu-clock/freq=997/u", "cpu-clock:u", "cpu-clock", true},
		{"task-clock/period=1000000,call-graph=fp/", "task-clock", "task-clock", true},
		{"page-faults/period=1/", "page-faults", "page-faults", false},
		{"cpu/cycles,freq=99/pp", "cpu/cycles/pp", "cycles", false},
		{"cpu/event=0x3c,umask=0x1,period=1000,no-inherit/", "cpu/event=0x3c,umask=0x1/", "event=0x3c,umask=0x1", false},
		{"cpu/event=0x3c,umask=0x1/", "cpu/event=0x3c,umask=0x1/", "event=0x3c,umask=0x1", false},
		{"sched:sched_switch", "sched:sched_switch", "sched", false},
		{"odd/", "odd/", "", false},
	} {
		if got := UnsampledEvent(tt.name); got != tt.unsampled {
			t.Errorf("UnsampledEvent(%q) = %q, want %q", tt.name, got, tt.unsampled)
		}
		if got := BareEvent(tt.name); got != tt.bare {
			t.Errorf("BareEvent(%q) = %q, want %q", tt.name, got, tt.bare)
		}
		if got := (Event{Name: tt.name}).OfTimer(); got != tt.timer {
			t.Errorf("%q is of a timer: %v", tt.name, got)
		}
	}
}
