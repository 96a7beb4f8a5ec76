package infer

import (
	"math"
	"testing"

	"backfeed/infer/image"
)

// TestSightings: what walks and windows hardly met is no more than an upper bound, whatever its standard deviation is.
func TestSightings(t *testing.T) {
	par := outOfOrder
	par.risks = false
	q := newProblem(graph("a9>b a>c b9>d c9>d d9!"), []uint64{1000, 0, 900, 1000}, func(b *image.Block) float64 { return 1e-3 }, &par)
	q.n = []float64{1e5, 100, 1e5, 1e5}
	for _, visits := range []float64{2, 40} {
		q.visits = []observation{visited(0, 1000*visits), visited(1, visits)}
		if got, few := q.evidence()[1], visits/visitClump < hardlySeen; (got == Low) != few {
			t.Errorf("%g visits: at most %v", visits, got)
		}
	}
	q.visits = nil
	for _, sd := range []float64{0.4, 0.1} { // about 6 and 100 executions that were met
		q.known = []observation{{block: 1, out: -1, logN: math.Log(100), sd: sd, real: true}}
		if got := q.evidence()[1]; (got == Low) != (sd > 0.2) {
			t.Errorf("known to %g: at most %v", sd, got)
		}
	}
	if got := q.evidence()[2]; got != High {
		t.Errorf("900 samples: at most %v", got)
	}
	q.n = []float64{1, 0, 0.02, 1}
	if got := q.evidence()[2]; got != Low {
		t.Errorf("900 samples of what is thought not to have run: at most %v", got)
	}
}
