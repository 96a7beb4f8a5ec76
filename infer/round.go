package infer

import (
	"math"
	"slices"
	"sync"
)

// Whole executions. The search gives real numbers; what is written out are
// integers that conserve flow exactly: into every block as many as run and as go
// out of it, counting what comes in at entries and leaves at exits.

// An arc of the rounding leads between blocks or, for entries and exits, from or
// to the outside, which is one more node behind the last block.
type arc struct {
	from, to int32
	n        int64
}

// maxExecutions bounds a count: larger ones are no integers in a float64.
const maxExecutions = 1 << 52

// round returns whole executions of the flow of q: by out-edge, and by entry. Arcs
// outside a spanning tree of the graph are rounded to the nearest integer, those of
// the tree follow from them. The tree is made of the busiest arcs, where the few
// executions of difference matter least. Where an arc would come out below zero,
// a path through it from outside to outside is given the executions that lack.
func (q *problem) round() (outs, entries []int64) {
	f := q.flow
	r := roundings.Get().(*rounding)
	defer roundings.Put(r)
	outside := int32(f.blocks)
	arcs, exact := r.arcs[:0], r.exact[:0]
	for b := range f.blocks {
		for w := f.first[b]; w < f.first[b+1]; w++ {
			to := f.outs[w].to
			if to == leave {
				to = outside
			}
			arcs = append(arcs, arc{from: int32(b), to: to})
			exact = append(exact, q.n[b]*q.prob[w])
		}
	}
	for i, b := range f.entries {
		arcs = append(arcs, arc{from: outside, to: b})
		exact = append(exact, q.enter[i])
	}
	for i := range arcs {
		arcs[i].n = int64(math.Round(min(exact[i], maxExecutions)))
	}
	r.arcs, r.exact = arcs, exact
	r.balance(f.blocks + 1)
	lift(arcs, f.blocks+1)
	q.ran(arcs)
	outs, entries = make([]int64, len(f.outs)), make([]int64, len(f.entries))
	for i := range arcs {
		if i < len(outs) {
			outs[i] = arcs[i].n
		} else {
			entries[i-len(outs)] = arcs[i].n
		}
	}
	return outs, entries
}

// A rounding is storage of round.
type rounding struct {
	arcs  []arc
	exact []float64 // by arc: its executions
	order []rank
	lack  []int64
	nodes []int32
}

type rank struct {
	busy float64
	arc  int32
}

var roundings = sync.Pool{New: func() any { return new(rounding) }}

// balance sets the arcs of a spanning forest of the busiest arcs so that all nodes
// have as much flow in as out.
func (r *rounding) balance(nodes int) {
	arcs, order := r.arcs, r.order[:0]
	for i, n := range r.exact {
		order = append(order, rank{n, int32(i)})
	}
	r.order = order
	slices.SortFunc(order, func(a, b rank) int {
		switch {
		case a.busy > b.busy:
			return -1
		case a.busy < b.busy:
			return 1
		}
		return int(a.arc - b.arc)
	})
	r.lack, r.nodes = slices.Grow(r.lack[:0], nodes)[:nodes], slices.Grow(r.nodes[:0], 3*nodes)[:3*nodes]
	clear(r.lack)
	clear(r.nodes)
	group := r.nodes[:nodes] // union-find
	for i := range group {
		group[i] = int32(i)
	}
	root := func(i int32) int32 {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}
		return i
	}
	lack := r.lack                   // flow out minus flow in of the arcs that are settled
	open := r.nodes[nodes : 2*nodes] // how many are not: all of them in the forest
	last := r.nodes[2*nodes:]        // these combined by exclusive or: the arc itself, if there is one
	for _, r := range order {
		a := &arcs[r.arc]
		x, y := root(a.from), root(a.to)
		if x == y {
			lack[a.from] += a.n
			lack[a.to] -= a.n
			continue
		}
		group[x] = y
		for _, v := range [...]int32{a.from, a.to} {
			open[v]++
			last[v] ^= r.arc
		}
	}
	// Leaves of the forest have one unsettled arc: it takes what they lack.
	for v := range int32(nodes) {
		for open[v] == 1 {
			i := last[v]
			a := &arcs[i]
			other := a.from
			if a.from == v {
				a.n, other = -lack[v], a.to
			} else {
				a.n = lack[v]
			}
			lack[a.from] += a.n
			lack[a.to] -= a.n
			open[v], open[other] = 0, open[other]-1
			last[other] ^= i
			v = other
		}
	}
}

// lift raises arcs below zero to zero along closed paths.
func lift(arcs []arc, nodes int) {
	var out [][]int
	for i := range arcs {
		if arcs[i].n >= 0 {
			continue
		}
		if out == nil {
			out = leaving(arcs, nodes)
		}
		lack := -arcs[i].n
		for _, j := range route(arcs, out, arcs[i].to, arcs[i].from) {
			arcs[j].n += lack
		}
		arcs[i].n = 0
	}
}

