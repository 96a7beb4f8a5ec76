package infer

import (
	"math"
	"testing"
)

// TestOmega: w + log(w) = y on all pieces of omega and at their joints.
func TestOmega(t *testing.T) {
	for y := -200.0; y < 300; y += 0.0137 {
		w := omega(y)
		if off := (w + math.Log(w) - y) * w / (1 + w); !(math.Abs(off) < 1e-7*w) { // off w by Newton's method
			t.Fatalf("omega(%g) = %g, off by %g", y, w, off)
		}
		if z := math.Exp(min(y, 100)); !near(lambert(z), omega(min(y, 100)), 1e-7) {
			t.Fatalf("lambert(%g) = %g, omega of its logarithm %g", z, lambert(z), omega(y))
		}
	}
	for _, y := range []float64{1e4, 1e9} {
		if w := omega(y); !near(w+math.Log(w), y, 1e-12) {
			t.Errorf("omega(%g) = %g", y, w)
		}
	}
	if w := lambert(0); w != 0 {
		t.Errorf("lambert(0) = %g", w)
	}
}

// TestExplain holds explain to the minimum that it is said to be, and its mean to the
// slope of that minimum.
func TestExplain(t *testing.T) {
	for _, hidden := range []float64{math.Inf(1), 1.4} {
		testExplain(t, hidden)
	}
}

func testExplain(t *testing.T, hidden float64) {
	p := graph("a4>b b9!")
	for _, s := range []uint64{0, 1, 7, 4000} {
		par := outOfOrder
		par.hidden = hidden
		q := newProblem(p, []uint64{s, 0}, plainCost(nil), &par)
		const c = 0.3
		q.expect([]float64{c, 0})
		k := q.invVar[0]
		explained := func(lam float64) (mean, value float64) {
			of := []float64{0}
			value = explain(q.weigh[:1], []float64{lam}, of, 0)
			return of[0], value
		}
		value := func(lam float64) float64 {
			_, v := explained(lam)
			return v
		}
		objective := func(lam, u float64) float64 {
			v, _ := huber((u-c)*math.Sqrt(k), hidden)
			if u > c {
				v = k * (u - c) * (u - c) / 2
			}
			return lam*math.Exp(u) - float64(s)*(math.Log(lam)+u) + v
		}
		shift := value(1) // explain's own constant
		for i, lam := range []float64{1, 1e-3, 0.5, 30, 5000} {
			mean, v := explained(lam)
			u := math.Log(mean / lam)
			if i == 0 {
				shift -= objective(lam, u)
			}
			if least := objective(lam, u); !near(v-shift, least, 1e-6) || objective(lam, u-1e-2) < least || objective(lam, u+1e-2) < least {
				t.Errorf("%d samples, %g expected: slack %g, value %g, want %g", s, lam, u, v-shift, least)
			}
			slope := (value(lam*1.001) - value(lam*0.999)) / (0.002 * lam)
			if !near(slope, (mean-float64(s))/lam, 1e-3) {
				t.Errorf("%d samples, %g expected: slope %g, want %g", s, lam, slope, (mean-float64(s))/lam)
			}
		}
	}
}
