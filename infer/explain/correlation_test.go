package explain

import (
	"cmp"
	"flag"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/testdata/sets"
)

var simulated = flag.String("callgrind", "", "compare culprits with `FILE`, of callgrind --dump-instr=yes --cache-sim=yes --branch-sim=yes on the one program of -sets")

// correlation is Pearson's.
func correlation(a, b []float64) float64 {
	var ma, mb float64
	for i := range a {
		ma, mb = ma+a[i]/float64(len(a)), mb+b[i]/float64(len(a))
	}
	var ab, aa, bb float64
	for i := range a {
		x, y := a[i]-ma, b[i]-mb
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// spearman is the correlation of ranks.
func spearman(a, b []float64) float64 { return correlation(ranks(a), ranks(b)) }

func ranks(a []float64) []float64 {
	order := make([]int, len(a))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(a[i], a[j]), cmp.Compare(i, j)) })
	r := make([]float64, len(a))
	for at := 0; at < len(order); {
		end := at + 1
		for end < len(order) && a[order[end]] == a[order[at]] {
			end++
		}
		for ; at < end; at++ {
			r[order[at]] += float64(end) // ties have one rank
		}
	}
	return r
}

func TestCorrelation(t *testing.T) {
	a := []float64{1, 2, 3, 4}
	for _, tt := range []struct {
		b                []float64
		pearson, byRanks float64
	}{
		{[]float64{2, 4, 6, 8}, 1, 1},
		{[]float64{4, 3, 2, 1}, -1, -1},
		{[]float64{1, 10, 100, 1000}, 0.8241, 1},
		{[]float64{1, 1, 2, 2}, 0.8944, 0.8944},
	} {
		if p, r := correlation(a, tt.b), spearman(a, tt.b); math.Abs(p-tt.pearson) > 1e-4 || math.Abs(r-tt.byRanks) > 1e-4 {
			t.Errorf("%v: %.4f and %.4f by ranks, want %.4f and %.4f", tt.b, p, r, tt.pearson, tt.byRanks)
		}
	}
}

// TestSimulated shows how the stalls of the procedures of one of -sets, by what they are
// blamed on, correlate with the misses that callgrind simulates: as DCPI did with events
// of the instruction cache, by the most, the least and the middle of the ranges.
// What all the time of the procedures has in common with the misses is shown beside it.
func TestSimulated(t *testing.T) {
	all := sets.Named(t)
	if len(all) != 1 || *simulated == "" {
		t.Skip("needs one of -sets and -callgrind")
	}
	s := all[0]
	exact := sets.Truth(t, *simulated)
	prof, err := infer.Infer(t.Context(), s.Rec, s.Open, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("by inferred counts:")
	correlate(t, prof, exact)
	t.Log("by exact counts, so that only the culprits are at stake:")
	correlate(t, exactly(s, prof), exact)
}

// exactly returns p with the true executions of blocks and edges.
func exactly(s *sets.Set, p *infer.Profile) *infer.Profile {
	q := *p
	q.Images = nil
	for _, ip := range p.Images {
		jp := *ip
		jp.Procs = nil
		for _, r := range ip.Procs {
			jp.Procs = append(jp.Procs, exactResult(s, ip, r))
		}
		q.Images = append(q.Images, &jp)
	}
	return &q
}

func exactResult(s *sets.Set, ip *infer.ImageProfile, r *infer.Result) *infer.Result {
	o := *r
	o.Block, o.Edge = slices.Clone(r.Block), slices.Clone(r.Edge)
	for b := range o.Block {
		block := &r.Proc.Blocks[b]
		o.Block[b] = infer.Freq{N: s.Exact(ip.ID.Path, block), Conf: infer.High, Among: infer.High, Within: infer.High}
		rest := o.Block[b].N
		for _, e := range block.Out {
			if edge := &r.Proc.Edges[e]; edge.Kind != image.FallThrough {
				n := s.Taken(ip.ID.Path, block, r.Proc.Blocks[edge.To].Start)
				o.Edge[e] = infer.Freq{N: n, Conf: infer.High, Among: infer.High, Within: infer.High}
				rest -= n
			}
		}
		for _, e := range block.Out {
			if r.Proc.Edges[e].Kind == image.FallThrough {
				o.Edge[e] = infer.Freq{N: max(0, rest), Conf: infer.High, Among: infer.High, Within: infer.High}
			}
		}
	}
	return &o
}

// correlate explains p, and shows how the causes of its procedures' stalls correlate with
// what was simulated.
func correlate(t *testing.T, p *infer.Profile, exact *truth.Counts) {
	t.Helper()
	x, err := New(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var procs []*Explanation
	var of []*truth.Image
	for ip, e := range x.All() {
		for path, it := range exact.Images {
			if filepath.Base(path) == filepath.Base(ip.ID.Path) {
				procs, of = append(procs, e), append(of, it)
			}
		}
	}
	for _, tt := range []struct {
		cause  Cause
		events []string
	}{
		{DCache, []string{"D1mr"}},
		{DCache, []string{"DLmr"}},
		{StoreBuffer, []string{"D1mw"}},
		{Mispredict, []string{"Bcm"}},
		{Mispredict, []string{"Bcm", "Bim"}},
		{ICache, []string{"I1mr"}},
	} {
		var misses []float64
		sum := 0.0
		for i, e := range procs {
			misses = append(misses, eventsOf(of[i], tt.events, e.Result))
			sum += misses[i]
		}
		if sum == 0 {
			t.Logf("%v: none", tt.events)
			continue
		}
		t.Logf("%s and %v, %.3g of them in %d procedures:", tt.cause, tt.events, sum, len(procs))
		for _, by := range []struct {
			name string
			of   func(*Explanation) float64
		}{
			{"most", func(e *Explanation) float64 { return e.Causes[tt.cause].Most }},
			{"least", func(e *Explanation) float64 { return e.Causes[tt.cause].Least }},
			{"middle", func(e *Explanation) float64 { return e.Causes[tt.cause].Least + e.Causes[tt.cause].Most }},
			{"likeliest", func(e *Explanation) float64 { return e.Likeliest[tt.cause] }},
			{"all cycles", func(e *Explanation) float64 { return e.Cycles }},
		} {
			var blamed []float64
			for _, e := range procs {
				blamed = append(blamed, by.of(e))
			}
			t.Logf("    %-10s %5.2f, %5.2f by ranks", by.name, correlation(blamed, misses), spearman(blamed, misses))
		}
	}
}

// eventsOf adds up events of the instructions of a procedure.
func eventsOf(it *truth.Image, events []string, r *infer.Result) float64 {
	n := uint64(0)
	for _, name := range events {
		for i := range r.Proc.Blocks {
			for a := r.Proc.Blocks[i].Start; a < r.Proc.Blocks[i].End; a++ {
				n += it.Events[name][image.Addr(a)]
			}
		}
	}
	return float64(n)
}
