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

// TestWalkWays: visits of the blocks that an indirect jump leads to tell how often it goes to each beside the others, and
// nothing of those that other blocks lead to as well: the rest of its visits is the most that these can have.
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
		if math.Abs(math.Log(got/want)) > 0.1 || math.Abs(math.Log(was/want)) < 0.5 {
			t.Errorf("block %d runs %.3f times for each jump, %.3f without visits, want %.3f", b, got, was, want)
		}
	}
	// Walks end at some jumps whose targets they cannot tell.
	ended := solve(map[int]float64{0: 400000, 1: 32000, 2: 400, 4: 7600})
	if got, want := ended.n[2]/ended.n[1], 1./80; math.Abs(math.Log(got/want)) > 0.05 {
		t.Errorf("where most walks end at the jump, one target is reached %.4f times as often as the other, want %.4f", got, want)
	}
	for _, m := range []multiway{q.multiways[0], ended.multiways[0]} {
		share := m.rest / (8100 + m.rest)
		var before float64
		for i, rest := range []float64{share * (1 - 1e-9), share * (1 + 1e-9), (1 + share) / 2, 0.5 * share} {
			v := valueOf(q, &m, rest)
			switch {
			case i == 1 && math.Abs(v-before) > 1e-3:
				t.Errorf("of a rest of %.4f the value jumps from %g to %g", share, before, v)
			case i == 2 && v < before+1:
				t.Errorf("a rest of far more than %.4f is as likely: %g after %g", share, v, before)
			case i == 3 && math.Abs(v-before) > 1e-3:
				t.Errorf("a rest of half of %.4f: %g, want %g as at its whole", share, v, before)
			}
			if i < 2 {
				before = v
			}
		}
	}
}

