package infer

import (
	"math"
	"math/rand/v2"
	"slices"

	"backfeed/infer/image"
)

// Walks go on from samples, and so begin the more often the slower a program is. They are weighed
// against that as far as they lead from slow code to fast, and windows tell how often code runs that
// they pass through (see collect.Walker); beyond it, visits are executions up to a factor: nearly so
// within a procedure, less so from one to another. How much less hangs on the program: walks that end in
// code that is not known leave those that go round in code that is, and phases that they do not lead out of
// are visited by their time. It shows in how far visits and samples differ from procedure to procedure.

const (
	// visitSD is the standard deviation of the logarithm of what visits are of executions, from
	// block to block of a procedure: how much slower than elsewhere it runs around them.
	visitSD = 0.4
	// visitLevelSD is that of the factor from procedure to procedure, before it is known how far visits and samples differ
	// there; that tells as much as so many procedures of one weight. By the exact counts of 21 programs it is 0.11 to 0.96, half
	// of them above 0.35; of gcc's cc1 1.25. What visits and samples differ by tells these apart, so little is said before.
	visitLevelSD, visitLevelWorth = 0.15, 3
	// sampleLevelSD is that of what samples say of procedures, where walks tell which way branches go: by their exact
	// counts, half of 23 real programs are above 0.44, up to 0.95. Over 17 calibrated recordings of eleven programs, at 1 and 3 % and of
	// ordinary users at 8 %, the mean block overlap is 0.861 with 0.45 and a visitLevelSD of 0.35, without visitSurerSD, 0.868 with 0.5
	// and 0.2, 0.870 with 0.55 and 0.15 and 0.872 with 0.6 and 0.1, of which one of gopherlua, whose visits are off by 1.05, has
	// 0.773, 0.771, 0.767 and 0.758.
	sampleLevelSD = 0.55
	// visitPhaseSD takes the place of visitLevelSD where it is asked how sure counts are. By the exact counts of
	// 21 programs, with 28 calibrated recordings of 10 to 20 s, the standard deviation over procedures, weighted by
	// samples, is 0.11 (zstd) to 0.96 (testdata/mix, whose procedures are phases), half of them above 0.35.
	visitPhaseSD = 0.5
	// visitCostSD is that of what the costs of a procedure's blocks have in common, where visits tell how often it runs beside others
	// with known executions. Without it, samples of a procedure of many blocks are surer of that than visits. Of eight recordings of
	// SQLite, zstd, bzip2 and a Go program at 3 and 10 %, the mean block overlap is 0.902 without it, 0.911 with 0.2; of twelve others
	// 0.865, 0.866 with 0.2, and 0.865 with 0.3, of which one has 0.889, 0.857 and 0.845.
	visitCostSD = 0.2
	// visitSurerSD is up to which standard deviation of the factor of visits, from procedure to procedure, that is so without known
	// executions too. Of recordings whose visits are off by more, samples are surer: with visitCostSD, deflate fell from 0.877 to 0.843.
	visitSurerSD = 0.45
	// visitClump is how many visits tell as much as one by itself: a loop fills a walk.
	visitClump = 4
)

// visited returns what so many visits say of block b, up to a factor.
func visited(b int, visits float64) observation {
	mean, variance := logGamma(visits/visitClump + 0.5)
	return observation{block: int32(b), out: -1, logN: mean, sd: math.Sqrt(variance + visitSD*visitSD)}
}

