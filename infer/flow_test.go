package infer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
)

// graph makes a procedure from a small notation: "a4>b a>c b2 c9 d1! b>d c>d"
// has blocks a to d of 4, 2, 9 and 1 instructions with the edges a>b (falling
// through, the first of a block) and so on; d returns. Blocks lie in the order
// of their letters.
func graph(s string) *image.Proc {
	p := &image.Proc{Symbol: image.Symbol{Name: s, Addr: 0x1000}, Complete: true, Entries: []int{0}}
	block := func(c byte) int {
		i := int(c - 'a')
		for len(p.Blocks) <= i {
			p.Blocks = append(p.Blocks, image.Block{Insts: 1})
		}
		return i
	}
	for _, f := range strings.Fields(s) {
		if from, to, ok := strings.Cut(f, ">"); ok {
			i := block(from[0])
			kind := image.Taken
			if len(p.Blocks[i].Out) == 0 {
				kind = image.FallThrough
			}
			if n := 0; len(from) > 1 {
				fmt.Sscanf(from[1:], "%d", &n)
				p.Blocks[i].Insts = n
			}
			p.Blocks[i].Out = append(p.Blocks[i].Out, len(p.Edges))
			p.Edges = append(p.Edges, image.Edge{From: i, To: block(to[0]), Kind: kind})
			continue
		}
		i := block(f[0])
		switch {
		case strings.HasSuffix(f, "!"):
			p.Blocks[i].Exit = image.Return
		case strings.HasSuffix(f, "*"):
			p.Blocks[i].Exit = image.NoReturn
		}
		if n := 0; len(strings.Trim(f[1:], "!*")) > 0 {
			fmt.Sscanf(f[1:], "%d", &n)
			p.Blocks[i].Insts = n
		}
	}
	for e, x := range p.Edges {
		p.Blocks[x.To].In = append(p.Blocks[x.To].In, e)
	}
	a := p.Addr
	for i := range p.Blocks {
		b := &p.Blocks[i]
		b.Start, b.Last, b.End = a, a+image.Addr(4*(b.Insts-1)), a+image.Addr(4*b.Insts)
		a = b.End
	}
	p.Size = uint64(a - p.Addr)
	return p
}

// randomGraph makes a procedure of n blocks with up to four out-edges of each.
func randomGraph(rng *rand.Rand, n int) *image.Proc {
	var s strings.Builder
	for i := range n {
		c := rune('a' + i)
		if rng.IntN(5) == 0 || i == n-1 {
			fmt.Fprintf(&s, "%c! ", c)
		}
		seen := map[int]bool{}
		for range rng.IntN(4) {
			to := rng.IntN(n)
			if rng.IntN(2) == 0 {
				to = min(n-1, i+1)
			}
			if !seen[to] {
				seen[to] = true
				fmt.Fprintf(&s, "%c%d>%c ", c, 1+rng.IntN(9), rune('a'+to))
			}
		}
	}
	return graph(s.String())
}

// dense solves n = v + P^T n by Gaussian elimination with pivoting.
func dense(f *flow, prob, v []float64) []float64 {
	n := f.blocks
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, n+1)
		a[i][i] = 1
		a[i][n] = v[i]
	}
	for b := range n {
		for w := f.first[b]; w < f.first[b+1]; w++ {
			if to := f.outs[w].to; to != leave {
				a[to][b] -= prob[w]
			}
		}
	}
	for k := range n {
		p := k
		for i := k; i < n; i++ {
			if math.Abs(a[i][k]) > math.Abs(a[p][k]) {
				p = i
			}
		}
		a[k], a[p] = a[p], a[k]
		for i := range n {
			if i != k {
				q := a[i][k] / a[k][k]
				for j := k; j <= n; j++ {
					a[i][j] -= q * a[k][j]
				}
			}
		}
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = a[i][n] / a[i][i]
	}
	return x
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*(1e-9+math.Abs(a)+math.Abs(b)) }

func TestVisits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := randomGraph(rng, 1+rng.IntN(12))
		f := newFlow(p, 0)
		prob := make([]float64, len(f.outs))
		for w := range prob {
			prob[w] = rng.NormFloat64() * 2
		}
		for b := range f.blocks {
			softmax(prob[f.first[b]:f.first[b+1]])
		}
		x := f.newFactor()
		x.set(prob)
		v, g := make([]float64, f.blocks), make([]float64, f.blocks)
		for _, e := range f.entries {
			v[e] = rng.Float64()
		}
		for b := range g {
			g[b] = rng.Float64()
		}
		want := dense(f, prob, v)
		got := append([]float64(nil), v...)
		x.visits(got)
		worth := append([]float64(nil), g...)
		x.values(worth)
		for b := range got {
			if !near(got[b], want[b], 1e-6) {
				t.Fatalf("%s: block %d: %g executions, want %g", p.Name, b, got[b], want[b])
			}
		}
		// The transpose: value of what enters = value of what runs.
		if a, b := dot(v, worth), dot(got, g); !near(a, b, 1e-8) {
			t.Fatalf("%s: entries are worth %g, executions %g", p.Name, a, b)
		}
	}
}

