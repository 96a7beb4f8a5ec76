package layout

import (
	"container/heap"
	"slices"
)

// Limits of the search for an order of blocks, those of LLVM 19's CodeLayout.cpp.
const (
	maxChainBlocks  = 512
	maxSplitBlocks  = 128 // of a chain that may be cut anywhere; longer ones are cut at jumps
	maxDensityRatio = 100 // of two chains that are merged
)

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
	rest := s.strands()
	rest.follow(slices.DeleteFunc(slices.Clone(g.Arcs), func(a Arc) bool { return a.To != a.From+1 }))
	rest.follow(g.Arcs)
	return rest.order(rest.ends[0])
}

type blockSort struct {
	nodes  []blockNode
	arcs   []Arc
	next   [][]int  // where the arcs out of each node lead
	forced []int    // the node that must follow each; -1 if there is none
	chains []*chain // by id; nil once merged into another
	queue  linkQueue

	letIn []float64 // of the chain that is looked at: gains of transfers within it where another is let in
}

// A blockNode is a block and its place.
type blockNode struct {
	of    *chain
	index int   // in its chain
	off   int64 // bytes from the start of its chain
	size  int64 // bytes
	outs  int   // arcs out of it
}

// An innerArc is a transfer within a chain.
type innerArc struct {
	Arc
	worth float64 // of all its executions, in the chain as it is
}

func newBlockSort(g *Graph) *blockSort {
	n := len(g.Nodes)
	s := &blockSort{
		nodes: make([]blockNode, n), arcs: g.Arcs, forced: forcedPairs(g), next: make([][]int, n), chains: make([]*chain, n),
	}
	for _, a := range g.Arcs {
		s.next[a.From] = append(s.next[a.From], a.To)
	}
	for i, n := range searchable(g.Nodes) {
		s.chains[i] = newChain(i, n)
		s.nodes[i] = blockNode{of: s.chains[i], size: int64(n.Size), outs: len(s.next[i])}
	}
	return s
}

// forcedPairs returns the only successor of each node that is the only predecessor
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

// cutCycles removes from each cycle the arc back to its first node.
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
	for i, c := range s.chains {
		if follows[i] || s.forced[i] < 0 {
			continue
		}
		for at := s.forced[i]; at >= 0; at = s.forced[at] {
			c.add(&s.chains[at].cluster)
			c.nodes = append(c.nodes, at)
			s.chains[at] = nil
		}
		s.place(c)
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
	x.add(&y.cluster)
	s.chains[y.id] = nil
	s.place(x)
}

// place sets the places of the nodes of c.
func (s *blockSort) place(c *chain) {
	var off int64
	for i, n := range c.nodes {
		b := &s.nodes[n]
		b.of, b.index, b.off = c, i, off
		off += b.size
	}
}

// weigh computes what the transfers within c are worth, as it is and turned.
func (s *blockSort) weigh(c *chain) {
	for i, a := range c.inner {
		from, to := &s.nodes[a.From], &s.nodes[a.To]
		c.inner[i].worth = a.N * reachWorth(to.off-from.off-from.size, from.outs)
	}
	c.turned = s.crossing(c.turned, c, -int64(c.size))
}

// strands returns the chains that there are as strands.
func (s *blockSort) strands() *strands {
	r := &strands{next: make([]int, len(s.nodes)), ends: make([]*strand, len(s.nodes)), all: make([]*strand, len(s.nodes))}
	for i := range r.next {
		r.next[i] = -1
	}
	for _, c := range s.chains {
		if c == nil {
			continue
		}
		n := len(c.nodes)
		for i, at := range c.nodes[:n-1] {
			r.next[at] = c.nodes[i+1]
		}
		one := &strand{c.cluster, c.nodes[0], c.nodes[n-1]}
		r.all[c.id] = one
		for _, at := range c.nodes {
			r.ends[at] = one
		}
	}
	return r
}

