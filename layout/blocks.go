package layout

import (
	"cmp"
	"container/heap"
	"slices"

	"backfeed/infer"
)

// Limits of the search for an order of blocks, those of LLVM 19's CodeLayout.cpp.
const (
	maxChainBlocks  = 512
	maxSplitBlocks  = 128 // of a chain that may be cut anywhere; longer ones are cut at jumps
	maxDensityRatio = 100 // of two chains that are merged
)

// Chains gives the blocks of r in the order in which they should lie, as indices
// into r.Proc.Blocks: hot begins with the entry; cold is the rest, blocks that are
// cold by evidence or did not run, in the order they have.
func Chains(r *infer.Result) (hot, cold []int) {
	g := Blocks(r)
	return g.split(orderBlocks(g))
}

// compiledWeight is how many times a fall-through of the compiled order counts.
// Counts are estimates, what the compiler thought likely is evidence too, and a
// search finds the errors of the counts as well. By callgrind's counts of builds of
// clang-19 -O2, taken branches change from the compiled order to that found with
// 20,000 samples of SQLite, 5,000 of zstd, 23,000 of jsonnet (testdata/consumers) and
// 7,000 of a C++ program that mostly sorts:
//
//	1.00  -51.7 %  -44.8 %  -25.1 %  +12.3 %
//	1.25  -50.8 %  -47.8 %  -25.4 %   -5.5 %
//	1.50  -50.7 %  -43.4 %  -27.1 %   -4.9 %
//	3.00  -49.2 %  -46.2 %  -23.3 %   -5.3 %
//
// By exact counts it is -62.0, -61.9, -41.7 and -28.6 %.
const compiledWeight = 1.25

// orderBlocks gives the order with the best Score that two searches find, or that of
// the compiler if none is better.
func orderBlocks(g *Graph) []int {
	g = &Graph{g.Nodes, slices.Clone(g.Arcs)}
	for i, a := range g.Arcs {
		if a.To == a.From+1 {
			g.Arcs[i].N *= compiledWeight
		}
	}
	best := make([]int, len(g.Nodes))
	for i := range best {
		best[i] = i
	}
	score := Score(g, best)
	for _, search := range []func(*Graph) []int{extTSP, pettisHansen} {
		order := search(g)
		if s := Score(g, order); s > score+minGain {
			best, score = order, s
		}
	}
	return best
}

// split takes the nodes that did not run out of an order. Node 0, the entry, stays.
func (g *Graph) split(order []int) (hot, cold []int) {
	for _, i := range order {
		if i == 0 || g.Nodes[i].N > 0 {
			hot = append(hot, i)
		} else {
			cold = append(cold, i)
		}
	}
	slices.Sort(cold)
	return hot, cold
}

// pettisHansen orders the nodes of g, the blocks of a procedure, by the bottom-up
// search of "Profile Guided Code Positioning", Pettis and Hansen, PLDI 1990: the
// most frequent arc first, a chain that ends in a block is joined to the one that
// begins with its successor.
func pettisHansen(g *Graph) []int {
	if len(g.Nodes) == 0 {
		return nil
	}
	s := newBlockSort(g)
	arcs := slices.Clone(g.Arcs)
	slices.SortStableFunc(arcs, func(a, b Arc) int { return cmp.Compare(b.N, a.N) })
	s.joinNeighbours(arcs)
	return flattenChains(s.chains, s.of[0])
}

// extTSP orders the nodes of g, the blocks of a procedure, for a high Score. Node 0
// is the entry and stays first. It is the greedy search of ExtTSPImpl in LLVM's
// CodeLayout.cpp: chains of blocks merge two by two, the pair that gains most
// first, and one of the two may be cut for it. Two blocks that only lead to and
// come from each other are never parted. Then the densest chains come first, and
// those that did not run last.
func extTSP(g *Graph) []int {
	if len(g.Nodes) == 0 {
		return nil
	}
	s := newBlockSort(g)
	s.joinForced()
	s.linkChains()
	for s.queue.Len() > 0 {
		s.merge(heap.Pop(&s.queue).(*link))
	}
	// From here on, merging gains nothing: where control runs on as compiled, it may as well stay.
	s.joinNeighbours(slices.DeleteFunc(slices.Clone(g.Arcs), func(a Arc) bool { return a.To != a.From+1 }))
	s.joinNeighbours(g.Arcs)
	return flattenChains(s.chains, s.of[0])
}

