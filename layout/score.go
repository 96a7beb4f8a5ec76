package layout

import (
	"math"

	"backfeed/infer"
)

// A Graph is code in pieces, the blocks of a procedure or the procedures of an
// image, and the transfers between them.
type Graph struct {
	Nodes []Node
	Arcs  []Arc
}

// A Node is a piece of code that is moved as a whole.
type Node struct {
	Size uint64  // bytes
	N    float64 // executions
}

// An Arc is a transfer of control.
type Arc struct {
	From, To int     // indices into Graph.Nodes
	Offset   uint64  // of the transferring instruction from the start of From, in bytes; calls only
	N        float64 // executions
}

// Blocks gives the flow graph of a procedure.
func Blocks(r *infer.Result) *Graph {
	g := &Graph{}
	for i, b := range r.Proc.Blocks {
		g.Nodes = append(g.Nodes, Node{Size: uint64(b.End - b.Start), N: r.Block[i].N})
	}
	for i, e := range r.Proc.Edges {
		g.Arcs = append(g.Arcs, Arc{From: e.From, To: e.To, N: r.Edge[i].N})
	}
	return g
}

// The constants of the ext-TSP model, "Improved Basic Block Reordering", Newell
// and Pupyrev, IEEE Transactions on Computers 2020, section 3.
const (
	jumpWeight  = 0.1  // worth of a short jump, where falling through is worth 1
	forwardMax  = 1024 // bytes that a forward jump may span to be worth something
	backwardMax = 640
)

// Score gives the ext-TSP score of g's nodes laid out in the given order: the
// executions of arcs that fall through, and a part of those that jump a short
// way. Higher is better.
func Score(g *Graph, order []int) float64 {
	start := addresses(g, order, 1)
	var score float64
	for _, a := range g.Arcs {
		if a.From == a.To {
			continue // costs the same in every order
		}
		end := start[a.From] + g.Nodes[a.From].Size
		score += a.N * jumpWorth(end, start[a.To])
	}
	return score
}

// jumpWorth is the worth of one execution of a jump between two addresses.
func jumpWorth(from, to uint64) float64 {
	switch {
	case from == to:
		return 1
	case from < to && to-from <= forwardMax:
		return jumpWeight * (1 - float64(to-from)/forwardMax)
	case from > to && from-to <= backwardMax:
		return jumpWeight * (1 - float64(from-to)/backwardMax)
	}
	return 0
}

// addresses lays out the nodes one after the other, aligned.
func addresses(g *Graph, order []int, align uint64) []uint64 {
	start := make([]uint64, len(g.Nodes))
	var at uint64
	for _, i := range order {
		at = (at + align - 1) / align * align
		start[i] = at
		at += g.Nodes[i].Size
	}
	return start
}

// distancePower is CDSort's: the worth of a call falls with the fourth root of
// the bytes it spans (CDSortConfig in LLVM's CodeLayout.h).
const distancePower = 0.25

// CallScore gives the mean worth of a call, when the nodes of g start at the
// given addresses: 1 for a call that spans one byte, 0.1 for one of 10,000. Higher
// is better.
func CallScore(g *Graph, start []uint64) float64 {
	var score, calls float64
	for _, a := range g.Arcs {
		if a.From != a.To {
			score += a.N * callWorth(start[a.From]+a.Offset, start[a.To])
			calls += a.N
		}
	}
	if calls == 0 {
		return 0
	}
	return score / calls
}

func callWorth(from, to uint64) float64 {
	d := math.Max(distance(from, to), 0.1)
	return math.Pow(d, -distancePower)
}

func distance(a, b uint64) float64 { return float64(max(a, b) - min(a, b)) }
