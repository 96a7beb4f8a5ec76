package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// kindRuns are k recordings of a service with two handlers, of which the second takes four times as much per unit, and a tenth of
// the time that no handler has. The first has such a share of the units, which differs between recordings, too.
func (w *world) kindRuns(k int, cost, first float64) []Run {
	var all []Run
	for range k {
		factor := w.gamma(w.sd)
		share := min(0.99, first*w.gamma(0.05))
		units := [2]float64{math.Round(w.samples * share), math.Round(w.samples * (1 - share))}
		r := Run{Samples: map[Thing]uint64{}, Period: 0.01, Units: units[0] + units[1], Kinds: map[string]float64{"/a": units[0], "/b": units[1]}, ByKind: map[string]uint64{}}
		var sum float64
		for i, kind := range []string{"/a", "/b"} {
			n := w.poisson(units[i] * []float64{0.4, 1.6}[i] * cost * factor)
			r.ByKind[kind] = uint64(n)
			sum += n
		}
		sum += w.poisson(r.Units * 0.1 * cost * factor)
		r.Samples[proc(0)] = uint64(sum)
		all = append(all, r)
	}
	return all
}

// TestAtMix: where it is known what each kind of work takes, units of another mix are neither better nor worse, and a build that is
// is found, whatever the mix.
func TestAtMix(t *testing.T) {
	for i, tt := range []struct {
		name        string
		cost, first float64 // of the new build; the old one has 1 and 0.5
		outcome     Outcome // where there is a difference
		low, high   float64 // how often the outcome is one of Better and Worse
		raw         float64 // the least part of rounds in which units as they come show a change
	}{
		{"equal builds, equal mix", 1, 0.5, "", 0, 0.05, 0},
		{"equal builds, dear units", 1, 0.4, "", 0, 0.05, 0.9},
		{"equal builds, cheap units", 1, 0.8, "", 0, 0.05, 0.9},
		{"6 % less, equal mix", 0.94, 0.5, Better, 0.85, 1, 0},
		{"6 % less, dear units", 0.94, 0.45, Better, 0.6, 1, 0},
		{"10 % less, dear units", 0.9, 0.45, Better, 0.85, 1, 0},
		{"10 % more, cheap units", 1.1, 0.55, Worse, 0.85, 1, 0},
	} {
		rounds := 1000
		if testing.Short() {
			rounds = 300
		}
		w := &world{rnd: rand.New(rand.NewPCG(2711, uint64(i))), samples: 20_000, sd: 0.02}
		var clear, wrong, raw, mixed, holds int
		for range rounds {
			v := Judge(Question{Old: w.kindRuns(5, 1, 0.5), New: w.kindRuns(5, tt.cost, tt.first)})
			if v.AtMix == nil || v.Kinds == nil {
				t.Fatalf("%s: kinds are not known: %+v", tt.name, v)
			}
			if v.AtMix.Raw.Clear() {
				raw++
			}
			if v.Effect.Low <= tt.cost-1 && tt.cost-1 <= v.Effect.High {
				holds++
			}
			switch v.Outcome {
			case Better, Worse:
				clear++
				if tt.outcome != "" && v.Outcome != tt.outcome {
					wrong++
				}
			case Mixed:
				mixed++
			}
		}
		t.Logf("%s: better or worse in %d, the load may explain it in %d, units as they come differ in %d, intervals hold the truth in %d of %d", tt.name, clear, mixed, raw, holds, rounds)
		if clear > atMost(rounds, tt.high) || clear < rounds-atMost(rounds, 1-tt.low) || wrong > 0 || float64(raw) < tt.raw*float64(rounds) {
			t.Errorf("%s: better or worse in %d of %d, %d of them wrong; units as they come differ in %d", tt.name, clear, rounds, wrong, raw)
		}
		if misses := rounds - holds; misses > atMost(rounds, 0.05) {
			t.Errorf("%s: the interval misses the change in %d of %d", tt.name, misses, rounds)
		}
	}
}

