package infer

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/sample"
)

// thinned is a recording as it might have been at a lower rate: each sample stays with the same probability, so that so many are
// left in the mean, and stands for more time.
func thinned(rec *sample.Recording, seed uint64, left float64) *sample.Recording {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := &sample.Recording{}
	keep := min(1, left/float64(rec.Samples()))
	for _, c := range rec.Counts {
		event := c.Event
		event.Period = uint64(float64(event.Period) / keep)
		n := sample.NewCounts(c.CPU, event)
		for _, ic := range c.Images {
			i := n.Image(ic.ID)
			n.AddProcesses(i, ic.Processes)
			for _, off := range slices.Sorted(maps.Keys(ic.At)) {
				var stays uint64
				for range ic.At[off] {
					if rng.Float64() < keep {
						stays++
					}
				}
				if stays > 0 {
					n.AddSample(i, off, stays)
				}
			}
		}
		out.Add(n)
	}
	return out
}

// TestEntryFactor: executions of procedures that ran are within EntryFactor in 9 of 10 cases, over the programs of -sets, as
// they were recorded and at lower rates. With -v it prints how many are within a factor of 12, and what 9 of 10 are within.
func TestEntryFactor(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	names := []string{"none", "1, 2", "3 to 7", "8 or more", "none, 8 or more in loops"}
	for _, left := range []float64{200, 400, 1000, 2000, 4000, 20000, math.Inf(1)} {
		var off [5][]float64
		var held [5]int
		for i, s := range all {
			if s.Runs == 0 {
				continue
			}
			p := s.infer(t, thinned(s.Rec, uint64(i), left), Options{})
			for _, ip := range p.Images {
				for _, r := range ip.Procs {
					if len(r.Block) == 0 {
						continue
					}
					truth, n := s.Runs*s.exact(ip, &r.Proc.Blocks[0]), r.Block[0].N
					if !(truth > 0) || !(n > 0) {
						continue
					}
					class := 3
					switch tell := r.EntrySamples(); {
					case tell == 0 && r.Samples >= fewSamples:
						class = 4
					case tell == 0:
						class = 0
					case tell < 3:
						class = 1
					case tell < fewSamples:
						class = 2
					}
					by := math.Exp(math.Abs(math.Log(n / truth)))
					off[class] = append(off[class], by)
					if by <= p.EntryFactor(r) {
						held[class]++
					}
				}
			}
		}
		for class, by := range off {
			if len(by) == 0 {
				continue
			}
			slices.Sort(by)
			within := float64(held[class]) / float64(len(by))
			twelve, _ := slices.BinarySearch(by, TimeFactor)
			t.Logf("%6g samples, procedures with %-24s %5d: %.3f within a factor of 12, 9 of 10 within %.4g; as said %.3f", left, names[class], len(by), float64(twelve)/float64(len(by)), by[len(by)*9/10], within)
			if within < 0.9 && len(by) >= 200 {
				t.Errorf("%g samples: of %d procedures with %s, %.3f are off by no more than is said", left, len(by), names[class], within)
			}
		}
	}
}

// TestEntrySamples: samples that tell how often a procedure was entered are not those of its loops, of page faults, of as many beside them, nor of what is emulated.
func TestEntrySamples(t *testing.T) {
	r := newResult(graph("a2>b b3>b b>c c2>d d4!"))
	r.BlockSamples = []uint64{10, 100, 30, 9}
	r.Entries.N = 5
	for b, n := range []float64{5, 500, 5, 5} {
		r.Block[b].N = n
	}
	if got := r.EntrySamples(); got != 49 {
		t.Errorf("all but the loop's: %d, want 49", got)
	}
	r.faulted = []uint64{4, 90, 20, 0} // 2 and 0 are left, and 9
	if got := r.EntrySamples(); got != 11 {
		t.Errorf("beside page faults: %d, want 11", got)
	}
	r.held = 10 // of which 7 tell
	if got := r.EntrySamples(); got != 8 {
		t.Errorf("where calls return, most of them: %d, want 8", got)
	}
	r.held = 0
	r.Proc.Blocks[3].Emulated = true
	if got := r.EntrySamples(); got != 2 {
		t.Errorf("beside what is emulated: %d, want 2", got)
	}
}

// TestColdEntryFactor: where many samples are of page faults, less is said of entries.
func TestColdEntryFactor(t *testing.T) {
	for _, tt := range []struct {
		own, used, faulted uint64
		want               float64
	}{
		{40, 10000, 0, TimeFactor},
		{40, 10000, 2900, TimeFactor},
		{40, 10000, 3100, 80},
		{20, 10000, 3100, 500},
		{2, 10000, 3100, 500},
		{40, 1000, 310, 200},
		{20, 1000, 310, 500},
		{2, 1000, 310, 3000},
	} {
		r := newResult(graph("a4!"))
		r.BlockSamples[0], r.Block[0].N = tt.own, 1
		r.Entries = Freq{N: 1, Conf: Low}
		p := &Profile{Common: TimeFactor, Samples: Samples{Used: tt.used, Faulted: tt.faulted}}
		if got := p.EntryFactor(r); got != tt.want {
			t.Errorf("%d of %d samples, %d of page faults: a factor of %g, want %g", tt.own, tt.used, tt.faulted, got, tt.want)
		}
	}
}
