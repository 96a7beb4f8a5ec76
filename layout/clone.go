package layout

import (
	"cmp"
	"slices"
)

// A block that several others lead to has one that it falls through from, at most; the others jump. A clone of
// the block for one of these falls through from it. clang makes clones where a file of clusters says so
// (BasicBlockPathCloning.cpp in LLVM).
//
// A clone goes on to where the block does, in the same shares. Paths of walks tell where it goes on to after
// just that other block. Told by these, where 20 had passed through it, 27 clones took 3.6 % off the taken branches
// that callgrind counted in SQLite, and 6 clones 2.7 % in zstd; told by the shares, as many clones took
// 4.0 and 1.3 %. That is no clear gain, so paths are not asked.

// What may be cloned. A clone has to save a taken branch in 1/minCloned executed instructions of the image: 42 do in
// SQLite and 7 in zstd, and take 8.4 and 1.3 % off the taken branches for 0.9 and 0.2 kB; by samples of a timer
// alone it is 4.6 and 2.1 %.
const (
	minCloned       = 1e-5
	mostClonedSize  = 96 // bytes
	mostCloneTrials = 60 // of a function; each orders its blocks
)

// A cloning has the executions of block that come from pred pass through a clone of block. Both are
// indices into the nodes of a graph.
type cloning struct{ pred, block int }

// clones clones blocks of g that may be, as far as that saves taken branches: least for each, at least. It returns the
// graph with the clones after the nodes of g, and what they are.
func (g *Graph) clones(least float64, may func(cloning) bool) (*Graph, []cloning) {
	worth := g.cloneable(least)
	if len(worth) == 0 {
		return g, nil
	}
	now, all := g, []cloning(nil)
	jumps := g.jumps(orderBlocks(g))
	for _, c := range worth {
		// Of paths of two blocks, no end is in another.
		if !may(c) || slices.ContainsFunc(all, func(o cloning) bool { return o.block == c.pred || o.pred == c.block }) {
			continue
		}
		next := now.with(c)
		if n := next.jumps(orderBlocks(next)); jumps-n >= least {
			now, jumps, all = next, n, append(all, c)
		}
	}
	return now, all
}

// cloneable returns what may be worth cloning, most executed first.
func (g *Graph) cloneable(least float64) []cloning {
	into, arcs := make([]float64, len(g.Nodes)), map[cloning]float64{}
	for _, a := range g.Arcs {
		into[a.To] += a.N
		arcs[cloning{a.From, a.To}] += a.N
	}
	var all []cloning
	for c, n := range arcs {
		if c.pred != c.block && c.block != 0 && g.Nodes[c.block].Size <= mostClonedSize && n >= least && into[c.block]-n >= least {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b cloning) int {
		return cmp.Or(cmp.Compare(arcs[b], arcs[a]), cmp.Compare(a.pred, b.pred), cmp.Compare(a.block, b.block))
	})
	return all[:min(len(all), mostCloneTrials)]
}

// with returns g with one more node, a clone, which goes on to where the block does.
func (g *Graph) with(c cloning) *Graph {
	in, out := 0.0, 0.0
	for _, a := range g.Arcs {
		if a.From == c.pred && a.To == c.block {
			in += a.N
		}
		if a.From == c.block {
			out += a.N
		}
	}
	clone := len(g.Nodes)
	h := &Graph{Nodes: append(slices.Clone(g.Nodes), Node{Size: g.Nodes[c.block].Size, N: in})}
	h.Nodes[c.block].N = max(0, g.Nodes[c.block].N-in)
	for _, a := range g.Arcs {
		switch {
		case a.From == c.pred && a.To == c.block:
			a.To = clone
		case a.From == c.block:
			part := 0.0
			if out > 0 {
				part = a.N * min(1, in/out)
			}
			h.Arcs = append(h.Arcs, Arc{From: clone, To: a.To, N: part})
			a.N -= part
		}
		h.Arcs = append(h.Arcs, a)
	}
	return h
}

// jumps returns the executions of arcs that do not fall through in an order.
func (g *Graph) jumps(order []int) (n float64) {
	next := make([]int, len(g.Nodes))
	for i, at := range order {
		if next[at] = -1; i+1 < len(order) {
			next[at] = order[i+1]
		}
	}
	for _, a := range g.Arcs {
		if next[a.From] != a.To {
			n += a.N
		}
	}
	return n
}
