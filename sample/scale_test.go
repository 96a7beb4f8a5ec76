package sample

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// TestScale: scaled recordings are recordings, their totals scaled to within one.
func TestScale(t *testing.T) {
	for seed := range uint64(100) {
		r := random(rand.New(rand.NewPCG(seed, 2)), 8)
		before := r.Encode()
		for _, w := range []float64{0.01, 0.5, 1, 3.7} {
			s := r.Scale(w)
			check(t, s)
			if again := r.Scale(w).Encode(); !bytes.Equal(again, s.Encode()) {
				t.Fatalf("seed %d: twice by %v, and other bytes", seed, w)
			}
			if got, want := float64(s.Samples()), float64(r.Samples())*w; math.Abs(got-want) > float64(len(r.Counts)) {
				t.Errorf("seed %d: %v samples by %v, want %v", seed, got, w, want)
			}
		}
		if !bytes.Equal(r.Encode(), before) {
			t.Fatalf("seed %d: Scale changed its argument", seed)
		}
	}
}

// TestNormalise: recordings of an event get equally many samples of it, in sum as
// many as they had, whatever their order; what only one has stays.
func TestNormalise(t *testing.T) {
	recording := func(n map[string]uint64) *Recording {
		r := &Recording{}
		for event, k := range n {
			c := NewCounts(CPU{}, Event{Name: event})
			i := c.Image(ImageID{Path: "/bin/a"})
			c.AddSample(i, 1, k/4)
			c.AddSample(i, 2, k-k/4)
			c.Lose(LostKernel, k)
			r.Add(c)
		}
		return r
	}
	long, short := recording(map[string]uint64{"cycles": 1000, "tick": 7}), recording(map[string]uint64{"cycles": 30})
	unplaced := &Recording{}
	lone := NewCounts(CPU{}, Event{Name: "cycles"})
	lone.Lose(LostKernel, 5)
	unplaced.Add(lone)
	out := Normalise([]*Recording{long, short, unplaced})
	for i, want := range []map[string]uint64{{"cycles": 515, "tick": 7}, {"cycles": 515}, {"cycles": 0}} {
		check(t, out[i])
		for _, c := range out[i].Counts {
			var n uint64
			for _, ic := range c.Images {
				n += ic.Samples()
			}
			if n != want[c.Event.Name] {
				t.Errorf("recording %d: %d samples of %s, want %d", i, n, c.Event.Name, want[c.Event.Name])
			}
		}
	}
	if again := Normalise([]*Recording{unplaced, short, long}); !bytes.Equal(again[2].Encode(), out[0].Encode()) {
		t.Error("another order gives other bytes")
	}
}
