package compare

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

var full = flag.Bool("full", false, "simulate twenty times as many comparisons")

func TestStudent(t *testing.T) {
	// Table 26.10 of Abramowitz and Stegun.
	for _, tt := range []struct{ p, df, want float64 }{
		{0.975, 1, 12.706}, {0.975, 2, 4.303}, {0.975, 10, 2.228}, {0.975, 120, 1.980}, {0.995, 5, 4.032}, {0.975, math.Inf(1), 1.960}, {0.75, 1, 1}, {0.5, 3, 0},
	} {
		if got := studentQuantile(tt.p, tt.df); math.Abs(got-tt.want) > 6e-4 {
			t.Errorf("quantile %g of %g degrees of freedom: %.4f, want %.3f", tt.p, tt.df, got, tt.want)
		}
	}
	for x := 0.0; x < 40; x += 0.37 {
		if got, want := studentTail(x, 1), 1-2*math.Atan(x)/math.Pi; math.Abs(got-want) > 1e-12 {
			t.Errorf("tail of %g with 1 degree of freedom: %g, want %g", x, got, want)
		}
		if got, want := studentTail(x, 2), 1-x/math.Sqrt(2+x*x); math.Abs(got-want) > 1e-12 {
			t.Errorf("tail of %g with 2 degrees of freedom: %g, want %g", x, got, want)
		}
		if got, want := studentTail(x, 1e6), math.Erfc(x/math.Sqrt2); math.Abs(got-want) > 1e-6 {
			t.Errorf("tail of %g with many degrees of freedom: %g, want %g", x, got, want)
		}
	}
}

// A world makes recordings of a program: samples are Poisson numbers, and recordings differ by a gamma number.
type world struct {
	rnd     *rand.Rand
	samples float64 // of a recording, expected
	sd      float64 // of recordings, relative
	uneven  bool    // recordings are of lengths that differ by a factor of 8
	memory  float64 // correlation of what a recording has beyond others with what the one before it has
}

// gamma returns a number of mean 1 with that standard deviation (Marsaglia and Tsang, 2000).
func (w *world) gamma(sd float64) float64 {
	if sd == 0 {
		return 1
	}
	shape := 1 / (sd * sd)
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := w.rnd.NormFloat64()
		v := 1 + c*x
		if v = v * v * v; v > 0 && math.Log(w.rnd.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v / shape
		}
	}
}

// poisson returns a Poisson number: of large means by the normal distribution.
func (w *world) poisson(mean float64) float64 {
	if mean > 500 {
		return max(0, math.Round(mean+math.Sqrt(mean)*w.rnd.NormFloat64()))
	}
	n := 0.0
	for p := w.rnd.ExpFloat64(); p < mean; p += w.rnd.ExpFloat64() {
		n++
	}
	return n
}

// trials returns k recordings that spend so much per unit of work.
func (w *world) trials(k int, cost float64) []Trial {
	var all []Trial
	last := w.gamma(w.sd) - 1
	for range k {
		work := w.samples
		if w.uneven {
			work *= math.Exp2(3*w.rnd.Float64() - 1.5)
		}
		last = w.memory*last + math.Sqrt(1-w.memory*w.memory)*(w.gamma(w.sd)-1)
		n := w.poisson(work * cost * max(0.01, 1+last))
		all = append(all, Trial{Spent: n, Chance: n, Work: work})
	}
	return all
}

// atMost is a count that chance exceeds once in a thousand, if each of n has probability p.
func atMost(n int, p float64) int {
	m := float64(n) * p
	return int(m + 3.1*math.Sqrt(m*(1-p)) + 1)
}

