package probe

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"backfeed/sample"
)

// A phased is a program with phases: site i has a rate in each, in hits per second.
type phased struct {
	length float64 // of a phase, in s of native time
	rates  [][]float64
}

// at returns the rates at a time.
func (p *phased) at(t float64) []float64 { return p.rates[int(t/p.length)%len(p.rates)] }

// window returns what a window of so many seconds counts that begins at some native
// time, each hit costing cost.
func (p *phased) window(rng *rand.Rand, length, cost float64) *Window {
	t := rng.Float64() * p.length * float64(len(p.rates))
	w := &Window{Hits: make([]uint64, len(p.rates[0])), Taken: make([]uint64, len(p.rates[0]))}
	hits := make([]float64, len(p.rates[0]))
	const step = 1e-6 // s of native time
	for left := length; left > 0; t += step {
		left -= step
		for i, r := range p.at(t) {
			hits[i] += r * step
			left -= r * step * cost
		}
	}
	for i, n := range hits {
		w.Hits[i] = uint64(n + rng.Float64())
		w.Taken[i] = w.Hits[i] / 4
	}
	w.Time = time.Duration(length * 1e9)
	return w
}

// TestEstimates: windows tell the rates of sites in phases of very different density
// without bias, and how uncertain these are.
func TestEstimates(t *testing.T) {
	const cost = 0.6e-6
	for _, p := range []*phased{
		{10e-3, [][]float64{{2e6, 1e6, 0}, {1e4, 0, 5e5}, {0, 0, 0}}},
		{100e-6, [][]float64{{2e6, 1e6, 0}, {1e4, 0, 5e5}, {0, 0, 0}}},
		{1, [][]float64{{3e5, 2e5, 1e3}}},
	} {
		rng := rand.New(rand.NewPCG(1, uint64(p.length*1e6)))
		truth := make([]float64, 3)
		for _, r := range p.rates {
			for i := range r {
				truth[i] += r[i] / float64(len(p.rates))
			}
		}
		var mean, within [3]float64
		const trials, windows = 60, 40
		for range trials {
			m := &measured{Group: Group{Sites: []Site{{Cond: 4}, {Cond: NoCond}, {Cond: NoCond}}}}
			for range windows {
				w := p.window(rng, 1e-3, cost)
				c := Windows{hit: 1}
				c.add([]*measured{m}, sitesOf([]*measured{m}), w)
			}
			for i, e := range m.estimates(cost) {
				mean[i] += e.rate / trials
				if math.Abs(e.rate-truth[i]) <= 1.645*math.Sqrt(e.variance) {
					within[i] += 1. / trials
				}
				if i == 0 && math.Abs(float64(e.taken)/float64(e.outcomes)-0.25) > 0.01 {
					t.Errorf("%v: %d of %d taken", p.length, e.taken, e.outcomes)
				}
			}
		}
		for i := range truth {
			if math.Abs(mean[i]/truth[i]-1) > 0.15 {
				t.Errorf("phases of %v s: site %d: mean rate %.4g, want %.4g", p.length, i, mean[i], truth[i])
			}
			if within[i] < 0.8 {
				t.Errorf("phases of %v s: site %d: within the 90 %% range in %.2f of all trials", p.length, i, within[i])
			}
		}
	}
}

// TestAddTo: counts hold what windows counted, but nothing of a file that was never hit.
func TestAddTo(t *testing.T) {
	app, lib := sample.ImageID{Path: "/app"}, sample.ImageID{Path: "/lib"}
	c := &Windows{hit: 600}
	c.SetGroups([]Group{
		{ID: app, File: "/app", Sites: []Site{{ID: app, Off: 16, Cond: 4}, {ID: app, Off: 32, Cond: NoCond}}, Gain: 1},
		{ID: app, File: "/app", Sites: []Site{{ID: app, Off: 48, Cond: 5}}, Gain: 1},
		{ID: lib, File: "/lib", Sites: []Site{{ID: lib, Off: 16, Cond: NoCond}}, Gain: 1},
	})
	for range 10 {
		w := &Window{Hits: []uint64{400, 100}, Taken: []uint64{100, 0}, Time: time.Millisecond, Total: time.Second}
		c.add(c.groups[:1], sitesOf(c.groups[:1]), w)
		w.Total += 9 * time.Second
		c.add(c.groups[1:2], sitesOf(c.groups[1:2]), &Window{Hits: []uint64{1600}, Taken: []uint64{1600}, Time: time.Millisecond, Total: w.Total})
		c.add(c.groups[2:], sitesOf(c.groups[2:]), &Window{Hits: []uint64{0}, Taken: []uint64{0}, Time: time.Millisecond, Total: w.Total})
	}
	counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	counts.AddSample(counts.Image(app), 16, 10)
	counts.Weight = 20e9 // windows began in the middle
	c.AddTo(counts)
	if err := counts.Check(); err != nil {
		t.Fatal(err)
	}
	if len(counts.Images) != 1 {
		t.Fatalf("%d images: nothing was ever hit in the other one", len(counts.Images))
	}
	got := counts.Images[0].Probed
	// 20 s, of which windows took some: 400 hits in 0.7 ms of native time each.
	if p := got[16]; p.Windows != 10 || p.Covered != 20e9 || p.Outcomes != 4000 || p.Taken != 1000 || math.Abs(float64(p.Runs)/(20*400/0.7e-3)-1) > 0.05 {
		t.Errorf("branch: %+v", p)
	}
	if p := got[32]; p.Outcomes != 0 || math.Abs(float64(p.Runs)/(20*100/0.7e-3)-1) > 0.05 || p.Variance == (sample.Square{}) {
		t.Errorf("jump: %+v", p)
	}
	// What samples of cycles are of is not known, but for the 10 s of the windows.
	cycles := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cycles", Unit: "cycles"})
	cycles.AddSample(cycles.Image(app), 16, 10)
	cycles.Weight = 60e9
	c.AddTo(cycles)
	if p := cycles.Images[0].Probed[16]; p.Covered != 60e9 || math.Abs(float64(p.Runs)/(10*400/0.7e-3)-1) > 0.05 {
		t.Errorf("branch, by samples of cycles: %+v", p)
	}
	if p := got[48]; p.Outcomes != 16000 || p.Taken != 16000 || p.Covered != 0 {
		t.Errorf("dense branch: %+v", p)
	}
}
