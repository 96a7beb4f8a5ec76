package infer

import (
	"math"
	"testing"

	"backfeed/infer/image"
)

// visitedBy makes a problem of a procedure with two ways, of which one takes most of the
// samples, and as many visits of each block as rate says.
func visitedBy(par *params, scale, rate float64) *problem {
	const each = 0.01 // samples of an execution, by the model
	samples := []uint64{uint64(100 * scale), uint64(100 * scale), uint64(5000 * scale), uint64(100 * scale)}
	q := newProblem(graph("a4>b,c b4>d c4>d d4"), samples, func(*image.Block) float64 { return each }, par)
	if rate > 0 {
		for b, share := range []float64{1, 0.5, 0.5, 1} {
			q.visits = append(q.visits, visited(b, scale*rate*share))
		}
		q.loosen()
	}
	return q
}

func solveAll(probs ...*problem) {
	pr := newProgram(probs, nil, 0.1)
	pr.solve(make([]float64, pr.at[len(probs)]), false)
}

// TestWalkVisits: visits tell that two ways run equally often where samples say that one runs
// fifty times as often as the other, whatever factor the visits have.
func TestWalkVisits(t *testing.T) {
	par := outOfOrder
	par.hidden = math.Inf(1)
	off := func(q *problem) float64 { return math.Log(q.n[2] / q.n[1]) }
	none := visitedBy(&par, 1, 0)
	solveAll(none)
	for _, rate := range []float64{100, 1e4, 1e6} {
		q := visitedBy(&par, 1, rate)
		solveAll(q)
		if got, was := off(q), off(none); math.Abs(got) > 0.85*math.Abs(was) {
			t.Errorf("%g visits: one out runs e^%.2f times as often as the other, e^%.2f without visits, want e^0", rate, got, was)
		}
	}
}

// TestWalkWays: visits of the blocks that an indirect jump leads to tell how often it goes
// there, and nothing of those that other blocks lead to as well.
func TestWalkWays(t *testing.T) {
	par := outOfOrder
	par.hidden = math.Inf(1)
	const each = 0.01
	solve := func(visits map[int]float64) *problem {
		q := newProblem(graph("a4>b a>c a>d a>e b4>f b>e c4>f c>e d4>e e4>f f4"), []uint64{400, 100, 100, 100, 100, 400}, func(*image.Block) float64 { return each }, &par)
		q.learnMultiways(visits)
		q.loosen()
		solveAll(q)
		return q
	}
	without := solve(nil)
	if len(without.multiways) > 0 {
		t.Fatalf("without visits: %+v", without.multiways)
	}
	q := solve(map[int]float64{0: 40000, 1: 32000, 2: 400, 4: 7600})
	if len(q.multiways) != 1 {
		t.Fatalf("%+v", q.multiways)
	}
	if m := q.multiways[0]; m.went[0] != 8000 || m.went[1] != 100 || m.went[2] != -1 || m.went[3] != -1 || m.rest != 1900 {
		t.Errorf("%+v", m) // block d goes on without a branch, and e is led to by two
	}
	for b, want := range map[int]float64{1: 0.8, 2: 0.01} {
		got, was := q.n[b]/q.n[0], without.n[b]/without.n[0]
		if math.Abs(math.Log(got/want)) > 0.05 || math.Abs(math.Log(was/want)) < 0.5 {
			t.Errorf("block %d runs %.3f times for each jump, %.3f without visits, want %.3f", b, got, was, want)
		}
	}
}

// TestWalkLevel: where the executions of one procedure are known, visits tell how often
// the others run beside it, although their samples say otherwise.
func TestWalkLevel(t *testing.T) {
	par := outOfOrder
	par.hidden = math.Inf(1)
	for _, scale := range []float64{0.1, 1, 10} {
		known := visitedBy(&par, 1, 1000)
		o, _ := Known{N: 7e5, RelSD: 0.02}.executions(0)
		known.known = append(known.known, o)
		other := visitedBy(&par, 1, 1000*scale)
		solveAll(known, other)
		got := math.Log(other.n[0] / known.n[0])
		if want := math.Log(scale); math.Abs(got-want) > 0.6*math.Abs(want)+0.2 {
			t.Errorf("%g times as many visits: e^%.2f times as many executions, want about e^%.2f", scale, got, want)
		}
	}
}
