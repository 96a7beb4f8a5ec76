package compare

import (
	"cmp"
	"math"
	"slices"
)

// A Spread says how much one thing's part of the samples varies between recordings,
// and how much of that is chance: samples are drawn at random, so the part that a
// thing has of them is not quite that which it has of the time.
type Spread struct {
	Sum           uint64  // samples, over all recordings
	Mean, SD      float64 // per recording; SD is that of recordings like these, with n-1 in its denominator
	Least, Most   float64 // of all recordings
	Noise         float64 // the SD that chance alone would give
	P             float64 // how likely chance is to give such differences, 0 to 1; NaN where samples are too few to tell
	Varies        bool    // chance does not explain the differences: see Spreads
	RelativeRange float64 // of the sum of the values: (Most - Least) / n / Mean
}

// falseShare is the share of the differences called real, on the mean, that chance
// made (Benjamini and Hochberg, "Controlling the False Discovery Rate", 1995): one
// in twenty, however many things were compared.
const falseShare = 0.05

// enoughExpected is how many samples a thing has to be expected to have in each
// recording for the test by chi-square (Cochran, "Some Methods for Strengthening the
// Common Chi-square Tests", 1954).
const enoughExpected = 5

// Spreads compares recordings. counts has for each thing its samples in each
// recording, totals the samples of each recording, which are above 0. Values are
// shares of the totals if shares is set, and samples otherwise: then how long a
// recording took counts as a difference, too. The noise is that of samples that know
// nothing of each other; of those of a timer, which come in step, it is the most. each says of each recording how many times
// as large the variance of its samples is, as sample.Dispersion; nil is 1.
func Spreads(counts [][]uint64, totals []uint64, each []float64, shares bool) []Spread {
	out := make([]Spread, len(counts))
	ps := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = spreadOf(n, totals, each, shares)
		ps[i] = out[i].P
	}
	for i, real := range discoveries(ps) {
		out[i].Varies = real
	}
	return out
}

func spreadOf(n, totals []uint64, each []float64, shares bool) Spread {
	k := float64(len(n))
	s := Spread{Least: math.Inf(1), P: math.NaN()}
	var all float64
	for i := range n {
		s.Sum += n[i]
		all += float64(totals[i])
	}
	values := make([]float64, len(n))
	expected, chi2 := math.Inf(1), 0.0 // samples of this, or, of shares, of all else: the least of all recordings
	for i := range n {
		v, t := float64(n[i]), float64(totals[i])
		e := float64(s.Sum) / k // samples
		variance, enough := e, e
		if shares {
			p := float64(s.Sum) / all
			e = p * t
			variance, enough = e*(1-p), min(e, t-e)
			v /= t
		}
		if each != nil { // so many tell as much as fewer
			variance, enough = variance*each[i], enough/each[i]
		}
		expected = min(expected, enough)
		if shares {
			s.Noise += variance / (t * t)
		} else {
			s.Noise += variance
		}
		if d := float64(n[i]) - e; variance > 0 {
			chi2 += d * d / variance
		}
		values[i] = v
		s.Mean += v / k
		s.Least, s.Most = min(s.Least, v), max(s.Most, v)
	}
	s.Noise = math.Sqrt(s.Noise / k)
	for _, v := range values {
		s.SD += (v - s.Mean) * (v - s.Mean)
	}
	if len(n) > 1 {
		s.SD = math.Sqrt(s.SD / (k - 1))
	}
	if s.Mean > 0 {
		s.RelativeRange = (s.Most - s.Least) / k / s.Mean
	}
	if expected >= enoughExpected && len(n) > 1 {
		s.P = chiSquareTail(chi2, len(n)-1)
	}
	return s
}

// A Change is one thing's part of the samples of two recordings.
type Change struct {
	Old, New uint64  // samples
	Z        float64 // difference of the shares, in standard deviations of what chance gives
	P        float64 // how likely chance is to give a difference at least as large, 0 to 1
	Real     bool    // chance does not explain the difference: see Changes
}

// Changes compares the samples of things in two recordings: pairs has for each its
// samples before and after, totals those of the recordings. Shares are compared, by
// the score test of two proportions; where samples are few, by the exact test of two
// Poisson numbers given their sum (Przyborowski and Wilenski, 1940). One in twenty of
// the differences called real is by chance, on the mean. Chance is that of sampling
// alone: two runs of the same program differ for other reasons as well.
func Changes(pairs [][2]uint64, totals [2]uint64, each Each) []Change {
	all, alike := make([][2]uint64, len(pairs)), make([]Each, len(pairs))
	for i := range all {
		all[i], alike[i] = totals, each
	}
	return ChangesOf(pairs, all, alike)
}

// Each is how many times as large the variance of the samples of two recordings is as that of as many single ones, as sample.Dispersion has it: so
// many tell as much as their number divided by it. Less than 1 is 1.
type Each [2]float64

// worth is how many single samples tell as much as n.
func (e Each) worth(n [2]uint64) (out [2]float64) {
	for i := range n {
		out[i] = float64(n[i]) / max(1, e[i])
	}
	return out
}

