package layout

import (
	"math"
	"math/rand/v2"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

// procedure makes a procedure at addr of a graph: a block per node.
func procedure(g *Graph, addr image.Addr) *infer.Result {
	r := &infer.Result{Proc: &image.Proc{Symbol: image.Symbol{Addr: addr}, Complete: true}}
	at := addr
	for _, n := range g.Nodes {
		b := image.Block{Start: at, End: at + image.Addr(n.Size), Insts: 4}
		at, b.Last = b.End, b.End-1
		r.Proc.Blocks = append(r.Proc.Blocks, b)
		r.Block = append(r.Block, infer.Freq{N: n.N})
	}
	r.Proc.Size = uint64(at - addr)
	for i, a := range g.Arcs {
		kind := image.Taken
		if a.To == a.From+1 {
			kind = image.FallThrough
		}
		r.Proc.Edges = append(r.Proc.Edges, image.Edge{From: a.From, To: a.To, Kind: kind})
		r.Edge = append(r.Edge, infer.Freq{N: a.N})
		from, to := &r.Proc.Blocks[a.From], &r.Proc.Blocks[a.To]
		from.Out, to.In = append(from.Out, i), append(to.In, i)
	}
	return r
}

// permutations calls f with all orders of n nodes that begin with node 0.
func permutations(n int, f func([]int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var rec func(int)
	rec = func(k int) {
		if k >= n {
			f(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			rec(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	rec(1)
}

// TestScores: the scores of a placement are those of its order, and none beats
// what is possible.
func TestScores(t *testing.T) {
	var found, most float64
	for seed := range uint64(300) {
		g := randomGraph(seed, 2+int(seed%6))
		rng := rand.New(rand.NewPCG(seed, 7))
		for i := range g.Nodes {
			g.Nodes[i].Size = 1 + rng.Uint64N(400)
		}
		r := procedure(g, 0x1000)
		procs := []*infer.Result{r}
		limit := UpperBound(procs)
		best := math.Inf(-1)
		permutations(len(g.Nodes), func(order []int) {
			s := Place(procs, []Part{{0, order}}, 0x2000, procAlign).Scores()
			if want := Score(g, order); math.Abs(s.ExtTSP-want) > 1e-9*want {
				t.Fatalf("seed %d: %v scores %v, want %v", seed, order, s.ExtTSP, want)
			}
			if s.ExtTSP > limit.ExtTSP*(1+1e-12) || s.Taken < limit.Taken*(1-1e-12) || s.Transfers != limit.Transfers {
				t.Fatalf("seed %d: %v scores %+v, at most %+v is possible", seed, order, s, limit)
			}
			best = max(best, s.ExtTSP)
		})
		found += best / limit.ExtTSP
		most++
	}
	if found/most < 0.95 {
		t.Errorf("the best of all orders reach %.3f of the bound, want 0.95", found/most)
	}
	t.Logf("the best of all orders reach %.3f of the bound", found/most)
}

func TestCoverage(t *testing.T) {
	// 80 instructions in line 0, 15 + 4 half each in lines 1 and 2, 1 in line 3.
	ip := program([]string{"a 64 20 1", "b 32 2 1", "c 64 1 1", "d 64 0.25 1"})
	ip.Procs[1].Block[0].N = 15.0 / 4
	var parts []Part
	for i := range ip.Procs {
		parts = append(parts, Part{Proc: i})
	}
	s := Place(ip.Procs, parts, 0, 32).Scores()
	if want := (Coverage{2, 3, 4}); s.Lines != want {
		t.Errorf("lines %+v, want %+v", s.Lines, want)
	}
	if want := (Coverage{1, 1, 1}); s.Pages != want || s.HugePages != want {
		t.Errorf("pages %+v and %+v, want %+v", s.Pages, s.HugePages, want)
	}
	// 90 % is 80 and 10 of 15 in 32 bytes; 99 % all of a, b and c; 99.9 % nine tenths of d too.
	if want := (Coverage{64 + 22, 64 + 32 + 64, 64 + 32 + 64 + 58}); s.Bytes != want {
		t.Errorf("bytes %+v, want %+v", s.Bytes, want)
	}
	if p := UpperBound(ip.Procs); p.Bytes != s.Bytes || p.Lines != (Coverage{2, 3, 4}) {
		t.Errorf("possible are %+v bytes, %+v lines", p.Bytes, p.Lines)
	}
}

// TestSpreadAtTheEnd: the last page of all addresses has an end.
func TestSpreadAtTheEnd(t *testing.T) {
	heat := map[uint64]float64{}
	spread(heat, 1<<64-4100, 1<<64-4, pageSize, 4096)
	if heat[1<<52-2] != 4 || heat[1<<52-1] != 4092 || len(heat) != 2 {
		t.Errorf("got %v, want 4 and 4092 in the last two pages", heat)
	}
}
