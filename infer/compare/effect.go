package compare

import "math"

// confident is how much of the time an interval holds what it is about.
const confident = 0.95

// power is how often a change is found that is called detectable.
const power = 0.8

// A Trial is what one recording, or one epoch of a store, spent, and what was done meanwhile.
type Trial struct {
	Spent  float64 // processor time, in any unit
	Chance float64 // the variance of Spent that is of sampling alone
	Work   float64 // what was done meanwhile, in any unit

	// Where Work is known by samples, too: its variance by sampling, and its covariance with Spent.
	WorkChance, Common float64
}

// A rate is what is spent per unit of work, and how well that is known.
type rate struct {
	y, v float64 // and its variance
	df   float64 // degrees of freedom of v
	k    int     // trials
}

// rateOf divides what trials spent by what they did. Of two trials or more the variance is
// how they differ (that of the jackknife, by which a trial that is longer than the others
// does not hide how it differs), and at least that of sampling; of one it is that of sampling
// alone. Trials that follow each other in time, as epochs do, are alike: serial makes up for
// that.
func rateOf(trials []Trial, serial bool) rate {
	var spent, work float64
	for _, t := range trials {
		spent += t.Spent
		work += t.Work
	}
	r := rate{y: spent / work, df: math.Inf(1), k: len(trials)}
	for _, t := range trials {
		r.v += t.Chance - 2*r.y*t.Common + r.y*r.y*t.WorkChance
	}
	r.v = max(r.v, 0) / (work * work)
	if len(trials) < 2 {
		return r
	}
	k := float64(len(trials))
	var between, parts float64
	left := make([]float64, len(trials)) // what a trial spent beyond the mean of all, in y
	for i, t := range trials {
		h := t.Work / work
		left[i] = (t.Spent - r.y*t.Work) / work / max(1-h, 1e-9)
		between += left[i] * left[i]
		parts += h * h
	}
	between *= (k - 1) / k
	r.df = max(1, 1/parts-1) // k-1, if all are of one length
	if serial {
		rho := likeness(left)
		between *= (1 + rho) / (1 - rho)
		r.df = max(1, r.df*(1-rho)/(1+rho))
	}
	r.v = max(r.v, between)
	return r
}

// likeness is the correlation of numbers with those before them, on the safe side: that of numbers
// whose mean was subtracted is too low, by about (1+3r)/k (Kendall, "Note on Bias in the Estimation
// of Autocorrelation", 1954), and known to 1/sqrt(k), of which half is added. Of 6 epochs with a correlation of 0.5, or 12 with 0.8,
// equal builds differ in 5 of 100 then; with none of it in 8 and 10, with all of it next to nothing is found.
func likeness(x []float64) float64 {
	k := float64(len(x))
	var own, next float64
	for i, v := range x {
		own += v * v
		if i > 0 {
			next += v * x[i-1]
		}
	}
	r := 0.0
	if own > 0 {
		r = next / own
	}
	return max(0, min(r+(1+3*r)/k+0.5/math.Sqrt(k), 0.9))
}

// An Effect is how two rates differ, in parts of the old one: -0.03 is 3 % less.
type Effect struct {
	Change    float64 // NaN if not known
	Low, High float64 // of the interval of 95 %
	P         float64 // how likely chance is to give a change at least as large, 0 to 1
	// Runs reports whether the interval holds how recordings of the same build differ. If not, it is
	// that of sampling alone, and says what was spent in these very recordings.
	Runs bool
	// Detectable is the change that would have been found by 8 of 10 such comparisons.
	Detectable float64

	se, df float64 // of the logarithm of 1+Change
	k      [2]int
}

// Clear reports whether neither sampling nor how recordings differ explains the change.
func (e *Effect) Clear() bool { return e.Runs && e.outside() }

// outside reports whether the interval leaves out no change.
func (e *Effect) outside() bool { return e.Low > 0 || e.High < 0 }

