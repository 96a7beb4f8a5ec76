package probe

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"backfeed/sample"
)

// ownProgram is a program of which one procedure, [0x100, 0x200) of a file, has a site at 0x110, after which 0x112 comes.
var ownProgram = sample.ImageID{Path: "/bin/app"}

// ownWindow adds to m a window of 10 ms in which the procedure took a part of the native time, each of its executions so
// long; a hit took cost beside it, half of which samples show at the site, behind it, and the rest in the kernel.
func ownWindow(rng *rand.Rand, m *measured, part, each, cost float64) (Moments, *Windows) {
	const length, apart = 10e-3, 1e-4
	native := length / (1 + part/each*cost)
	hits := uint64(native * part / each)
	chance := func(seconds float64) uint64 { // of samples
		n := seconds / apart
		return uint64(max(0, math.Round(n+math.Sqrt(n)*rng.NormFloat64())))
	}
	counts := sample.NewCounts(sample.CPU{}, sample.Event{})
	im := counts.Image(ownProgram)
	counts.AddSample(im, 0x180, chance(native*part))
	counts.AddSample(im, 0x300, chance(native*(1-part)))
	counts.AddSample(im, 0x110, chance((length-native)/4))
	counts.AddSample(im, 0x112, chance((length-native)/4))
	counts.Lose(sample.LostKernel, chance((length-native)/2))
	c := &Windows{hit: time.Duration(cost * 1e9), pack: 1, stretch: 1, groups: []*measured{m}}
	w := &Window{Number: uint32(len(m.windows) + 1), Hits: []uint64{hits}, Taken: []uint64{0}, All: hits, Time: time.Duration(length * 1e9)}
	c.add([]*measured{m}, []int{1}, w)
	return Moments{w.Number, counts}, c
}

func ownGroup() *measured {
	return &measured{Group: Group{ID: ownProgram, File: ownProgram.Path, Sites: []Site{{ID: ownProgram, Off: 0x110, Cond: NoCond}}, Own: []Own{{From: 0x100, To: 0x200, Next: []sample.Offset{0x112}}}}}
}

// ownCounts is what is sampled of 100 s in which the procedure had a part of the time.
func ownCounts(part float64) *sample.Counts {
	const n = 100_000
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns", Period: 1e6})
	im := c.Image(ownProgram)
	c.AddSample(im, 0x180, uint64(part*n))
	c.AddSample(im, 0x300, n-uint64(part*n))
	c.Weight = n * 1e6
	return c
}

// TestOwnTime: of a procedure that takes nearly all of one phase in ten and hardly any of the others, a few windows tell how often
// it runs for its own time, whichever they met, and how sure that is.
func TestOwnTime(t *testing.T) {
	const trials, windows = 200, 12
	for _, tt := range []struct{ each, cost float64 }{{1e-6, 0.5e-6}, {20e-6, 0.5e-6}} {
		rng := rand.New(rand.NewPCG(1, 2))
		counts := ownCounts(0.1*0.8 + 0.9*0.02)
		truth := 1e5 * 1e-3 * (0.1*0.8 + 0.9*0.02) / tt.each
		var off, offPlain, within, known float64
		for range trials {
			m := ownGroup()
			var c *Windows
			for range windows {
				part := 0.02
				if rng.Float64() < 0.1 {
					part = 0.8
				}
				var s Moments
				s, c = ownWindow(rng, m, part, tt.each, tt.cost)
				c.Sampled(s)
			}
			e := m.estimates(tt.cost)[0]
			rate, sd := e.ownTime.inAll(counts, 100)
			if rate == 0 {
				continue
			}
			known++
			if d := math.Log(rate * 100 / truth); math.Abs(d) < 1.645*sd {
				within++
			}
			off += sq(math.Log(rate*100/truth)) / trials
			offPlain += sq(math.Log(e.rate*100/truth)) / trials
		}
		t.Logf("%v s each: known %.2f, off by %.3f, without samples by %.3f; within what is said %.2f", tt.each, known/trials, math.Sqrt(off), math.Sqrt(offPlain), within/known)
		if known < 0.9*trials || math.Sqrt(off) > 0.4*math.Sqrt(offPlain) || within < 0.85*known {
			t.Error("that is not enough")
		}
	}
}

// TestOwnTimeAdded: what goes into counts is between what windows tell by the time and by own time, and nearer to what is surer; without
// samples it is as before.
func TestOwnTimeAdded(t *testing.T) {
	runs := func(samples bool) sample.Probed {
		rng := rand.New(rand.NewPCG(3, 4))
		m, counts := ownGroup(), ownCounts(0.1)
		var c *Windows
		for i := range 20 {
			var s Moments
			if s, c = ownWindow(rng, m, []float64{0.5, 0.01}[i%2], 2e-6, 0.5e-6); samples {
				c.Sampled(s)
			}
		}
		c.AddTo(counts)
		return counts.Images[0].Probed[0x110]
	}
	const truth = 100 * 0.1 / 2e-6
	plain, own := runs(false), runs(true)
	if d := math.Log(float64(plain.Runs) / truth); d < 0.5 {
		t.Errorf("without samples: off by %.2f: that tells nothing", d)
	}
	if d := math.Log(float64(own.Runs) / truth); math.Abs(d) > 0.2 {
		t.Errorf("with samples: off by %.2f", d)
	}
	rel := func(p sample.Probed) float64 { return math.Sqrt(p.Variance.Float64()) / float64(p.Runs) }
	if !(rel(own) < rel(plain)) || !(rel(own) > 0.05) {
		t.Errorf("known to %.3f with samples, %.3f without", rel(own), rel(plain))
	}
}

// TestOwnTimeUnknown: few hits or samples, code that runs as often as hits slow it down, and a place whose procedure is not known
// tell nothing for their own time.
func TestOwnTimeUnknown(t *testing.T) {
	for _, tt := range []struct {
		name       string
		part, each float64
		own        []Own
	}{
		{"no time", 0, 1e-6, ownGroup().Own},
		{"few hits", 0.5, 1e-2, ownGroup().Own},
		{"as often as hits slow it down", 0.01, 20e-9, ownGroup().Own},
		{"no procedure", 0.5, 1e-6, nil},
	} {
		rng := rand.New(rand.NewPCG(5, 6))
		m := ownGroup()
		m.Own = tt.own
		for range 5 {
			s, c := ownWindow(rng, m, tt.part, tt.each, 0)
			c.Sampled(s)
		}
		o := m.estimates(0)[0].ownTime
		if rate, sd := o.inAll(ownCounts(0.1), 100); rate != 0 || sd != 0 {
			t.Errorf("%s: %v a second, known to %v", tt.name, rate, sd)
		}
	}
}
