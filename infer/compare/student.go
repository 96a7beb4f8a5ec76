package compare

import "math"

// Student's distribution with df degrees of freedom, which need not be a whole number and
// may be infinite: then it is the normal one.

// studentTail is how likely |t| is to reach x.
func studentTail(x, df float64) float64 {
	x = math.Abs(x)
	if df > 1e7 { // the two differ by less than 1e-7
		return math.Erfc(x / math.Sqrt2)
	}
	return betaPart(df/(df+x*x), df/2, 0.5)
}

// studentQuantile returns the t below which a share p of the distribution lies, p from 0.5
// to 1.
func studentQuantile(p, df float64) float64 {
	low, high := 0.0, 1.0
	for tail := 2 * (1 - p); studentTail(high, df) > tail && high < 1e12; {
		low, high = high, 2*high
	}
	for range 100 {
		if mid := (low + high) / 2; studentTail(mid, df) > 2*(1-p) {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// betaPart is the incomplete beta function of a and b, as a share of the whole one, by its
// continued fraction (Abramowitz and Stegun, 26.5.8).
func betaPart(x, a, b float64) float64 {
	switch {
	case !(x > 0):
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // where the fraction converges slowly
		return 1 - betaPart(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	// By Lentz's method.
	const tiny, steps = 1e-300, 10_000 // steps: about the square root of the larger of a and b is enough
	c, d := 1.0, 1-(a+b)*x/(a+1)
	if math.Abs(d) < tiny {
		d = tiny
	}
	d = 1 / d
	h := d
	for i := 1; i < steps; i++ {
		m := float64(i)
		for _, f := range [2]float64{
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			if d = 1 + f*d; math.Abs(d) < tiny {
				d = tiny
			}
			if c = 1 + f/c; math.Abs(c) < tiny {
				c = tiny
			}
			d = 1 / d
			h *= c * d
		}
		if math.Abs(c*d-1) < 1e-15 {
			break
		}
	}
	return min(1, front*h)
}
