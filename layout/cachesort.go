package layout

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Constants of Cache-Directed Sort, those of CDSortConfig in LLVM's CodeLayout.h.
const (
	cacheEntries   = 16
	cacheSize      = 2048 // bytes of an entry
	frequencyScale = 0.25 // of the gain by frequency, where that by distance has 1
	maxChainNodes  = 128
	minGain        = 1e-8
)

// cacheDirected orders the nodes of g by Cache-Directed Sort (Pupyrev,
// CDSortImpl in LLVM's CodeLayout.cpp): it merges the two chains with the highest
// gain as long as there is one. Merging gains where calls get shorter, and where
// the merged chain is dense enough to stay in a cache of a few entries.
func cacheDirected(g *Graph) []int {
	s := newCacheSort(g)
	for s.queue.Len() > 0 {
		s.merge(heap.Pop(&s.queue).(*link))
	}
	return flattenChains(s.chains)
}

// A chain is a cluster and its calls from and to others.
type chain struct {
	cluster
	id    int           // of the node it began as
	links map[int]*link // by the id of the other chain
}

// A link is all calls between two chains, and what merging them would gain.
type link struct {
	a, b *chain
	arcs []Arc
	gain float64
	swap bool // b before a is better
	at   int  // index in the queue; -1 if not in it
}

func (l *link) other(c *chain) *chain {
	if l.a == c {
		return l.b
	}
	return l.a
}

type cacheSort struct {
	g      *Graph
	chains []*chain // by id; nil once merged into another
	queue  linkQueue
	start  []uint64 // of nodes within the chain that is looked at

	executions float64
	hotSize    float64 // bytes of the nodes that run
}

func newCacheSort(g *Graph) *cacheSort {
	s := &cacheSort{g: g, chains: make([]*chain, len(g.Nodes)), start: make([]uint64, len(g.Nodes))}
	in, out := make([]float64, len(g.Nodes)), make([]float64, len(g.Nodes))
	for _, a := range g.Arcs {
		if a.From != a.To {
			out[a.From] += a.N
			in[a.To] += a.N
		}
	}
	for i, n := range g.Nodes {
		s.executions += n.N
		if n.N > 0 {
			s.hotSize += float64(n.Size)
		}
		s.chains[i] = &chain{cluster{[]int{i}, n.Size, max(n.N, in[i], out[i])}, i, map[int]*link{}}
	}
	for _, a := range g.Arcs {
		if a.From != a.To && a.N > 0 {
			s.addArc(a)
		}
	}
	for _, c := range s.chains {
		for _, l := range c.sorted() {
			if l.a == c {
				s.push(l)
			}
		}
	}
	return s
}

func (s *cacheSort) addArc(a Arc) {
	from, to := s.chains[a.From], s.chains[a.To]
	l := from.links[to.id]
	if l == nil {
		l = &link{a: from, b: to, at: -1}
		from.links[to.id], to.links[from.id] = l, l
	}
	l.arcs = append(l.arcs, a)
}

// sorted gives the links of c in a fixed order.
func (c *chain) sorted() []*link {
	ids := make([]int, 0, len(c.links))
	for id := range c.links {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	links := make([]*link, len(ids))
	for i, id := range ids {
		links[i] = c.links[id]
	}
	return links
}

// push computes what l gains and queues it if it gains anything.
func (s *cacheSort) push(l *link) {
	if len(l.a.nodes)+len(l.b.nodes) > maxChainNodes {
		return
	}
	l.gain, l.swap = s.gainOf(l, l.a, l.b), false
	// Where both orders gain the same, that of the image stays.
	if g := s.gainOf(l, l.b, l.a); g > l.gain+minGain || g > l.gain-minGain && l.b.id < l.a.id {
		l.gain, l.swap = g, true
	}
	if l.gain > minGain {
		heap.Push(&s.queue, l)
	}
}

// gainOf is the gain of laying out x and then y.
func (s *cacheSort) gainOf(l *link, x, y *chain) float64 {
	gain := s.distanceGain(l.arcs, x, y) + frequencyScale*s.frequencyGain(x, y)
	if gain >= 0 {
		gain /= float64(min(x.size, y.size)) // short chains first
	}
	return gain
}

// distanceGain compares the calls between x and y with calls as long as all hot
// code.
func (s *cacheSort) distanceGain(arcs []Arc, x, y *chain) float64 {
	var at uint64
	for _, c := range []*chain{x, y} {
		for _, i := range c.nodes {
			s.start[i] = at
			at += s.g.Nodes[i].Size
		}
	}
	far := math.Pow(math.Max(s.hotSize, 0.1), -distancePower)
	var gain float64
	for _, a := range arcs {
		gain += a.N * (callWorth(s.start[a.From]+a.Offset, s.start[a.To]) - far)
	}
	return gain
}

// frequencyGain is the misses that merging saves in the model's cache.
func (s *cacheSort) frequencyGain(x, y *chain) float64 {
	merged := cluster{size: x.size + y.size, weight: x.weight + y.weight}
	return s.misses(&x.cluster) + s.misses(&y.cluster) - s.misses(&merged)
}

func (s *cacheSort) misses(c *cluster) float64 {
	p := c.density() * cacheSize / s.executions
	if !(p < 1) {
		return 0
	}
	return c.weight * math.Pow(1-p, cacheEntries)
}

// merge joins the chains of l, into l.a or l.b as LLVM does: the one that calls
// were first seen from.
func (s *cacheSort) merge(l *link) {
	into, from := l.a, l.b
	for _, c := range []*chain{into, from} {
		for _, l := range c.links {
			s.queue.remove(l)
		}
	}
	if l.swap {
		into.nodes = append(slices.Clone(from.nodes), into.nodes...)
	} else {
		into.nodes = append(into.nodes, from.nodes...)
	}
	into.size += from.size
	into.weight += from.weight
	s.chains[from.id] = nil
	s.moveLinks(into, from)
	for _, l := range into.sorted() {
		s.push(l)
	}
}

// moveLinks gives the links of from to into, with which it was merged.
func (s *cacheSort) moveLinks(into, from *chain) {
	delete(into.links, from.id)
	for _, l := range from.sorted() {
		other := l.other(from)
		if other == into {
			continue
		}
		delete(other.links, from.id)
		if have := into.links[other.id]; have != nil {
			have.arcs = append(have.arcs, l.arcs...)
			continue
		}
		if l.a == from {
			l.a = into
		} else {
			l.b = into
		}
		into.links[other.id], other.links[into.id] = l, l
	}
}

// flattenChains gives the nodes of all chains, the densest first.
func flattenChains(chains []*chain) []int {
	live := slices.DeleteFunc(slices.Clone(chains), func(c *chain) bool { return c == nil })
	slices.SortStableFunc(live, func(a, b *chain) int { return cmp.Compare(b.density(), a.density()) })
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
	return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.a.id, b.a.id), cmp.Compare(a.b.id, b.b.id)) < 0
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
