package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestChiSquareTail(t *testing.T) {
	// Table 26.8 of Abramowitz and Stegun, and math.Erfc for one degree of freedom.
	for _, tt := range []struct {
		x    float64
		df   int
		want float64
	}{
		{3.84146, 1, 0.05}, {6.63490, 1, 0.01}, {5.99147, 2, 0.05}, {7.81473, 3, 0.05}, {18.3070, 10, 0.05},
		{23.2093, 10, 0.01}, {2.15586, 10, 0.995}, {124.342, 100, 0.05}, {0, 3, 1},
	} {
		if got := chiSquareTail(tt.x, tt.df); math.Abs(got-tt.want) > 2e-6 {
			t.Errorf("chiSquareTail(%g, %d) = %.7f, want %g", tt.x, tt.df, got, tt.want)
		}
	}
	for x := 0.1; x < 60; x *= 1.3 {
		if got, want := chiSquareTail(x, 1), math.Erfc(math.Sqrt(x/2)); math.Abs(got-want) > 1e-12 {
			t.Errorf("chiSquareTail(%g, 1) = %g, want %g", x, got, want)
		}
		if got, want := chiSquareTail(x, 2), math.Exp(-x/2); math.Abs(got-want) > 1e-12 {
			t.Errorf("chiSquareTail(%g, 2) = %g, want %g", x, got, want)
		}
	}
}

func TestSpreads(t *testing.T) {
	totals := []uint64{1000, 1000, 2000}
	got := Spreads([][]uint64{{100, 100, 200}, {300, 100, 200}, {1, 0, 2}, {599, 800, 1598}}, totals, nil, true)
	for i, want := range []Spread{
		{Sum: 400, Mean: 0.1, SD: 0, Least: 0.1, Most: 0.1},
		{Sum: 600, Mean: 0.5 / 3, SD: 0.11547, Least: 0.1, Most: 0.3, Varies: true},
		{Sum: 3, Mean: 0.002 / 3, SD: 0.000577, Least: 0, Most: 0.001},
		{Sum: 2997, Mean: 0.7327, SD: 0.11576, Least: 0.599, Most: 0.8, Varies: true},
	} {
		s := got[i]
		if s.Sum != want.Sum || s.Varies != want.Varies || math.Abs(s.Mean-want.Mean) > 1e-4 || math.Abs(s.SD-want.SD) > 1e-4 ||
			s.Least != want.Least || s.Most != want.Most {
			t.Errorf("%d: %+v, want %+v", i, s, want)
		}
	}
	if !math.IsNaN(got[2].P) {
		t.Errorf("3 samples tell something: P %g", got[2].P)
	}
	if want := math.Sqrt(0.1 * 0.9 * (1/1000. + 1/1000. + 1/2000.) / 3); math.Abs(got[0].Noise-want) > 1e-12 {
		t.Errorf("noise %g, want %g", got[0].Noise, want)
	}
	// As samples, a recording of twice the length is a difference.
	if s := Spreads([][]uint64{{100, 100, 200}}, totals, nil, false)[0]; !s.Varies || s.Mean != 400.0/3 || s.Noise != math.Sqrt(400.0/3) || s.RelativeRange != 0.25 {
		t.Errorf("as samples: %+v", s)
	}
	// So it is where hardly anything else was sampled, which tells of shares alone.
	for _, each := range [][]float64{nil, {1, 1, 1}, {2, 2, 2}} {
		if s := Spreads([][]uint64{{1000, 1000, 2000}}, totals, each, false)[0]; !s.Varies {
			t.Errorf("as samples, of %v each: %+v", each, s)
		}
	}
}

// TestChance: of recordings of one thing, next to nothing is called a difference;
// of recordings that differ, what does differ.
func TestChance(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func(mean float64) uint64 { // Poisson
		n := uint64(0)
		for p := rnd.ExpFloat64(); p < mean; p += rnd.ExpFloat64() {
			n++
		}
		return n
	}
	const things, runs = 400, 5
	for _, changed := range []int{0, 20} {
		counts := make([][]uint64, things)
		pairs := make([][2]uint64, things)
		totals := []uint64{1e5, 1e5, 1e5, 1e5, 1e5} // what else there is makes up for the differences
		for i := range counts {
			mean := 3 * math.Exp(4*rnd.Float64())
			for k := range runs {
				m := mean
				if i < changed && k == runs-1 {
					m = 3*mean + 60
				}
				counts[i] = append(counts[i], draw(m))
			}
			pairs[i] = [2]uint64{counts[i][0], counts[i][runs-1]}
		}
		var found, wrong, found2, wrong2 int
		for i, s := range Spreads(counts, totals, nil, true) {
			switch {
			case s.Varies && i < changed:
				found++
			case s.Varies:
				wrong++
			}
		}
		for i, c := range Changes(pairs, [2]uint64{totals[0], totals[runs-1]}, Each{}) {
			switch {
			case c.Real && i < changed:
				found2++
			case c.Real:
				wrong2++
			}
		}
		if found < changed*9/10 || found2 < changed*9/10 || wrong > 3 || wrong2 > 3 {
			t.Errorf("%d of %d differ: %d found, %d wrongly; of two recordings %d, %d wrongly", changed, things, found, wrong, found2, wrong2)
		}
	}
}

