package infer

import (
	"math"
	"testing"

	"backfeed/infer/image"
)

// gauged is a program of procedures of a loop each, executions of some of which are known.
type gauged struct {
	par   params
	probs []*problem
}

func newGauged() *gauged {
	g := &gauged{par: outOfOrder}
	g.par.hidden = math.Inf(1)
	return g
}

// gaugedCost is the samples of an execution, by the model.
const gaugedCost = 0.01

// executions returns those of a procedure with so many samples, of which each is worth so much of what the model says.
func (g *gauged) executions(samples uint64, worth float64) float64 {
	return worth * float64(samples) / 10 / gaugedCost
}

// add adds such a procedure; its executions are known if worth is not 0.
func (g *gauged) add(samples uint64, worth float64) *problem {
	q := newProblem(graph("a4>b b9>b b>c c5"), []uint64{samples / 10, samples / 10 * 8, samples / 10}, func(*image.Block) float64 { return gaugedCost }, &g.par)
	if worth > 0 {
		o, _ := Known{N: g.executions(samples, worth), RelSD: 0.05}.executions(0)
		q.known = append(q.known, o)
		q.loosen()
	}
	g.probs = append(g.probs, q)
	return q
}

func (g *gauged) solve() *program {
	pr := newProgram(g.probs, nil, g.par.tieSD)
	pr.solve(make([]float64, pr.at[len(g.probs)]), false)
	return pr
}

// TestGauge: the scale of all costs is that of the procedures with known executions that
// have samples, however far off those are that hardly have any; samples of procedures
// without known executions mean as many executions then.
func TestGauge(t *testing.T) {
	for _, tt := range []struct {
		worth float64 // true executions of one of the model's
		quiet float64 // the same of procedures with one sample
	}{{0.5, 0.5}, {0.5, 100}, {2, 0.01}, {1, 50}} {
		g := newGauged()
		for range 4 {
			g.add(10000, tt.worth)
		}
		for range 60 {
			g.add(10, tt.quiet)
		}
		rest := g.add(10000, 0)
		pr := g.solve()
		if off := pr.gauge - math.Log(tt.worth); math.Abs(off) > 0.25 {
			t.Errorf("%+v: one is worth %.3f", tt, math.Exp(pr.gauge))
		}
		if off := math.Log(rest.n[0] / g.executions(10000, tt.worth)); math.Abs(off) > 0.4 {
			t.Errorf("%+v: %.3g executions where nothing is known, want %.3g", tt, rest.n[0], g.executions(10000, tt.worth))
		}
	}
}

// TestGaugeFew: the scale hardly follows one procedure alone, or some that differ as much as they can, of whatever samples.
func TestGaugeFew(t *testing.T) {
	for _, tt := range []struct {
		worth []float64 // of procedures with known executions
		least float64   // that one is worth
	}{
		{[]float64{0.02}, 0.4},
		{[]float64{0.02, 1}, 0.7},
		{[]float64{0.02, 1, 0.02, 1}, 0.6},
	} {
		g := newGauged()
		for _, worth := range tt.worth {
			g.add(90000/uint64(len(tt.worth)), worth)
		}
		rest := g.add(10000, 0)
		pr := g.solve()
		if is := math.Exp(pr.gauge); is < tt.least || is > 1.1 {
			t.Errorf("%v: one is worth %.3f, want %v to 1", tt.worth, is, tt.least)
		}
		if n, usual := rest.n[0], g.executions(10000, 1); n < tt.least*usual*0.8 || n > usual*1.4 {
			t.Errorf("%v: %.3g executions where nothing is known, want %.3g or a little less", tt.worth, n, usual)
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

// TestCountedOutweighFew: a caller with two samples does not say how often a procedure runs whose executions were counted, and follows these.
func TestCountedOutweighFew(t *testing.T) {
	const want = 1500
	few, callee := newResult(graph("a4!")), newResult(graph("a4>b a>c b9>b b>c c5!"))
	few.BlockSamples[0], few.Samples = 2, 2 // 2M executions, by them alone
	callee.BlockSamples[1], callee.Samples = 5000, 5000
	pr := pose([]*Result{few, callee}, testCost, timerParams(true), func(pr *posed) {
		q := pr.of[callee]
		o, _ := Known{N: want, RelSD: 0.23, CommonSD: 0.45}.executions(0)
		q.known = append(q.known, o)
		q.loosen()
	})
	pr.ties = []tie{{callee: 1, sites: []site{{q: pr.probs[0], out: -1, share: 1}}, sd: pr.tieSD, above: pr.tieSD}}
	pr.run(false)
	if n := callee.Entries.N; math.Abs(math.Log(n/want)) > math.Log(3) {
		t.Errorf("entered %.3g times, counted %d", n, want)
	}
	if n := few.Entries.N; math.Abs(math.Log(n/callee.Entries.N)) > math.Log(2) {
		t.Errorf("its one caller ran %.3g times, it %.3g", n, callee.Entries.N)
	}
}