// weighVisits makes visits the less sure the fewer they are beside those of the block of the procedure that has most. Most of what visits
// say of a block that seldom runs the shares of the branches before it say too, and so do visits of all blocks beside it, which are of the
// same walks. Each by itself is as sure as it says: of 7,000 blocks of eleven calibrated recordings, visits were off, beside those of their
// procedure, by 0.9 with 16 of them or fewer, 0.5 to 256, 0.12 beyond 1,000. Together they were so sure that known executions of a rare place had to
// move the whole procedure: of CPython, two places that run 0.005 times as often as the loop of the interpreter, seen 0.9 and 0.5 too often. Of
// ten such recordings the mean overlap of blocks was 0.891 without this, 0.894 with it, of edges 0.865 and 0.869; with exact executions of a
// place of each of 40 procedures that runs up to 0.1 M times a second of its own time 0.884 and 0.892.
//
// What indirect jumps lead to is left as it is: where several lead to the same blocks, nothing but visits tells how often each runs. Without
// that, the loop of indirect of testdata/programs had 1.38 of its executions, with it 1.05; CPython has block overlaps of 0.918 and 0.924.
func (q *problem) weighVisits() {
	most := math.Inf(-1)
	for _, o := range q.visits {
		most = max(most, o.logN)
	}
	for i := range q.visits {
		if o := &q.visits[i]; !slices.Contains(q.arms, o.block) {
			o.sd *= math.Exp((most - o.logN) / 2)
		}
	}
}

// observeVisits adds the derivatives of what visits say, and returns its value. The factor that
// those of a procedure have in common is the most probable one, so that it adds none.
func (q *problem) observeVisits() (v float64) {
	if len(q.visits) == 0 {
		return 0
	}
	m := q.visitFactor(q.level, q.sureLevel)
	v = (m - q.level) * (m - q.level) * q.sureLevel / 2
	for _, o := range q.visits {
		n := max(q.n[o.block], 1e-100)
		w := 1 / (o.sd * o.sd)
		r := math.Log(n) - o.logN - m
		v += w * r * r / 2
		q.dn[o.block] += w * r / n
	}
	return v
}

// visitFactor returns the logarithm of executions over visits that is most probable, where level
// is expected, with that inverse of its variance.
func (q *problem) visitFactor(level, sure float64) float64 {
	sum, of := level*sure, sure
	for _, o := range q.visits {
		w := 1 / (o.sd * o.sd)
		sum += w * (math.Log(max(q.n[o.block], 1e-100)) - o.logN)
		of += w
	}
	return sum / of
}

// A multiway is what visits say of the out-edges of a block that has more than two: of the
// executions of an indirect jump, so many went on to the blocks that only it leads to. Unlike
// the visits of blocks of a procedure, these are of one place, and need no factor.
type multiway struct {
	block int32
	went  []float64 // by out-edge: as many independent executions tell as much; negative is not known
	rest  float64   // likewise, of all out-edges that are not known
}

// compareShares makes known shares as unsure as they are off, by more than chance, what visits by block say of the same
// branches. Walks tell shares mostly by calls that had begun before them, as a walk sees the beginnings of others (see
// sample/trace.Walks); visits count all alike. In a procedure that calls itself, calls that have begun are those that take
// long: walks of fib of testdata/programs said that its loop goes on 0.65 of the time, with a standard deviation of 0.03,
// where it does 0.38 of the time, and so do their visits. Of 40 calibrated recordings the mean overlap of blocks was 0.883
// without this, 0.887 with it, of edges 0.854 and 0.858.
func (q *problem) compareShares(visits map[int]float64) {
	leads := q.flow.leads()
	for i := range q.known {
		o := &q.known[i]
		all := visits[int(o.block)]
		if o.of == 0 || all == 0 {
			continue
		}
		to, other := q.flow.outs[o.out].to, q.flow.outs[2*q.flow.first[o.block]+1-o.out].to
		went, rest := visits[int(to)], visits[int(other)]
		switch one, two := q.shows(to, leads, visits), q.shows(other, leads, visits); {
		case !one && !two:
			continue
		case !one:
			went = max(0, all-rest)
		case !two:
			rest = max(0, all-went)
		}
		yes, no, went, rest := o.part+0.5, o.of-o.part+0.5, went/visitClump+0.5, rest/visitClump+0.5
		d, own := math.Log(went/rest)-math.Log(yes/no), 1/yes+1/no
		less := 1 + max(0, d*d-own-1/went-1/rest)/own
		o.of, o.part = o.of/less, o.part/less
	}
}

