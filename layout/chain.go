package layout

import (
	"container/heap"
	"slices"
)

// minGain is the least that a merge has to gain, LLVM's EPS.
const minGain = 1e-8

// A chain is a cluster and its transfers from and to others.
type chain struct {
	cluster
	id    int           // of a node in it
	links map[int]*link // by the id of the other chain

	inner  []innerArc // of blocks: transfers within the chain
	turned []float64  // of blocks: what they gain if what comes before a node moves behind the end, as nodes
}

func newChain(i int, n Node) *chain {
	return &chain{cluster: cluster{[]int{i}, n.Size, n.N, n.Heat}, id: i, links: map[int]*link{}}
}

// A link is all transfers between two chains, and what merging them would gain.
type link struct {
	a, b *chain
	arcs []Arc
	gain float64
	swap bool // b before a is better; of blocks: b is glued by how
	how  glue // of blocks
	at   int  // index in the queue; -1 if not in it
}

// link adds an arc from c to another chain.
func (c *chain) link(to *chain, a Arc) {
	l := c.links[to.id]
	if l == nil {
		l = &link{a: c, b: to, at: -1}
		c.links[to.id], to.links[c.id] = l, l
	}
	l.arcs = append(l.arcs, a)
}

func (l *link) other(c *chain) *chain {
	if l.a == c {
		return l.b
	}
	return l.a
}

// takeLinks returns the links of from, which was merged into c, to c.
func (c *chain) takeLinks(from *chain) {
	delete(c.links, from.id)
	for _, l := range from.links {
		other := l.other(from)
		if other == c {
			continue
		}
		delete(other.links, from.id)
		if have := c.links[other.id]; have != nil {
			have.arcs = append(have.arcs, l.arcs...)
			continue
		}
		if l.a == from {
			l.a = c
		} else {
			l.b = c
		}
		c.links[other.id], other.links[c.id] = l, l
	}
}

// flattenChains returns the nodes of all chains, the hottest first.
func flattenChains(chains []*chain) []int {
	live := slices.DeleteFunc(slices.Clone(chains), func(c *chain) bool { return c == nil })
	slices.SortStableFunc(live, func(a, b *chain) int { return a.hotter(&b.cluster) })
	var order []int
	for _, c := range live {
		order = append(order, c.nodes...)
	}
	return order
}

// A linkQueue is a heap of links, the one that gains most on top.
type linkQueue []*link

func (q linkQueue) Len() int { return len(q) }

func (q linkQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	switch {
	case a.gain != b.gain:
		return a.gain > b.gain
	case a.a != b.a:
		return a.a.id < b.a.id
	}
	return a.b.id < b.b.id
}

func (q linkQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

func (q *linkQueue) Push(x any) {
	l := x.(*link)
	l.at = len(*q)
	*q = append(*q, l)
}

func (q *linkQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	l.at = -1
	*q = (*q)[:last]
	return l
}

// remove takes l out of the queue if it is in it.
func (q *linkQueue) remove(l *link) {
	if l.at >= 0 {
		heap.Remove(q, l.at)
	}
}
