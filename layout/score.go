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

	joined func() // called when a search joins two nodes or chains of them; nil is not
}

// A Node is a piece of code that is moved as a whole.
type Node struct {
	Size uint64  // bytes
	N    float64 // executions
	Heat float64 // executed instructions; of procedures, where they are known
}

// An Arc is a transfer of control.
type Arc struct {
	From, To int     // indices into Graph.Nodes
	Offset   uint64  // of the transferring instruction from the start of From, in bytes; calls only
	N        float64 // executions
}

// Blocks returns the flow graph of a procedure. A block that is cold by evidence
// counts as one that does not run.
func Blocks(r *infer.Result) *Graph {
	g := &Graph{}
	for i, b := range r.Proc.Blocks {
		n := Node{Size: uint64(b.End - b.Start), N: r.Block[i].N}
		if r.Cold != nil && r.Cold[i] {
			n.N = 0
		}
		g.Nodes = append(g.Nodes, n)
	}
	for i, e := range r.Proc.Edges {
		g.Arcs = append(g.Arcs, Arc{From: e.From, To: e.To, N: r.Edge[i].N})
	}
	return g
}

// The constants of the ext-TSP model ("Improved Basic Block Reordering", Newell
// and Pupyrev, IEEE Transactions on Computers 2020), as LLVM's CodeLayout.cpp has
// them. An execution of an arc is worth
//
//	1                      if it falls through, where it might have jumped
//	1.05                   if it falls through, being the only arc out
//	0.1 * (1 - d / 1024)   if it jumps d bytes forward, d up to 1024
//	0.1 * (1 - d / 640)    if it jumps d bytes backward, d up to 640
//	0                      otherwise
const (
	onlyWeight  = 1.05
	jumpWeight  = 0.1
	forwardMax  = 1024 // bytes
	backwardMax = 640
)

// Score returns the ext-TSP score of g's nodes laid out in the given order: the
// worth of all executions of its arcs. Higher is better.
func Score(g *Graph, order []int) float64 {
	start, outs := addresses(g, order, 1), g.outDegrees()
	var score float64
	for _, a := range g.Arcs {
		if a.From == a.To {
			continue // costs the same in every order
		}
		end := start[a.From] + g.Nodes[a.From].Size
		score += a.N * jumpWorth(end, start[a.To], outs[a.From])
	}
	return score
}

// linked returns the order that the nodes have.
func (g *Graph) linked() []int {
	order := make([]int, len(g.Nodes))
	for i := range order {
		order[i] = i
	}
	return order
}

// outDegrees counts the arcs out of each node.
func (g *Graph) outDegrees() []int {
	outs := make([]int, len(g.Nodes))
	for _, a := range g.Arcs {
		outs[a.From]++
	}
	return outs
}

// jumpWorth is the worth of one execution of a jump between two addresses, one of
// several arcs out of it.
func jumpWorth(from, to uint64, outs int) float64 { return reachWorth(int64(to-from), outs) }

// reachWorth is jumpWorth of a jump that reaches over d bytes, backward if negative.
func reachWorth(d int64, outs int) float64 {
	switch {
	case d == 0 && outs == 1:
		return onlyWeight
	case d == 0:
		return 1
	case 0 < d && d <= forwardMax:
		return jumpWeight * (1 - float64(d)/forwardMax)
	case 0 < -d && -d <= backwardMax:
		return jumpWeight * (1 - float64(-d)/backwardMax)
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

// CallScore returns the mean worth of a call, when the nodes of g start at the
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
	return 1 / math.Sqrt(math.Sqrt(d)) // distancePower
}

func distance(a, b uint64) float64 { return float64(max(a, b) - min(a, b)) }
