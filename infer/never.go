package infer

import (
	"container/heap"
	"math"
	"slices"
)

// neverSeen is below how much of the largest number that was seen a block was seen next to never. neverLess is below how much of that it may be
// found to run, and be taken for one that never does: less is within what a search leaves. neverMore is by what factor executions of blocks
// that ran may change at most.
const neverSeen, neverLess, neverMore = 1e-4, 3e-3, 1.5

// What a block that never ran costs a way, and what an unlikely edge does, beside logarithms of probabilities.
const wayNever, wayUnlikely = 1e4, 1e8

// Never has control go no more to blocks that were seen to run no more often than below, in executions, which are next to none of the largest
// number. A search leaves to each of them up to a 1,000th of that, and for compilers what runs at all is not as what never does.
// Blocks that ran keep a way from block 0 to each, and from there out of the function, through such blocks if there is no other. Where
// others would run much less or more often, nothing changes. It is the end of the searches.
func (f *Fit) Never(seen []Seen, below float64) {
	if !f.begun {
		return
	}
	g := f.g
	g.run(f.x)
	before := slices.Clone(g.visits)
	ran, never := make([]bool, len(before)), make([]bool, len(before))
	for _, s := range seen {
		ran[s.Block] = ran[s.Block] || s.N > min(below, neverSeen*f.most)
	}
	for _, s := range seen {
		if !ran[s.Block] && s.Block != 0 && before[s.Block] < neverLess {
			never[s.Block] = true
		}
	}
	if !slices.Contains(never, true) {
		return
	}
	from := make([]int32, len(g.flow.outs)) // by out-edge
	for b := range before {
		for w := g.flow.first[b]; w < g.flow.first[b+1]; w++ {
			from[w] = int32(b)
		}
	}
	kept := make([]bool, len(before))
	for _, outward := range [...]bool{false, true} {
		keep := make([]bool, len(before))
		by, order := g.cheapest(never, from, outward)
		for _, b := range slices.Backward(order) { // from ends of ways on
			if keep[b] = keep[b] || ran[b] && before[b] > 0; !keep[b] {
				continue
			}
			kept[b] = true
			if next := g.along(by, from, b, outward); next >= 0 {
				keep[next] = true
			}
		}
	}
	for b := range never {
		never[b] = never[b] && !kept[b]
	}
	// From here on, what cannot leave any more runs never either.
	ends, order := g.cheapest(never, from, true)
	stuck := slices.Repeat([]bool{true}, len(never))
	for _, b := range order { // the blocks next to the end first
		next := g.along(ends, from, b, true)
		stuck[b] = next >= 0 && (never[next] || stuck[next])
	}
	for b := range never {
		never[b] = never[b] || stuck[b]
	}
	if never[0] {
		return
	}
	x := slices.Clone(f.x)
	for w, o := range g.flow.outs {
		if o.to != leave && never[o.to] && !never[from[w]] {
			x[1+w] = math.Inf(-1)
		}
	}
	g.run(x)
	for b, n := range before {
		if v := g.visits[b]; ran[b] && n > neverLess && !(v < neverMore*n && n < neverMore*v) {
			return
		}
	}
	f.x = x
}

// along returns the block that comes after b on the cheapest path from it to the end of the function, or before b on that from block 0, by the
// out-edges of cheapest; negative if there is none.
func (g *Graph) along(by, from []int32, b int32, outward bool) int32 {
	switch w := by[b]; {
	case w < 0:
		return -1
	case outward:
		return g.flow.outs[w].to
	default:
		return from[w]
	}
}

// cheapest returns, by block, the out-edge by which the cheapest path from block 0 comes to it, or by which the cheapest path to the end of
// the function begins there, -1 where there is none; and the blocks that have such a path, the cheapest first.
func (g *Graph) cheapest(never []bool, from []int32, outward bool) (by, order []int32) {
	f := g.flow
	n := len(never)
	next := make([][]int32, n+1) // of each block, and of leave: the out-edges that lead on
	for w, o := range f.outs {
		at := from[w]
		if outward {
			at = o.to
			if o.to == leave {
				at = int32(n)
			}
		} else if o.to == leave {
			continue
		}
		next[at] = append(next[at], int32(w))
	}
	by = make([]int32, n)
	cost, done := make([]float64, n+1), make([]bool, n+1)
	for b := range cost {
		cost[b] = math.Inf(1)
	}
	for b := range by {
		by[b] = -1
	}
	var q wayQueue
	begin := int32(0)
	if outward {
		begin = int32(n)
	}
	cost[begin] = 0
	heap.Push(&q, wayEnd{begin, 0})
	for q.Len() > 0 {
		e := heap.Pop(&q).(wayEnd)
		if done[e.block] {
			continue
		}
		if done[e.block] = true; int(e.block) < n {
			order = append(order, e.block)
		}
		for _, w := range next[e.block] {
			to := f.outs[w].to
			if outward {
				to = from[w]
			}
			c := e.cost - math.Log(max(g.prob[w], math.SmallestNonzeroFloat64))
			if never[to] {
				c += wayNever
			}
			if edge := f.outs[w].edge; edge >= 0 && g.edges[edge].Unlikely {
				c += wayUnlikely
			}
			if c < cost[to] {
				cost[to], by[to] = c, w
				heap.Push(&q, wayEnd{to, c})
			}
		}
	}
	return by, order
}

// A wayEnd is a block that a way comes to.
type wayEnd struct {
	block int32
	cost  float64
}

// A wayQueue has the cheapest way first.
type wayQueue []wayEnd

func (q wayQueue) Len() int { return len(q) }
func (q wayQueue) Less(i, k int) bool {
	return q[i].cost < q[k].cost || q[i].cost == q[k].cost && q[i].block < q[k].block
}
func (q wayQueue) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *wayQueue) Push(x any)   { *q = append(*q, x.(wayEnd)) }
func (q *wayQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
