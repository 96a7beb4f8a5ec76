package infer

import (
	"container/heap"
	"slices"

	"backfeed/infer/image"
)

// A flow is the flow graph of one procedure as an absorbing Markov chain: from
// each block, control goes on along one of its ways out with some probability,
// or leaves. Given the probabilities and the executions that enter from outside,
// the executions of all blocks follow by solving one sparse linear system. In
// these coordinates every point conserves flow exactly, so a search over them
// needs no constraints.
//
// The system is solved by eliminating blocks one after another. Grassmann, Taksar
// and Heyman's form (Operations Research 33(5), 1985) computes the pivot
// 1 - p(k,k) as the sum of the other probabilities of k; it subtracts nothing, so a
// loop that runs a billion times costs no precision. The order of elimination
// (fewest new arcs first) and all places of the matrix are found once: solve then
// is a straight walk over index lists. Flow graphs are nearly trees; the work is
// close to linear in their size.
type flow struct {
	blocks int

	// Ways out of the blocks, grouped by block: ways[first[b]:first[b+1]].
	ways  []way
	first []int32

	entries []int32 // blocks entered from outside; entries[0] is the procedure's own
	trapped []int32 // blocks given an exit that the code does not show

	// The elimination, in order. Step k owns the arcs in preds, succs and fills
	// at its bounds; arcs 0..arcs-1 hold transition probabilities.
	order  []int32
	steps  []step
	preds  []ref   // (arc, block) of block -> order[k]
	succs  []ref   // (arc, block) of order[k] -> block
	fills  []int32 // arc of pred x succ, row by row
	arcs   int
	wayArc []int32 // arc of each way; -1 for exits
}

// A way is one alternative at the end of a block.
type way struct {
	to   int32 // block, or leave
	edge int32 // index into Proc.Edges, or -1 for an exit
}

const leave = -1

type ref struct{ arc, block int32 }

type step struct{ pred, succ, fill int32 } // ends of the step's parts of preds, succs, fills

// maxFill bounds the arcs of an elimination relative to the blocks. Real flow
// graphs stay below 10; a graph that does not is treated block by block.
const maxFill = 200

// newFlow prepares the chain of p. It returns nil if the elimination would fill
// up, which no compiled procedure has been seen to do.
func newFlow(p *image.Proc) *flow {
	f := &flow{blocks: len(p.Blocks)}
	f.addWays(p)
	f.addEntries(p)
	if !f.eliminate() {
		return nil
	}
	return f
}

func (f *flow) addWays(p *image.Proc) {
	f.first = make([]int32, 1, len(p.Blocks)+1)
	for i := range p.Blocks {
		b := &p.Blocks[i]
		for _, e := range b.Out {
			f.ways = append(f.ways, way{int32(p.Edges[e].To), int32(e)})
		}
		if b.Exit != image.NoExit || len(b.Out) == 0 {
			f.ways = append(f.ways, way{leave, -1})
		}
		f.first = append(f.first, int32(len(f.ways)))
	}
	f.openTraps()
}

// openTraps gives an exit to blocks that no exit can be reached from: an idle
// loop ends with the program, or by a signal, and has executions all the same.
// One exit per trapped region is enough; the lowest block that still has none
// gets it until all blocks have a way out.
func (f *flow) openTraps() {
	preds := make([][]int32, f.blocks)
	for b := range f.blocks {
		for _, w := range f.waysOf(b) {
			if w.to != leave {
				preds[w.to] = append(preds[w.to], int32(b))
			}
		}
	}
	out := make([]bool, f.blocks)
	var work []int32
	reach := func(b int32) {
		if !out[b] {
			out[b] = true
			work = append(work, b)
		}
		for len(work) > 0 {
			b := work[len(work)-1]
			work = work[:len(work)-1]
			for _, q := range preds[b] {
				if !out[q] {
					out[q] = true
					work = append(work, q)
				}
			}
		}
	}
	for b := range f.blocks {
		for _, w := range f.waysOf(b) {
			if w.to == leave {
				reach(int32(b))
			}
		}
	}
	// From the bottom up: the last block of a loop usually closes it.
	for b := f.blocks - 1; b >= 0; b-- {
		if !out[b] {
			f.trapped = append(f.trapped, int32(b))
			reach(int32(b))
		}
	}
	if f.trapped == nil {
		return
	}
	var ways []way
	first := []int32{0}
	for b := range f.blocks {
		ways = append(ways, f.waysOf(b)...)
		if slices.Contains(f.trapped, int32(b)) {
			ways = append(ways, way{leave, -1})
		}
		first = append(first, int32(len(ways)))
	}
	f.ways, f.first = ways, first
}