// valueOf is what a multiway says if its known targets have the shares that it saw of all but rest.
func valueOf(q *problem, m *multiway, rest float64) float64 {
	var known, unknown float64
	for _, went := range m.went {
		known, unknown = known+max(went, 0), unknown+min(went, 0)
	}
	for i, went := range m.went {
		p := (1 - rest) * went / known
		if went < 0 {
			p = rest * went / unknown
		}
		q.prob[int(q.flow.first[m.block])+i] = p
	}
	return q.observeMultiways(m)
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

// TestVisitsAndSamples: beside a procedure with known executions, visits and samples of another one count about alike, of however many
// blocks its samples are.
func TestVisitsAndSamples(t *testing.T) {
	par := outOfOrder
	par.hidden = math.Inf(1)
	const each, n, visits = 0.01, 1e5, 1000
	problemOf := func(code string, blocks int, times float64) *problem {
		samples := make([]uint64, blocks)
		for b := range samples {
			samples[b] = uint64(times * n * each)
		}
		q := newProblem(graph(code), samples, func(*image.Block) float64 { return each }, &par)
		for b := range blocks {
			q.visits = append(q.visits, visited(b, visits))
		}
		return q
	}
	for _, times := range []float64{1. / 3, 1, 3} {
		known := problemOf("a9>b b9", 2, 1)
		o, _ := Known{N: n, RelSD: 0.02}.executions(0)
		known.known = append(known.known, o)
		known.loosen()
		other := problemOf("a9>b b9>c c9>d d9>e e9>f f9>g g9>h h9", 8, times)
		solveAll(known, other)
		got, most := math.Log(other.n[0]/n), math.Log(times)
		if math.Abs(got-most/2) > 0.3*math.Abs(most)+0.1 {
			t.Errorf("%.2f times as many samples, as many visits: %.2f times as many executions", times, math.Exp(got))
		}
	}
}

// TestRareVisits: visits of blocks that seldom run, one behind the other, are of the same walks. Where they come to a third of their executions
// too often, as three times as many, that is put right there, and not by what runs 250 times as often.
func TestRareVisits(t *testing.T) {
	par := outOfOrder
	par.hidden = math.Inf(1)
	const each, n, visits, rare, times = 0.01, 1e5, 10000, 40, 3
	solve := func(known bool) (hot float64) {
		q := newProblem(graph("a9>a a>b b4>c c4>d d4>e e4>f f4>g g4"), []uint64{n * each, 1, 1, 1, 1, 1, 1}, func(*image.Block) float64 { return each }, &par)
		q.visits = append(q.visits, visited(0, visits))
		for b := 1; b < 7; b++ {
			q.visits = append(q.visits, visited(b, rare))
		}
		q.weighVisits()
		if known {
			o, _ := Known{N: n * rare / visits / times, RelSD: 0.05}.executions(3)
			q.known = append(q.known, o)
			q.loosen()
		}
		other := newProblem(graph("a9"), []uint64{n * each}, func(*image.Block) float64 { return each }, &par)
		other.visits = append(other.visits, visited(0, visits))
		o, _ := Known{N: n, RelSD: 0.02}.executions(0)
		other.known = append(other.known, o)
		other.loosen()
		solveAll(q, other)
		return math.Log(q.n[0] / other.n[0])
	}
	without, with := solve(false), solve(true)
	if moved := without - with; math.Abs(moved) > 0.1 {
		t.Errorf("the loop runs %.2f times as often by what is known of a place that it seldom leads to", math.Exp(-moved))
	}
}

// TestVisitsOfArms: where indirect jumps lead to the same blocks, visits alone tell how often each runs: known executions of one that seldom
// does are those of the others, too.
func TestVisitsOfArms(t *testing.T) {
	par := outOfOrder
	par.hidden = math.Inf(1)
	const each, n, visits, rare, times = 0.01, 1e5, 10000, 40, 3
	p := graph("a4>b a>c a>d a>e b4>b b>c b>d b>e c4>b c>c c>d c>e d4>b d>c d>d d>e e4")
	for i := range p.Edges {
		p.Edges[i].Kind = image.Indirect
	}
	q := newProblem(p, []uint64{0, times * n * each, times * n * each, times * n * each * rare / visits, 0}, func(*image.Block) float64 { return each }, &par)
	for b, v := range map[int]float64{1: visits, 2: visits, 3: rare} {
		q.visits = append(q.visits, visited(b, v))
	}
	q.weighVisits()
	o, _ := Known{N: n * rare / visits, RelSD: 0.05}.executions(3)
	q.known = append(q.known, o)
	q.loosen()
	solveAll(q)
	if off := math.Log(q.n[1] / n); off > 0.5*math.Log(times) {
		t.Errorf("an arm runs %.2f times as often as visits and what is known of another say", math.Exp(off))
	}
}

// TestKnownLevel: what executions are of visits is told by procedures with known executions, the more the more of the samples these
// have; by the others, too, where they have next to none.
func TestKnownLevel(t *testing.T) {
	for _, tt := range []struct{ samples, want float64 }{{0, 0}, {10, 0.54}, {gaugeShare * 1000 / (1 - gaugeShare) / 2, 1.65}, {1000, 2.87}} {
		all := visitTolds{{factor: 0, samples: 1000}, {factor: 2, samples: tt.samples, counted: true}, {factor: 4, samples: tt.samples, counted: true}}
		switch got, ok := all.level(); {
		case !ok:
			t.Errorf("of %g samples of what is known: nothing", tt.samples)
		case math.Abs(got-tt.want) > 0.01:
			t.Errorf("of %g samples of what is known: %.2f, want about %.2f", tt.samples, got, tt.want)
		}
	}
	if level, ok := (visitTolds{{factor: 2}}).level(); ok {
		t.Errorf("of no samples: %g", level)
	}
	if level, ok := (visitTolds{{factor: 2, samples: 10, counted: true}}).level(); !ok || level != 2 {
		t.Errorf("of one that is known: %g, %v", level, ok)
	}
}

// TestSharesCompared: a share that visits of the same branch contradict is as unsure as it is off them; one that they
// confirm, or say nothing of, is left as it is.
func TestSharesCompared(t *testing.T) {
	for _, tt := range []struct {
		name   string
		visits map[int]float64 // by block of a loop b that leads on to c
		same   bool
		sd     float64 // of the logit
	}{
		{"none", nil, true, 0},
		{"of the branch alone", map[int]float64{1: 1e5}, false, math.Log(1e5/visitClump/0.5) - math.Log(0.65/0.35)}, // c was never met
		{"agree", map[int]float64{1: 1e5, 2: 0.35e5}, true, 0},
		{"a few, by chance", map[int]float64{1: 20, 2: 11}, true, 0},
		{"contradict", map[int]float64{1: 1e5, 2: 0.62e5}, false, math.Log(0.65/0.35) - math.Log(0.38/0.62)},
	} {
		q := newProblem(graph("a4>b b4>c b>b c4!"), []uint64{1, 1000, 1}, func(*image.Block) float64 { return 0.01 }, &outOfOrder)
		o, ok := Known{Taken: 0.65, TakenSD: 0.028}.share(q, 1)
		if !ok {
			t.Fatal("no share")
		}
		q.known = append(q.known, o)
		q.compareShares(tt.visits)
		got := q.known[0]
		if same := got == o; same != tt.same {
			t.Errorf("visits %s: share of %.0f executions becomes one of %.1f", tt.name, o.of, got.of)
		}
		if share := got.part / got.of; math.Abs(share-0.65) > 1e-9 {
			t.Errorf("visits %s: a share of %.3f, want 0.65", tt.name, share)
		}
		if sd := math.Sqrt(1 / (got.of * 0.65 * 0.35)); !tt.same && math.Abs(sd/tt.sd-1) > 0.1 {
			t.Errorf("visits %s: its logit has a standard deviation of %.2f, want %.2f", tt.name, sd, tt.sd)
		}
	}
}

// TestVisitVariance: how far visits may be off from procedure to procedure is what they and samples differ by, beyond chance and
// beyond what samples are off by.
func TestVisitVariance(t *testing.T) {
	even := func(n int, apart, samples float64) (all visitTolds) {
		for i := range n {
			all = append(all, visitTold{factor: apart * float64(1-i%2*2), samples: samples, visits: samples})
		}
		return all
	}
	start := append(even(50, 0, 1000), visitTold{factor: -4, samples: 50, visits: 5000}) // what runs at first, in a tenth of all visits
	scaled := even(40, 0, 1000)
	for i := range scaled[:20] {
		scaled[i].counted, scaled[i].factor = true, 3
	}
	const before = visitLevelSD
	for _, tt := range []struct {
		what     string
		of       visitTolds
		from, to float64 // of the standard deviation
	}{
		{"one procedure", even(1, 0, 1000), before, before},
		{"two that are counted by themselves", visitTolds{{factor: 3, samples: 1000, visits: 1000, counted: true}, {samples: 1000, visits: 1000}}, before, before},
		{"many that agree", even(50, 0, 1000), 0, 0.1},
		{"many that differ as samples do", even(50, sampleLevelSD, 1000), 0, 0.1},
		{"many that differ", even(50, 1.5, 1000), 1.3, 1.5},
		{"two that differ", even(2, 1.5, 1000), 0.8, 1.2},
		{"many that differ by chance", even(50, 1, 1), 0, 0.1},
		{"many that agree but for the start of a process", start, 0.6, 1.2},
		{"known executions at another scale", scaled, 0, 0.15},
	} {
		if got := math.Sqrt(tt.of.variance()); got < tt.from-1e-9 || got > tt.to+1e-9 {
			t.Errorf("%s: standard deviation %.3f, want %.2f to %.2f", tt.what, got, tt.from, tt.to)
		}
	}
}

// TestVisitsOfAStart: where the visits of many procedures are off, those of one that are far too many, as of walks that
// only went on where a process begins, move its executions little.
func TestVisitsOfAStart(t *testing.T) {
	par := outOfOrder
	par.hidden = math.Inf(1)
	var probs []*problem
	for i := range 40 {
		off := float64(i%5-2) * 1.5
		if i == 0 {
			off = 4
		}
		probs = append(probs, visitedBy(&par, 1, 1000*math.Exp(off)))
	}
	solveAll(probs...)
	if got := math.Log(probs[0].n[0] / probs[2].n[0]); math.Abs(got) > 0.25 {
		t.Errorf("e^4 times as many visits: e^%.2f times as many executions", got)
	}
}

// TestVisitsSurer: where visits of procedures mostly differ as samples do, what samples of one say of all of its blocks may be off
// together, and visits move it; where they differ by more, they do not.
func TestVisitsSurer(t *testing.T) {
	par := outOfOrder
	par.hidden = math.Inf(1)
	for _, tt := range []struct {
		what     string
		apart    float64 // of the visits of others, in logarithms
		commonSD float64
		from, to float64 // of the logarithm of the executions of the one with e times as many visits
	}{
		{"visits that agree", 0, visitCostSD, 0.5, 1},
		{"visits that differ as samples do", sampleLevelSD, visitCostSD, 0.4, 1},
		{"visits that differ by more", 1.5, 0, -0.1, 0.3},
	} {
		var probs []*problem
		for i := range 41 {
			off := tt.apart * float64(1-i%2*2)
			if i == 0 {
				off = 1
			}
			probs = append(probs, visitedBy(&par, 1, 1000*math.Exp(off)))
		}
		solveAll(probs...)
		if got := probs[0].commonSD; got != tt.commonSD {
			t.Errorf("%s: what costs have in common is off by %g, want %g", tt.what, got, tt.commonSD)
		}
		others := (math.Log(probs[1].n[0]) + math.Log(probs[2].n[0])) / 2
		if got := math.Log(probs[0].n[0]) - others; got < tt.from || got > tt.to {
			t.Errorf("%s: e times as many visits: e^%.2f times as many executions, want %g to %g", tt.what, got, tt.from, tt.to)
		}
	}
}
