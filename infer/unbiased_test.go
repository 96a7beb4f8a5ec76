package infer

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/sample"
)

// counted returns the true executions of an image, or nil.
func (s *set) counted(path string) *truth.Image {
	for p, it := range s.Truth.Images {
		if truth.SamePath(p, path) {
			return it
		}
	}
	return nil
}

// retire makes the truth of s what processors count. Callgrind counts a string instruction
// each time that it repeats, and what runs in the linkage table with the call that leads there.
func (s *set) retire() {
	for _, ic := range s.Rec.Counts[0].Images {
		im, it := s.Images[ic.ID.Key()], s.counted(ic.ID.Path)
		if im == nil || it == nil {
			continue
		}
		for i := range im.Symbols() {
			p, err := im.Proc(i)
			if err != nil {
				continue
			}
			for b := range p.Blocks {
				insts := im.Insts(&p.Blocks[b])
				least := uint64(math.MaxUint64)
				for _, in := range insts {
					if n := it.Insts[in.Addr]; n > 0 {
						least = min(least, n)
					}
				}
				for _, in := range insts {
					if in.Class&(image.Rep|image.DirCall|image.IndCall) != 0 && it.Insts[in.Addr] > least {
						it.Insts[in.Addr] = least
					}
				}
			}
		}
	}
}

// draw makes a recording of n samples of retired instructions, each of all that the images of s
// executed in one run.
func (s *set) draw(n int, event string, rng *rand.Rand) *sample.Recording {
	type spot struct {
		id  sample.ImageID
		off sample.Offset
	}
	var at []spot
	var upTo []uint64
	var all uint64
	old := s.Rec.Counts[0]
	for _, ic := range old.Images {
		im, it := s.Images[ic.ID.Key()], s.counted(ic.ID.Path)
		if im == nil || it == nil {
			continue
		}
		for _, a := range slices.Sorted(maps.Keys(it.Insts)) {
			if off, ok := im.OffsetOf(a); ok {
				all += it.Insts[a]
				at, upTo = append(at, spot{ic.ID, off}), append(upTo, all)
			}
		}
	}
	c := sample.NewCounts(old.CPU, sample.Event{Name: event, Unit: "instructions"})
	for range n {
		x := rng.Uint64N(all)
		p := at[sort.Search(len(upTo), func(i int) bool { return upTo[i] > x })]
		c.AddSample(c.Image(p.id), p.off, 1)
	}
	c.Weight = all
	return sample.Merge(&sample.Recording{Counts: []*sample.Counts{c}})
}

// byAddr are the samples of a recording of s.
func (s *set) byAddr(rec *sample.Recording) truth.SamplesByAddr {
	by := truth.SamplesByAddr{}
	for _, ic := range rec.Counts[0].Images {
		by[ic.ID.Path] = map[image.Addr]uint64{}
		for off, n := range ic.At {
			if a, ok := s.Images[ic.ID.Key()].AddrOf(off); ok {
				by[ic.ID.Path][a] += n
			}
		}
	}
	return by
}

// A tally adds up how promises were kept.
type kept struct{ all, within10, within2x float64 }

func (k *kept) add(x truth.Kept) {
	k.all += x.Weight
	k.within10 += x.Weight * x.Within10
	k.within2x += x.Weight * x.Within2x
}

// TestUnbiased: of samples of retired instructions that nothing but chance moves, inference
// makes counts that are never worse than the samples themselves, and about as good as chance
// allows, that are those of one run (there is no factor to be found), and as sure as they say.
// With -v and -sets it prints what it finds for other programs, too.
func TestUnbiased(t *testing.T) {
	for _, s := range append([]*set{loadMix(t).set}, loadSets(t)...) {
		s.retire()
		for _, tt := range []struct {
			n, times int
			high     float64 // the least share of the samples that shall be high in the first set
		}{{100, 10, 0}, {1000, 5, 0}, {10_000, 3, 0.3}, {100_000, 1, 0.8}} {
			var overlap, raw, edges, scale float64
			var medium, high kept
			for i := range tt.times {
				rec := s.draw(tt.n, "instructions:pp", rand.New(rand.NewPCG(uint64(i), uint64(tt.n))))
				p := s.infer(t, rec, Options{})
				a := truth.Compare(NewDocument(p), s.Truth, s.byAddr(rec))
				b := truth.Compare(NewDocument(naive(p)), s.Truth, s.byAddr(rec))
				part := 1 / float64(tt.times)
				overlap += part * a.BlockOverlap
				raw += part * b.BlockOverlap
				edges += part * a.EdgeOverlap
				scale += part * math.Log(a.Scale)
				medium.add(a.BlockProgramWide[Medium].Samples)
				high.add(a.BlockProgramWide[High].Samples)
			}
			name := fmt.Sprintf("%s, %d samples", s.Name, tt.n)
			t.Logf("%-22s block overlap %.3f, samples by instructions %.3f; edges %.3f; scale %.3f; medium %.2f, kept %.2f; high %.2f, kept %.2f", name,
				overlap, raw, edges, math.Exp(scale), medium.all/float64(tt.times), medium.within2x/medium.all, high.all/float64(tt.times), high.within10/high.all)
			if s.Name != "mix" {
				continue
			}
			if overlap < raw-0.002 {
				t.Errorf("%s: block overlap %.3f, the samples themselves have %.3f", name, overlap, raw)
			}
			if off := math.Abs(scale); off > 0.01+3/math.Sqrt(float64(tt.n*tt.times)) {
				t.Errorf("%s: one execution is %.3f in truth", name, math.Exp(scale))
			}
			if medium.within2x < 0.9*medium.all {
				t.Errorf("%s: of medium counts %.2f are within a factor 2", name, medium.within2x/medium.all)
			}
			if high.within10 < 0.9*high.all {
				t.Errorf("%s: of high counts %.2f are within 10 %%", name, high.within10/high.all)
			}
			if high.all < tt.high*float64(tt.times) {
				t.Errorf("%s: %.2f of the samples are high", name, high.all/float64(tt.times))
			}
		}
	}
}

// TestLoop: 560 samples of instructions of a loop say how often it goes round, to 4 %, and hardly
// how often it is entered: what comes before it had no sample, as much as would have brought a few.
func TestLoop(t *testing.T) {
	const samples, insts, period = 560, 9, 2e6
	for _, tt := range []struct {
		par  *params
		want Confidence
	}{{&precise, High}, {&skidding, Medium}} {
		p := graph("a1>b b9>b b>c c1")
		r := newResult(p)
		r.BlockSamples[1], r.Samples, r.Seen = samples, samples, true
		pr := pose([]*Result{r}, func(*Result) func(*image.Block) float64 {
			return func(b *image.Block) float64 { return float64(b.Insts) / period }
		}, tt.par, nil)
		pr.run(false)
		if err := r.Check(); err != nil {
			t.Error(err)
		}
		want := samples * period / insts
		if off := math.Abs(r.Block[1].N/want - 1); off > 2/math.Sqrt(samples) || r.Block[1].Conf < tt.want {
			t.Errorf("the loop: %.4g executions, %v; want %.4g, %v", r.Block[1].N, r.Block[1].Conf, want, tt.want)
		}
		if most := 3.0 * period; r.Entries.N > most || r.Entries.Conf > Low {
			t.Errorf("entries: %.4g, %v; want at most %.4g, low", r.Entries.N, r.Entries.Conf, most)
		}
	}
}
