package infer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"backfeed/infer/image"
)

// threaded makes an interpreter: an entry and n operations, all of which jump through one table of
// operations; the last one returns, too.
func threaded(n int) *image.Proc {
	p := &image.Proc{Symbol: image.Symbol{Name: "threaded", Addr: 0x1000}, Complete: true, Entries: []int{0}}
	for b := range n + 1 {
		a := p.Addr + image.Addr(4*b)
		p.Blocks = append(p.Blocks, image.Block{Insts: 1, Start: a, Last: a, End: a + 4})
		for to := 1; to <= n; to++ {
			p.Blocks[b].Out = append(p.Blocks[b].Out, len(p.Edges))
			p.Edges = append(p.Edges, image.Edge{From: b, To: to, Kind: image.Indirect})
		}
	}
	for e, x := range p.Edges {
		p.Blocks[x.To].In = append(p.Blocks[x.To].In, e)
	}
	p.Blocks[n].Exit = image.Return
	p.Size = uint64(4 * (n + 1))
	return p
}

// TestDispatch: an interpreter with 160 operations, whose flow would fill up, gets executions that
// its samples tell, and the edges of its jumps conserve them.
func TestDispatch(t *testing.T) {
	const n = 160
	p := threaded(n)
	with, ds := withDispatches(p)
	if len(ds) != 1 || len(ds[0].jumps) != n+1 || len(with.Blocks) != n+2 || len(with.Blocks[7].Out) != 1 {
		t.Fatalf("%d dispatches, %d blocks", len(ds), len(with.Blocks))
	}
	if len(p.Blocks) != n+1 || len(p.Edges) != n*(n+1) || len(p.Blocks[7].Out) != n {
		t.Errorf("the procedure has changed: %d blocks, %d edges", len(p.Blocks), len(p.Edges))
	}
	if newFlow(p, 0) != nil {
		t.Error("the flow without dispatches does not fill up: this tests nothing")
	}
	r := newResult(p)
	for b := 1; b <= n; b++ {
		r.BlockSamples[b] = uint64(b)
		r.Samples += uint64(b)
	}
	pr := pose([]*Result{r}, func(*Result) func(*image.Block) float64 {
		return func(*image.Block) float64 { return 1e-3 }
	}, &precise, nil)
	pr.run(false)
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	for _, b := range []int{1, 10, 100, n - 1, n} {
		if got, want := r.Block[b].N, 1e3*float64(b); got < 0.5*want || got > 2*want {
			t.Errorf("block %d: %g executions, want about %g", b, got, want)
		}
	}
}

// TestFewJumps: two switches with the same cases are left as they are.
func TestFewJumps(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		p := threaded(n)
		if with, ds := withDispatches(p); with != p || ds != nil {
			t.Errorf("%d operations: %d dispatches", n, len(ds))
		}
	}
}

func TestShare(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		d := dispatch{jumps: make([]jumpBlock, 1+rng.IntN(9))}
		places := make([]int64, 1+rng.IntN(9))
		jumps := make([]int64, len(d.jumps))
		for i := range d.jumps {
			for k := range places {
				d.jumps[i].edges = append(d.jumps[i].edges, i*len(places)+k)
			}
			for range rng.IntN(50) {
				n := rng.Int64N(1 << rng.IntN(40))
				jumps[i] += n
				places[rng.IntN(len(places))] += n
			}
		}
		edges := make([]int64, len(jumps)*len(places))
		d.share(jumps, places, func(e int, n int64) { edges[e] = n })
		what := fmt.Sprintf("%d to %d", jumps, places)
		for i, want := range jumps {
			var sum int64
			for k := range places {
				n := edges[i*len(places)+k]
				if sum += n; n < 0 {
					t.Errorf("%s: edge of %d", what, n)
				}
			}
			if sum != want {
				t.Errorf("%s: jump %d shares out %d", what, i, sum)
			}
		}
		for k, want := range places {
			var sum int64
			for i := range jumps {
				sum += edges[i*len(places)+k]
			}
			if sum != want {
				t.Errorf("%s: place %d gets %d", what, k, sum)
			}
		}
	}
}
