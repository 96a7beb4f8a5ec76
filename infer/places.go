package infer

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// A ranking chooses the places of one procedure, one after another. The draws of
// its spread are samples of what the truth may be; to know one block's count is
// to take out of every draw the part that goes with that block. Blocks that must
// run equally often go together, so no second one of them is ever chosen.
type ranking struct {
	prob  int
	block []int     // those that matter, by falling error
	n     []float64 // executions
	drawn [][]float64
	best  int // index into block of the next choice
	gain  float64
}

// rankBlocks bounds the blocks of one procedure that are weighed against each other.
const rankBlocks = 300

func newRanking(prob int, n []float64, sd spread) *ranking {
	r := &ranking{prob: prob}
	if len(sd.drawn) == 0 {
		return r
	}
	for b := range n {
		if n[b] >= 1 {
			r.block = append(r.block, b)
		}
	}
	slices.SortStableFunc(r.block, func(a, b int) int {
		return cmp.Compare(n[b]*min(sd.of(sd.block[b]), 2), n[a]*min(sd.of(sd.block[a]), 2))
	})
	r.block = r.block[:min(len(r.block), rankBlocks)]
	for _, b := range r.block {
		r.n = append(r.n, n[b])
	}
	for _, d := range sd.drawn {
		row := make([]float64, len(r.block))
		for i, b := range r.block {
			row[i] = clamp(d[b], -2, 2)
		}
		r.drawn = append(r.drawn, row)
	}
	r.choose()
	return r
}

// product is the mean over the draws of what blocks i and j have in common.
func (r *ranking) product(i, j int) float64 {
	var t float64
	for _, d := range r.drawn {
		t += d[i] * d[j]
	}
	return t / float64(len(r.drawn))
}

// choose finds the block whose knowledge takes most off the errors of all.
func (r *ranking) choose() {
	const exact = 0.02 // standard deviation of what will be known
	vars := make([]float64, len(r.block))
	for i := range vars {
		vars[i] = r.product(i, i)
	}
	r.best, r.gain = -1, 0
	for i := range r.block {
		if vars[i] < 1e-3 {
			continue
		}
		var gain float64
		for j := range r.block {
			c := r.product(i, j)
			left := max(0, vars[j]-c*c/(vars[i]+exact*exact))
			gain += r.n[j] * (math.Sqrt(vars[j]) - math.Sqrt(left))
		}
		if gain > r.gain {
			r.best, r.gain = i, gain
		}
	}
}

// take takes what the chosen block explains out of the draws, and chooses again.
func (r *ranking) take() {
	v := r.product(r.best, r.best)
	share := make([]float64, len(r.block))
	for j := range share {
		share[j] = r.product(r.best, j) / v
	}
	for _, d := range r.drawn {
		axpy(-d[r.best], share, d)
	}
	r.choose()
}

type rankings []*ranking

func (h rankings) Len() int { return len(h) }
func (h rankings) Less(i, j int) bool {
	if h[i].gain != h[j].gain {
		return h[i].gain > h[j].gain
	}
	return h[i].prob < h[j].prob
}
func (h rankings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *rankings) Push(x any)   { *h = append(*h, x.(*ranking)) }
func (h *rankings) Pop() any {
	r := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return r
}

// places returns the blocks whose exact counts would take most off the sum of all
// errors, each chosen as if those before it were known.
func (pr *posed) places(prof *Profile, sd []spread, most int) []Place {
	images := map[*Result]*ImageProfile{}
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			images[r] = ip
		}
	}
	made := make([]*ranking, len(pr.probs))
	pr.each(func(i int) { made[i] = newRanking(i, pr.probs[i].n[:len(pr.results[i].Block)], sd[i]) })
	h := rankings(slices.DeleteFunc(made, func(r *ranking) bool { return r == nil || r.gain == 0 }))
	heap.Init(&h)
	var out []Place
	for len(h) > 0 && len(out) < most {
		r := h[0]
		res := pr.results[r.prob]
		out = append(out, Place{images[res], res, r.block[r.best], r.gain})
		if r.take(); r.gain == 0 {
			heap.Pop(&h)
		} else {
			heap.Fix(&h, 0)
		}
	}
	return out
}
