package infer

import "math"

// omega is the Wright omega function, the w > 0 with w + log(w) = y, to a relative
// error of 1e-7 (Corless and Jeffrey, AISC 2002). It is what the most probable cost of
// a block comes to, once per block and evaluation of a search, so the middle of
// it is a table.
func omega(y float64) float64 {
	if y >= omegaLo && y < omegaHi {
		return omegaMiddle(y)
	}
	return omegaEnds(y)
}

// omegaMiddle is omega between omegaLo and omegaHi. It is small enough for the compiler to inline.
func omegaMiddle(y float64) float64 {
	t := (y - omegaLo) * omegaSteps
	i := int(t)
	t -= float64(i)
	p := &omegaTable[i]
	return p[0] + t*(p[1]+t*(p[2]+t*p[3]))
}

// omegaEnds is omega elsewhere.
func omegaEnds(y float64) float64 {
	if y < omegaLo {
		return lambert(math.Exp(y))
	}
	l := math.Log(y)
	w := y - l + l/y*(1+(l-2)/(2*y))
	return w + (y-w-math.Log(w))*w/(1+w)
}

// lambert is the principal branch of Lambert's W function for z >= 0: omega of log(z).
func lambert(z float64) float64 {
	if z < lambertLo {
		return z * (1 - z*(1-z*(1.5-z*(8.0/3-z*(125.0/24)))))
	}
	if z < lambertHi {
		return lambertMiddle(z)
	}
	return omega(math.Log(z))
}

// Between lambertLo and lambertHi a table has lambertSteps cubic pieces for each doubling.
const (
	lambertLo, lambertHi          = 1.0 / 256, 256
	lambertDoublings              = 16
	lambertBits, lambertSteps     = 5, 1 << lambertBits
	lambertShift                  = mantissaBits - lambertBits
	lambertFirst              int = (1023 - 8) << lambertBits
)

// lambertTable has the coefficients of all pieces, which have lambert and its slope at their ends.
var lambertTable = func() (t [lambertDoublings * lambertSteps][4]float64) {
	for i := range t {
		lo := math.Float64frombits(uint64(lambertFirst+i) << lambertShift)
		hi := math.Float64frombits(uint64(lambertFirst+i+1) << lambertShift)
		u, v := lambertExact(lo), lambertExact(hi)
		h := hi - lo
		du, dv := u/(1+u)/lo*h, v/(1+v)/hi*h
		d := v - u
		t[i] = [4]float64{u, du / h, (3*d - 2*du - dv) / (h * h), (du + dv - 2*d) / (h * h * h)}
	}
	return t
}()

// lambertMiddle is lambert between lambertLo and lambertHi.
func lambertMiddle(z float64) float64 {
	n := math.Float64bits(z) >> lambertShift
	z -= math.Float64frombits(n << lambertShift)
	p := &lambertTable[(int(n)-lambertFirst)%len(lambertTable)]
	return p[0] + z*(p[1]+z*(p[2]+z*p[3]))
}

// lambertExact is lambert by Newton's method, from below lambertLo to above lambertHi.
func lambertExact(z float64) float64 {
	y := math.Log(z)
	w := math.Exp(min(y, 0))
	if y > 1 {
		w = y
	}
	return omegaExact(w, y)
}

// omegaExact is omega(y), from w on, by Newton's method on w*exp(w-y) = 1 in the logarithm.
func omegaExact(w, y float64) float64 {
	for range 50 {
		last := w
		if w *= (1 + y - math.Log(w)) / (1 + w); w == last {
			break
		}
	}
	return w
}

// Between omegaLo, which is below log(1/256), and omegaHi the table has omegaSteps
// cubic pieces per unit.
const (
	omegaLo, omegaHi = -6, 16
	omegaSteps       = 16
)

// omegaTable has the coefficients of all pieces, which have omega and its slope at their ends.
var omegaTable = func() (t [(omegaHi - omegaLo) * omegaSteps][4]float64) {
	var w, slope float64 // at the end of the piece before
	for i := range len(t) + 1 {
		y := omegaLo + float64(i)/omegaSteps
		last, lastSlope := w, slope
		w = math.Exp(min(y, 0))
		if y > 1 {
			w = y
		}
		w = omegaExact(w, y)
		slope = w / (1 + w) / omegaSteps // for each step
		if i > 0 {
			d := w - last
			t[i-1] = [4]float64{last, lastSlope, 3*d - 2*lastSlope - slope, lastSlope + slope - 2*d}
		}
	}
	return t
}()
