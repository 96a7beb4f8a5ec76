package infer

import (
	"math"
	"slices"
	"sync"

	"backfeed/infer/image"
)

// A flow is the flow graph of one procedure as an absorbing Markov chain: from
// each block, control goes on along one of its out-edges with some probability,
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

	// Out-edges of the blocks, grouped by block: outs[first[b]:first[b+1]].
	outs  []outEdge
	first []int32

	entries []int32 // blocks entered from outside; entries[0] is the procedure's own
	trapped []int32 // blocks given an exit that the code does not show

	// The elimination, in order: of order[k] it takes steps[k]. An arc that leads from or
	// to a block is numbered when the first of its two ends is eliminated: first come
	// those that lead away from it, then those that lead there. Places are those in
	// factor.at.
	order []int32
	steps []step
	end   []int32 // by arc: the block at its other end, which is eliminated later
	fills []int32 // place of each in x out, row by row
	outAt []int32 // place of each out-edge

	// Blocks with a single out-edge need no elimination, and are a third or more of all: their arcs are those of where they
	// lead. units are they, each behind the one that it leads to if that is one of them; feeds are the out-edges
	// of all others that lead to one.
	units []unit
	feeds []feed
}

// A unit is a block whose only out-edge leads to next, and on, through other units, to the block to; either may be leave.
type unit struct {
	block, next, to int32
	chained         bool // next is a unit
}

// A feed is an out-edge of a block that leads to a unit.
type feed struct{ out, from, to int32 }

// An outEdge is one alternative at the end of a block.
type outEdge struct {
	to   int32 // block, or leave
	edge int32 // index into Proc.Edges, or -1 for an exit
}

const leave = -1

// A step has the ends of its arcs away from its block, of those to its block, and of
// its fills; they begin where those of the step before end.
type step struct{ out, in, fill int32 }

// maxFill bounds the arcs of an elimination relative to the blocks. Real flow
// graphs stay below 10; a graph that does not is treated block by block.
const maxFill = 200

// newFlow prepares the chain of p, whose last blocks are so many dispatches. It returns nil if
// the elimination would fill up, which no compiled procedure has been seen to do.
func newFlow(p *image.Proc, dispatches int) *flow {
	f := &flow{blocks: len(p.Blocks)}
	f.addOuts(p)
	f.openTraps(len(p.Blocks) - dispatches)
	f.addEntries(p)
	if !f.eliminate() {
		return nil
	}
	return f
}

func (f *flow) addOuts(p *image.Proc) {
	f.first = indexes.take(len(p.Blocks) + 1)[:1]
	outs := 0
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if outs += len(b.Out); b.Exit != image.NoExit || len(b.Out) == 0 {
			outs++
		}
	}
	f.outs = outEdges.take(outs)[:0]
	for i := range p.Blocks {
		b := &p.Blocks[i]
		for _, e := range b.Out {
			f.outs = append(f.outs, outEdge{int32(p.Edges[e].To), int32(e)})
		}
		if b.Exit != image.NoExit || len(b.Out) == 0 {
			f.outs = append(f.outs, outEdge{leave, -1})
		}
		f.first = append(f.first, int32(len(f.outs)))
	}
}