type blockSort struct {
	g      *Graph
	ways   []int    // arcs out of each node
	next   [][]int  // where they lead
	forced []int    // the node that must follow each; -1 if there is none
	of     []*chain // by node
	index  []int    // of nodes in their chains
	off    []uint64 // of nodes from the start of their chains, in bytes
	chains []*chain // by id; nil once merged into another
	queue  linkQueue
}

func newBlockSort(g *Graph) *blockSort {
	n := len(g.Nodes)
	s := &blockSort{
		g: g, ways: g.ways(), forced: forcedPairs(g), of: make([]*chain, n), next: make([][]int, n),
		index: make([]int, n), off: make([]uint64, n), chains: make([]*chain, n),
	}
	for _, a := range g.Arcs {
		s.next[a.From] = append(s.next[a.From], a.To)
	}
	for i, n := range g.Nodes {
		n.Size = max(n.Size, 1)
		if i == 0 {
			n.N = max(n.N, 1) // as LLVM has it: the entry is not cold
		}
		s.chains[i] = newChain(i, n)
		s.of[i] = s.chains[i]
	}
	return s
}

// forcedPairs gives the only successor of each node that is the only predecessor
// of that; -1 if there is none.
func forcedPairs(g *Graph) []int {
	forced, in, out := make([]int, len(g.Nodes)), make([]int, len(g.Nodes)), make([]int, len(g.Nodes))
	for i := range forced {
		forced[i] = -1
	}
	for _, a := range g.Arcs {
		if a.From != a.To {
			out[a.From]++
			in[a.To]++
		}
	}
	for _, a := range g.Arcs {
		if a.From != a.To && a.To != 0 && out[a.From] == 1 && in[a.To] == 1 {
			forced[a.From] = a.To
		}
	}
	cutCycles(forced)
	return forced
}

// cutCycles takes the way back to the first node out of each cycle.
func cutCycles(next []int) {
	seen := make([]bool, len(next))
	for i := range next {
		if seen[i] {
			continue
		}
		// No two nodes have one successor: a walk comes back to its start, or nowhere.
		at := i
		for ; next[at] >= 0 && !seen[next[at]] && next[at] != i; at = next[at] {
			seen[next[at]] = true
		}
		if next[at] == i {
			next[at] = -1
		}
	}
}

// joinForced makes chains of forced pairs.
func (s *blockSort) joinForced() {
	follows := make([]bool, len(s.forced))
	for _, to := range s.forced {
		if to >= 0 {
			follows[to] = true
		}
	}
	for i := range s.forced {
		if follows[i] {
			continue
		}
		for at := i; s.forced[at] >= 0; at = s.forced[at] {
			s.join(s.of[i], s.of[s.forced[at]], glue{})
		}
	}
}

// join makes one chain of x and y.
func (s *blockSort) join(x, y *chain, how glue) {
	cut := slices.Clone(x.nodes[how.at:])
	switch how.parts {
	case x1x2y:
		x.nodes = append(x.nodes, y.nodes...)
	case x1yx2:
		x.nodes = append(append(x.nodes[:how.at], y.nodes...), cut...)
	case yx2x1:
		x.nodes = slices.Concat(y.nodes, cut, x.nodes[:how.at])
	case x2x1y:
		x.nodes = slices.Concat(cut, x.nodes[:how.at], y.nodes)
	}
	x.size += y.size
	x.weight += y.weight
	s.chains[y.id] = nil
	var off uint64
	for i, n := range x.nodes {
		s.of[n], s.index[n], s.off[n] = x, i, off
		off += max(s.g.Nodes[n].Size, 1)
	}
}

// linkChains links and queues the chains that there are.
func (s *blockSort) linkChains() {
	for _, a := range s.g.Arcs {
		from, to := s.of[a.From], s.of[a.To]
		if a.From == a.To || !(a.N > 0) {
			continue
		}
		if from == to {
			from.inner = append(from.inner, a)
			continue
		}
		from.link(to, a)
	}
	for _, c := range s.chains {
		if c == nil {
			continue
		}
		c.score = s.score(c.inner, c, nil, glue{})
		for _, l := range c.sorted() {
			if l.a == c {
				s.push(l)
			}
		}
	}
}

// push computes what l gains and queues it if it gains anything.
func (s *blockSort) push(l *link) {
	if len(l.a.nodes)+len(l.b.nodes) >= maxChainBlocks {
		return
	}
	dense, thin := l.a.density(), l.b.density()
	if dense < thin {
		dense, thin = thin, dense
	}
	if !(dense <= maxDensityRatio*thin) {
		return
	}
	l.how, l.gain = s.best(l, l.a, l.b)
	l.swap = false
	if how, gain := s.best(l, l.b, l.a); gain > l.gain+minGain {
		l.how, l.gain, l.swap = how, gain, true
	}
	if l.gain > minGain {
		heap.Push(&s.queue, l)
	}
}

