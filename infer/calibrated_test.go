package infer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/truth"
)

// A heldLevel is what a program's counts of one confidence weigh, and how much of that keeps its promise.
type heldLevel struct{ share, kept float64 }

func (h heldLevel) String() string {
	if h.share == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f, %.3f", h.share, h.kept)
}

// heldTo is what blocks or edges of one confidence come to, by their samples or executions.
func heldTo(conf Confidence, k truth.Kept) heldLevel {
	if conf == High {
		return heldLevel{k.Weight, k.Within10}
	}
	return heldLevel{k.Weight, k.Within2x}
}

// A promise is one level of one kind of count, over programs.
type promise struct {
	what    string
	of      []heldLevel
	claimed int // programs that claim something
}

// promises are what programs claimed of one kind of recording.
type promises []*promise

func (ps *promises) add(what string, h heldLevel) {
	for _, p := range *ps {
		if p.what == what {
			p.of = append(p.of, h)
			return
		}
	}
	*ps = append(*ps, &promise{what: what, of: []heldLevel{h}})
}

// judge adds what p claims, of a recording of so many runs.
func (ps *promises) judge(t *testing.T, s *set, p *Profile, runs float64) *truth.Accuracy {
	t.Helper()
	a := truth.CompareRuns(NewDocument(p), s.Truth, s.Samples, runs)
	var line strings.Builder
	say := func(what string, h heldLevel) {
		ps.add(what, h)
		fmt.Fprintf(&line, "; %s %v", what, h)
	}
	for c := Medium; c <= High; c++ {
		if runs > 0 { // program-wide confidence is about the executions themselves
			say(fmt.Sprintf("blocks %v", c), heldTo(c, a.BlockAbsolute[c].Samples))
			say(fmt.Sprintf("edges %v", c), heldTo(c, a.EdgeAbsolute[c].Executions))
		}
		say(fmt.Sprintf("blocks %v within", c), heldTo(c, a.BlockWithinProc[c].Samples))
		say(fmt.Sprintf("edges %v within", c), heldTo(c, a.EdgeWithinProc[c].Executions))
	}
	t.Logf("%-10s overlap %.3f, edges %.3f; entries off by %.2f (each %.2f), trips by %.2f; executions %.2f of the true ones%s", s.Name,
		a.BlockOverlap, a.EdgeOverlap, a.Entries.Median, a.Entries.Each, a.Trips.Median, 1/(a.Scale*cmp.Or(runs, 1)), &line)
	return a
}

// check prints each promise over the programs, and holds it to 0.9 in the mean and for none to less than least. What has
// less than a twentieth of the weight, a procedure or two, is left to chance.
func (ps promises) check(t *testing.T, least float64) {
	t.Helper()
	for _, p := range ps {
		var share, kept, worst float64
		n := 0
		worst = 1
		for _, h := range p.of {
			share += h.share / float64(len(p.of))
			if h.share >= 0.05 {
				kept += h.kept
				worst = min(worst, h.kept)
				n++
			}
		}
		if n == 0 {
			continue
		}
		kept /= float64(n)
		t.Logf("%-22s %.2f of the weight; kept %.3f by %d programs, %.3f at worst", p.what, share, kept, n, worst)
		if kept < 0.9 || worst < least {
			t.Errorf("%s: %.3f keep the promise, and %.3f of one program; want 0.9 and %.1f", p.what, kept, worst, least)
		}
	}
}

// TestKnownSets adds to each program of -sets the exact counts of 50, then of 400 blocks that Infer asks for, in four
// rounds, times the runs that were recorded. The promises are held to the executions themselves.
func TestKnownSets(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	for _, places := range []int{50, 400} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			var ps promises
			var mean float64
			for _, s := range all {
				a := ps.judge(t, s, s.infer(t, s.Rec, Options{Known: s.known(t, places)}), s.Runs)
				mean += a.BlockOverlap / float64(len(all))
			}
			t.Logf("mean block overlap %.3f", mean)
			ps.check(t, 0.8)
			if places == 400 && mean < 0.9 {
				t.Errorf("mean block overlap %.3f, want 0.90", mean)
			}
		})
	}
}

// known returns the exact counts of so many blocks, those of each quarter chosen with those before known.
func (s *set) known(t *testing.T, places int) (known []Known) {
	t.Helper()
	for range 4 {
		for _, pl := range s.infer(t, s.Rec, Options{Known: known, Places: (places + 3) / 4}).Places {
			b := &pl.Proc.Proc.Blocks[pl.Block]
			known = append(known, Known{Image: pl.Image.ID, Addr: b.Start, N: s.exact(pl.Image, b) * cmp.Or(s.Runs, 1), RelSD: 0.02})
		}
	}
	return known
}