// linkChains links and queues the chains that there are.
func (s *blockSort) linkChains() {
	for _, a := range s.arcs {
		from, to := s.nodes[a.From].of, s.nodes[a.To].of
		if a.From == a.To || !(a.N > 0) {
			continue
		}
		if from == to {
			from.inner = append(from.inner, innerArc{Arc: a})
			continue
		}
		from.link(to, a)
	}
	for _, c := range s.chains {
		if c == nil {
			continue
		}
		s.weigh(c)
	}
	for _, c := range s.chains {
		if c == nil {
			continue
		}
		for _, l := range c.links {
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

// A glue lays out a chain x, cut before its node at, and a chain y.
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

// best finds how to merge y into x that gains most.
func (s *blockSort) best(l *link, x, y *chain) (best glue, gain float64) {
	gain = -1
	s.letIn = s.crossing(s.letIn, x, int64(y.size))
	try := func(at int, ps ...parts) {
		if at == len(x.nodes) || at > 0 && s.forced[x.nodes[at-1]] == x.nodes[at] {
			return
		}
		for _, p := range ps {
			if (at == 0) != (p == x1x2y) || !s.entryFirst(x, y, p) {
				continue
			}
			how := glue{p, at}
			if g := s.between(l.arcs, x, y, how) + s.within(x, how); g > gain+minGain {
				best, gain = how, g
			}
		}
	}
	try(0, x1x2y)
	for _, a := range l.arcs {
		if a.To == y.nodes[0] {
			try(s.nodes[a.From].index+1, x1yx2, x2x1y)
		}
		if a.From == y.nodes[len(y.nodes)-1] {
			try(s.nodes[a.To].index, x1yx2, yx2x1)
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

// entryFirst reports whether a merge keeps the entry where it has to be.
func (s *blockSort) entryFirst(x, y *chain, p parts) bool {
	switch s.nodes[0].of {
	case x:
		return p == x1x2y || p == x1yx2
	case y:
		return p == yx2x1
	}
	return true
}

// fallsThrough reports whether control may run on to node at of x from the one before.
func (s *blockSort) fallsThrough(x *chain, at int) bool {
	return slices.Contains(s.next[x.nodes[at-1]], x.nodes[at])
}

// between is the worth of arcs, those between x and y, glued.
func (s *blockSort) between(arcs []Arc, x, y *chain, how glue) float64 {
	xs, ys, cut := int64(x.size), int64(y.size), int64(0)
	if how.at > 0 {
		cut = s.nodes[x.nodes[how.at]].off
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
	move := func(b *blockNode) int64 {
		switch {
		case b.of == y:
			return b.off + yAt
		case b.index < how.at:
			return b.off + x1
		}
		return b.off + x2
	}
	var sum float64
	for _, a := range arcs {
		from, to := &s.nodes[a.From], &s.nodes[a.To]
		sum += a.N * reachWorth(move(to)-move(from)-from.size, from.outs)
	}
	return sum
}

// within is what the transfers within x gain if it is glued.
func (s *blockSort) within(x *chain, how glue) float64 {
	switch how.parts {
	case x1x2y:
		return 0
	case x1yx2:
		return s.letIn[how.at]
	}
	return x.turned[how.at]
}

// crossing returns for each node of c what the transfers within c gain, if what comes
// from that node on moves by some bytes against what lies before it. Only transfers
// between the two change, and they do alike wherever between their ends the cut is.
func (s *blockSort) crossing(gains []float64, c *chain, by int64) []float64 {
	gains = slices.Grow(gains[:0], len(c.nodes))[:len(c.nodes)]
	clear(gains)
	for _, a := range c.inner {
		from, to := &s.nodes[a.From], &s.nodes[a.To]
		first, last, at := from.index, to.index, to.off+by
		if first > last {
			first, last, at = last, first, to.off-by
		}
		if gain := a.N*reachWorth(at-from.off-from.size, from.outs) - a.worth; gain != 0 {
			for i := first + 1; i <= last; i++ {
				gains[i] += gain
			}
		}
	}
	return gains
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
	x.inner = append(x.inner, y.inner...)
	for _, a := range l.arcs {
		x.inner = append(x.inner, innerArc{Arc: a})
	}
	s.weigh(x)
	for _, l := range x.links {
		s.push(l)
	}
}
