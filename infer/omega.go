package infer

import "math"

// omega is the Wright omega function, the w > 0 with w + log(w) = y, to a relative
// error of 1e-7 (Corless and Jeffrey, AISC 2002). It is what the most probable cost of
// a block comes to, once per block and evaluation of a search, so the middle of
// it is a table.
func omega(y float64) float64 {
	switch {
	case y < omegaLo:
		return lambert(math.Exp(y))
	case y < omegaHi:
		t := (y - omegaLo) * omegaSteps
		i := int(t)
		t -= float64(i)
		p, q := &omegaTable[i], &omegaTable[i+1]
		d := q.w - p.w
		return p.w + t*(p.slope+t*(3*d-2*p.slope-q.slope+t*(p.slope+q.slope-2*d)))
	}
	l := math.Log(y)
	w := y - l + l/y*(1+(l-2)/(2*y))
	return w + (y-w-math.Log(w))*w/(1+w)
}

// lambert is the principal branch of Lambert's W function for z >= 0: omega of log(z).
func lambert(z float64) float64 {
	if z < 1.0/256 {
		return z * (1 - z*(1-z*(1.5-z*(8.0/3-z*(125.0/24)))))
	}
	return omega(math.Log(z))
}

// Between omegaLo, which is below log(1/256), and omegaHi the table has omegaSteps
// cubic pieces per unit.
const (
	omegaLo, omegaHi = -6, 16
	omegaSteps       = 16
)

// omegaTable has omega and its slope, per step, at the ends of all pieces.
var omegaTable = func() (t [(omegaHi-omegaLo)*omegaSteps + 1]struct{ w, slope float64 }) {
	for i := range t {
		y := omegaLo + float64(i)/omegaSteps
		w := math.Exp(min(y, 0))
		if y > 1 {
			w = y
		}
		for range 50 { // Newton's method on w*exp(w-y) = 1 in the logarithm
			w *= (1 + y - math.Log(w)) / (1 + w)
		}
		t[i].w, t[i].slope = w, w/(1+w)/omegaSteps
	}
	return t
}()