func TestChanges(t *testing.T) {
	for _, tt := range []struct {
		n, totals [2]uint64
		z, p      float64
	}{
		{[2]uint64{100, 100}, [2]uint64{1000, 1000}, 0, 1},
		{[2]uint64{100, 150}, [2]uint64{1000, 1000}, 3.3806, 0.000723},
		{[2]uint64{0, 4}, [2]uint64{1000, 1000}, 2.0020, 0.125}, // exact: 2 / 2^4
		{[2]uint64{0, 0}, [2]uint64{1000, 1000}, 0, 1},
		{[2]uint64{1, 2}, [2]uint64{1, 1 << 40}, 0, 0}, // no more than that it ends
	} {
		c := change(tt.n, tt.totals, Each{})
		if tt.totals[0] != 1 && (math.Abs(c.Z-tt.z) > 1e-3 || math.Abs(c.P-tt.p) > 1e-5) {
			t.Errorf("%v of %v: z %.4f, p %.6f; want %.4f, %.6f", tt.n, tt.totals, c.Z, c.P, tt.z, tt.p)
		}
	}
}

// TestInterval: the range has the true difference in about 95 of 100 draws, of many samples and of few, and in no fewer.
func TestInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n uint64, p float64) (k uint64) {
		for range n {
			if rng.Float64() < p {
				k++
			}
		}
		return k
	}
	for _, tt := range []struct {
		totals [2]uint64
		p      [2]float64
	}{
		{[2]uint64{1000, 1000}, [2]float64{0.3, 0.35}},
		{[2]uint64{2000, 300}, [2]float64{0.02, 0.02}},
		{[2]uint64{200, 200}, [2]float64{0.01, 0}},
	} {
		const draws = 2000
		in := 0
		for range draws {
			low, high := Interval([2]uint64{draw(tt.totals[0], tt.p[0]), draw(tt.totals[1], tt.p[1])}, tt.totals, Each{})
			if d := tt.p[1] - tt.p[0]; low <= d && d <= high {
				in++
			}
		}
		if share := float64(in) / draws; share < 0.935 {
			t.Errorf("%v samples, shares %v: %.3f of the ranges have the difference", tt.totals, tt.p, share)
		}
	}
	if low, high := Interval([2]uint64{0, 5}, [2]uint64{0, 10}, Each{}); low != -1 || high != 1 {
		t.Errorf("of no samples: %v to %v", low, high)
	}
	if low, high := Interval([2]uint64{0, 0}, [2]uint64{10, 10}, Each{}); low >= 0 || high <= 0 {
		t.Errorf("of nothing: %v to %v", low, high)
	}
}

// TestAmounts: amounts for a unit of work are as Poisson's distribution has them, whatever was done and whatever a sample stands for.
func TestAmounts(t *testing.T) {
	const trials = 1000
	for _, tt := range []struct {
		each    [2]float64 // s for each unit of work
		before  float64    // samples that are expected
		ratio   float64    // of amounts
		atLeast int        // intervals of 1000 that hold the difference
	}{
		{[2]float64{1e-3, 1e-3}, 1000, 1, 935},
		{[2]float64{1e-3, 1e-3}, 1000, 0.5, 935},
		{[2]float64{1e-5, 3e-4}, 900, 1.2, 935},
		{[2]float64{2e-5, 1e-3}, 3000, 1, 935},
		{[2]float64{1e-3, 1e-3}, 8, 2, 925},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		held, real := 0, 0
		after := tt.before * tt.ratio * tt.each[0] / tt.each[1]
		want := tt.before * tt.each[0] * (tt.ratio - 1)
		for range trials {
			d := &differ{Difference: &Difference{Work: &Work{Each: tt.each}}}
			d.Rows = []Row{{Old: Part{Samples: poisson(r, tt.before)}, New: Part{Samples: poisson(r, after)}}}
			d.Samples = [2]uint64{d.Rows[0].Old.Samples, d.Rows[0].New.Samples}
			d.judge()
			row := d.Rows[0]
			if row.Low <= want && want <= row.High {
				held++
			}
			if row.Real {
				real++
			}
			if math.Abs(row.Difference-(row.New.Amount-row.Old.Amount)) > 1e-12 || row.Difference != d.Work.All.Difference {
				t.Fatalf("%+v, all %+v", row, d.Work.All)
			}
		}
		if held < tt.atLeast || tt.ratio == 1 && real > trials/10 || tt.ratio == 0.5 && real < trials*99/100 {
			t.Errorf("%+v: %d of %d intervals hold the difference, %d are real", tt, held, trials, real)
		}
	}
}

// poisson draws a number with such a mean.
func poisson(r *rand.Rand, mean float64) uint64 {
	if mean > 500 { // by the normal distribution
		return uint64(max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	n, p := uint64(0), r.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= r.Float64()
	}
	return n
}
