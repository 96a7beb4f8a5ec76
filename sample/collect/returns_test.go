package collect

import (
	"testing"

	"backfeed/sample"
)

// TestWeighReturns: samples of timers, and they alone, are told how long returns hold them up.
func TestWeighReturns(t *testing.T) {
	m := &clockMeter{returns: returnMeter{seen: returnsSeen{calls: 1000, held: 150, added: 100}}}
	for name, want := range map[string]float64{"cpu-clock": 1.5 * callLength, "task-clock:u": 1.5 * callLength, "tick": 1.5 * callLength, "ptrace-clock": 0, "cycles": 0} {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: name, Period: 1000, Unit: "ns"})
		if m.weigh(c); c.ReturnCycles() != want {
			t.Errorf("%s: returns hold up for %g cycles, want %g", name, c.ReturnCycles(), want)
		}
	}
	for _, few := range []returnsSeen{{}, {calls: 1000}, {calls: 1000, held: 50}, {calls: 1000, held: 9, added: 10}} {
		if calls, held := few.cycles(); calls != 0 || held != 0 {
			t.Errorf("%+v tell of %d calls, %d cycles", few, calls, held)
		}
	}
}
