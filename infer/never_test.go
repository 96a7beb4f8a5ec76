package infer

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFitNever: blocks that were seen never to run, or as good as never, run never, and nothing is taken from others; those by which alone
// control comes to what ran, or out of it, stay.
func TestFitNever(t *testing.T) {
	const handlers = 40 // 4 and on, each behind the dispatch 3, and back to it; 2 leads to it, and 44 out of the function
	edges := []GraphEdge{{From: 0, To: 2}, {From: 2, To: 3}, {From: 3, To: 4 + handlers}, {From: 4 + handlers, To: 1}}
	seen := []Seen{{2, 0, 1}, {4, 1e6, 1}, {5, 3e5, 1}, {4 + handlers, 0, 1}}
	for b := 4; b < 4+handlers; b++ {
		edges = append(edges, GraphEdge{From: 3, To: b}, GraphEdge{From: b, To: 3})
		if b > 5 {
			seen = append(seen, Seen{b, float64(b % 3), 1})
		}
	}
	f := NewGraph(5+handlers, edges).Start()
	f.Search(seen)
	before := f.Blocks()
	f.Never(seen, 10)
	n := f.Blocks()
	for b := range n {
		switch {
		case b >= 6 && b < 4+handlers:
			if before[b] == 0 || n[b] != 0 {
				t.Errorf("block %d: %g executions, %g before, want none of some", b, n[b], before[b])
			}
		case math.Abs(n[b]-before[b]) > 0.1*before[b] || n[b] == 0:
			t.Errorf("block %d: %g executions, %g before, want as many", b, n[b], before[b])
		}
	}
	conserved(t, 5+handlers, edges, f.Edges())
}

// TestFitNeverGraphs: of any graph, flow is still conserved, and what ran goes on to.
func TestFitNeverGraphs(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	changed := 0
	for range 500 {
		blocks := 3 + rng.IntN(12)
		edges := []GraphEdge{{From: 0, To: 2}}
		for range rng.IntN(3 * blocks) {
			edges = append(edges, GraphEdge{From: 2 + rng.IntN(blocks-2), To: 1 + rng.IntN(blocks-1), Unlikely: rng.IntN(8) == 0})
		}
		g := NewGraph(blocks, edges)
		if g == nil {
			continue
		}
		var seen []Seen
		for b := 2; b < blocks; b++ {
			switch rng.IntN(3) {
			case 0:
				seen = append(seen, Seen{b, math.Exp(20 * rng.Float64()), 1})
			case 1:
				seen = append(seen, Seen{Block: b, Weight: 1})
			}
		}
		f := g.Start()
		f.Search(seen)
		before := f.Blocks()
		f.Never(seen, 0)
		n := f.Blocks()
		ran := map[int]bool{}
		for _, s := range seen {
			ran[s.Block] = s.N > 0
		}
		for b := range n {
			if math.IsNaN(n[b]) || n[b] < 0 || ran[b] && before[b] > 1 && n[b] == 0 {
				t.Fatalf("block %d: %g executions, %g before: %v, seen %v", b, n[b], before[b], edges, seen)
			}
			if before[b] > 0 && n[b] == 0 {
				changed++
			}
		}
	}
	if changed < 100 {
		t.Errorf("%d blocks became such that never run, want more", changed)
	}
}
