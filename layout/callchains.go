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
}

func (c *cluster) density() float64 { return c.weight / float64(c.size) }

// callChains orders the nodes of g by Call-Chain Clustering ("Optimizing Function
// Placement for Large-Scale Data-Center Applications", Ottoni and Maher, CGO
// 2017): procedures follow their most frequent caller, the densest first.
func callChains(g *Graph) []int {
	clusters := make([]*cluster, len(g.Nodes)) // by node
	for i, n := range g.Nodes {
		clusters[i] = &cluster{nodes: []int{i}, size: n.Size, weight: n.N}
	}
	callers := firstCallers(g)
	for _, i := range byDensity(clusters) {
		c, pred := clusters[i], callers[i]
		if pred.from < 0 || pred.n <= minCallerShare*g.Nodes[i].N {
			continue
		}
		into := clusters[pred.from]
		if into == c || c.size+into.size > maxClusterSize {
			continue
		}
		merged := (into.weight + c.weight) / float64(into.size+c.size)
		if merged < into.density()/maxDensityDegradation {
			continue
		}
		into.nodes = append(into.nodes, c.nodes...)
		into.size += c.size
		into.weight += c.weight
		for _, j := range c.nodes {
			clusters[j] = into
		}
	}
	return flatten(clusters)
}

// A caller is a node and how often it calls.
type caller struct {
	from int // -1 if there is none
	n    float64
}

// firstCallers gives the most frequent caller of each node, itself excepted.
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

// byDensity gives the indices of clusters, the densest first.
func byDensity(clusters []*cluster) []int {
	order := make([]int, len(clusters))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(clusters[b].density(), clusters[a].density())
	})
	return order
}

// flatten gives the nodes of all clusters, the densest first. A cluster stands at
// each of its nodes, and counts at its first.
func flatten(clusters []*cluster) []int {
	var order []int
	for _, i := range byDensity(clusters) {
		if c := clusters[i]; c.nodes[0] == i {
			order = append(order, c.nodes...)
		}
	}
	return order
}