// TestCalibrated holds the calibrated recordings of the programs of -sets to their promises.
func TestCalibrated(t *testing.T) {
	var ps promises
	n, kept := 0, 0
	for _, s := range loadSets(t) {
		if s.Calibrated == nil {
			continue
		}
		p := s.infer(t, s.Calibrated, Options{})
		ps.judge(t, s, p, s.CalibratedRuns)
		is := s.common(p, s.CalibratedRuns)
		t.Logf("%-10s where half of the samples are, executions are %.2f of the true ones; said to be off by a factor of up to %.2f", "", is, p.Common)
		if told, runs := s.instructions(p); told > 0 {
			t.Logf("%-10s instructions of all code are %.2f of the true ones, %.2f a ns of processor time", "", told/runs/s.CalibratedRuns, told/(1e9*secondsOf(s.Calibrated.Counts)))
		}
		n++
		if math.Abs(math.Log(is)) <= math.Log(p.Common) {
			kept++
		}
	}
	if n == 0 {
		t.Skip("no -sets with calibrated.bfr")
	}
	ps.check(t, 0.8)
	t.Logf("common factor: kept by %d of %d programs", kept, n)
	if few := 10; n >= few && float64(kept) < 0.8*float64(n) {
		t.Errorf("the common factor of %d of %d programs is as said, want 9 in 10", kept, n)
	}
}

// TestSaidFactor: where nothing but time was sampled, all executions may be off together by a factor of TimeFactor, and where some
// are known, by as much as these.
func TestSaidFactor(t *testing.T) {
	m := loadMix(t)
	p := m.infer(t)
	if p.Common != TimeFactor {
		t.Errorf("of samples of time, the common factor is %g, want %d", p.Common, TimeFactor)
	}
	var known []Known
	for _, r := range p.Images[0].Procs {
		b := &r.Proc.Blocks[0]
		if n := m.set.exact(p.Images[0], b); n > 0 && r.Samples > 0 {
			known = append(known, Known{Image: p.Images[0].ID, Addr: b.Start, N: n * mixRuns, RelSD: 0.05, CommonSD: 0.3})
		}
	}
	if p = m.set.infer(t, m.Rec, Options{Known: known}); p.Common < 1.2 || p.Common > 3 {
		t.Errorf("with %d known executions, that are off by 0.3 together, the common factor is %g, want 1.6", len(known), p.Common)
	}
	if d := NewDocument(p); d.CommonFactor != p.CommonFactor() {
		t.Errorf("the document says %g, want %g", d.CommonFactor, p.CommonFactor())
	}
}

// instructions returns how many p has, and how many one run has by the exact counts, of the images that p has.
func (s *set) instructions(p *Profile) (told, exact float64) {
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for b := range r.Block {
				blk := &r.Proc.Blocks[b]
				told += r.Block[b].N * float64(blk.Insts)
			}
		}
		if it := s.counted(ip.ID.Path); it != nil {
			exact += float64(it.Total())
		}
	}
	return told, exact
}

// common returns what p has of the true executions of so many runs, in the middle of the samples.
func (s *set) common(p *Profile, runs float64) float64 {
	type part struct{ is, samples float64 }
	var parts []part
	var all float64
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for b, n := range r.BlockSamples {
				if want := s.exact(ip, &r.Proc.Blocks[b]) * runs; n > 0 && want > 0 {
					parts = append(parts, part{r.Block[b].N / want, float64(n)})
					all += float64(n)
				}
			}
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.is, b.is) })
	sum := 0.0
	for _, p := range parts {
		if sum += p.samples; sum >= all/2 {
			return p.is
		}
	}
	return math.NaN()
}

// TestCalibratedLoops says of each loop with a twentieth of the samples, of the calibrated recordings of -sets, how often it was told to
// go round, relative to the exact counts. Of constructed programs, of which one part alone runs for long, most are within 15 %.
func TestCalibratedLoops(t *testing.T) {
	const share, within = 0.05, 0.15
	n, right := 0, 0
	for _, s := range loadSets(t) {
		if s.Calibrated == nil {
			continue
		}
		p := s.infer(t, s.Calibrated, Options{})
		for _, ip := range p.Images {
			for _, r := range ip.Procs {
				samples, head := map[int32]uint64{}, map[int32]int{} // by loop; its block with most executions
				for b, l := range loopsOf(r.Proc) {
					if l < 0 {
						continue
					}
					samples[l] += r.BlockSamples[b]
					if h, ok := head[l]; !ok || r.Block[b].N > r.Block[h].N {
						head[l] = b
					}
				}
				for l, h := range head {
					want := s.exact(ip, &r.Proc.Blocks[h]) * s.CalibratedRuns
					if want == 0 || float64(samples[l]) < share*float64(p.Samples.Used) {
						continue
					}
					n++
					is := r.Block[h].N / want
					if math.Abs(is-1) <= within {
						right++
					}
					t.Logf("%-10s %-24s %.2f of the samples: executions %.2f of the true ones, %v", s.Name, r.Proc.Name, float64(samples[l])/float64(p.Samples.Used), is, r.Block[h].Conf)
				}
			}
		}
	}
	if n == 0 {
		t.Skip("no -sets with calibrated.bfr")
	}
	t.Logf("%d of %d within 15 %%", right, n)
}
