package gcov

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// random returns a graph of so many blocks, whose arcs are on a random spanning tree or not, and
// executions of its arcs that conserve flow: those of paths from Entry to Exit, each of which runs
// a number of times that unit says.
func random(r *rand.Rand, blocks int, unit func() float64) (*Function, []float64) {
	f := &Function{Name: "f", CFGChecksum: 1, Blocks: blocks}
	f.Arcs = append(f.Arcs, Arc{From: Entry, To: 2})
	for b := 2; b < blocks; b++ {
		next := b + 1
		if next == blocks {
			next = Exit
		}
		f.Arcs = append(f.Arcs, Arc{From: b, To: next})
		for range r.IntN(3) {
			to := 1 + r.IntN(blocks-1)
			f.Arcs = append(f.Arcs, Arc{From: b, To: to})
		}
	}
	out := make([][]int, blocks)
	order := r.Perm(len(f.Arcs))
	on := forest(f, func(int) bool { return true }, order)
	for i := range f.Arcs {
		if on[i] {
			f.Arcs[i].Flags |= OnTree
		}
		out[f.Arcs[i].From] = append(out[f.Arcs[i].From], i)
	}
	flows := make([]float64, len(f.Arcs))
	for range 1 + r.IntN(6) {
		n := unit()
		for b, steps := Entry, 0; b != Exit; steps++ {
			i := out[b][r.IntN(len(out[b]))]
			if steps > 4*blocks {
				i = out[b][0] // which leads to the next block
			}
			flows[i] += n
			b = f.Arcs[i].To
		}
	}
	return f, flows
}

// TestRound: executions are rounded down or up, flow is conserved, and what is whole stays.
func TestRound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	units := map[string]func() float64{
		"thirds":  func() float64 { return float64(1+r.IntN(20)) / 3 },
		"any":     func() float64 { return 10 * r.Float64() },
		"whole":   func() float64 { return float64(r.IntN(9)) },
		"halves":  func() float64 { return 0.5 },
		"small":   func() float64 { return 0.01 * r.Float64() },
		"large":   func() float64 { return 1e6 * r.Float64() },
		"mixture": func() float64 { return math.Exp(20*r.Float64() - 8) },
	}
	for name, unit := range units {
		for i := range 400 {
			f, flows := random(r, 3+r.IntN(1+i%40), unit)
			whole, err := f.Round(flows)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Check(whole); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i, n := range whole {
				if d := math.Abs(float64(n) - flows[i]); n < 0 || d >= 1 || d > 1e-6 && math.Abs(math.Round(flows[i])-flows[i]) < 1e-9 {
					t.Fatalf("%s: %v executions of arc %d rounded to %d", name, flows[i], i, n)
				}
			}
			counters, err := f.Counters(whole)
			if err != nil {
				t.Fatal(err)
			}
			back, err := f.Flows(counters)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i := range back {
				if back[i] != whole[i] {
					t.Fatalf("%s: arc %d: %d of counters, want %d", name, i, back[i], whole[i])
				}
			}
		}
	}
}

// TestRoundUnfit: what conserves no flow becomes what does.
func TestRoundUnfit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		f, flows := random(r, 3+r.IntN(30), func() float64 { return 1000 * r.Float64() })
		for i := range flows {
			flows[i] *= math.Exp(r.NormFloat64())
		}
		whole, err := f.Round(flows)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Check(whole); err != nil {
			t.Fatal(err)
		}
		for i, n := range whole {
			if n < 0 {
				t.Fatalf("arc %d: %d", i, n)
			}
		}
	}
	// Block 3 is left nowhere: it cannot run.
	f := function("0>2, 2>1 tree, 2>3 tree")
	whole, err := f.Round([]float64{5, 3, 2})
	if err != nil || f.Check(whole) != nil || whole[0] != whole[1] || whole[2] != 0 {
		t.Errorf("a block without end: %v, %v", whole, err)
	}
	for _, n := range []float64{-1, math.NaN(), math.Inf(1), 1 << 53} {
		if _, err := f.Round([]float64{1, 1, n}); !errors.Is(err, ErrFlow) {
			t.Errorf("%g executions: error %v", n, err)
		}
	}
	if _, err := f.Round(nil); !errors.Is(err, ErrFlow) {
		t.Errorf("no executions: error %v", err)
	}
}

// BenchmarkRound rounds the flow of a large function.
func BenchmarkRound(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	f, flows := random(r, 20_000, func() float64 { return 100 * r.Float64() })
	for b.Loop() {
		if _, err := f.Round(flows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*f.Blocks)/b.Elapsed().Seconds(), "blocks/s")
}
