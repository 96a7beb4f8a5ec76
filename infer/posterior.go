package infer

import (
	"math"
	"math/rand/v2"
)

// Each estimate is uncertain because the cost of one execution is, because
// samples are few, and because static guesses are weak. spread measures the sum of
// all three by perturb-and-MAP (Papandreou and Yuille, ICCV 2011): the search is
// done again with every one of these disturbed by its own standard deviation,
// and the results vary as the truth may.
const draws = 8

// spread gives the standard deviation of the logarithm of each block's executions,
// by problem and block, around those of x. The problems end in the state of x.
func (pr *program) spread(x []float64) [][]float64 {
	best := make([][]float64, len(pr.probs))
	sd := make([][]float64, len(pr.probs))
	for i, q := range pr.probs {
		best[i] = append([]float64(nil), q.n...)
		sd[i] = make([]float64, len(q.n))
	}
	clean := *pr
	for k := range draws {
		pr.ties = append([]tie(nil), clean.ties...)
		rng := rand.New(rand.NewPCG(uint64(k), 0))
		for i := range pr.ties {
			pr.ties[i].noise = rng.NormFloat64() * tieTrueSD
		}
		pr.each(func(i int) { pr.probs[i].disturb(uint64(k)) })
		y := append([]float64(nil), x...)
		pr.refine(y, 40)
		pr.each(func(i int) {
			q := pr.probs[i]
			q.settle()
			for b, n := range q.n {
				d := math.Log(max(n, 1e-100) / max(best[i][b], 1e-100))
				sd[i][b] += d * d / draws
			}
		})
	}
	pr.ties = clean.ties
	for i, q := range pr.probs {
		for b := range sd[i] {
			sd[i][b] = math.Sqrt(sd[i][b])
		}
		q.forward(pr.part(x, i))
	}
	return sd
}

// The standard deviations that were measured against true counts. The ones that the
// search uses (params) are smaller: with them the most probable solution is
// nearer to the truth.
const (
	costTrueVar = 4.5 // of the logarithm of a block's cost, times its instructions
	tieTrueSD   = 0.1
)

// disturb shifts what the search believes, reproducibly.
func (q *problem) disturb(seed uint64) {
	rng := rand.New(rand.NewPCG(seed+1, uint64(q.p.Addr)))
	if q.noise == nil {
		q.noise = make([]float64, len(q.n))
	}
	for b := range q.noise {
		v := q.invVar[b]
		q.noise[b] = rng.NormFloat64() * math.Sqrt(costTrueVar/(v*q.par.costVar)+1/(q.samples[b]+1))
	}
	q.calm = append([]float64(nil), q.guess...)
	for w := range q.guess {
		q.guess[w] += rng.NormFloat64() * q.par.waySD
	}
	q.calmEntry = append([]float64(nil), q.entry...)
	for i := range q.entry {
		q.entry[i] += rng.NormFloat64() * q.entrySD[i]
	}
}

// settle undoes disturb.
func (q *problem) settle() {
	q.noise = nil
	q.guess, q.entry = q.calm, q.calmEntry
}
