package layout

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/testdata/sets"
)

// A set is the image of a recorded program that ran most, with the counts inferred from
// its samples, and the exact ones of all that ran.
type set struct {
	name     string
	profile  *infer.Profile
	inferred *infer.ImageProfile
	true     *infer.ImageProfile
	truth    *truth.Image
}

// loadSets reads testdata/mix and the directories of -sets.
func loadSets(t *testing.T) []*set {
	t.Helper()
	var all []*set
	for _, from := range append([]*sets.Set{sets.Load(t, "../testdata/mix")}, sets.Named(t)...) {
		s := newSet(t, from)
		if len(Functions(s.inferred).Symbols) == 0 {
			t.Logf("%s: stripped, so that no linker could order it", s.name)
			continue
		}
		all = append(all, s)
	}
	return all
}

// newSet infers from the samples of a recorded program.
func newSet(t *testing.T, from *sets.Set) *set {
	t.Helper()
	prof, err := infer.Infer(t.Context(), from.Rec, from.Open, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &set{name: from.Name, profile: prof}
	s.inferred = slices.MaxFunc(prof.Images, func(a, b *infer.ImageProfile) int { return cmp.Compare(a.Samples, b.Samples) })
	for path, it := range from.Truth.Images {
		if filepath.Base(path) == filepath.Base(s.inferred.ID.Path) {
			s.truth = it
		}
	}
	if s.truth == nil {
		t.Fatalf("%s: no exact counts of %s", s.name, s.inferred.ID.Path)
	}
	s.true = s.exact(t)
	return s
}

// exact returns the procedures that ran, and those that were thought to, with true counts.
func (s *set) exact(t *testing.T) *infer.ImageProfile {
	im := s.inferred.Image
	ran := map[int]bool{}
	for a := range s.truth.Insts {
		if i := im.Find(a); i >= 0 {
			ran[i] = true
		}
	}
	for _, r := range s.inferred.Procs {
		ran[r.Proc.Index] = true
	}
	ip := &infer.ImageProfile{ID: s.inferred.ID, Image: im}
	jumps := map[image.Addr]uint64{} // and tail calls
	for _, m := range []map[truth.Transfer]uint64{s.truth.Jumps, s.truth.Calls} {
		for tr, n := range m {
			jumps[tr.From] += n
		}
	}
	for i := range ran { // its order matters to nothing
		p, err := im.Proc(i)
		if err != nil || len(p.Blocks) == 0 {
			continue
		}
		ip.Procs = append(ip.Procs, s.counted(p, jumps))
	}
	slices.SortFunc(ip.Procs, func(a, b *infer.Result) int { return cmp.Compare(a.Proc.Addr, b.Proc.Addr) })
	return ip
}

// counted returns a procedure its true counts.
func (s *set) counted(p *image.Proc, jumps map[image.Addr]uint64) *infer.Result {
	freq := func(n uint64) infer.Freq {
		return infer.Freq{N: float64(n), Conf: infer.High, Among: infer.High, Within: infer.High}
	}
	r := &infer.Result{Proc: p, Edge: make([]infer.Freq, len(p.Edges))}
	for i := range p.Blocks {
		b := &p.Blocks[i]
		var n uint64
		for a := b.Start; a < b.End; a++ {
			n = max(n, s.truth.Insts[a])
		}
		r.Block = append(r.Block, freq(n))
		r.Samples += n
		last := s.truth.Insts[b.Last]
		for _, e := range b.Out {
			switch to := p.Blocks[p.Edges[e].To].Start; {
			case len(b.Out) == 1 && b.Exit == image.NoExit:
				r.Edge[e] = freq(last)
			case p.Edges[e].Kind == image.FallThrough:
				r.Edge[e] = freq(last - min(last, jumps[b.Last]))
			default:
				r.Edge[e] = freq(s.truth.Jumps[truth.Transfer{From: b.Last, To: to}])
			}
		}
	}
	in := r.Block[0].N
	for _, e := range p.Blocks[0].In {
		in -= r.Edge[e].N
	}
	r.Entries = freq(uint64(max(in, 0)))
	for _, c := range p.Calls {
		r.Call = append(r.Call, freq(s.truth.Calls[truth.Transfer{From: c.Site, To: c.To}]))
	}
	return r
}

// splitExactly is Split for exact counts, which need no other evidence: it takes back
// what orderBlocks makes fall-throughs of the compiled order count for.
func splitExactly(o *Order) *Placement {
	var hot, cold []Part
	for _, i := range o.order {
		g := Blocks(o.procs[i])
		for k, a := range g.Arcs {
			if a.To == a.From+1 {
				g.Arcs[k].N /= compiledWeight
			}
		}
		h, c := g.split(orderBlocks(g))
		hot, cold = append(hot, Part{i, h}), append(cold, Part{i, c})
	}
	return Place(o.procs, slices.Concat(hot, cold), o.base, procAlign)
}

// TestTrueCounts: by true counts, layouts made from inferred counts are nearly as good
// as those made from true ones. With -v it prints the scores; -sets adds programs to
// testdata/mix.
func TestTrueCounts(t *testing.T) {
	all := loadSets(t)
	var mean float64
	worst := 1.0
	for _, s := range all {
		procs := s.true.Procs
		linked := Linked(procs).Scores()
		ours := Functions(s.inferred).Split().With(procs).Scores()
		best := splitExactly(Functions(s.true)).With(procs).Scores()
		bound := UpperBound(procs)
		row := func(name string, of func(*Scores) float64) {
			t.Logf("%-10s %-12s as linked %12.5g  ours %12.5g  by true counts %12.5g  possible %12.5g  ours / by true counts %.4f",
				s.name, name, of(&linked), of(&ours), of(&best), of(&bound), of(&ours)/of(&best))
		}
		row("ext-TSP", func(s *Scores) float64 { return s.ExtTSP })
		row("taken jumps", func(s *Scores) float64 { return s.Taken })
		row("call score", func(s *Scores) float64 { return s.CallScore })
		row("lines, 99 %", func(s *Scores) float64 { return float64(s.Lines.For99) })
		row("pages, 99 %", func(s *Scores) float64 { return float64(s.Pages.For99) })
		for name, o := range map[string]Scores{"as linked": linked, "ours": ours, "by true counts": best} {
			if o.ExtTSP > bound.ExtTSP || o.Taken < bound.Taken || o.Lines.For99 < bound.Lines.For99 || o.CallScore > bound.CallScore {
				t.Errorf("%s: %s: %+v, but at most %+v is possible", s.name, name, o, bound)
			}
		}
		if ours.ExtTSP <= linked.ExtTSP || ours.Taken >= linked.Taken {
			t.Errorf("%s: score %.5g, as linked %.5g; taken jumps %.5g, as linked %.5g", s.name, ours.ExtTSP, linked.ExtTSP, ours.Taken, linked.Taken)
		}
		share := ours.ExtTSP / best.ExtTSP
		worst = min(worst, share)
		if s != all[0] || len(all) == 1 { // testdata/mix, of seven small kernels, has no part in the mean of programs
			mean += share / float64(max(1, len(all)-1))
		}
	}
	t.Logf("ext-TSP score of layouts by inferred counts, share of those by true counts: mean %.4f, worst %.4f", mean, worst)
	if worst < 0.90 || mean < 0.95 && len(all) > 1 {
		t.Errorf("mean %.4f, worst %.4f; want 0.95 and 0.90", mean, worst)
	}
}

// TestJumpsAsCounted: the jumps of the image as it is linked are those that were
// counted, but for the hundredth that callgrind takes for calls, or calls for jumps.
func TestJumpsAsCounted(t *testing.T) {
	for _, s := range loadSets(t) {
		var want float64
		for _, r := range s.true.Procs {
			for tr, n := range s.truth.Jumps {
				i, j := r.Proc.BlockAt(tr.From), r.Proc.BlockAt(tr.To)
				// Repeated string instructions jump to themselves, for callgrind.
				if i >= 0 && j >= 0 && r.Proc.Blocks[i].Last == tr.From && r.Proc.Blocks[j].Start == tr.To {
					want += float64(n)
				}
			}
		}
		if got := Linked(s.true.Procs).Scores().Taken; got < 0.99*want || got > 1.01*want {
			t.Errorf("%s: %.0f jumps taken, %.0f were counted", s.name, got, want)
		}
	}
}

// TestRandomOrders: orders drawn at random are worse than what was linked, and than
// ours, in everything that they change.
func TestRandomOrders(t *testing.T) {
	for _, s := range loadSets(t) {
		procs := s.true.Procs
		linked, ours := Linked(procs).Scores(), Functions(s.inferred).Split().With(procs).Scores()
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 3))
			var parts []Part
			for _, i := range rng.Perm(len(procs)) {
				blocks := rng.Perm(len(procs[i].Proc.Blocks))
				first := slices.Index(blocks, 0)
				blocks[0], blocks[first] = blocks[first], blocks[0]
				parts = append(parts, Part{i, blocks})
			}
			random := Place(procs, parts, procs[0].Proc.Addr, procAlign).Scores()
			if random.ExtTSP >= linked.ExtTSP || random.ExtTSP >= ours.ExtTSP || random.Taken <= linked.Taken || random.Taken <= ours.Taken {
				t.Errorf("%s: random blocks score %.5g and jump %.5g times; as linked %.5g, %.5g; ours %.5g, %.5g",
					s.name, random.ExtTSP, random.Taken, linked.ExtTSP, linked.Taken, ours.ExtTSP, ours.Taken)
			}
			if random.CallScore >= ours.CallScore || random.Lines.For90 <= ours.Lines.For90 || random.Pages.For99 < ours.Pages.For99 {
				t.Errorf("%s: random %+v is not worse than ours %+v", s.name, random, ours)
			}
		}
	}
}

// TestUnchanged: to leave everything where it is gains exactly nothing, and so does
// moving whole procedures for the blocks in them.
func TestUnchanged(t *testing.T) {
	for _, s := range loadSets(t) {
		for _, procs := range [][]*infer.Result{s.true.Procs, s.inferred.Procs} {
			linked := Linked(procs).Scores()
			if got := Linked(procs).With(procs).Scores(); got != linked {
				t.Errorf("%s: %+v, want %+v", s.name, got, linked)
			}
			var parts []Part
			for i := range procs {
				parts = append(parts, Part{Proc: i})
			}
			if got := Place(procs, parts, 0, procAlign).Scores(); got.ExtTSP != linked.ExtTSP || got.Taken != linked.Taken || got.Bytes != linked.Bytes {
				t.Errorf("%s: procedures moved as a whole: %+v, want blocks as in %+v", s.name, got, linked)
			}
		}
	}
}