// ChangesOf is Changes of things in several pairs of recordings, each with the totals of its own.
func ChangesOf(pairs, totals [][2]uint64, each []Each) []Change {
	out := make([]Change, len(pairs))
	ps := make([]float64, len(pairs))
	for i, n := range pairs {
		out[i] = change(n, totals[i], each[i])
		ps[i] = out[i].P
	}
	for i, real := range discoveries(ps) {
		out[i].Real = real
	}
	return out
}

func change(n, totals [2]uint64, each Each) Change {
	c := Change{Old: n[0], New: n[1], P: 1}
	k, t := each.worth(n), each.worth(totals)
	t0, t1 := t[0], t[1]
	sum := k[0] + k[1]
	if t0 == 0 || t1 == 0 || sum == 0 {
		return c
	}
	p := sum / (t0 + t1)
	sd := math.Sqrt(p * (1 - p) * (1/t0 + 1/t1))
	if sd > 0 {
		c.Z = (k[1]/t1 - k[0]/t0) / sd
	}
	if least := min(t0, t1) * p; least >= enoughExpected && min(t0, t1)*(1-p) >= enoughExpected {
		c.P = math.Erfc(math.Abs(c.Z) / math.Sqrt2)
	} else {
		c.P = splitTail(uint64(math.Round(k[0])), uint64(math.Round(k[1])), t0/(t0+t1))
	}
	return c
}

// Interval is what the difference of two shares is, with 95 % confidence, of n samples before and after of totals: that of
// Agresti and Caffo (The American Statistician 54, 2000), which holds for few samples, too.
func Interval(n, totals [2]uint64, each Each) (low, high float64) {
	if totals[0] == 0 || totals[1] == 0 {
		return -1, 1
	}
	var p [2]float64
	var variance float64
	k, all := each.worth(n), each.worth(totals)
	for i := range p {
		t := all[i] + 2
		p[i] = (k[i] + 1) / t
		variance += p[i] * (1 - p[i]) / t
	}
	const z = 1.959964 // of the normal distribution, 95 % two-sided
	d, e := p[1]-p[0], z*math.Sqrt(variance)
	return max(-1, d-e), min(1, d+e)
}

// maxExact bounds the numbers that splitTail adds up over. Where one of the
// recordings is so much shorter than the other that more are too few for a score
// test, nothing is called real.
const maxExact = 1 << 20

// splitTail is how likely it is that a+b samples, each of which falls on the first
// side with probability q, split at least as unevenly as a to b: twice the smaller tail.
func splitTail(a, b uint64, q float64) float64 {
	if a+b > maxExact || !(q > 0 && q < 1) {
		return 1
	}
	n := float64(a + b)
	lg := func(x float64) float64 { v, _ := math.Lgamma(x + 1); return v }
	var low, high float64
	for i := uint64(0); i <= a+b; i++ {
		k := float64(i)
		pr := math.Exp(lg(n) - lg(k) - lg(n-k) + k*math.Log(q) + (n-k)*math.Log1p(-q))
		if i <= a {
			low += pr
		}
		if i >= a {
			high += pr
		}
	}
	return min(1, 2*min(low, high))
}

// discoveries tells for each probability whether it is small enough, of so many, that
// falseShare of those chosen are by chance on the mean. NaN is none that was tried.
func discoveries(ps []float64) []bool {
	var order []int
	for i, p := range ps {
		if !math.IsNaN(p) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out := make([]bool, len(ps))
	last := 0
	for rank, i := range order {
		if ps[i] <= falseShare*float64(rank+1)/float64(len(order)) {
			last = rank + 1
		}
	}
	for _, i := range order[:last] {
		out[i] = true
	}
	return out
}

// chiSquareTail is how likely a chi-square number with df degrees of freedom is to
// reach x: the upper incomplete gamma function of df/2 and x/2, by its series or its
// continued fraction (Abramowitz and Stegun, 6.5.29 and 6.5.31).
func chiSquareTail(x float64, df int) float64 {
	if !(x > 0) {
		return 1
	}
	a, y := float64(df)/2, x/2
	lg, _ := math.Lgamma(a)
	scale := math.Exp(a*math.Log(y) - y - lg)
	const steps = 10_000 // both converge in about the square root of a, or fewer
	if y < a+1 {
		term := 1 / a
		sum := term
		for i := 1; i < steps && term > sum*1e-15; i++ {
			term *= y / (a + float64(i))
			sum += term
		}
		return max(0, 1-scale*sum)
	}
	// By Lentz's method.
	b := y + 1 - a
	c, d := math.Inf(1), 1/b
	h := d
	for i := 1; i < steps; i++ {
		k := float64(i)
		f := k * (a - k)
		b += 2
		d = 1 / (f*d + b)
		c = b + f/c
		h *= c * d
		if math.Abs(c*d-1) < 1e-15 {
			break
		}
	}
	return min(1, scale*h)
}
