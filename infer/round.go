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
	var out [][]int
	through := func(from, b int32) {
		if out == nil {
			out = leaving(arcs, f.blocks+1)
		}
		for _, path := range [...][]int{route(arcs, out, from, b), route(arcs, out, b, outside)} {
			for _, j := range path {
				arcs[j].n++
				if a := arcs[j].from; a != outside {
					n[a]++
				}
			}
		}
	}
	most := -1
	for b, samples := range q.samples {
		if samples == 0 || never[b] {
			continue
		}
		if n[b] == 0 {
			through(outside, int32(b))
		}
		if most < 0 || samples > q.samples[most] {
			most = b
		}
	}
	// A loop may turn by itself as far as whole executions go.
	entries := arcs[len(f.outs):]
	if most >= 0 && !never[f.entries[0]] && !slices.ContainsFunc(entries, func(a arc) bool { return a.n > 0 }) {
		entries[0].n++
		through(f.entries[0], int32(most))
	}
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
	via := make([]int, len(out))
	for i := range via {
		via[i] = -1
	}
	work := []int32{from}
	for len(work) > 0 && (via[to] < 0 && from != to) {
		v := work[0]
		work = work[1:]
		for _, j := range out[v] {
			if w := arcs[j].to; via[w] < 0 && w != from {
				via[w] = j
				work = append(work, w)
			}
		}
	}
	var p []int
	for v := to; v != from; v = arcs[via[v]].from {
		p = append(p, via[v])
	}
	return p
}
