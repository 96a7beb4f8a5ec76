package infer

import (
	"math/rand/v2"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/infer/truth"
	"backfeed/sample"
)

// exact returns the true executions of a block of mix.
func (m *mix) exact(b *image.Block) float64 {
	var n uint64
	for _, t := range m.Truth.Images {
		for a := b.Start; a < b.End; a++ {
			n = max(n, t.Insts[a])
		}
	}
	return float64(n)
}

// TestKnown: a few dozen exact counts at the places that Infer asks for make
// nearly all counts right, and the confidence that grows with them is deserved.
func TestKnown(t *testing.T) {
	m := loadMix(t)
	var known []Known
	for range 4 {
		p, err := Infer(t.Context(), m.Rec, m.Open, Options{Known: known, Places: 15})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[*Result]map[int]bool{}
		for _, pl := range p.Places {
			b := &pl.Proc.Proc.Blocks[pl.Block]
			if seen[pl.Proc] == nil {
				seen[pl.Proc] = map[int]bool{}
			}
			if seen[pl.Proc][pl.Block] {
				t.Errorf("%s: block %#x is asked for twice", pl.Proc.Proc.Name, b.Start)
			}
			seen[pl.Proc][pl.Block] = true
			known = append(known, Known{Image: pl.Image.ID, Addr: b.Start, N: mixRuns * m.exact(b), RelSD: 0.02})
		}
	}
	p, err := Infer(t.Context(), m.Rec, m.Open, Options{Known: known})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	got := truth.Compare(NewDocument(p), m.Truth, m.Samples)
	t.Logf("%d known counts: block overlap %.3f, within 10 %% %.3f, scale %.3f", len(known), got.BlockOverlap, got.Within10, got.Scale)
	if got.BlockOverlap < 0.9 || got.Within10 < 0.8 {
		t.Errorf("%d known counts: block overlap %.3f, %.3f of the samples within 10 %%", len(known), got.BlockOverlap, got.Within10)
	}
	if high := got.BlockProgramWide[High].Samples; high.Weight < 0.6 || high.Within10 < 0.9 {
		t.Errorf("blocks of high confidence: %.2f of all samples, %.3f of them within 10 %%", high.Weight, high.Within10)
	}
	if runs := 1 / got.Scale; runs < 0.8*mixRuns || runs > 1.25*mixRuns {
		t.Errorf("known counts are of %d runs, inferred ones of %.2f", mixRuns, runs)
	}
}

// TestBranchesInInfer: branch records take precedence over samples, whether the
// event counts branches or time.
func TestBranchesInInfer(t *testing.T) {
	m := loadMix(t)
	i := m.image.Lookup("interpret.constprop.0")
	p, err := m.image.Proc(i)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range []sample.Event{takenBranches, {Name: "cycles", Period: 211, Unit: "cycles"}} {
		rng := rand.New(rand.NewPCG(23, 24))
		l := newLBR(ev, 32, false)
		r := walk(rng, p, l, 500_000)
		c := sample.NewCounts(l.counts.CPU, ev)
		self := c.Image(sample.ImageID{Build: m.image.Build, Path: "mix"})
		place := func(f sample.Frame) sample.Frame {
			if off, ok := m.image.OffsetOf(image.Addr(f.Off)); ok {
				return sample.Frame{Image: self, Off: off}
			}
			return sample.Frame{Image: sample.Unknown}
		}
		for b, n := range l.counts.Branches {
			c.AddBranch(sample.Branch{From: place(b.From), To: place(b.To)}, n.N, 0)
		}
		for g, n := range l.counts.Ranges {
			if first := place(sample.Frame{Off: g.First}); first.Image == self {
				c.AddRange(sample.Range{Image: self, First: first.Off, Last: first.Off + g.Last - g.First}, n)
			}
		}
		for range l.counts.Total { // samples that say the contrary
			off, _ := m.image.OffsetOf(p.Blocks[rng.IntN(len(p.Blocks))].Start)
			c.AddSample(self, off, 1)
		}
		c.Weight = l.counts.Weight
		prof, err := Infer(t.Context(), &sample.Recording{Counts: []*sample.Counts{c}}, m.Open, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := prof.Check(); err != nil {
			t.Fatal(err)
		}
		for _, res := range prof.Images[0].Procs {
			if res.Proc.Index != i {
				continue
			}
			var blocks, edges []float64
			for _, f := range res.Block {
				blocks = append(blocks, f.N)
			}
			for _, f := range res.Edge {
				edges = append(edges, f.N)
			}
			if o, e := shared(blocks, r.block), shared(edges, r.edge); o < 0.95 || e < 0.95 {
				t.Errorf("%s: overlap of blocks %.3f, of edges %.3f", ev.Name, o, e)
			}
			if k := sumOf(blocks) / sumOf(r.block); ev.Unit == "branches" && (k < 0.9 || k > 1.1) {
				t.Errorf("%s: %.3f executions for one", ev.Name, k)
			}
		}
	}
}

// TestModel: the model is that of the recording's processor, or the one asked for.
func TestModel(t *testing.T) {
	m := loadMix(t)
	if got, want := m.infer(t).Machine, machine.For(m.Rec.Counts[0].CPU).Name; got != want {
		t.Errorf("machine %s, want %s", got, want)
	}
	p, err := Infer(t.Context(), m.Rec, m.Open, Options{Model: "intel-skylake-x"})
	if err != nil || p.Machine != "intel-skylake-x" {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := Infer(t.Context(), m.Rec, m.Open, Options{Model: "abacus"}); err == nil {
		t.Error("no error for an unknown model")
	}
}
