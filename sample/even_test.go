package sample

import (
	"math"
	"testing"
)

// rated is a recording of a timer: so many samples of two procedures and of the kernel, each of so many ns.
func rated(period, a, b, kernel uint64) *Recording {
	c := NewCounts(CPU{Arch: "x86_64"}, Event{Name: "cpu-clock", Period: period, Unit: "ns"})
	i := c.Image(ImageID{Path: "/app"})
	c.AddSample(i, 8, a)
	c.AddSample(i, 16, b)
	c.AddStack([]Frame{{i, 8}, {i, 40}}, a/2)
	c.AddMoment(i, 16, c.SliceAt(1e9), b)
	c.Lose(LostKernel, kernel)
	c.AddOrigin(Origin{Process: "app"}, a+b+kernel)
	c.AddProcessor(1, a+b+kernel)
	c.AddProbed(i, 8, Probed{Windows: 1, Covered: 100, Runs: 7})
	c.Weight = period * c.Delivered()
	return Merge(&Recording{Counts: []*Counts{c}})
}

// TestEven: shares of recordings of several rates are those of time; there are as many samples, which tell less, and the time is as long.
func TestEven(t *testing.T) {
	// 1000 samples of 1 ms are 0.8 a, 0.1 b; 100 of 10 ms 0.2 a, 0.5 b: of the time, 0.5 a and 0.3 b.
	fast, slow := rated(1e6, 800, 100, 100), rated(1e7, 20, 50, 30)
	r, uneven := Merge(fast, slow).Even(nil)
	if len(uneven) != 1 || uneven[0].Event.Name != "cpu-clock" || uneven[0].Least != 1e6 || uneven[0].Most != 1e7 {
		t.Errorf("%+v", uneven)
	}
	if len(r.Counts) != 1 {
		t.Fatalf("%d counts", len(r.Counts))
	}
	c := r.Counts[0]
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if _, err := Decode(r.Encode()); err != nil {
		t.Error(err)
	}
	at := c.Images[0].At
	if share := func(n uint64) float64 { return float64(n) / float64(c.Total) }; c.Total != 1100 || math.Abs(share(at[8])-0.5) > 2e-3 || math.Abs(share(at[16])-0.3) > 2e-3 || math.Abs(share(c.Lost[LostKernel])-0.2) > 2e-3 {
		t.Errorf("%d samples, %v, %v", c.Total, at, c.Lost)
	}
	if c.Weight != 2e9 || c.Images[0].Probed[8] != (Probed{Windows: 2, Covered: 200, Runs: 14}) {
		t.Errorf("weight %d, probed %+v", c.Weight, c.Images[0].Probed[8])
	}
	// Kish's effective size is (sum of weights)^2 / sum of their squares, of 1000 of 1 and 100 of 10. It is a little less: samples that count
	// for less than one are whole numbers again.
	if n, most := float64(c.Total)/c.Dispersion(), 2000.*2000/(1000+100*100); n > most || n < 0.9*most {
		t.Errorf("as good as %.1f samples, want %.1f", n, most)
	}
	if c.Origins[Origin{Process: "app"}] < 1098 || c.Processors[1] < 1098 || len(c.Slices) != 1 || len(c.Stacks) != 1 {
		t.Errorf("%v %v %v %v", c.Origins, c.Processors, c.Slices, c.Stacks)
	}
	for name, r := range map[string]*Recording{"one": fast, "alike": Merge(fast, rated(1.01e6, 20, 50, 30)), "even": r} {
		if same, uneven := r.Even(nil); same != r || uneven != nil {
			t.Errorf("%s: changed: %+v", name, uneven)
		}
	}
	unknown := rated(0, 20, 50, 30)
	if r := Merge(fast, unknown); len(r.Counts) != 2 {
		t.Errorf("%d counts", len(r.Counts))
	} else if same, uneven := r.Even(nil); same != r || uneven != nil {
		t.Errorf("unknown: changed: %+v", uneven)
	}
}

// TestApart: what was sampled at a rate that it was not asked for stays apart in a sum.
func TestApart(t *testing.T) {
	of := func(asked, weight uint64) *Recording {
		r := rated(1e6, 800, 100, 100)
		r.Counts[0].Event.Period, r.Counts[0].Weight = asked, weight
		return r
	}
	if r := Merge(of(0, 1e9).Apart(), of(0, 5e9).Apart(), of(0, 5.02e9).Apart()); len(r.Counts) != 2 || r.Counts[0].Weight != 1e9 || r.Counts[1].Weight != 10.02e9 {
		t.Errorf("%d counts", len(r.Counts))
	}
	if p := of(1e6, 1.01e9).Apart().Counts[0].Event.Period; p != 1e6 {
		t.Errorf("period %d", p)
	}
	if r := of(1e6, 3e9).Apart(); math.Abs(float64(r.Counts[0].Event.Period)/3e6-1) > 0.02 {
		t.Errorf("period %d", r.Counts[0].Event.Period)
	}
}

// TestNormaliseTime: recordings of two rates get equal time, not equally many samples.
func TestNormaliseTime(t *testing.T) {
	out := Normalise([]*Recording{rated(1e6, 800, 100, 0), rated(1e7, 20, 70, 0)})
	var time [2]float64
	var n uint64
	for i, r := range out {
		c := r.Counts[0]
		time[i] = c.MeanPeriod() * float64(c.Images[0].Samples())
		n += c.Total
	}
	if math.Abs(time[0]/time[1]-1) > 0.02 || n < 989 || n > 991 {
		t.Errorf("time %.4g and %.4g, %d samples", time[0], time[1], n)
	}
}
