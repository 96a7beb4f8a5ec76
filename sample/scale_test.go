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
