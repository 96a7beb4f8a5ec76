package layout

import (
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

var blockSearches = map[string]func(*Graph) []int{"extTSP": extTSP, "pettisHansen": pettisHansen, "orderBlocks": orderBlocks}

func TestExtTSP(t *testing.T) {
	big := graph("a>b 60, a>c 40, b>d 60, c>d 40")
	big.Nodes[1].Size = 2000
	for _, tt := range []struct {
		name string
		g    *Graph
		want string
	}{
		{"the likely way falls through", graph("a>b 30, a>c 70, b>d 30, c>d 70"), "acdb"},
		{"a loop is rotated for the jump back to go", graph("a>b 1, b>c 100, b>d 1, c>b 100"), "acbd"},
		{"the entry stays first", graph("a>b 100, b>a 99, b>c 1"), "abc"},
		{"what did not run goes last, as compiled", graph("a>b 0, b>c 0, a>d 9, c>d 0"), "adbc"},
		{"a chain is cut to let in what falls through", graph("a>b 50, a>d 50, b>c 50, b>d 1, d>c 49, c>e 90"), "abdce"},
		{"what only leads to each other stays together", graph("a>c 10, c>b 0, a>d 90, b>d 10"), "adcb"},
		{"no merging of the dense with the thin: 100 per 16 bytes, 60 per 2000", big, "abcd"},
	} {
		if got := names(extTSP(tt.g)); got != tt.want {
			t.Errorf("%s: %s with score %.2f, want %s with %.2f", tt.name, got, Score(tt.g, blocks(got)), tt.want, Score(tt.g, blocks(tt.want)))
		}
	}
}

func TestPettisHansen(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    *Graph
		want string
	}{
		{"the most frequent arc first", graph("a>b 30, a>c 70, b>d 30, c>d 70"), "acdb"},
		{"a head that is taken is not joined", graph("a>c 10, b>c 20, a>b 5"), "abc"},
		{"the entry stays first", graph("a>b 100, b>a 99, b>c 1"), "abc"},
	} {
		if got := names(pettisHansen(tt.g)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// randomFlow makes the flow graph of a procedure of n blocks, which lead to the next
// one, near by, or both, and counts what a few runs through it do.
func randomFlow(seed uint64, n int) *Graph {
	rnd := rand.New(rand.NewPCG(seed, 2))
	g := &Graph{}
	likely := make([]float64, n) // that a block goes to the next one
	for i := range n {
		g.Nodes = append(g.Nodes, Node{Size: 1 + rnd.Uint64N(60)})
		near := min(max(0, i+rnd.IntN(31)-10), n-1)
		g.Arcs = append(g.Arcs, Arc{From: i, To: near}, Arc{From: i, To: (i + 1) % n})
		likely[i] = rnd.Float64()
		if rnd.IntN(4) == 0 {
			likely[i] = float64(rnd.IntN(2))
		}
	}
	for range 20 {
		for i, steps := 0, 0; i < n && steps < 50*n; steps++ {
			arc := &g.Arcs[2*i]
			if rnd.Float64() < likely[i] {
				arc = &g.Arcs[2*i+1]
			}
			g.Nodes[i].N++
			if i == n-1 {
				break // it returns
			}
			arc.N++
			i = arc.To
		}
	}
	return g
}

// TestBlockSearches: an order has every node once, the entry first, the same one
// each time, and orderBlocks' is never worse than what was compiled.
func TestBlockSearches(t *testing.T) {
	for seed := range uint64(150) {
		g := randomFlow(seed, 1+2*int(seed))
		compiled := make([]int, len(g.Nodes))
		for i := range compiled {
			compiled[i] = i
		}
		for name, search := range blockSearches {
			order := search(g)
			if again := search(g); !slices.Equal(order, again) {
				t.Fatalf("seed %d: %s gives %v, then %v", seed, name, order, again)
			}
			if order[0] != 0 {
				t.Fatalf("seed %d: %s puts block %d first", seed, name, order[0])
			}
			if name == "orderBlocks" && Score(g, order) < Score(g, compiled) {
				t.Errorf("seed %d: score %.2f, compiled %.2f", seed, Score(g, order), Score(g, compiled))
			}
			if slices.Sort(order); !slices.Equal(order, compiled) {
				t.Fatalf("seed %d: %s: not every block once: %v", seed, name, order)
			}
		}
	}
}

func TestOrderBlocks(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    *Graph
		want string
	}{
		{"a likely way falls through", graph("a>b 10, a>c 90, b>d 10, c>d 90"), "acdb"},
		{"one branch of many is turned", graph("a>b 100, b>c 100, c>d 20, c>e 80, d>f 20, e>f 80, f>g 100, g>h 100"), "abcefghd"},
		{"what is hardly better is not worth a change", graph("a>b 45, a>c 55, b>d 45, c>d 55"), "abcd"},
	} {
		if got := names(orderBlocks(tt.g)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestExtTSPBest compares the search with the best of all orders.
func TestExtTSPBest(t *testing.T) {
	var sum float64
	worst, graphs := 1.0, 0
	for seed := range uint64(200) {
		g := randomFlow(seed, 7)
		best := bestScore(g)
		if best == 0 {
			continue // it never leaves the first block
		}
		share := Score(g, extTSP(g)) / best
		if share > 1+1e-9 {
			t.Fatalf("seed %d: better than the best", seed)
		}
		sum += share
		worst = min(worst, share)
		graphs++
	}
	mean := sum / float64(graphs)
	t.Logf("%d graphs of 7 blocks: mean %.4f of the best score, at least %.4f", graphs, mean, worst)
	if mean < 0.99 || worst < 0.7 {
		t.Errorf("mean %.4f of the best score, at least %.4f", mean, worst)
	}
}

// bestScore tries all orders that begin with the entry.
func bestScore(g *Graph) float64 {
	order := make([]int, len(g.Nodes))
	for i := range order {
		order[i] = i
	}
	best := Score(g, order)
	var permute func(k int)
	permute = func(k int) {
		if k == len(order) {
			best = max(best, Score(g, order))
			return
		}
		for i := k; i < len(order); i++ {
			order[k], order[i] = order[i], order[k]
			permute(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	permute(1)
	return best
}

func TestChains(t *testing.T) {
	r := &infer.Result{Proc: &image.Proc{}}
	for i, n := range []float64{0, 3, 90, 0, 97} {
		a := image.Addr(0x1000 + 16*i)
		r.Proc.Blocks = append(r.Proc.Blocks, image.Block{Start: a, End: a + 16})
		r.Block = append(r.Block, infer.Freq{N: n})
	}
	r.Cold = []bool{true, true, false, true, false}
	r.Proc.Edges = []image.Edge{{From: 0, To: 1}, {From: 0, To: 4}, {From: 4, To: 2}}
	r.Edge = []infer.Freq{{N: 3}, {N: 97}, {N: 90}}
	hot, cold := Chains(r)
	if !slices.Equal(hot, []int{0, 4, 2}) || !slices.Equal(cold, []int{1, 3}) {
		t.Errorf("hot %v, cold %v; want the entry and what ran, and the blocks that are cold by evidence", hot, cold)
	}
}

// BenchmarkExtTSP reports the gain beside the time.
func BenchmarkExtTSP(b *testing.B) {
	g := randomFlow(1, 5000)
	compiled := make([]int, len(g.Nodes))
	for i := range compiled {
		compiled[i] = i
	}
	var order []int
	for b.Loop() {
		order = extTSP(g)
	}
	b.ReportMetric(Score(g, order)/Score(g, compiled), "score/compiled")
	b.ReportMetric(Score(g, order)/Score(g, pettisHansen(g)), "score/pettisHansen")
}