// openTraps returns an exit to blocks that no exit can be reached from: an idle
// loop ends with the program, or by a signal, and has executions all the same.
// One exit per trapped region is enough; the lowest block that still has none
// gets it until all blocks have an out-edge. Dispatches have none of their own: those behind the
// first so many blocks get none.
func (f *flow) openTraps(blocks int) {
	if f.open() {
		return
	}
	preds := make([][]int32, f.blocks)
	for b := range f.blocks {
		for _, w := range f.outsOf(b) {
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
		for _, w := range f.outsOf(b) {
			if w.to == leave {
				reach(int32(b))
			}
		}
	}
	// From the bottom up: the last block of a loop usually closes it.
	for b := blocks - 1; b >= 0; b-- {
		if !out[b] {
			f.trapped = append(f.trapped, int32(b))
			reach(int32(b))
		}
	}
	if f.trapped == nil {
		return
	}
	var outs []outEdge
	first := []int32{0}
	for b := range f.blocks {
		outs = append(outs, f.outsOf(b)...)
		if slices.Contains(f.trapped, int32(b)) {
			outs = append(outs, outEdge{leave, -1})
		}
		first = append(first, int32(len(outs)))
	}
	f.outs, f.first = outs, first
}

// open reports whether an exit can be reached from all blocks, if two passes from the bottom up show that: most code leads down.
func (f *flow) open() bool {
	out := make([]bool, f.blocks)
	for range 2 {
		all := true
		for b := f.blocks - 1; b >= 0; b-- {
			for _, w := range f.outsOf(b) {
				out[b] = out[b] || w.to == leave || out[w.to]
			}
			all = all && out[b]
		}
		if all {
			return true
		}
	}
	return false
}

func (f *flow) outsOf(b int) []outEdge { return f.outs[f.first[b]:f.first[b+1]] }

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
			for _, w := range f.outsOf(int(b)) {
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
		for _, w := range f.outsOf(b) {
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

// An eliminator finds the order of elimination and the arcs that it adds. It may
// serve many flows, one after another.
type eliminator struct {
	out, in [][]ref // live arcs between blocks not yet eliminated, by block
	arcs    int32   // numbered as they come
	wait    queue
	cost    []int64 // by block: arcs that its elimination may add; -1 if it is done
	ends    []ref   // of the steps so far
	number  []int32 // by arc: its place in ends

	unit  []bool  // by block
	to    []int32 // by block: itself, but of a unit where its chain leads
	path  []int32
	fills []int32
	units []unit
	feeds []feed
}

type ref struct{ arc, block int32 }

var eliminators = sync.Pool{New: func() any { return new(eliminator) }}

// eliminate finds the elimination, or returns false if it would fill up.
func (f *flow) eliminate() bool {
	e := eliminators.Get().(*eliminator)
	defer eliminators.Put(e)
	e.reset(f.blocks)
	e.pass(f)
	f.outAt = indexes.take(len(f.outs))
	for b := range f.blocks {
		if e.unit[b] {
			continue
		}
		for w := f.first[b]; w < f.first[b+1]; w++ {
			// A self loop is in no pivot: it only lengthens the stay.
			if to := e.behind(f.outs[w].to); to != leave && int(to) != b {
				f.outAt[w] = e.add(int32(b), to)
			}
		}
	}
	rest := f.blocks - len(f.units)
	f.order, f.steps = indexes.take(rest)[:0], steps.take(rest)[:0]
	fills := e.fills[:0]
	for b := range f.blocks {
		if !e.unit[b] {
			e.queue(int32(b))
		}
	}
	for len(f.order) < rest {
		k := e.next()
		f.order = append(f.order, k)
		fills = e.remove(k, fills)
		if e.fills = fills; len(fills) > maxFill*(f.blocks+16) {
			return false
		}
		n := int32(len(e.ends))
		f.steps = append(f.steps, step{n - int32(len(e.in[k])), n, int32(len(fills))})
	}
	// All arcs are in ends now, and get their numbers from there.
	e.number = slices.Grow(e.number[:0], int(e.arcs))[:e.arcs]
	f.fills, f.end = indexes.keep(fills), indexes.take(len(e.ends))
	for i, r := range e.ends {
		e.number[r.arc], f.end[i] = int32(i), r.block
	}
	exits := int32(len(e.ends))
	unread := exits + int32(f.blocks)
	for i, a := range f.fills {
		if f.fills[i] = unread; a >= 0 {
			f.fills[i] = e.number[a]
		}
	}
	for b := range f.blocks {
		for w := f.first[b]; w < f.first[b+1]; w++ {
			switch to := e.behind(f.outs[w].to); {
			case e.unit[b] || int(to) == b:
				f.outAt[w] = unread
			case to == leave:
				f.outAt[w] = exits + int32(b)
			default:
				f.outAt[w] = e.number[f.outAt[w]]
			}
		}
	}
	return true
}

// pass finds the units of f and what feeds them.
func (e *eliminator) pass(f *flow) {
	for b := range f.blocks {
		out := f.outsOf(b)
		e.unit[b] = len(out) == 1 && int(out[0].to) != b
		e.to[b] = int32(b)
	}
	units := e.units[:0]
	for b := range f.blocks {
		path := e.path[:0]
		at := int32(b)
		for at != leave && e.unit[at] && e.to[at] == at {
			e.to[at] = onPath
			path = append(path, at)
			at = f.outs[f.first[at]].to
		}
		if e.path = path; at != leave && e.to[at] == onPath { // a loop that nothing leaves
			e.unit[at], e.to[at] = false, at
		}
		at = e.behind(at)
		for i := len(path) - 1; i >= 0; i-- {
			if k := path[i]; e.unit[k] {
				next := f.outs[f.first[k]].to
				e.to[k] = at
				units = append(units, unit{k, next, at, next != leave && e.unit[next]})
			}
		}
	}
	e.units, f.units = units, unitLists.keep(units)
	feeds := e.feeds[:0]
	for b := range f.blocks {
		if !e.unit[b] {
			for w := f.first[b]; w < f.first[b+1]; w++ {
				if to := f.outs[w].to; to != leave && e.unit[to] {
					feeds = append(feeds, feed{w, int32(b), to})
				}
			}
		}
	}
	e.feeds, f.feeds = feeds, feedLists.keep(feeds)
}

const onPath = -2

// behind is the block that control goes to from an out-edge that leads to b, beyond units.
func (e *eliminator) behind(b int32) int32 {
	if b == leave {
		return leave
	}
	return e.to[b]
}

// reset makes e ready for n blocks without arcs.
func (e *eliminator) reset(n int) {
	e.out, e.in = empty(e.out, n), empty(e.in, n)
	e.cost = slices.Grow(e.cost[:0], n)[:n]
	e.unit = slices.Grow(e.unit[:0], n)[:n]
	e.to = slices.Grow(e.to[:0], n)[:n]
	for i := range e.cost {
		e.cost[i] = math.MaxInt64
	}
	e.arcs, e.wait, e.ends = 0, e.wait[:0], e.ends[:0]
}

// empty returns n empty lists, with what room lists has.
func empty(lists [][]ref, n int) [][]ref {
	lists = slices.Grow(lists[:0], n)[:n]
	for i := range lists {
		lists[i] = lists[i][:0]
	}
	return lists
}

// add returns the arc from i to j, a new one if there is none.
func (e *eliminator) add(i, j int32) int32 {
	for _, r := range e.out[i] {
		if r.block == j {
			return r.arc
		}
	}
	a := e.arcs
	e.arcs++
	e.out[i] = append(e.out[i], ref{a, j})
	e.in[j] = append(e.in[j], ref{a, i})
	return a
}

// remove eliminates k, and appends the arcs that stand for the paths through it.
func (e *eliminator) remove(k int32, fills []int32) []int32 {
	out, in := e.out[k], e.in[k]
	e.cost[k] = -1
	e.ends = append(append(e.ends, out...), in...)
	for _, j := range out {
		e.in[j.block] = drop(e.in[j.block], k)
	}
	for _, i := range in {
		e.out[i.block] = drop(e.out[i.block], k)
	}
	for _, i := range in {
		for _, j := range out {
			a := int32(-1)
			if i.block != j.block {
				a = e.add(i.block, j.block)
			}
			fills = append(fills, a)
		}
	}
	for _, i := range in {
		e.queue(i.block)
	}
	for _, j := range out {
		e.queue(j.block)
	}
	return fills
}

// drop takes the arc from or to b out of s.
func drop(s []ref, b int32) []ref {
	i := slices.IndexFunc(s, func(r ref) bool { return r.block == b })
	return slices.Delete(s, i, i+1)
}

// queue enters b with its present cost.
func (e *eliminator) queue(b int32) {
	if c := int64(len(e.in[b])) * int64(len(e.out[b])); c != e.cost[b] {
		e.cost[b] = c
		e.wait.push(c<<32 | int64(b))
	}
}

// next returns the block that costs least, of several the lowest.
func (e *eliminator) next() int32 {
	for {
		top := e.wait.pop()
		if b := int32(top); e.cost[b] == top>>32 {
			return b
		}
	}
}

// A queue is a heap of integers.
type queue []int64

func (q *queue) push(v int64) {
	h := append(*q, v)
	*q = h
	i := len(h) - 1
	for i > 0 && v < h[(i-1)/2] {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = v
}

func (q *queue) pop() int64 {
	h := *q
	top, v := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	i := 0
	for c := 1; c < len(h); c = 2*i + 1 {
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if v <= h[c] {
			break
		}
		h[i] = h[c]
		i = c
	}
	if len(h) > 0 {
		h[i] = v
	}
	return top
}

// A factor is the elimination of a flow at given probabilities.
type factor struct {
	f    *flow
	at   []float64 // probabilities of arcs, then of exits by block, updated by the elimination; the last is that of self loops, which nobody reads
	arc  []float64 // part of at
	exit []float64 // part of at
	prob []float64 // of out-edges
	stay []float64 // by block: 1/(1 - probability to come back at once)
}

func (f *flow) newFactor() *factor {
	arcs, exits := len(f.end), len(f.end)+f.blocks
	all := floats.take(exits + 1 + f.blocks)
	x := factors.one()
	*x = factor{f: f, at: all[:exits+1], arc: all[:arcs], exit: all[arcs:exits], stay: all[exits+1:]}
	return x
}

// set eliminates for probabilities of out-edges p, as f.outs. They are to stay as they are while x is used. Most lists
// of arcs have one or two: to cut slices for them, here, in visits and in values, costs more than checked indices do.
func (x *factor) set(p []float64) {
	f, at, arc, exit, stay := x.f, x.at, x.arc, x.exit, x.stay
	x.prob = p
	clear(at)
	p = p[:len(f.outAt)]
	for w, i := range f.outAt {
		at[i] += p[w]
	}
	fills, steps, to := f.fills, f.steps[:len(f.order)], f.end[:len(arc)]
	in, fill := int32(0), 0
	for s, k := range f.order {
		end := steps[s]
		ex := exit[k]
		d := ex
		for i := in; i < end.out; i++ {
			d += arc[i]
		}
		// A block whose out-edges have all underflown would stay for ever.
		d = 1 / max(d, 1e-300)
		stay[k] = d
		for i := end.out; i < end.in; i++ {
			q := arc[i] * d
			exit[to[i]] += q * ex
			for o := in; o < end.out; o++ {
				at[fills[fill]] += q * arc[o]
				fill++
			}
		}
		in = end.in
	}
}

// visits turns v, the executions that enter each block from outside, into all
// executions of each block.
func (x *factor) visits(v []float64) {
	f, arc, stay := x.f, x.arc, x.stay
	units := f.units
	for i := range units {
		if u := &units[i]; u.to != leave {
			if n := v[u.block]; n != 0 {
				v[u.to] += n
			}
		}
	}
	steps, end := f.steps[:len(f.order)], f.end[:len(arc)]
	lo := int32(0)
	for s, k := range f.order {
		if q := v[k] * stay[k]; q != 0 {
			for i := lo; i < steps[s].out; i++ {
				v[end[i]] += q * arc[i]
			}
		}
		lo = steps[s].in
	}
	for s := len(steps) - 1; s >= 0; s-- {
		k := f.order[s]
		sum := v[k]
		for i := steps[s].out; i < steps[s].in; i++ {
			sum += v[end[i]] * arc[i]
		}
		v[k] = sum * stay[k]
	}
	for _, e := range f.feeds {
		v[e.to] += v[e.from] * x.prob[e.out]
	}
	for i := len(units) - 1; i >= 0; i-- {
		if u := &units[i]; u.chained {
			v[u.next] += v[u.block]
		}
	}
}

// values turns g, the value of one execution of each block, into the value of
// all that follows from entering it: the transpose of visits.
func (x *factor) values(g []float64) {
	f, arc, stay := x.f, x.arc, x.stay
	units := f.units
	for i := range units {
		if u := &units[i]; u.chained {
			g[u.block] += g[u.next]
		}
	}
	for _, e := range f.feeds {
		g[e.from] += g[e.to] * x.prob[e.out]
	}
	steps, end := f.steps[:len(f.order)], f.end[:len(arc)]
	for s, k := range f.order {
		q := g[k] * stay[k]
		for i := steps[s].out; i < steps[s].in; i++ {
			g[end[i]] += q * arc[i]
		}
	}
	for s := len(steps) - 1; s >= 0; s-- {
		k, lo := f.order[s], int32(0)
		if s > 0 {
			lo = steps[s-1].in
		}
		sum := g[k]
		for i := lo; i < steps[s].out; i++ {
			sum += g[end[i]] * arc[i]
		}
		g[k] = sum * stay[k]
	}
	for i := range units {
		if u := &units[i]; u.to != leave {
			g[u.block] += g[u.to]
		}
	}
}