func (f *flow) waysOf(b int) []way { return f.ways[f.first[b]:f.first[b+1]] }

// addEntries finds the blocks that control can enter from outside: the first, those
// the image package says, and blocks that nothing in the graph leads to.
func (f *flow) addEntries(p *image.Proc) {
	seen := make([]bool, f.blocks)
	var work []int32
	enter := func(b int32) {
		f.entries = append(f.entries, b)
		if !seen[b] {
			seen[b] = true
			work = append(work, b)
		}
		for len(work) > 0 {
			b := work[len(work)-1]
			work = work[:len(work)-1]
			for _, w := range f.waysOf(int(b)) {
				if w.to != leave && !seen[w.to] {
					seen[w.to] = true
					work = append(work, w.to)
				}
			}
		}
	}
	enter(0)
	for _, b := range p.Entries {
		if b != 0 && !slices.Contains(f.entries, int32(b)) {
			enter(int32(b))
		}
	}
	indeg := make([]int32, f.blocks)
	for b := range f.blocks {
		for _, w := range f.waysOf(b) {
			if w.to != leave && int(w.to) != b {
				indeg[w.to]++
			}
		}
	}
	for b := range f.blocks {
		if !seen[b] && indeg[b] == 0 {
			enter(int32(b))
		}
	}
	for b := range f.blocks { // regions that only lead to themselves
		if !seen[b] {
			enter(int32(b))
		}
	}
}

// elimHeap orders blocks by the arcs their elimination may add, then by number.
type elimHeap struct {
	cost []int64
	node []int32
}

func (h *elimHeap) Len() int { return len(h.node) }
func (h *elimHeap) Less(i, j int) bool {
	if h.cost[i] != h.cost[j] {
		return h.cost[i] < h.cost[j]
	}
	return h.node[i] < h.node[j]
}
func (h *elimHeap) Swap(i, j int) {
	h.cost[i], h.cost[j] = h.cost[j], h.cost[i]
	h.node[i], h.node[j] = h.node[j], h.node[i]
}
func (h *elimHeap) Push(x any) {
	p := x.([2]int64)
	h.cost, h.node = append(h.cost, p[0]), append(h.node, int32(p[1]))
}
func (h *elimHeap) Pop() any {
	n := len(h.node) - 1
	p := [2]int64{h.cost[n], int64(h.node[n])}
	h.cost, h.node = h.cost[:n], h.node[:n]
	return p
}

// eliminate finds the order of elimination and the arcs that it adds.
func (f *flow) eliminate() bool {
	n := f.blocks
	out := make([][]ref, n) // live arcs between blocks not yet eliminated, by block
	in := make([][]ref, n)
	find := func(i, j int32) (int32, bool) {
		for _, r := range out[i] {
			if r.block == j {
				return r.arc, true
			}
		}
		return 0, false
	}
	add := func(i, j int32) int32 {
		a, ok := find(i, j)
		if !ok {
			a = int32(f.arcs)
			f.arcs++
			out[i] = append(out[i], ref{a, j})
			in[j] = append(in[j], ref{a, i})
		}
		return a
	}
	f.wayArc = make([]int32, len(f.ways))
	for b := range n {
		for w := f.first[b]; w < f.first[b+1]; w++ {
			f.wayArc[w] = -1
			switch to := f.ways[w].to; {
			case to == leave:
			case int(to) == b: // a self loop is in no pivot: it only lengthens the stay
				f.wayArc[w] = -1
			default:
				f.wayArc[w] = add(int32(b), to)
			}
		}
	}
	cost := func(b int32) int64 { return int64(len(in[b])) * int64(len(out[b])) }
	h := &elimHeap{}
	for b := range n {
		h.cost, h.node = append(h.cost, cost(int32(b))), append(h.node, int32(b))
	}
	heap.Init(h)
	done := make([]bool, n)
	drop := func(s []ref, b int32) []ref {
		for i := range s {
			if s[i].block == b {
				return append(s[:i], s[i+1:]...)
			}
		}
		return s
	}
	for h.Len() > 0 {
		top := heap.Pop(h).([2]int64)
		k := int32(top[1])
		if done[k] || top[0] != cost(k) {
			continue // a later entry has the true cost
		}
		done[k] = true
		f.order = append(f.order, k)
		f.preds = append(f.preds, in[k]...)
		f.succs = append(f.succs, out[k]...)
		for _, j := range out[k] {
			in[j.block] = drop(in[j.block], k)
		}
		for _, i := range in[k] {
			out[i.block] = drop(out[i.block], k)
		}
		for _, i := range in[k] {
			for _, j := range out[k] {
				if i.block == j.block {
					f.fills = append(f.fills, -1)
				} else {
					f.fills = append(f.fills, add(i.block, j.block))
				}
			}
		}
		if len(f.fills) > maxFill*(n+16) {
			return false
		}
		f.steps = append(f.steps, step{int32(len(f.preds)), int32(len(f.succs)), int32(len(f.fills))})
		for _, i := range in[k] {
			heap.Push(h, [2]int64{cost(i.block), int64(i.block)})
		}
		for _, j := range out[k] {
			heap.Push(h, [2]int64{cost(j.block), int64(j.block)})
		}
	}
	return true
}