func TestLongLoops(t *testing.T) {
	// A loop left once in 1e15 times: 1 - p would have lost most digits.
	p := graph("a>b b>b b>c c!")
	f := newFlow(p, 0)
	x := f.newFactor()
	x.set([]float64{1, 1 - 1e-15, 1e-15, 1})
	v := []float64{1, 0, 0}
	x.visits(v)
	if !near(v[1], 1e15, 1e-12) || !near(v[2], 1, 1e-12) {
		t.Errorf("loop %g, after it %g", v[1], v[2])
	}
}

func TestEntriesAndTraps(t *testing.T) {
	for _, tt := range []struct {
		name, g        string
		entries, exits string
	}{
		{"straight", "a>b b!", "a", "b"},
		{"idle loop", "a>b b>c c>b", "a", "c"},
		{"two traps", "a>b a>c b>b c>c", "a", "bc"},
		{"unreachable", "a! b>a", "ab", "a"},
		{"island", "a! b>c c>b", "ab", "ac"},
		{"falls off the end", "a>b b>c", "a", "c"},
	} {
		f := newFlow(graph(tt.g), 0)
		var entries, exits string
		for _, b := range f.entries {
			entries += string(rune('a' + b))
		}
		for b := range f.blocks {
			for _, w := range f.outsOf(b) {
				if w.to == leave {
					exits += string(rune('a' + b))
				}
			}
		}
		if entries != tt.entries || exits != tt.exits {
			t.Errorf("%s: enters %s and leaves %s, want %s and %s", tt.name, entries, exits, tt.entries, tt.exits)
		}
	}
}

// TestCommonFactor: twice as many executions, each of half the cost, explain samples as well, and what is believed of
// them beside samples is the same, but for the factor itself. Otherwise rare code, of which nothing else says how
// often it runs, would choose the factor: with one block of PHP's interpreter known it was 80.
func TestCommonFactor(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		par := *outOfOrder.fetched(1000, 1e6)
		p := randomGraph(rng, 2+rng.IntN(8))
		s := make([]uint64, len(p.Blocks))
		for b := range s {
			s[b] = uint64(rng.IntN(50))
		}
		q := newProblem(p, s, func(b *image.Block) float64 { return float64(b.Insts) / 10 }, &par)
		q.commonSD = 0.5
		q.mayMiss(3)
		x := slices.Clone(q.center)
		for i := range x {
			x[i] += rng.NormFloat64()
		}
		last := len(x) - 1
		before, common := q.forward(x), x[last]
		for i := range q.enter {
			x[i] += math.Ln2
		}
		x[last] -= math.Ln2 / q.commonSD
		want := before + (x[last]*x[last]-common*common)/2
		if after := q.forward(x); math.Abs(after-want) > 1e-6*math.Abs(want) {
			t.Errorf("the objective is %g, and %g is right for the factor alone", after, want)
		}
	}
}

// TestGradient compares derivatives with differences, ties included.
func TestGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		par := *outOfOrder.fetched(1000, 1e6)
		var probs []*problem
		for range 3 {
			p := randomGraph(rng, 2+rng.IntN(8))
			s := make([]uint64, len(p.Blocks))
			for b := range s {
				s[b] = uint64(rng.IntN(50))
			}
			probs = append(probs, newProblem(p, s, func(b *image.Block) float64 { return float64(b.Insts) / 10 }, &par))
		}
		pick := func(i int) site {
			return site{q: probs[i], block: int32(rng.IntN(len(probs[i].n))), out: -1, share: 1 / float64(i+1)}
		}
		exit := pick(0)
		for b := range probs[0].flow.blocks {
			for w := probs[0].flow.first[b]; w < probs[0].flow.first[b+1]; w++ {
				if probs[0].flow.outs[w].to == leave {
					exit.block, exit.out = int32(b), w
				}
			}
		}
		pr := newProgram(probs, []tie{
			{callee: 1, sites: []site{exit, pick(2)}, sd: 0.5, above: 1},
			{callee: 2, sites: []site{pick(0)}, floor: true, sd: 0.5, above: math.Inf(1)},
		}, 0.5)
		for i, q := range probs {
			q.commonSD = 0.5
			q.mayMiss(float64(i))
			q.known = append(q.known, observation{block: int32(rng.IntN(len(q.n))), out: -1, logN: 3, sd: 0.5, real: true})
			q.known = append(q.known, observation{block: int32(rng.IntN(len(q.n))), out: -1, none: true, sd: 0.5, real: true})
			for b := range q.n {
				q.visits = append(q.visits, visited(b, float64(rng.IntN(100))))
			}
			q.level, q.sureLevel = 1, float64(i)
			for _, b := range q.branch {
				if w := q.flow.first[b]; q.flow.first[b+1] == w+2 {
					q.known = append(q.known, observation{block: b, out: w + int32(i%2), of: 20, part: float64(7 * i % 20)})
					break
				}
			}
		}
		n := pr.at[len(probs)]
		x, g, h := make([]float64, n), make([]float64, n), make([]float64, n)
		for i, q := range probs {
			copy(pr.part(x, i), q.center)
		}
		for i := range x {
			x[i] += rng.NormFloat64()
		}
		values := make([]float64, len(probs))
		pr.eval(x, g, values)
		for i := range x {
			const d = 1e-5
			x[i] += d
			up := pr.eval(x, h, values)
			x[i] -= 2 * d
			down := pr.eval(x, h, values)
			x[i] += d
			if want := (up - down) / (2 * d); math.Abs(g[i]-want) > 1e-4*(1+math.Abs(want)) {
				t.Fatalf("derivative %d is %g, want %g", i, g[i], want)
			}
		}
	}
}

