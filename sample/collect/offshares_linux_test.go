package collect

import (
	"testing"

	"backfeed/sample"
)

// TestOffBuffers: a stack that is read before the total that it is a part of is of that all the same, whatever else was counted
// of its place.
func TestOffBuffers(t *testing.T) {
	key := sampledPC{IP: 0x1000, PID: 7, Slice: 3}
	queued := key
	queued.Event = offRunnable
	stack := func(waited, queued uint64) offStack {
		return offStack{offOutcome: offOutcome{Waited: waited, Queued: queued, Counts: 1}, call: call{sampledPC: key}, pcs: []uint64{0x2000}}
	}
	const ms = 1e6
	for _, tt := range []struct {
		name  string
		takes []offTaken
	}{
		{"in one take", []offTaken{
			{totals: map[sampledPC]offTotal{key: {NS: 100 * ms, Times: 1}, queued: {NS: 2 * ms, Times: 1}}, stacks: []offStack{stack(100*ms, 2*ms)}},
		}},
		{"in the next", []offTaken{
			{totals: map[sampledPC]offTotal{}, stacks: []offStack{stack(100*ms, 2*ms)}},
			{totals: map[sampledPC]offTotal{key: {NS: 100 * ms, Times: 1}, queued: {NS: 2 * ms, Times: 1}}},
		}},
		{"one in each, with both stacks in the first", []offTaken{
			{totals: map[sampledPC]offTotal{key: {NS: 100 * ms, Times: 1}}, stacks: []offStack{stack(100*ms, 0), stack(50*ms, 0)}},
			{totals: map[sampledPC]offTotal{key: {NS: 50 * ms, Times: 1}}},
		}},
		{"the wait in the next, and another's queue in the first", []offTaken{
			{totals: map[sampledPC]offTotal{queued: {NS: 3 * ms, Times: 2}}, stacks: []offStack{stack(0, 1*ms), stack(100*ms, 2*ms)}},
			{totals: map[sampledPC]offTotal{key: {NS: 100 * ms, Times: 1}}},
		}},
	} {
		o := &offCPU{}
		for i, taken := range tt.takes {
			var want, got uint64
			for _, total := range taken.totals {
				want += total.NS / sample.OffPeriod
			}
			taken.stacks = append(o.waiting, taken.stacks...)
			o.waiting = nil
			all, _ := o.samples(taken)
			for _, p := range all {
				if p.unwound {
					got += p.n
				}
			}
			if got != want {
				t.Errorf("%s: take %d: %d of %d us have a stack", tt.name, i, got, want)
			}
		}
		if len(o.waiting) > 0 {
			t.Errorf("%s: %d stacks wait still", tt.name, len(o.waiting))
		}
	}
}
