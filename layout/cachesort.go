package layout

import (
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
)

// cacheDirected orders the nodes of g by Cache-Directed Sort (Pupyrev,
// CDSortImpl in LLVM's CodeLayout.cpp): it merges the two chains with the highest
// gain as long as there is one. Merging gains where calls get shorter, and where
// the merged chain is dense enough to stay in a cache of a few entries.
func cacheDirected(g *Graph) []int {
	s := newCacheSort(g)
	for s.queue.Len() > 0 {
		s.merge(heap.Pop(&s.queue).(*link))
		if g.joined != nil {
			g.joined()
		}
	}
	return flattenChains(s.chains)
}

type cacheSort struct {
	g      *Graph
	chains []*chain // by id; nil once merged into another
	of     []*chain // by node
	off    []uint64 // of nodes from the start of their chains, in bytes
	queue  linkQueue

	executions float64
	hotSize    float64 // bytes of the nodes that run
	far        float64 // worth of a call over all of them
}

func newCacheSort(g *Graph) *cacheSort {
	s := &cacheSort{g: g, chains: make([]*chain, len(g.Nodes)), off: make([]uint64, len(g.Nodes))}
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
		s.chains[i] = newChain(i, Node{n.Size, max(n.N, in[i], out[i]), n.Heat})
	}
	s.of = slices.Clone(s.chains)
	s.far = math.Pow(math.Max(s.hotSize, 0.1), -distancePower)
	for _, a := range g.Arcs {
		if a.From != a.To && a.N > 0 {
			s.chains[a.From].link(s.chains[a.To], a)
		}
	}
	for _, c := range s.chains {
		for _, l := range c.links {
			if l.a == c {
				s.push(l)
			}
		}
	}
	return s
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
	var gain float64
	for _, a := range arcs {
		from, to := s.off[a.From]+a.Offset, s.off[a.To]
		if s.of[a.From] == y {
			from += x.size
		} else {
			to += x.size
		}
		gain += a.N * (callWorth(from, to) - s.far)
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
		into.nodes = slices.Concat(from.nodes, into.nodes)
	} else {
		into.nodes = append(into.nodes, from.nodes...)
	}
	into.add(&from.cluster)
	s.chains[from.id] = nil
	var at uint64
	for _, i := range into.nodes {
		s.of[i], s.off[i] = into, at
		at += s.g.Nodes[i].Size
	}
	into.takeLinks(from)
	for _, l := range into.links {
		s.push(l)
	}
}