// ran adds the executions that samples prove, where less than half of one was inferred: a block with a sample ran, and so did
// the procedure, once at least. A block that is known not to have run stays so.
func (q *problem) ran(arcs []arc) {
	f := q.flow
	n := make([]int64, f.blocks)
	for i := range f.outs {
		n[arcs[i].from] += arcs[i].n
	}
	never := make([]bool, f.blocks)
	for i := range q.known {
		if o := &q.known[i]; o.none && o.out < 0 {
			never[o.block] = true
		}
	}
	outside := int32(f.blocks)
	add := func(path []int) {
		for _, j := range path {
			arcs[j].n++
			if from := arcs[j].from; from != outside {
				n[from]++
			}
		}
	}
	paths := sync.OnceValue(func() *ways { return newWays(arcs, outside) })
	most := -1
	for b, samples := range q.samples {
		if samples == 0 || never[b] {
			continue
		}
		if n[b] == 0 {
			add(paths().to(int32(b)))
			add(paths().from(int32(b)))
		}
		if most < 0 || samples > q.samples[most] {
			most = b
		}
	}
	// A loop may turn by itself as far as whole executions go, also where what enters elsewhere does not lead there.
	if entry := &arcs[len(f.outs)]; most >= 0 && entry.n == 0 && !never[f.entries[0]] && !entersAt(arcs, len(f.outs), paths().leaving, most) {
		entry.n++
		add(route(arcs, paths().leaving, f.entries[0], int32(most)))
		add(paths().from(int32(most)))
	}
}

// entersAt reports whether an entry that was taken leads to block b; arcs from the given one on are entries.
func entersAt(arcs []arc, entries int, leaving [][]int, b int) bool {
	outside := int32(len(leaving) - 1)
	return slices.ContainsFunc(arcs[entries:], func(a arc) bool {
		if a.n == 0 || int(a.to) == b {
			return a.n > 0
		}
		via, _ := reach(a.to, int32(b), leaving, func(j int) int32 {
			if arcs[j].to == outside {
				return a.to // which is there already
			}
			return arcs[j].to
		})
		return via[b] >= 0
	})
}

// Ways are shortest paths to blocks from the outside, and from them to it: those that route returns, by one search for all blocks.
type ways struct {
	arcs    []arc
	outside int32
	leaving [][]int // by node: the arcs
	in, out []int   // by node: the last arc of the path to it, and the first of that from it
}

func newWays(arcs []arc, outside int32) *ways {
	entering := make([][]int, outside+1)
	for j, a := range arcs {
		entering[a.to] = append(entering[a.to], j)
	}
	w := &ways{arcs: arcs, outside: outside, leaving: leaving(arcs, int(outside)+1)}
	w.in, _ = reach(outside, outside, w.leaving, func(j int) int32 { return arcs[j].to })
	var nodes []int32
	w.out, nodes = reach(outside, outside, entering, func(j int) int32 { return arcs[j].from })
	left := make([]int, outside+1) // arcs of the path
	for v := range left {
		left[v] = -1
	}
	left[outside] = 0
	for _, v := range nodes[1:] {
		left[v] = left[arcs[w.out[v]].to] + 1
	}
	for _, v := range nodes[1:] {
		// Of several shortest paths the one whose arcs are first among those that leave: a search from v finds it.
		first := slices.IndexFunc(w.leaving[v], func(j int) bool { return left[arcs[j].to] == left[v]-1 })
		w.out[v] = w.leaving[v][first]
	}
	return w
}

// to returns the arcs of the path from the outside to b.
func (w *ways) to(b int32) (path []int) {
	for b != w.outside {
		path = append(path, w.in[b])
		b = w.arcs[w.in[b]].from
	}
	return path
}

// from returns the arcs of the path from b to the outside.
func (w *ways) from(b int32) (path []int) {
	for b != w.outside {
		path = append(path, w.out[b])
		b = w.arcs[w.out[b]].to
	}
	return path
}

// reach returns for each node the arc by which a search from start comes to it first, -1 where it does not, and the nodes
// that it comes to, in order. It ends at stop; where that is start, it finds all nodes. The arcs at each node are given,
// and next returns where one leads.
func reach(start, stop int32, arcs [][]int, next func(j int) int32) (via []int, nodes []int32) {
	via = make([]int, len(arcs))
	for v := range via {
		via[v] = -1
	}
	nodes = []int32{start}
	for i := 0; i < len(nodes) && via[stop] < 0; i++ {
		for _, j := range arcs[nodes[i]] {
			if w := next(j); via[w] < 0 && w != start {
				via[w] = j
				nodes = append(nodes, w)
			}
		}
	}
	return via, nodes
}

// leaving returns the arcs that leave each node.
func leaving(arcs []arc, nodes int) [][]int {
	out := make([][]int, nodes)
	for j, a := range arcs {
		out[a.from] = append(out[a.from], j)
	}
	return out
}

// route returns the arcs of a shortest path. There is one: from every block the
// outside can be reached, and every block from there.
func route(arcs []arc, out [][]int, from, to int32) []int {
	via, _ := reach(from, to, out, func(j int) int32 { return arcs[j].to })
	var p []int
	for v := to; v != from; v = arcs[via[v]].from {
		p = append(p, via[v])
	}
	return p
}
