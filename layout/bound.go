package layout

import (
	"cmp"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

// bound gives a Score that no order of g's nodes exceeds that begins with node 0. The
// nodes must not be empty.
//
// An arc is worth its executions times a jump's worth, at most that of a jump as
// near as can be, and something more, its gain, if it falls through. So the score is at
// most that of all jumps and what mostGain allows.
//
// A jump from x to y spans at least the bytes of both if it leads back, and those of
// the smallest other node if it leads forward.
func bound(g *Graph) float64 {
	ways, small := g.ways(), g.smallest()
	var jumps float64
	gain := map[[2]int]float64{}
	for _, a := range g.Arcs {
		if a.From == a.To || !(a.N > 0) {
			continue
		}
		worth := jumpWorth(g.Nodes[a.From].Size+g.Nodes[a.To].Size, 0, 2)
		for _, i := range small {
			if i != a.From && i != a.To {
				worth = max(worth, jumpWorth(0, g.Nodes[i].Size, 2))
				break
			}
		}
		jumps += a.N * worth
		gain[[2]int{a.From, a.To}] += a.N * (jumpWorth(0, 0, ways[a.From]) - worth)
	}
	return jumps + mostGain(len(g.Nodes), gain)
}

// smallest gives the three smallest nodes.
func (g *Graph) smallest() []int {
	order := make([]int, len(g.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(g.Nodes[a].Size, g.Nodes[b].Size) })
	return order[:min(3, len(order))]
}

// leastJumps gives the fewest executions of edges of r that jump, in any order
// of its blocks that begins with the entry.
func leastJumps(r *infer.Result) float64 {
	var all float64
	gain := map[[2]int]float64{}
	for k, e := range r.Proc.Edges {
		all += r.Edge[k].N
		if e.Kind != image.Indirect && e.From != e.To {
			gain[[2]int{e.From, e.To}] += r.Edge[k].N
		}
	}
	return all - mostGain(len(r.Proc.Blocks), gain)
}

// mostGain bounds the gain from all pairs of neighbours in an order of n nodes that
// begins with node 0, where node y right behind node x gains gain[x, y].
//
// Each node has at most one node right behind it and one right before it, and node 0
// none before it. So the sum of the best pairs by their first node is a bound, and that
// of the best pairs by their second node is one.
func mostGain(n int, gain map[[2]int]float64) float64 {
	behind, before := make([]float64, n), make([]float64, n)
	for pair, g := range gain {
		if pair[1] != 0 {
			behind[pair[0]] = max(behind[pair[0]], g)
			before[pair[1]] = max(before[pair[1]], g)
		}
	}
	var byFirst, bySecond float64
	for i := range n {
		byFirst += behind[i]
		bySecond += before[i]
	}
	return min(byFirst, bySecond)
}
