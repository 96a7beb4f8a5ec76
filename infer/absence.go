package infer

import (
	"math"
	"sync"

	"backfeed/infer/image"
	"backfeed/sample"
)

// An Absence tells what it means that a procedure has no sample. A procedure that ran
// f times, each time for M cycles, has none of the samples that are P cycles apart
// with the probability exp(-f M / P), which is below 1 in 20 from f = 3 P / M on. M
// is not known: it is taken to be log-normal around the least that a path through the
// procedure costs, so that the bound is larger where the code is short.
type Absence struct {
	par  *params
	cost func(*image.Block) float64 // samples that one execution brings, in the median
}

// Absence returns what the samples of p say by not being there.
func (p *Profile) Absence() *Absence {
	par, cost := p.simpleCost()
	kept := 1.0
	if total := p.Samples.Total + p.aside.Total; total > 0 {
		kept -= float64(p.Samples.Lost[sample.LostDropped]+p.aside.Lost[sample.LostDropped]) / float64(total)
	}
	return &Absence{par, func(b *image.Block) float64 { return kept * cost(b) }}
}

// AtMost returns how often a procedure without a sample ran, in executions: at
// most so often, with 95 % confidence. The time in what it calls is not counted. It is infinite where
// samples say nothing.
func (a *Absence) AtMost(p *image.Proc) float64 {
	cost, insts := a.cheapest(p)
	sd := math.Sqrt(a.par.blockVar/max(1, insts) + a.par.levelSD*a.par.levelSD)
	return unseenAtMost(sd) / cost
}

// cheapest returns the cost and the instructions of the path through p that costs least.
func (a *Absence) cheapest(p *image.Proc) (cost, insts float64) {
	type state struct {
		cost, insts float64
	}
	if len(p.Blocks) == 0 {
		return 0, 0
	}
	at := make([]state, len(p.Blocks))
	for i := range at {
		at[i].cost = math.Inf(1)
	}
	queue := []int{}
	reach := func(i int, cost, insts float64) {
		b := &p.Blocks[i]
		if cost += a.cost(b); cost < at[i].cost {
			at[i].cost, at[i].insts = cost, insts+float64(b.Insts)
			queue = append(queue, i)
		}
	}
	for _, i := range p.Entries {
		reach(i, 0, 0)
	}
	if len(p.Entries) == 0 {
		reach(0, 0, 0)
	}
	best := state{cost: math.Inf(1)}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		s := at[i]
		if s.cost >= best.cost {
			continue
		}
		b := &p.Blocks[i]
		if b.Exit != image.NoExit || len(b.Out) == 0 {
			best = s
			continue
		}
		for _, e := range b.Out {
			reach(p.Edges[e].To, s.cost, s.insts)
		}
	}
	if math.IsInf(best.cost, 1) { // no path to an exit: an endless loop
		return at[0].cost, at[0].insts
	}
	return best.cost, best.insts
}

// unseenAtMost returns the expected number of samples of code, by the median of its cost, that
// has none 1 time in 20, if the logarithm of the cost has the standard deviation sd.
func unseenAtMost(sd float64) float64 {
	unseen := unseen()
	at := min(max(sd, 0)/unseenStep, float64(len(unseen)-1))
	i := min(int(at), len(unseen)-2)
	return unseen[i] + (at-float64(i))*(unseen[i+1]-unseen[i])
}

const (
	unseenStep   = 0.05
	unseenPoints = 61   // up to a standard deviation of 3
	missed       = 0.05 // with 95 % confidence
)

// unseen is unseenAtMost by steps of sd: -log(missed) at first, which is 3. It takes some 15 ms, which a process that infers nothing,
// as a prober, does without.
var unseen = sync.OnceValue(func() []float64 {
	quantiles := make([]float64, 200) // of the normal distribution
	for i := range quantiles {
		quantiles[i] = math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(len(quantiles))-1)
	}
	table := make([]float64, unseenPoints)
	for k := range table {
		lo, hi := 0.0, 1e4
		for range 60 {
			mid := (lo + hi) / 2
			var none float64
			for _, z := range quantiles {
				none += math.Exp(-mid * math.Exp(unseenStep*float64(k)*z))
			}
			if none/float64(len(quantiles)) > missed {
				lo = mid
			} else {
				hi = mid
			}
		}
		table[k] = hi
	}
	return table
})
