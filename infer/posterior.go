package infer

import (
	"math"
	"math/rand/v2"
	"slices"
)

// An estimate is uncertain because the cost of one execution is, because samples
// are few, and because static guesses are weak. spread measures the sum of
// these by perturb-and-MAP (Papandreou and Yuille, ICCV 2011): the search is
// done again and again with every one of them disturbed by its own standard
// deviation, and the results vary as the truth may.
//
// The draws go on from x in each procedure by itself; what its callers say of its
// entries is kept as it is in x, with the uncertainty of a typical caller.
const (
	draws = 12
	// With fewer samples than this in a procedure, chance alone moves its counts by
	// a factor 2 one time in ten; there is nothing to measure.
	fewSamples = 8
)

// callerSD is the standard deviation of the logarithm of the executions of all
// call sites of a procedure, measured against true counts.
const callerSD = 0.6

// A spread is the standard deviation of the logarithms of one problem's executions.
type spread struct {
	block []float64 // by block
	way   []float64 // by way

	drawn [][]float64 // by draw, by block: how far the logarithm went, if asked for
}

// spread gives the spreads around x, by problem. The problems keep the state of x.
func (pr *program) spread(x []float64, keep bool) []spread {
	called := make([]float64, len(pr.probs)) // executions of all call sites, where these are all known
	for _, t := range pr.ties {
		if !t.floor {
			for _, s := range t.sites {
				called[t.callee] += s.calls()
			}
		}
	}
	sd := make([]spread, len(pr.probs))
	pr.each(func(i int) { sd[i] = pr.probs[i].spread(pr.part(x, i), called[i], keep) })
	return sd
}

func (q *problem) spread(x []float64, called float64, keep bool) spread {
	if sumOf(q.samples) < fewSamples {
		return q.unsure()
	}
	guess, entry, entrySD := q.guess, q.entry, q.entrySD
	best := q.logarithms()
	sum := spread{block: make([]float64, len(best.block)), way: make([]float64, len(best.way))}
	e := q.effort()
	if keep { // what is asked for are directions, not only lengths
		e = knownEffort
	}
	rng := rand.New(rand.NewPCG(1, uint64(q.p.Addr)))
	y := make([]float64, len(x))
	search := newSearcher(len(x))
	for range draws {
		q.guess, q.entry, q.entrySD = slices.Clone(guess), slices.Clone(entry), slices.Clone(entrySD)
		if called > 0 {
			q.entry[0], q.entrySD[0] = math.Log(called), callerSD
		}
		q.disturb(rng)
		copy(y, x)
		search.minimize(q.objective, y, e.drawn, e.tol)
		q.forward(y)
		drawn := q.logarithms()
		addSquares(sum.block, drawn.block, best.block)
		addSquares(sum.way, drawn.way, best.way)
		if keep {
			axpy(-1, best.block, drawn.block)
			sum.drawn = append(sum.drawn, drawn.block)
		} else if hopeless(sum.block) && hopeless(sum.way) {
			break
		}
	}
	q.guess, q.entry, q.entrySD = guess, entry, entrySD
	q.expect(nil)
	q.forward(x)
	// A dozen draws may agree by chance: nothing is surer than what the blocks have
	// in common allows.
	precision := 1 / (q.par.procSD * q.par.procSD)
	if called > 0 {
		precision += 1 / (callerSD * callerSD)
	}
	if len(q.known) > 0 {
		precision = math.Inf(1) // known counts are surer than any cost
	}
	deviate(sum.block, 1/precision)
	deviate(sum.way, 1/precision)
	return sum
}

// unsure is the spread of what may be anything.
func (q *problem) unsure() spread {
	s := spread{block: make([]float64, len(q.n)), way: make([]float64, len(q.prob))}
	fillWith(s.block, math.Inf(1))
	fillWith(s.way, math.Inf(1))
	return s
}

// logarithms of the executions of blocks and ways.
func (q *problem) logarithms() spread {
	l := spread{block: make([]float64, len(q.n)), way: make([]float64, len(q.prob))}
	for b, n := range q.n {
		l.block[b] = math.Log(max(n, 1e-100))
		for w := q.flow.first[b]; w < q.flow.first[b+1]; w++ {
			l.way[w] = l.block[b] + math.Log(max(q.prob[w], 1e-100))
		}
	}
	return l
}

func addSquares(sum, a, b []float64) {
	for i := range sum {
		sum[i] += (a[i] - b[i]) * (a[i] - b[i])
	}
}

func fillWith(x []float64, v float64) {
	for i := range x {
		x[i] = v
	}
}

func sumOf(x []float64) (t float64) {
	for _, v := range x {
		t += v
	}
	return t
}

// hopeless tells from sums of squares over some draws that all levels will be Low
// whatever the other draws bring.
func hopeless(sum []float64) bool { return confidence(math.Sqrt(slices.Min(sum)/draws)) == Low }

// deviate turns sums of squares over all draws into standard deviations.
func deviate(sum []float64, floor float64) {
	for i, v := range sum {
		sum[i] = math.Sqrt(max(v/draws, floor))
	}
}

// disturb shifts what the search believes: costs, guesses and entries.
func (q *problem) disturb(rng *rand.Rand) {
	noise := make([]float64, len(q.n))
	common := rng.NormFloat64() * q.par.procSD
	for b := range noise {
		insts := float64(max(1, q.p.Blocks[b].Insts))
		noise[b] = common + rng.NormFloat64()*math.Sqrt(q.par.blockVar/insts+1/(q.samples[b]+1))
	}
	q.expect(noise)
	for w := range q.guess {
		q.guess[w] += rng.NormFloat64() * q.par.waySD
	}
	for i := range q.entry {
		q.entry[i] += rng.NormFloat64() * q.entrySD[i]
	}
}