// leads returns how many out-edges lead to each block, and entries from outside.
func (f *flow) leads() []int {
	leads := make([]int, f.blocks)
	for _, b := range f.entries {
		leads[b]++
	}
	for _, w := range f.outs {
		if w.to != leave {
			leads[w.to]++
		}
	}
	return leads
}

// shows reports whether visits of a block are executions of the one out-edge that leads to it.
func (q *problem) shows(to int32, leads []int, visits map[int]float64) bool {
	return to != leave && leads[to] == 1 && (visits[int(to)] > 0 || q.watched(int(to)))
}

// learnMultiways makes multiways of visits by block.
func (q *problem) learnMultiways(visits map[int]float64) {
	f := q.flow
	leads := f.leads()
	for b := range f.blocks {
		outs := f.outsOf(b)
		if len(outs) < 3 || visits[b] == 0 {
			continue
		}
		m := multiway{int32(b), make([]float64, len(outs)), visits[b] / visitClump}
		for i, w := range outs {
			m.went[i] = -1
			if q.shows(w.to, leads, visits) {
				m.went[i] = visits[int(w.to)] / visitClump
				m.rest -= m.went[i]
			}
		}
		m.rest = max(m.rest, 0)
		q.multiways = append(q.multiways, m)
	}
}

// watched reports whether walks tally what runs in block b: calls and branches.
func (q *problem) watched(b int) bool {
	blk := &q.p.Blocks[b]
	return len(blk.Calls) > 0 || len(blk.Out) != 1 || q.p.Edges[blk.Out[0]].Kind != image.FallThrough
}

// observeMultiways adds the derivatives of what a multiway says, by the multinomial distribution, and returns its value.
// Visits that did not go on to a known block went to others, or are of walks that ended at the jump: as many as
// makes both most probable, so that they are the most that others may have.
func (q *problem) observeMultiways(m *multiway) (v float64) {
	first := q.flow.first[m.block]
	prob, dout := q.prob[first:][:len(m.went)], q.dout[first:][:len(m.went)]
	var rest, known, all float64
	for i, went := range m.went {
		p := max(prob[i], 1e-100)
		if went < 0 {
			rest += p
			continue
		}
		known, all = known+p, all+went
		if went > 0 {
			v -= went * math.Log(p)
			dout[i] -= went / p
		}
	}
	if m.rest == 0 || rest == 0 || all == 0 {
		return v
	}
	if share := m.rest / (all + m.rest); rest < share {
		for i, went := range m.went {
			if went >= 0 {
				dout[i] += all / known
			}
		}
		return v + all*math.Log(known/(1-share)) - m.rest*math.Log(share)
	}
	for i, went := range m.went {
		if went < 0 {
			dout[i] -= m.rest / rest
		}
	}
	return v - m.rest*math.Log(rest)
}

// disturbMultiways returns multiways as others might have seen them.
func disturbMultiways(ms []multiway, rng *rand.Rand) []multiway {
	ms = slices.Clone(ms)
	for i := range ms {
		m := &ms[i]
		m.went = slices.Clone(m.went)
		for w, went := range m.went {
			if went > 0 {
				m.went[w] *= math.Exp(rng.NormFloat64() / math.Sqrt(went+0.5))
			}
		}
	}
	return ms
}

// counted reports whether executions of q are known, by more than its own samples.
func (q *problem) counted() bool {
	return slices.ContainsFunc(q.known, func(o observation) bool { return o.real && !o.steady })
}

