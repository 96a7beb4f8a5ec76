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
	draws     = 12
	drawEvals = 40 // a disturbed search starts next to its goal
)

// Standard deviations of logarithms, measured against true counts. Those that the
// search itself uses (params) are smaller: with them the most probable solution
// lies nearer to the truth.
const (
	blockCostVar = 4.5 // variance of a block's cost, times its instructions
	procCostSD   = 0.4 // of what the blocks of one procedure have in common
	callerSD     = 0.6 // of the executions of all call sites of a procedure
)

// spread gives the standard deviation of the logarithm of each block's executions,
// by problem and block, around those of x. The problems keep the state of x.
func (pr *program) spread(x []float64) [][]float64 {
	called := make([]float64, len(pr.probs)) // executions of all call sites, where these are all known
	for _, t := range pr.ties {
		if !t.floor {
			for _, s := range t.sites {
				called[t.callee] += pr.calls(s)
			}
		}
	}
	sd := make([][]float64, len(pr.probs))
	pr.each(func(i int) { sd[i] = pr.probs[i].spread(pr.part(x, i), called[i]) })
	return sd
}

func (q *problem) spread(x []float64, called float64) []float64 {
	best, guess, entry, entrySD := slices.Clone(q.n), q.guess, q.entry, q.entrySD
	rng := rand.New(rand.NewPCG(1, uint64(q.p.Addr)))
	sd := make([]float64, len(best))
	y := make([]float64, len(x))
	for range draws {
		q.guess, q.entry, q.entrySD = slices.Clone(guess), slices.Clone(entry), slices.Clone(entrySD)
		if called > 0 {
			q.entry[0], q.entrySD[0] = math.Log(called), callerSD
		}
		q.disturb(rng)
		copy(y, x)
		minimize(q.objective, y, drawEvals, 1e-6)
		q.forward(y)
		for b, n := range q.n {
			d := math.Log(max(n, 1e-100) / max(best[b], 1e-100))
			sd[b] += d * d / draws
		}
	}
	q.guess, q.entry, q.entrySD, q.noise = guess, entry, entrySD, nil
	q.forward(x)
	// A dozen draws may agree by chance: nothing is surer than what the blocks have
	// in common allows.
	floor := 1 / (procCostSD * procCostSD)
	if called > 0 {
		floor += 1 / (callerSD * callerSD)
	}
	for b := range sd {
		sd[b] = math.Sqrt(max(sd[b], 1/floor))
	}
	return sd
}

// disturb shifts what the search believes: costs, guesses and entries.
func (q *problem) disturb(rng *rand.Rand) {
	q.noise = make([]float64, len(q.n))
	common := rng.NormFloat64() * procCostSD
	for b := range q.noise {
		insts := float64(max(1, q.p.Blocks[b].Insts))
		q.noise[b] = common + rng.NormFloat64()*math.Sqrt(blockCostVar/insts+1/(q.samples[b]+1))
	}
	for w := range q.guess {
		q.guess[w] += rng.NormFloat64() * q.par.waySD
	}
	for i := range q.entry {
		q.entry[i] += rng.NormFloat64() * q.entrySD[i]
	}
}
