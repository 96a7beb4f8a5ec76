package input

import (
	"math/rand/v2"
	"testing"
)

// TestBoundOf: with the bound, no host has more than its share, and the largest has just that.
func TestBoundOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		counts := make([]float64, 1+rng.IntN(20))
		least := 1e9
		for i := range counts {
			counts[i] = float64(1 + rng.IntN(1000)*rng.IntN(1000))
			least = min(least, counts[i])
		}
		most := 0.02 + rng.Float64()*0.9
		b := boundOf(counts, most)
		sum, largest := 0.0, 0.0
		for _, n := range counts {
			sum += min(n, b)
			largest = max(largest, min(n, b))
		}
		switch enough := float64(len(counts))*most >= 1; {
		case !enough && b != least:
			t.Errorf("%v: bound %g of too few hosts, want %g", counts, b, least)
		case enough && largest > most*sum*(1+1e-9):
			t.Errorf("%v: bound %g leaves one host %g of %g, more than %g", counts, b, largest, sum, most)
		case enough && b < largest*(1-1e-9):
			t.Errorf("%v: bound %g", counts, b)
		}
	}
	if boundOf(nil, 0.1) != 0 {
		t.Error("a bound of no hosts")
	}
}
