package infer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWays compares paths of one search for all blocks with those of a search for each.
func TestWays(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		blocks := int32(1 + random.IntN(40))
		outside := blocks
		arcs := []arc{{from: outside, to: 0}}
		for b := range blocks {
			if b > 0 {
				arcs = append(arcs, arc{from: random.Int32N(b), to: b})
			}
			for range 1 + random.IntN(2) {
				arcs = append(arcs, arc{from: b, to: b + 1 + random.Int32N(outside-b)}, arc{from: b, to: random.Int32N(blocks)})
			}
		}
		w := newWays(arcs, outside)
		for b := range blocks {
			for _, c := range []struct {
				path     []int
				from, to int32
			}{{w.to(b), outside, b}, {w.from(b), b, outside}} {
				path := slices.Sorted(slices.Values(c.path))
				want := slices.Sorted(slices.Values(route(arcs, w.leaving, c.from, c.to)))
				if !slices.Equal(path, want) {
					t.Errorf("%d blocks: from %d to %d by arcs %v, want %v", blocks, c.from, c.to, path, want)
				}
			}
		}
	}
}
