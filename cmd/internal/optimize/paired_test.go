package optimize

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ratios []float64
		want   Comparison
	}{
		{"one pair", []float64{.8}, Comparison{1, .8, .8, .8}},
		{"odd", []float64{.9, .7, .8}, Comparison{3, .8, .7, .9}},
		{"even", []float64{1, 2, 3, 4}, Comparison{4, 2.5, 1, 4}},
		{"nine: one off each end", []float64{9, 1, 2, 3, 4, 5, 6, 7, 8}, Comparison{9, 5, 2, 8}},
	} {
		if got := Compare(tt.ratios); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestSureOf compares with tables of the sign test, as in Conover, Practical
// Nonparametric Statistics.
func TestSureOf(t *testing.T) {
	for n, want := range map[int]int{1: 0, 5: 0, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 16: 3, 20: 5, 25: 7} {
		if got := sureOf(n); got != want {
			t.Errorf("of %d: %d, want %d", n, got, want)
		}
	}
}

// TestCompareCovers: the interval holds the truth as often as it says.
func TestCompareCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const trials = 2000
	inside := 0
	for range trials {
		ratios := make([]float64, 16)
		for i := range ratios {
			ratios[i] = math.Exp(.05 * r.NormFloat64()) // median 1
		}
		if c := Compare(ratios); c.Low <= 1 && 1 <= c.High {
			inside++
		}
	}
	if share := float64(inside) / trials; share < .95 {
		t.Errorf("%.3f of the intervals hold the true median, want 0.95", share)
	}
}
