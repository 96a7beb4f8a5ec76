package sets

import (
	"maps"
	"math/rand/v2"
	"slices"

	"backfeed/sample"
)

// Resampled returns what a recording of the same work could have been: of each place, a Poisson number of samples
// whose mean is its share of so many in total, times what weigh makes of places in the first image. Stacks and
// what else was recorded beside samples are left out.
func Resampled(rec *sample.Recording, seed uint64, total float64, weigh func(off sample.Offset) float64) *sample.Recording {
	rnd := rand.New(rand.NewPCG(seed, 1))
	out := &sample.Recording{}
	for _, c := range rec.Counts {
		n := sample.NewCounts(c.CPU, c.Event)
		for i, ic := range c.Images {
			at := n.Image(ic.ID)
			for _, off := range slices.Sorted(maps.Keys(ic.At)) {
				mean := float64(ic.At[off]) * total / float64(c.Total)
				if i == 0 {
					mean *= weigh(off)
				}
				if k := poisson(rnd, mean); k > 0 {
					n.AddSample(at, off, k)
				}
			}
		}
		out.Add(n)
	}
	return out
}

// poisson draws a number.
func poisson(rnd *rand.Rand, mean float64) (n uint64) {
	for at := rnd.ExpFloat64(); at < mean; at += rnd.ExpFloat64() {
		n++
	}
	return n
}
