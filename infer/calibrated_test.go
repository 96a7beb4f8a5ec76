package infer

import (
	"cmp"
	"fmt"
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
	n := 0
	for _, s := range loadSets(t) {
		if s.Calibrated != nil {
			ps.judge(t, s, s.infer(t, s.Calibrated, Options{}), s.CalibratedRuns)
			n++
		}
	}
	if n == 0 {
		t.Skip("no -sets with calibrated.bfr")
	}
	ps.check(t, 0.8)
}