// setLevel sets what executions are of visits, as expected: what they are in the procedures with known
// executions, if there are any, and otherwise in all; and how far off visits are from procedure to procedure. Without
// the latter, cc1's 120 processes of 0.14 s had what they do at first, which walks of 50,000 instructions knew, run 30 times
// too often, as other walks ended after some hundred instructions in code that they did not know; its block overlap was
// 0.45, and 0.57 by samples alone.
func (pr *program) setLevel(x []float64) {
	var all visitTolds
	for i, q := range pr.probs {
		if len(q.visits) == 0 {
			continue
		}
		q.run(pr.part(x, i))
		t := visitTold{factor: q.visitFactor(0, 0), samples: sumOf(q.samples), counted: q.counted()}
		for _, o := range q.visits {
			t.visits += math.Exp(o.logN)
		}
		all = append(all, t)
	}
	level, ok := all.level()
	if !ok {
		return
	}
	variance := all.variance()
	sure, known := 1/variance, slices.ContainsFunc(all, func(t visitTold) bool { return t.counted })
	for _, q := range pr.probs {
		q.level, q.sureLevel = level, sure
		if (known || variance < visitSurerSD*visitSurerSD) && len(q.visits) > 0 && q.commonSD == 0 {
			q.commonSD = visitCostSD
		}
	}
}

// A visitTold is what the visits of a procedure are by themselves, beside its samples or its known executions.
type visitTold struct {
	factor          float64 // logarithm of executions over visits
	samples, visits float64 // visits are as many as tell by themselves
	counted         bool    // executions are known
}

// chance is the variance of factor by chance.
func (t *visitTold) chance() float64 { return 1/(t.samples+1) + 1/(t.visits+1) }

type visitTolds []visitTold

// level returns the mean factor, by samples, of procedures with known executions, as far as these have samples, beside that of
// all; false if none has samples. Like the scale of costs, it is half way between the two where the former are those of a gaugeShare.
// Of the loader's, with 0.03 of the samples, the executions of fib of testdata/programs were 0.28 of the true ones, and by samples 0.6.
func (all visitTolds) level() (float64, bool) {
	var sum, of, known, ofKnown float64
	for _, t := range all {
		sum, of = sum+t.samples*t.factor, of+t.samples
		if t.counted {
			known, ofKnown = known+t.samples*t.factor, ofKnown+t.samples
		}
	}
	if of == 0 {
		return 0, false
	}
	mean := sum / of
	if ofKnown == 0 {
		return mean, true
	}
	worth := ofKnown / (ofKnown + gaugeShare*of)
	return mean + worth*(known/ofKnown-mean), true
}

// variance returns that of the factor from procedure to procedure: what the factors differ by beyond chance and beyond
// what samples are off by. A procedure weighs by its share of samples and of visits: what one of them has too much of
// shows in that one. Procedures with known executions may have another scale than those without, and are compared with one
// another.
func (all visitTolds) variance() float64 {
	var samples, visits float64
	for _, t := range all {
		samples += t.samples
		visits += t.visits
	}
	sum, of := visitLevelWorth*visitLevelSD*visitLevelSD, float64(visitLevelWorth)
	for _, counted := range []bool{false, true} {
		var w, ww, mean, apart float64
		each := func(f func(t *visitTold, weight float64)) {
			for i := range all {
				if t := &all[i]; t.counted == counted {
					f(t, (t.samples/samples+t.visits/visits)/2)
				}
			}
		}
		each(func(t *visitTold, weight float64) {
			w, ww, mean = w+weight, ww+weight*weight, mean+weight*t.factor
		})
		if w*w <= ww*(1+1e-9) { // one procedure differs from none
			continue
		}
		mean /= w
		each(func(t *visitTold, weight float64) {
			apart += weight * ((t.factor-mean)*(t.factor-mean) - t.chance())
		})
		more := w*w/ww - 1 // procedures of one weight that tell as much, less one for the mean
		excess := max(0, apart/w*(1+1/more)-sampleLevelSD*sampleLevelSD)
		sum, of = sum+w*more*excess, of+w*more
	}
	return sum / of
}
