package agent

import (
	"testing"
	"time"
)

// TestBudget: the rate after intervals of 10 s on two processors. The limit of
// 1 % is 200 ms of each.
func TestBudget(t *testing.T) {
	const ms = time.Millisecond
	at := func(hz int, own time.Duration) spending {
		return spending{own: own, samples: uint64(hz * 20), machine: 20 * time.Second}
	}
	for _, tt := range []struct {
		name   string
		most   int
		stolen time.Duration
		spent  []spending
		want   int
	}{
		{"nothing spent yet", 199, 20 * time.Microsecond, nil, 199},
		{"nothing spent yet, far too fast", 9999, 20 * time.Microsecond, nil, 500},
		{"well below the limit", 199, 20 * time.Microsecond, []spending{at(199, 10*ms)}, 199},
		{"cheap samples", 9999, time.Microsecond, []spending{at(9999, 0)}, 9999},
		{"dear samples", 199, 100 * time.Microsecond, []spending{at(99, 0)}, 100},
		{"own time counts", 9999, 20 * time.Microsecond, []spending{at(100, 60*ms), at(100, 60*ms)}, 440},
		{"what runs at switches counts as much", 9999, 20 * time.Microsecond, []spending{
			{own: 10 * ms, switches: 50 * ms, samples: 2000, machine: 20 * time.Second}, {own: 10 * ms, switches: 50 * ms, samples: 2000, machine: 20 * time.Second}}, 440},
		{"a lump is paid back", 997, 20 * time.Microsecond, []spending{at(400, 640*ms)}, 75},
		{"a small lump is paid back over minutes", 997, 20 * time.Microsecond, []spending{at(400, 100*ms)}, 435},
		{"and then forgotten in part", 400, 20 * time.Microsecond, []spending{at(400, 640*ms), at(1, 0), at(1, 0), at(1, 0), at(1, 0)}, 300},
		{"nothing is saved up", 9999, 20 * time.Microsecond, []spending{at(1, 0), at(1, 0), at(1, 0)}, 500},
		{"own time alone breaks the limit", 199, 20 * time.Microsecond, []spending{at(1, 900*ms), at(1, 900*ms), at(1, 900*ms)}, 1},
		{"no time went by", 199, 20 * time.Microsecond, []spending{{own: time.Second}}, 199},
	} {
		b := &budget{limit: 0.01, events: 1, most: tt.most, stolen: tt.stolen, window: 20 * time.Minute}
		got := b.rate()
		for _, s := range tt.spent {
			got = b.next(s)
		}
		if got < tt.want-1 || got > tt.want {
			t.Errorf("%s: %d Hz, want %d", tt.name, got, tt.want)
		}
	}
}

// TestBudgetHopeless: the agent's own time is beyond the limit for good, or for a
// moment.
func TestBudgetHopeless(t *testing.T) {
	for name, n := range map[string]int{"for good": 1000, "for a moment": 10} {
		b := &budget{limit: 0.001, events: 1, most: 199, stolen: 20 * time.Microsecond, window: 20 * time.Minute}
		for range n {
			b.next(spending{own: 20 * time.Millisecond, samples: 10, machine: 10 * time.Second})
		}
		if b.hopeless() != (name == "for good") {
			t.Errorf("%s: hopeless is %v, with %v to be paid", name, b.hopeless(), b.debt())
		}
	}
}

// TestBudgetKeeps: whatever the agent itself needs, the average over an hour of the
// machine stays below the limit but for the debt that is still to be paid, as long as
// that need alone does.
func TestBudgetKeeps(t *testing.T) {
	for name, own := range map[string]func(i int) time.Duration{
		"steady": func(int) time.Duration { return 10 * time.Millisecond },
		"lumps":  func(i int) time.Duration { return time.Duration(i%60/59) * 1500 * time.Millisecond },
		"start":  func(i int) time.Duration { return time.Duration(1/(i+1)) * 2 * time.Second },
		"rising": func(i int) time.Duration { return time.Duration(i) * 100 * time.Microsecond },
	} {
		b := &budget{limit: 0.01, events: 1, most: 9999, stolen: 20 * time.Microsecond, window: 20 * time.Minute}
		var spent, machine time.Duration
		hz := b.rate()
		for i := range 900 {
			s := spending{own: own(i), samples: uint64(hz) * 4, machine: 4 * time.Second}
			spent, machine = spent+b.total(s), machine+s.machine
			hz = b.next(s)
		}
		if share := float64(spent-b.debt()) / float64(machine); share > 0.01 || share < 0.008 {
			t.Errorf("%s: %.2f %% of the machine, want nearly 1 %%", name, 100*share)
		}
	}
}

// TestBudgetSegments: a second to write a segment, every 5 minutes of two processors, lets the rate
// as it is; twenty seconds do not.
func TestBudgetSegments(t *testing.T) {
	for lump, kept := range map[time.Duration]bool{time.Second: true, 20 * time.Second: false} {
		b := &budget{limit: 0.01, events: 1, most: 199, stolen: 20 * time.Microsecond, window: 20 * time.Minute}
		hz, least := b.rate(), 199
		for i := range 1000 {
			s := spending{own: 8 * time.Millisecond, samples: uint64(hz) * 8, machine: 8 * time.Second}
			if i%75 == 74 {
				s.own += lump
			}
			hz = b.next(s)
			least = min(least, hz)
		}
		if (least == 199) != kept {
			t.Errorf("%v for a segment: the rate falls to %d Hz", lump, least)
		}
	}
}