// A factor is the elimination of a flow at given probabilities.
type factor struct {
	f    *flow
	arc  []float64 // transition probabilities, updated by the elimination
	exit []float64 // by block: probability to leave
	stay []float64 // by block: 1/(1 - probability to come back at once)
}

func (f *flow) newFactor() *factor {
	return &factor{f, make([]float64, f.arcs), make([]float64, f.blocks), make([]float64, f.blocks)}
}

// set eliminates for way probabilities p, as f.ways.
func (x *factor) set(p []float64) {
	f := x.f
	clear(x.arc)
	clear(x.exit)
	for b := range f.blocks {
		for w := f.first[b]; w < f.first[b+1]; w++ {
			switch a := f.wayArc[w]; {
			case a >= 0:
				x.arc[a] += p[w]
			case f.ways[w].to == leave:
				x.exit[b] += p[w]
			}
		}
	}
	var at step
	for s, k := range f.order {
		end := f.steps[s]
		succs := f.succs[at.succ:end.succ]
		d := x.exit[k]
		for _, j := range succs {
			d += x.arc[j.arc]
		}
		// A block whose ways out have all underflown would stay for ever.
		d = max(d, 1e-300)
		x.stay[k] = 1 / d
		fill := f.fills[at.fill:end.fill]
		for _, i := range f.preds[at.pred:end.pred] {
			q := x.arc[i.arc] / d
			x.exit[i.block] += q * x.exit[k]
			for c, j := range succs {
				if a := fill[c]; a >= 0 {
					x.arc[a] += q * x.arc[j.arc]
				}
			}
			fill = fill[len(succs):]
		}
		at = end
	}
}

// visits turns v, the executions that enter each block from outside, into all
// executions of each block.
func (x *factor) visits(v []float64) {
	f := x.f
	var at step
	for s, k := range f.order {
		end := f.steps[s]
		if q := v[k] * x.stay[k]; q != 0 {
			for _, j := range f.succs[at.succ:end.succ] {
				v[j.block] += q * x.arc[j.arc]
			}
		}
		at = end
	}
	for s := len(f.order) - 1; s >= 0; s-- {
		k := f.order[s]
		lo := int32(0)
		if s > 0 {
			lo = f.steps[s-1].pred
		}
		for _, i := range f.preds[lo:f.steps[s].pred] {
			v[k] += v[i.block] * x.arc[i.arc]
		}
		v[k] *= x.stay[k]
	}
}

// values turns g, the value of one execution of each block, into the value of
// all that follows from entering it: the transpose of visits.
func (x *factor) values(g []float64) {
	f := x.f
	lo := int32(0)
	for s, k := range f.order {
		if q := g[k] * x.stay[k]; q != 0 {
			for _, i := range f.preds[lo:f.steps[s].pred] {
				g[i.block] += q * x.arc[i.arc]
			}
		}
		lo = f.steps[s].pred
	}
	for s := len(f.order) - 1; s >= 0; s-- {
		k := f.order[s]
		lo := int32(0)
		if s > 0 {
			lo = f.steps[s-1].succ
		}
		for _, j := range f.succs[lo:f.steps[s].succ] {
			g[k] += g[j.block] * x.arc[j.arc]
		}
		g[k] *= x.stay[k]
	}
}
