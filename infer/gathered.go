package infer

import (
	"math"

	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// Where an execution waits for one of its instructions, for memory or a mispredicted branch, samples gather there or
// right after it; where nothing waits, they lie on what retires first of each group. So how the samples of its blocks
// are spread over their instructions says how much longer a procedure takes than it has to. Of 1,157 procedures of 35
// programs on Cascade Lake, the logarithms of both, each beside its program's mean, correlate by 0.55, with a slope of 0.86
// (TestGathering). Part of that is known from the rest of the program, so half of the slope is the best: README.md has the
// figures. Of single blocks it makes inference worse.

const (
	gatheredSlope = 0.4 // what the logarithm of the time of a procedure grows by with that of its gathering
	gatheredFew   = 100 // samples of a procedure by which half of that is believed
	// Two samples drawn from a block of n instructions are at the same place with a probability of n^-gatheredPower, or
	// of gatheredMore times what the machine model would have, in the median.
	gatheredPower, gatheredMore  = 0.7, 1.5
	gatheredPairs                = 30   // pairs of samples that are taken to have been as usual
	gatheredInsts, gatheredLeast = 3, 5 // instructions and samples of the least of blocks that tell
	gatheredCycles               = 0.05 // what each instruction takes beside what the machine model has
)

// A gathering is how much more than usual samples gather: the mean of a logarithm over so many of them.
type gathering struct{ log, samples float64 }

// gathering looks at the samples of r, of which each tell as much as one alone; at none once executions are estimated. It sets expected of
// the blocks that it looks at.
func (r *Result) gathering(im *image.Image, model *machine.Model, each float64) (g gathering) {
	var least []float64
	own := r.own()
	for b, squares := range r.squares {
		blk := &r.Proc.Blocks[b]
		n := float64(own[b]) / each
		if blk.Insts < gatheredInsts || n < gatheredLeast {
			continue
		}
		if r.expected == nil {
			r.expected = make([]float64, len(r.squares))
		}
		var cycles float64
		r.expected[b], cycles, least = model.ExpectedEach(im, blk, least[:0])
		usual := max(math.Pow(float64(blk.Insts), -gatheredPower), gatheredMore*meeting(cycles, least))
		pairs := max(0, squares/each/each-n)
		g.log += n * math.Log((pairs/usual+gatheredPairs)/(n*(n-1)+gatheredPairs))
		g.samples += n
	}
	g.log /= max(g.samples, 1)
	return g
}

// meeting is how likely two samples of a block are at the same place, if it takes those cycles, its instructions each the least.
func meeting(cycles float64, least []float64) (p float64) {
	all := cycles + gatheredCycles*float64(len(least))
	for _, c := range least {
		share := (c + gatheredCycles) / all
		p += share * share
	}
	return p
}

// gathered returns by which factor a procedure is expected to take longer than its instructions say, for where its samples
// gather, beside all others of p. home has the images.
func (p *Profile) gathered(model *machine.Model, home map[*Result]*image.Image) func(r *Result) float64 {
	all := p.results()
	each := make([]gathering, len(all))
	parallel(len(all), func(i int) {
		if r := all[i]; p.tell(r.Samples) >= fewSamples {
			each[i] = r.gathering(home[r], model, p.each())
		}
	})
	var mean, samples float64
	of := make(map[*Result]gathering, len(all))
	for i, g := range each {
		of[all[i]] = g
		mean += g.log * g.samples
		samples += g.samples
	}
	mean /= max(samples, 1)
	return func(r *Result) float64 {
		g := of[r]
		return math.Exp(gatheredSlope * (g.log - mean) * g.samples / (g.samples + gatheredFew))
	}
}
