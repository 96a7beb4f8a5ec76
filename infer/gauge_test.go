package infer

import (
	"math"
	"testing"

	"backfeed/infer/image"
)

// TestGauge: the scale of all costs is that of the procedures with known executions that
// have samples, however far off those are that hardly have any; samples of procedures
// without known executions mean as many executions then.
func TestGauge(t *testing.T) {
	const each = 0.01 // samples of an execution, by the model
	par := outOfOrder
	par.hidden = math.Inf(1)
	for _, tt := range []struct {
		worth float64 // true executions of one of the model's
		quiet float64 // the same of procedures with one sample
	}{{0.5, 0.5}, {0.5, 100}, {2, 0.01}, {1, 50}} {
		var probs []*problem
		add := func(samples uint64, known float64) *problem {
			q := newProblem(graph("a4>b b9>b b>c c5"), []uint64{samples / 10, samples / 10 * 8, samples / 10}, func(*image.Block) float64 { return each }, &par)
			if known > 0 {
				o, _ := Known{N: known, RelSD: 0.05}.executions(0)
				q.known = append(q.known, o)
				q.loosen()
			}
			probs = append(probs, q)
			return q
		}
		for range 4 {
			add(10000, tt.worth*1000/each)
		}
		for range 60 {
			add(10, tt.quiet*1/each)
		}
		rest := add(10000, 0)
		pr := newProgram(probs, nil, par.tieSD)
		pr.solve(make([]float64, pr.at[len(probs)]), false)
		if off := pr.gauge - math.Log(tt.worth); math.Abs(off) > 0.25 {
			t.Errorf("%+v: one is worth %.3f", tt, math.Exp(pr.gauge))
		}
		if off := math.Log(rest.n[0] / (tt.worth * 1000 / each)); math.Abs(off) > 0.4 {
			t.Errorf("%+v: %.3g executions where nothing is known, want %.3g", tt, rest.n[0], tt.worth*1000/each)
		}
	}
}

// TestFarRuns: what windows say pulls no harder from three of its standard deviations on; exact counts of another run do.
func TestFarRuns(t *testing.T) {
	par := outOfOrder
	q := newProblem(graph("a4>b b9>b b>c c5"), []uint64{1000, 8000, 1000}, func(*image.Block) float64 { return 0.01 }, &par)
	pull := func(off, common float64) float64 {
		const sd = 0.3
		q.n[0] = 1000
		q.dn[0] = 0
		o, _ := Known{N: 1000 * math.Exp(-off*sd), RelSD: sd, CommonSD: common}.executions(0)
		q.observe(o)
		return q.dn[0] * q.n[0] * sd // in standard deviations
	}
	for _, tt := range []struct{ off, common, want float64 }{{2, 0.45, 2}, {20, 0.45, 3}, {-20, 0.45, -3}, {20, 0, 20}} {
		if got := pull(tt.off, tt.common); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%v standard deviations off, common %v: a pull of %.3f, want %v", tt.off, tt.common, got, tt.want)
		}
	}
}