// TestError holds comparisons to what they promise: of two equal builds they find a difference in at most 5 of 100, and a
// change as large as the one called detectable in 80 of 100. The golden file has how often planted changes are found.
func TestError(t *testing.T) {
	rounds := 500
	switch {
	case *full:
		rounds *= 20
	case testing.Short():
		rounds /= 2
	}
	var out strings.Builder
	out.WriteString("| recordings a side | samples each | they differ by | equal builds: found | 1 % | 3 % | 10 % | detectable, median | of that, found |\n" +
		"| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for i, tt := range []struct {
		k       int
		samples float64
		sd      float64
		uneven  bool
		memory  float64
		most    float64 // of false positives
	}{
		{2, 10_000, 0.01, false, 0, 0.05}, {3, 10_000, 0.01, false, 0, 0.05}, {5, 10_000, 0.01, false, 0, 0.05},
		{10, 10_000, 0.01, false, 0, 0.05}, {30, 10_000, 0.01, false, 0, 0.05},
		{5, 1_000, 0, false, 0, 0.05}, {5, 100_000, 0, false, 0, 0.05},
		{5, 100_000, 0.03, false, 0, 0.05}, {10, 100_000, 0.03, false, 0, 0.05}, {30, 100_000, 0.03, false, 0, 0.05},
		{10, 100_000, 0.10, false, 0, 0.05}, {30, 100_000, 0.10, false, 0, 0.05},
		{5, 10_000, 0.03, true, 0, 0.05}, {30, 10_000, 0.03, true, 0, 0.05},
		{6, 100_000, 0.03, false, 0.5, 0.05}, {12, 100_000, 0.03, false, 0.8, 0.05}, {24, 100_000, 0.03, false, 0.5, 0.05}, {72, 100_000, 0.03, false, 0.5, 0.05},
	} {
		w := &world{rnd: rand.New(rand.NewPCG(27, uint64(i))), samples: tt.samples, sd: tt.sd, uneven: tt.uneven, memory: tt.memory}
		found := func(change float64) (n int, detectable float64) {
			var all []float64
			for range rounds {
				e := Compare(w.trials(tt.k, 1), w.trials(tt.k, 1+change), tt.memory > 0, 0)
				if e.Clear() {
					n++
				}
				all = append(all, e.Detectable)
			}
			return n, median(all)
		}
		same, detectable := found(0)
		if most := atMost(rounds, tt.most); same > most {
			t.Errorf("%+v: a difference between equal builds in %d of %d, want at most %d", tt, same, rounds, most)
		}
		how := fmt.Sprintf("%g %%", 100*tt.sd)
		if tt.uneven {
			how += ", lengths by 8"
		}
		if tt.memory > 0 {
			how += fmt.Sprintf(", neighbours alike (%g)", tt.memory)
		}
		fmt.Fprintf(&out, "| %d | %.0f | %s | %.1f %% |", tt.k, tt.samples, how, 100*float64(same)/float64(rounds))
		for _, change := range []float64{0.01, 0.03, 0.10, detectable} {
			if change == detectable {
				fmt.Fprintf(&out, " %.2f %% |", 100*detectable)
			}
			n, _ := found(-change / (1 + change))
			fmt.Fprintf(&out, " %.0f %% |", 100*float64(n)/float64(rounds))
			if change == detectable && tt.k >= 5 && tt.memory == 0 && (n < rounds*60/100 || n > rounds*90/100) {
				t.Errorf("%+v: a change of %g is called detectable, and found in %d of %d", tt, change, n, rounds)
			}
		}
		out.WriteString("\n")
	}
	t.Log("\n" + out.String())
	if !*full {
		return
	}
	testtool.Golden(t, "testdata/power.md", []byte(out.String()))
}

func median(x []float64) float64 {
	for i := range x { // few enough
		for j := i; j > 0 && x[j] < x[j-1]; j-- {
			x[j], x[j-1] = x[j-1], x[j]
		}
	}
	return x[len(x)/2]
}