func TestMinimize(t *testing.T) {
	// Rosenbrock's valley in ten dimensions.
	x := make([]float64, 10)
	used := minimize(func(x, g []float64) float64 {
		clear(g)
		var v float64
		for i := 0; i+1 < len(x); i++ {
			a, b := x[i+1]-x[i]*x[i], 1-x[i]
			v += 100*a*a + b*b
			g[i] += -400*a*x[i] - 2*b
			g[i+1] += 200 * a
		}
		return v
	}, x, 2000, 1e-14)
	for i := range x {
		if math.Abs(x[i]-1) > 1e-4 {
			t.Fatalf("after %d evaluations: %v", used, x)
		}
	}
}

// TestThere: a searcher that says so was last at the point that it returned.
func TestThere(t *testing.T) {
	said := map[bool]int{}
	for evals := 1; evals < 60; evals++ {
		x, last := []float64{-1.2, 1}, make([]float64, 2)
		s := newSearcher(2)
		s.minimize(func(x, g []float64) float64 {
			copy(last, x)
			a, b := x[1]-x[0]*x[0], 1-x[0]
			g[0], g[1] = -400*a*x[0]-2*b, 200*a
			return 100*a*a + b*b
		}, x, evals, 1e-14)
		said[s.there]++
		if there := slices.Equal(x, last); there != s.there {
			t.Errorf("%d evaluations: at %v, last at %v, said to be there: %v", evals, x, last, s.there)
		}
		searchers.Put(s)
	}
	if said[true] == 0 || said[false] == 0 {
		t.Errorf("said to be there: %v; want both", said)
	}
}

// TestAxpyDot: in one pass, the same bits as in two.
func TestAxpyDot(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for n := range 40 {
		x, y, z := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			x[i], y[i], z[i] = rng.NormFloat64(), rng.NormFloat64(), math.Exp(20*rng.NormFloat64())
		}
		want := slices.Clone(y)
		axpy(0.3, x, want)
		if got, dot := axpyDot(0.3, x, y, z), dot(z, want); got != dot || !slices.Equal(y, want) {
			t.Errorf("%d numbers: %v and %g, want %v and %g", n, y, got, want, dot)
		}
	}
}

// TestCore: the live blocks of a core run as often as they do in the whole problem, and all
// samples are expected, whatever its unknowns.
func TestCore(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		par := outOfOrder
		p := randomGraph(rng, 2+rng.IntN(24))
		q := newProblem(p, make([]uint64, len(p.Blocks)), func(b *image.Block) float64 { return float64(b.Insts) / 10 }, &par)
		x := slices.Clone(q.center)
		for i := range x {
			x[i] += rng.NormFloat64()
		}
		q.forward(x)
		q.live = make([]bool, len(q.n))
		for b := range q.live {
			q.live[b] = rng.IntN(4) == 0
		}
		live := slices.Clone(q.live)
		c := q.contract()
		for range 2 {
			q.forward(x)
			y := c.gather(x)
			c.forward(y)
			for i, b := range c.block {
				if live[b] && !near(c.n[i], q.n[b], 1e-6) {
					t.Fatalf("%s: live %v: block %d: %g executions, %g in the core", p.Name, live, b, q.n[b], c.n[i])
				}
			}
			if a, b := dot(q.n, q.cost), dot(c.n, c.cost); !near(a, b, 1e-6) {
				t.Fatalf("%s: live %v: %g samples expected, %g in the core", p.Name, live, a, b)
			}
			for i := range y {
				y[i] += rng.NormFloat64()
			}
			c.scatter(y, x)
		}
	}
}
