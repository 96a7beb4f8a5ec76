package layout

import (
	"cmp"
	"slices"
)

// Limits of Call-Chain Clustering, those of lld's ELF/CallGraphSort.cpp.
const (
	maxClusterSize        = 1 << 20 // bytes
	maxDensityDegradation = 8
	minCallerShare        = 0.1 // of a procedure's calls that its first caller makes
)

// A cluster is a sequence of nodes that are laid out as one.
type cluster struct {
	nodes  []int
	size   uint64  // bytes
	weight float64 // executions
	heat   float64 // executed instructions
}

func (c *cluster) density() float64 { return c.weight / float64(c.size) }

// hotter compares two clusters, the one that comes first being less. Where it is
// known how many instructions they execute per byte, that tells better than their
// executions on how few pages the time is spent: a loop is entered once.
func (c *cluster) hotter(d *cluster) int {
	if c.heat > 0 || d.heat > 0 {
		return cmp.Compare(d.heat/float64(d.size), c.heat/float64(c.size))
	}
	return cmp.Compare(d.density(), c.density())
}

// add counts what d holds as c's.
func (c *cluster) add(d *cluster) {
	c.size += d.size
	c.weight += d.weight
	c.heat += d.heat
}

// callChains orders the nodes of g by Call-Chain Clustering ("Optimizing Function
// Placement for Large-Scale Data-Center Applications", Ottoni and Maher, CGO
// 2017): procedures follow their most frequent caller, the densest first.
func callChains(g *Graph) []int {
	s := newStrands(g.Nodes)
	leader := g.linked() // towards the id of a node's strand
	callers := firstCallers(g)
	for _, i := range s.byDensity() {
		// i has had no turn: its strand begins with it, and has its id.
		c, pred := s.all[i], callers[i]
		if pred.from < 0 || pred.n <= minCallerShare*g.Nodes[i].N {
			continue
		}
		id := find(leader, pred.from)
		into := s.all[id]
		if into == c || c.size+into.size > maxClusterSize {
			continue
		}
		merged := (into.weight + c.weight) / float64(into.size+c.size)
		if merged < into.density()/maxDensityDegradation {
			continue
		}
		s.append(into, c)
		s.all[i], leader[i] = nil, id
	}
	return s.order(nil)
}

// find follows leaders to the last one, and halves the way there for the next time.
func find(leader []int, i int) int {
	for leader[i] != i {
		leader[i] = leader[leader[i]]
		i = leader[i]
	}
	return i
}

// A caller is a node and how often it calls.
type caller struct {
	from int // -1 if there is none
	n    float64
}

// firstCallers returns the most frequent caller of each node, itself excepted.
func firstCallers(g *Graph) []caller {
	calls := map[[2]int]float64{}
	for _, a := range g.Arcs {
		calls[[2]int{a.From, a.To}] += a.N
	}
	best := make([]caller, len(g.Nodes))
	for i := range best {
		best[i].from = -1
	}
	for k, n := range calls {
		from, to := k[0], k[1]
		b := &best[to]
		if from != to && (b.from < 0 || n > b.n || n == b.n && from < b.from) {
			*b = caller{from, n}
		}
	}
	return best
}

// byDensity returns the ids of strands, the densest first.
func (s *strands) byDensity() []int {
	order := make([]int, len(s.all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(s.all[b].density(), s.all[a].density())
	})
	return order
}
