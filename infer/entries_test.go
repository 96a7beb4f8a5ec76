package infer

import (
	"math/rand/v2"
	"testing"

	"backfeed/infer/image"
)

// TestCalledOnce: what main calls outside loops runs as often as main, though all of its samples are
// in a loop, and main has none. What has them outside loops runs as often as they say, and main
// calls it that often.
func TestCalledOnce(t *testing.T) {
	for _, tt := range []struct {
		name, main, callee string
		samples            []uint64
		low, high          float64 // entries
	}{
		{"a loop called once", "a9>b b9>c c9!", "a9>b b9>b b>c c9!", []uint64{0, 100000, 0}, 1, 20},
		{"straight code called in a loop", "a9>b b9>b b>c c9!", "a30!", []uint64{100000}, 1e4, 1e9},
	} {
		main, callee := graph(tt.main), graph(tt.callee)
		callee.Addr = 0x2000
		main.Calls = []image.Call{{Block: 1, To: callee.Addr}}
		a, b := newResult(main), newResult(callee)
		b.BlockSamples = tt.samples
		pr := pose([]*Result{a, b}, plainCost, &outOfOrder, func(pr *posed) {
			pr.of[a].runOnce()
			pr.of[a].join()
		})
		q := pr.of[a]
		pr.calls = make([]*tie, len(pr.probs))
		pr.bind(tie{callee: 1, sd: pr.tieSD}, []site{q.site(&main.Calls[0])})
		pr.arrange(map[*problem]int{q: 0, pr.of[b]: 1})
		pr.run(false)
		if n := b.Entries.N; n < tt.low || n > tt.high {
			t.Errorf("%s: entered %.4g times, want %g to %g", tt.name, n, tt.low, tt.high)
		}
		if called := a.Block[1].N; b.Entries.N > 10*called+1 || called > 10*b.Entries.N+1 {
			t.Errorf("%s: entered %.4g times, called %.4g times", tt.name, b.Entries.N, called)
		}
		if n := a.Entries.N; n < 1 || n > 20 {
			t.Errorf("%s: main ran %.4g times", tt.name, n)
		}
	}
}

// calibrated is an inference of s that knows what probes of so many sites would find out, in four
// rounds.
func (s *set) calibrated(t *testing.T, sites int) *Profile {
	t.Helper()
	p := s.infer(t, s.Rec, Options{})
	pr := &prober{set: s, scale: s.compare(p).Scale, relSD: 0.05, rng: rand.New(rand.NewPCG(1, 2)), seen: map[probedSite]bool{}}
	for range 4 {
		for _, site := range s.infer(t, s.Rec, Options{Known: pr.known, Sites: sites / 4, Probing: usualProbing}).Sites {
			pr.probe(site)
		}
	}
	return s.infer(t, s.Rec, Options{Known: pr.known})
}

// TestEntries reports how far the entries of procedures and the trips of loops are off, by samples
// alone and with what probes of 80 sites find out.
func TestEntries(t *testing.T) {
	for _, s := range append(loadSets(t), loadMix(t).set) {
		for _, by := range []struct {
			name string
			p    *Profile
		}{{"samples", s.infer(t, s.Rec, Options{})}, {"calibrated", s.calibrated(t, 80)}} {
			a := s.compare(by.p)
			t.Logf("%-10s %-10s block overlap %.3f, edges %.3f; factors of error, by samples and each: entries %.3g, %.3g (%.0f %% within 2, of %d), trips %.3g, %.3g (%.0f %% of %d)",
				s.Name, by.name, a.BlockOverlap, a.EdgeOverlap, a.Entries.Median, a.Entries.Each, 100*a.Entries.Within2x, a.Entries.N,
				a.Trips.Median, a.Trips.Each, 100*a.Trips.Within2x, a.Trips.N)
			if s.Name == "mix" && (a.Entries.Median > 2.5 || a.Entries.Each > 4) {
				t.Errorf("%s, %s: entries are off by %.3g, by %.3g of each procedure alike", s.Name, by.name, a.Entries.Median, a.Entries.Each)
			}
		}
	}
}