// TestBelow: the interval of Mann and Whitney's test leaves out as many differences on each side, beside the one at its
// bound, as tables have for the critical value of U (two-sided, 0.05); of many results by the normal distribution.
func TestBelow(t *testing.T) {
	for _, tt := range []struct{ m, n, want int }{{3, 3, -1}, {4, 4, 0}, {5, 5, 2}, {10, 10, 23}, {8, 12, 22}, {20, 20, 127}, {3, 10, 3}} {
		if got := below(tt.m, tt.n); got != tt.want {
			t.Errorf("%d and %d results: %d, want %d", tt.m, tt.n, got, tt.want)
		}
	}
	if exact, normal := below(50, 50), below(51, 50); normal < exact || normal > exact+30 {
		t.Errorf("50 results: %d; 51: %d", exact, normal)
	}
}

// TestRepeats: of benchmarks that did not change, results of any distribution find one in 5 of 100 tries at most, and
// their geometric mean; intervals hold what was planted.
func TestRepeats(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 100
	}
	rnd := rand.New(rand.NewPCG(7, 27))
	for _, tt := range []struct {
		name string
		draw func() float64
	}{
		{"normal", func() float64 { return 100 + rnd.NormFloat64() }},
		{"with a tail", func() float64 { return 100 + 2*rnd.ExpFloat64()*rnd.ExpFloat64() }},
		{"of two modes", func() float64 { return 100 + 5*float64(rnd.IntN(2)) + rnd.NormFloat64() }},
	} {
		const benchmarks, changed, factor = 20, 4, 0.9
		var wrong, means, found, outside int
		for range rounds {
			side := func(factor float64) []Repeated {
				all := make([]Repeated, benchmarks)
				for i := range all {
					for range 10 {
						x := tt.draw()
						if i < changed {
							x *= factor
						}
						all[i].Old, all[i].New = append(all[i].Old, tt.draw()), append(all[i].New, x)
					}
					all[i].P = mannWhitney(all[i].Old, all[i].New)
				}
				return all
			}
			each, mean := Repeats(side(1))
			if mean.Clear() {
				means++
			}
			for _, r := range each {
				if r.Clear {
					wrong++
					break
				}
			}
			each, _ = Repeats(side(factor))
			for i, r := range each {
				if i < changed && r.Clear && r.Better {
					found++
				}
				if want := map[bool]float64{true: factor - 1}[i < changed]; want < r.Low || want > r.High {
					outside++
				}
			}
		}
		t.Logf("%s: equal benchmarks: one of 20 found in %d of %d, their mean in %d; 10 %% less found in %d of %d; outside of their interval %d of %d",
			tt.name, wrong, rounds, means, found, changed*rounds, outside, benchmarks*rounds)
		if most := atMost(rounds, 0.05); wrong > most || means > most || outside > atMost(benchmarks*rounds, 0.05) {
			t.Errorf("%s: wrongly found %d, means %d, outside %d", tt.name, wrong, means, outside)
		}
		if found < changed*rounds*85/100 {
			t.Errorf("%s: found %d of %d", tt.name, found, changed*rounds)
		}
	}
	each, mean := Repeats([]Repeated{{Old: []float64{0, 0}, New: []float64{0, 0}, P: 1}, {Old: []float64{0, 1}, New: []float64{2, 2}, P: 0.3}, {Old: []float64{5}, New: []float64{6}, P: 1}})
	if each[0].Change != 0 || each[0].High != 0 || !math.IsNaN(each[1].Change) || math.Abs(each[2].Change-0.2) > 1e-9 || !math.IsInf(each[2].High, 1) || each[2].Runs || mean.Runs {
		t.Errorf("%+v, %+v", each, mean)
	}
}

// mannWhitney is the probability of two sides of 10 without ties, by the normal distribution, which is near enough.
func mannWhitney(old, new []float64) float64 {
	u := 0.0
	for _, x := range old {
		for _, y := range new {
			if y < x {
				u++
			}
		}
	}
	m, n := float64(len(old)), float64(len(new))
	return math.Erfc(max(0, math.Abs(u-m*n/2)-0.5) / math.Sqrt(m*n*(m+n+1)/12) / math.Sqrt2)
}