// A glue is a way of laying out a chain x, cut before its node at, and a chain y.
type glue struct {
	parts parts
	at    int // 0 in x1x2y
}

// parts says in which order the parts of x and y come.
type parts uint8

const (
	x1x2y parts = iota
	x1yx2
	yx2x1
	x2x1y
)

// best finds the way of merging y into x that gains most.
func (s *blockSort) best(l *link, x, y *chain) (best glue, gain float64) {
	gain = -1
	try := func(at int, ps ...parts) {
		if at == len(x.nodes) || at > 0 && s.forced[x.nodes[at-1]] == x.nodes[at] {
			return
		}
		for _, p := range ps {
			if (at == 0) != (p == x1x2y) || !s.entryFirst(x, y, p) {
				continue
			}
			how := glue{p, at}
			if g := s.score(l.arcs, x, y, how) + s.score(x.inner, x, y, how) - x.score; g > gain+minGain {
				best, gain = how, g
			}
		}
	}
	try(0, x1x2y)
	for _, a := range l.arcs {
		if a.To == y.nodes[0] {
			try(s.index[a.From]+1, x1yx2, x2x1y)
		}
		if a.From == y.nodes[len(y.nodes)-1] {
			try(s.index[a.To], x1yx2, yx2x1)
		}
	}
	if len(x.nodes) <= maxSplitBlocks {
		for at := 1; at < len(x.nodes); at++ {
			if !s.fallsThrough(x, at) {
				try(at, x1yx2, yx2x1, x2x1y)
			}
		}
	}
	return best, gain
}

// entryFirst tells whether a merge keeps the entry where it has to be.
func (s *blockSort) entryFirst(x, y *chain, p parts) bool {
	switch s.of[0] {
	case x:
		return p == x1x2y || p == x1yx2
	case y:
		return p == yx2x1
	}
	return true
}

// fallsThrough tells whether control may run on to node at of x from the one before.
func (s *blockSort) fallsThrough(x *chain, at int) bool {
	return slices.Contains(s.next[x.nodes[at-1]], x.nodes[at])
}

// score is the worth of arcs within and between x and y, glued.
func (s *blockSort) score(arcs []Arc, x, y *chain, how glue) float64 {
	var cut, xs, ys int64 // bytes
	xs = int64(x.size)
	if how.at > 0 {
		cut = int64(s.off[x.nodes[how.at]])
	}
	if y != nil {
		ys = int64(y.size)
	}
	var x1, x2, yAt int64 // how far each part moves
	switch how.parts {
	case x1x2y:
		yAt = xs
	case x1yx2:
		yAt, x2 = cut, ys
	case yx2x1:
		x2, x1 = ys-cut, ys+xs-cut
	case x2x1y:
		x2, x1, yAt = -cut, xs-cut, xs
	}
	at := func(n int) uint64 {
		switch off := int64(s.off[n]); {
		case s.of[n] == y:
			return uint64(off + yAt)
		case s.index[n] < how.at:
			return uint64(off + x1)
		default:
			return uint64(off + x2)
		}
	}
	var sum float64
	for _, a := range arcs {
		sum += a.N * jumpWorth(at(a.From)+max(s.g.Nodes[a.From].Size, 1), at(a.To), s.ways[a.From])
	}
	return sum
}

// merge joins the chains of l.
func (s *blockSort) merge(l *link) {
	x, y := l.a, l.b
	if l.swap {
		x, y = y, x
	}
	for _, c := range []*chain{x, y} {
		for _, l := range c.links {
			s.queue.remove(l)
		}
	}
	s.join(x, y, l.how)
	x.takeLinks(y)
	x.inner = slices.Concat(x.inner, y.inner, l.arcs)
	x.score = s.score(x.inner, x, nil, glue{})
	for _, l := range x.sorted() {
		s.push(l)
	}
}

// joinNeighbours puts chains behind those that lead to them, by one arc after the
// other, cold ones behind cold ones.
func (s *blockSort) joinNeighbours(arcs []Arc) {
	for _, a := range arcs {
		x, y := s.of[a.From], s.of[a.To]
		if x == y || a.To == 0 || (x.weight > 0) != (y.weight > 0) {
			continue
		}
		if x.nodes[len(x.nodes)-1] == a.From && y.nodes[0] == a.To {
			s.join(x, y, glue{})
		}
	}
}