// TestAtMixUnknown: without samples by kind, or with those of kinds that no units are of, units are compared as they come.
func TestAtMixUnknown(t *testing.T) {
	w := &world{rnd: rand.New(rand.NewPCG(2711, 99)), samples: 20_000, sd: 0.02}
	old, new := w.kindRuns(3, 1, 0.5), w.kindRuns(3, 1, 0.5)
	if v := Judge(Question{Old: old, New: new}); v.AtMix == nil || math.Abs(v.AtMix.Rest[0]-0.1/1.1) > 0.01 {
		t.Errorf("%+v", v.AtMix)
	}
	for i := range new {
		new[i].ByKind = map[string]uint64{"/c": 5}
		old[i].ByKind = map[string]uint64{"": 9}
	}
	if v := Judge(Question{Old: old, New: new}); v.AtMix != nil {
		t.Errorf("of other kinds: %+v", v.AtMix)
	}
	new[1].ByKind = nil
	if v := Judge(Question{Old: old, New: new}); v.AtMix != nil {
		t.Errorf("one recording without: %+v", v.AtMix)
	}
}

// seen is how many samples units take, and how many of them take one or two, or any. What a unit takes is exponential, of the mean
// in periods of sampling that is drawn for it.
func (w *world) seen(units int, mean func() float64) (samples, once, twice, any float64) {
	for range units {
		n := w.poisson(mean() * w.rnd.ExpFloat64())
		samples += n
		switch {
		case n == 1:
			once++
		case n == 2:
			twice++
		}
		if n > 0 {
			any++
		}
	}
	return samples, once, twice, any
}

// TestDistinct is why the values of a label that samples have, such as of requests, are not counted as units: how many are seen
// depends on the speed that is judged. A tenth less is not found of short requests. The correction of Chao ("Nonparametric
// estimation of the number of classes in a population", 1984) has most of that, and does not help where short requests
// take the place of long ones. Help has these figures. What is wanted is worked out: of a mean m, samples are m, those seen m/(1+m),
// those seen once m/(1+m)^2, and twice m^2/(1+m)^3.
func TestDistinct(t *testing.T) {
	always := func(mean float64) func(*world) float64 { return func(*world) float64 { return mean } }
	cached := func(w *world) float64 { // a cache answers half of the requests in a thousandth of the time
		if w.rnd.IntN(2) == 0 {
			return 0.02
		}
		return 20
	}
	for i, tt := range []struct {
		name           string
		old, new       func(*world) float64
		distinct, chao float64 // the change that is found
		within         float64 // of chao: those seen twice are few
	}{
		{"0.1 periods, 10 % less", always(0.1), always(0.09), -0.0091, -0.0930, 0.02},
		{"1 period, 10 % less", always(1), always(0.9), -0.0500, -0.0839, 0.004},
		{"10 periods, 10 % less", always(10), always(9), -0.0909, -0.0957, 0.004},
		{"20 periods, 50 % less by a cache", always(20), cached, -0.0190, -0.0425, 0.008},
	} {
		w := &world{rnd: rand.New(rand.NewPCG(2712, uint64(i)))}
		var distinct, chao [2]float64
		for side, mean := range []func(*world) float64{tt.old, tt.new} {
			n, once, twice, any := w.seen(1_000_000, func() float64 { return mean(w) })
			distinct[side], chao[side] = n/any, n/(any+once*once/(2*twice))
		}
		d, c := distinct[1]/distinct[0]-1, chao[1]/chao[0]-1
		t.Logf("requests of %s: %.1f %% by those seen, %.1f %% by the correction", tt.name, 100*d, 100*c)
		if math.Abs(d-tt.distinct) > 0.005 || math.Abs(c-tt.chao) > tt.within {
			t.Errorf("requests of %s: %.4f by those seen, %.4f by the correction; want %.4f, %.4f", tt.name, d, c, tt.distinct, tt.chao)
		}
	}
}
