package infer

import "math"

// What searches evaluate most often is an exponential or a logarithm for each block and branch. Those of package math are
// right to the last bit, and take a call each. Here a table and a short polynomial are right to 1e-12, which is less than
// what any step of a search is judged by.

const (
	expBits, expSteps = 6, 1 << expBits
	logBits, logSteps = 8, 1 << logBits

	mantissaBits = 52
	oneBits      = 1023 << mantissaBits // of 1.0
	roundToInt   = 3 << (mantissaBits - 1)
)

// expTable has the powers of 2 from 0 to 1 in steps.
var expTable = func() (t [expSteps]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / expSteps)
	}
	return t
}()

// fastExp is e^x for -700 <= x <= 700.
func fastExp(x float64) float64 {
	k := x*(expSteps/math.Ln2) + roundToInt
	n := math.Float64bits(k)
	r := x - (k-roundToInt)*(math.Ln2/expSteps)
	scale := math.Float64frombits(math.Float64bits(expTable[n%expSteps]) + n>>expBits<<mantissaBits)
	return scale + scale*r*(1+r*(1.0/2+r*(1.0/6+r*(1.0/24))))
}

// logTable has, for each part of the numbers from 1 to 2, the inverse of its middle and the logarithm of that middle.
var logTable = func() (t [logSteps]struct{ inverse, log float64 }) {
	for i := range t {
		t[i].inverse = 1 / (1 + (float64(i)+0.5)/logSteps)
		t[i].log = -math.Log(t[i].inverse)
	}
	return t
}()

// fastLog is the logarithm of x, which is positive, finite and not denormal.
func fastLog(x float64) float64 {
	n := math.Float64bits(x) - oneBits
	p := &logTable[n>>(mantissaBits-logBits)%logSteps]
	r := math.Float64frombits(n%(1<<mantissaBits)|oneBits)*p.inverse - 1
	return float64(int64(n)>>mantissaBits)*math.Ln2 + p.log + r*(1-r*(1.0/2-r*(1.0/3-r*(1.0/4))))
}
