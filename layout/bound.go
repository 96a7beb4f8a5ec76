package layout

import (
	"cmp"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

// bound returns a Score that no order of g's nodes exceeds that begins with node 0. The
// nodes must not be empty.
//
// An arc is worth its executions times a jump's worth, at most that of a jump as
// near as can be, and something more, its gain, if it falls through. So the score is at
// most that of all jumps and what mostGain allows.
//
// A jump from x to y spans at least the bytes of both if it leads back, and those of
// the smallest other node if it leads forward.
func bound(g *Graph) float64 {
	outs, small := g.outDegrees(), g.smallest()
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
		gain[[2]int{a.From, a.To}] += a.N * (jumpWorth(0, 0, outs[a.From]) - worth)
	}
	return jumps + mostGain(len(g.Nodes), gain)
}

// smallest returns the three smallest nodes.
func (g *Graph) smallest() []int {
	order := make([]int, len(g.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(g.Nodes[a].Size, g.Nodes[b].Size) })
	return order[:min(3, len(order))]
}

// leastJumps returns the fewest executions of edges of r that jump, in any order
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

// Limits of the search for a low bound.
const (
	maxRounds    = 40
	maxRoundArcs = 1 << 20 // arcs looked at in all rounds
	maxNested    = 64      // cycles in cycles; deeper ones may be closed
)

// mostGain bounds the gain from all pairs of neighbours in an order of n nodes that
// begins with node 0, where node y right behind node x gains gain[x, y].
//
// In an order no node has two others right before it, or two right behind it, node 0 has
// none before it, and no path from neighbour to neighbour leads back. All but one of
// these make the pairs a branching, and the best branching can be found (Edmonds 1967).
// That a node has two behind it is allowed at a price: to what the branching gains at
// prices p(x) >= 0 for each pair (x, y), p(x) is added for each node x. An order pays
// each price once at most, so that the sum is a bound at any prices; those of nodes that
// had two behind them are raised and those of others lowered, and the lowest sum
// counts (Held and Karp, "The traveling-salesman problem and minimum spanning trees", 1970).
func mostGain(n int, gain map[[2]int]float64) float64 {
	var pairs []pair
	most := make([]float64, n) // by first node
	for p, g := range gain {
		if p[1] != 0 && g > 0 {
			pairs = append(pairs, pair{p[0], p[1], g})
			most[p[0]] = max(most[p[0]], g)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var best float64
	for _, g := range most {
		best += g
	}
	price, priced := make([]float64, n), slices.Clone(pairs)
	rounds := min(maxRounds, 1+maxRoundArcs/(len(pairs)+1))
	for step := 0.5; rounds > 0; rounds-- {
		var sum float64
		behind := make([]int, n)
		for i, p := range pairs {
			priced[i].gain = p.gain - price[p.from]
		}
		for _, i := range branching(n, priced, maxNested) {
			sum += priced[i].gain
			behind[pairs[i].from]++
		}
		done := true
		for x, k := range behind {
			sum += price[x]
			if k != 1 && (k > 1 || price[x] > 0) {
				price[x] = max(0, price[x]+step*float64(k-1)*most[x])
				done = false
			}
		}
		best = min(best, sum)
		if done {
			break // the branching is an order
		}
		step *= 0.9
	}
	return best
}

// A pair is two nodes, one right behind the other, and what that gains.
type pair struct {
	from, to int
	gain     float64
}

// branching returns those pairs, as indices, that together gain most, if each node may have
// but one before it and no path leads back. Cycles that are left after contracting others
// so many times stay closed: what they gain is then a bound.
func branching(n int, pairs []pair, nested int) []int {
	before := bestBefore(n, pairs)
	cycle, cycles := cyclesOf(pairs, before)
	if cycles == 0 || nested == 0 {
		return slices.DeleteFunc(before, func(i int) bool { return i < 0 })
	}
	// A cycle is opened where that costs least, or where a pair leads into it.
	weakest := slices.Repeat([]int{-1}, cycles)
	for y, i := range before {
		if c := cycle[y]; c >= 0 && (weakest[c] < 0 || pairs[i].gain < pairs[weakest[c]].gain) {
			weakest[c] = i
		}
	}
	node, nodes := make([]int, n), cycles // of the graph where cycles are nodes
	for y, c := range cycle {
		if node[y] = c; c < 0 {
			node[y] = nodes
			nodes++
		}
	}
	var outer []pair
	var index []int // of outer in pairs
	for i, p := range pairs {
		if c := cycle[p.to]; c >= 0 {
			p.gain += pairs[weakest[c]].gain - pairs[before[p.to]].gain
		}
		if p.from, p.to = node[p.from], node[p.to]; p.from != p.to && p.gain > 0 {
			outer, index = append(outer, p), append(index, i)
		}
	}
	var chosen []int
	open := make([]int, cycles) // node of each cycle that loses the one before it
	for c, i := range weakest {
		open[c] = pairs[i].to
	}
	for _, k := range branching(nodes, outer, nested-1) {
		i := index[k]
		chosen = append(chosen, i)
		if c := cycle[pairs[i].to]; c >= 0 {
			open[c] = pairs[i].to
		}
	}
	for y, c := range cycle {
		if c >= 0 && open[c] != y {
			chosen = append(chosen, before[y])
		}
	}
	return chosen
}

// bestBefore returns the pair that gains most before each node; -1 if there is none.
func bestBefore(n int, pairs []pair) []int {
	before := slices.Repeat([]int{-1}, n)
	for i, p := range pairs {
		if b := before[p.to]; p.gain > 0 && (b < 0 || p.gain > pairs[b].gain) {
			before[p.to] = i
		}
	}
	return before
}

// cyclesOf returns the cycle that each node is in, -1 if it is in none, and how many there are.
func cyclesOf(pairs []pair, before []int) (cycle []int, cycles int) {
	cycle = slices.Repeat([]int{-1}, len(before))
	walk := make([]int, len(before)) // that came through each node, from 1
	for y := range before {
		at := y
		for ; walk[at] == 0; at = pairs[before[at]].from {
			if walk[at] = y + 1; before[at] < 0 {
				break
			}
		}
		if walk[at] != y+1 || before[at] < 0 || cycle[at] >= 0 {
			continue
		}
		for ; cycle[at] < 0; at = pairs[before[at]].from {
			cycle[at] = cycles
		}
		cycles++
	}
	return cycle, cycles
}
