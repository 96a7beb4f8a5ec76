package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestScaledSamples: samples that count for nine each tell as much as a ninth of them: what chance explains of these, it explains of those.
func TestScaledSamples(t *testing.T) {
	const times = 9
	few, many := [2]uint64{40, 60}, [2]uint64{1000, 1000}
	scaled := func(n [2]uint64) [2]uint64 { return [2]uint64{times * n[0], times * n[1]} }
	for _, side := range [][2]float64{{1, 1}, {times, times}} {
		n, all := few, many
		if side[0] > 1 {
			n, all = scaled(few), scaled(many)
		}
		ch := Changes([][2]uint64{n}, all, Each(side))[0]
		if want := change(few, many, Each{}); ch.Z != want.Z || ch.P != want.P {
			t.Errorf("%v: z %g, p %g; want %g, %g", side, ch.Z, ch.P, want.Z, want.P)
		}
		low, high := Interval(n, all, Each(side))
		if l, h := Interval(few, many, Each{}); math.Abs(l-low)+math.Abs(h-high) > 1e-12 {
			t.Errorf("%v: %g to %g; want %g to %g", side, low, high, l, h)
		}
	}
	plain := Spreads([][]uint64{{40, 60, 50}}, []uint64{1000, 1000, 1000}, nil, true)[0]
	got := Spreads([][]uint64{{40 * times, 60 * times, 50 * times}}, []uint64{1000 * times, 1000 * times, 1000 * times}, []float64{times, times, times}, true)[0]
	if math.Abs(got.P-plain.P) > 1e-12 || math.Abs(got.Noise-plain.Noise) > 1e-12 {
		t.Errorf("p %g, noise %g; want %g, %g", got.P, got.Noise, plain.P, plain.Noise)
	}
}

// TestScaledByChance: of recordings of one program, whose samples count for several each, few differences are called more than chance, by all who
// judge them.
func TestScaledByChance(t *testing.T) {
	const times, things, runs, trials = 9, 40, 4, 50
	rnd := rand.New(rand.NewPCG(1, 2))
	var named []Thing
	for i := range things {
		named = append(named, Thing{Proc: string(rune('A' + i))})
	}
	draw := func() (map[Thing]uint64, uint64) {
		n, all := map[Thing]uint64{}, uint64(0)
		for range 4000 {
			n[named[min(things-1, int(rnd.ExpFloat64()*8))]] += times
			all += times
		}
		return n, all
	}
	for _, each := range []float64{1, times} {
		var tried, changed, spread, moved int
		for range trials {
			q := Question{Noise: 0.001}
			var tallies []map[Thing]uint64
			var totals []uint64
			for i := range runs {
				n, all := draw()
				tallies, totals = append(tallies, n), append(totals, all)
				r := Run{Samples: n, Period: 1, Units: 100, Each: each}
				if i < runs/2 {
					q.Old = append(q.Old, r)
				} else {
					q.New = append(q.New, r)
				}
			}
			var pairs [][2]uint64
			var counts [][]uint64
			for _, thing := range named {
				pairs = append(pairs, [2]uint64{tallies[0][thing], tallies[1][thing]})
				var of []uint64
				for _, n := range tallies {
					of = append(of, n[thing])
				}
				counts = append(counts, of)
			}
			for _, c := range Changes(pairs, [2]uint64{totals[0], totals[1]}, Each{each, each}) {
				tried++
				changed += toInt(c.Real)
			}
			for _, s := range Spreads(counts, totals, []float64{each, each, each, each}, true) {
				spread += toInt(s.Varies)
			}
			moved += Judge(q).Beyond
		}
		t.Logf("each %g: of %d, %d changed, %d spread, %d moved", each, tried, changed, spread, moved)
		if each == times && changed+spread+moved > tried/50 {
			t.Errorf("of %d by chance, %d are called changes, %d spread, %d moved", tried, changed, spread, moved)
		}
		if each == 1 && changed < tried/20 {
			t.Errorf("of %d samples that are taken for plain ones, %d are called changes", tried, changed)
		}
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