// Needs returns how many recordings like these on each side would find a change of so much,
// with the power of 80 %; 0 if that is not known, or is more than a million.
func (e *Effect) Needs(change float64) int {
	want := math.Abs(math.Log1p(change))
	if !e.Runs || e.k[0] == 0 || !(e.se > 0) || !(want > 0) {
		return 0
	}
	both := 2 / (1/float64(e.k[0]) + 1/float64(e.k[1])) // as many on each side are as good as what there is
	low, high := 1, 1
	enough := func(k int) bool {
		df := max(1, 2*float64(k)-2)
		return k > 1 && (studentQuantile(1-(1-confident)/2, df)+studentQuantile(power, df))*e.se*math.Sqrt(both/float64(k)) <= want
	}
	for !enough(high) {
		if low, high = high, 2*high; high > 1<<20 {
			return 0
		}
	}
	for low+1 < high {
		if mid := (low + high) / 2; enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// Compare returns how what new spends per unit of work differs from what old does. Trials of
// a side that follow each other in time are alike, which serial makes up for. noise is by how
// much one recording differs from another of the same build for other reasons than sampling,
// as a relative standard deviation; it is used only where a side has but one, and 0 is not
// known: then that of the other side is taken, if it has more.
func Compare(old, new []Trial, serial bool, noise float64) Effect {
	return effectOf(rateOf(old, serial), rateOf(new, serial), noise)
}

// effectOf compares two rates by the test of Welch on their logarithms.
func effectOf(old, new rate, noise float64) Effect {
	e := Effect{Change: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), P: 1, Detectable: math.Inf(1), k: [2]int{old.k, new.k}}
	if !(old.y > 0 && new.y > 0) || math.IsInf(old.y, 1) || math.IsInf(new.y, 1) {
		return e
	}
	var v float64
	v, e.df, e.Runs = both(relative(old), relative(new), noise)
	e.se = math.Sqrt(v)
	e.around(math.Log(new.y / old.y))
	return e
}

// around fills in what follows from the change, as the logarithm of a ratio, and its error.
func (e *Effect) around(d float64) {
	q := studentQuantile(1-(1-confident)/2, e.df)
	e.Change, e.Low, e.High = math.Expm1(d), math.Expm1(d-q*e.se), math.Expm1(d+q*e.se)
	switch {
	case e.se > 0:
		e.P = studentTail(d/e.se, e.df)
	case d != 0:
		e.P = 0
	}
	e.Detectable = math.Expm1((q + studentQuantile(power, e.df)) * e.se)
}

// widened is e where something else is not known, too: a variance of its logarithm, with
// degrees of freedom.
func (e Effect) widened(v, df float64) Effect {
	if v == 0 || math.IsNaN(e.Change) {
		return e
	}
	own := e.se * e.se
	e.df = (own + v) * (own + v) / (own*own/e.df + v*v/df)
	e.se = math.Sqrt(own + v)
	e.around(math.Log1p(e.Change))
	return e
}

// relative is a rate in parts of itself.
func relative(r rate) rate {
	r.v /= r.y * r.y
	r.y = 1
	return r
}

// both is the variance of the difference of two rates, and its degrees of freedom. runs is
// false if it is that of sampling alone.
func both(old, new rate, noise float64) (v, df float64, runs bool) {
	for _, r := range []*rate{&old, &new} {
		if noise > 0 && r.k == 1 {
			r.v += noise * noise * r.y * r.y
		}
	}
	switch {
	case old.k > 1 && new.k > 1, noise > 0:
		return welch(old, new)
	case old.k > 1: // one recording is taken to differ from others as much as those of the other side do
		new.v, new.df = max(new.v, old.v*float64(old.k)), old.df
	case new.k > 1:
		old.v, old.df = max(old.v, new.v*float64(new.k)), new.df
	default:
		return old.v + new.v, math.Inf(1), false
	}
	return old.v + new.v, old.df, true
}

// welch is the variance of a difference and its degrees of freedom, by Welch and Satterthwaite.
func welch(old, new rate) (v, df float64, runs bool) {
	v = old.v + new.v
	if v == 0 {
		return 0, math.Inf(1), true
	}
	return v, v * v / (old.v*old.v/old.df + new.v*new.v/new.df), true
}
