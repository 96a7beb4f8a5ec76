package infer

import (
	"math"
	"slices"
	"sync"
)

// A searcher searches minima of functions of n variables by L-BFGS (Nocedal,
// Mathematics of Computation 35, 1980), with the bisection line search for the weak
// Wolfe conditions of Lewis and Overton (Mathematical Programming 141, 2013). It
// may search again and again; what one search learnt of curvature serves the next, if
// its function is much the same.
//
// Unknowns of many samples lie in steep valleys beside those of few. A diagonal that
// grows with the search makes their steps alike: gcc's cc1 with 40 evaluations of all
// procedures together gets as far as without it with 130.
type searcher struct {
	past, spare    []pair
	diag           []float64 // about the inverse of the second derivatives; nil if nothing is known of them
	work           []float64 // holds all that follow
	g, gNew        []float64
	d, xNew, alpha []float64
	there          bool // the function was evaluated last at the point that minimize returned
}

// newSearcher returns a searcher for n unknowns, with the storage of one that is done.
func newSearcher(n int) *searcher {
	s := searchers.Get().(*searcher)
	need := (4+2*searchMemory)*n + searchMemory
	s.work = slices.Grow(s.work[:0], need)[:need]
	rest := s.work
	take := func(n int) []float64 {
		x := rest[:n:n]
		rest = rest[n:]
		return x
	}
	s.g, s.gNew, s.d, s.xNew, s.alpha = take(n), take(n), take(n), take(n), take(searchMemory)
	s.past, s.spare, s.diag = s.past[:0], s.spare[:0], nil
	for range searchMemory {
		s.spare = append(s.spare, pair{dx: take(n), dg: take(n)})
	}
	return s
}

// searchers has those that are done.
var searchers = sync.Pool{New: func() any { return new(searcher) }}

// firstMove is how far a first step moves an unknown at most, if it has a scale.
const firstMove = 0.3

// searchMemory is how many steps a searcher remembers.
const searchMemory = 8

// minimize is a search by a new searcher.
func minimize(f func(x, grad []float64) float64, x []float64, evals int, tol float64) int {
	s := newSearcher(len(x))
	defer searchers.Put(s)
	return s.minimize(f, x, evals, tol)
}

// minimize searches a local minimum of f from x. f sets its second argument to the
// gradient. x is replaced by the best point found; the number of evaluations is
// returned.
//
// It stops after evals evaluations, or when no step gains more than tol of the
// value's own scale.
func (s *searcher) minimize(f func(x, grad []float64) float64, x []float64, evals int, tol float64) int {
	if len(x) == 0 {
		return 0
	}
	g, gNew, d, xNew := s.g, s.gNew, s.d, s.xNew
	v := f(x, g)
	used, flat := 1, 0
	s.there = true
	for used < evals {
		s.direct(g)
		slope := dot(d, g)
		if !(slope < 0) {
			if len(s.past) == 0 {
				return used
			}
			s.forget() // not a descent: start afresh
			continue
		}
		// The very first step has no scale. No step moves a logarithm by more than 4.
		t := 1.0
		if m := maxAbs(d); s.diag == nil {
			t = min(1, 1/m)
		} else if m > 4 {
			t = 4 / m
		}
		lo, hi := 0.0, math.Inf(1)
		vNew := math.Inf(1)
		ok := false
		for try := 0; try < 30 && used < evals; try++ {
			for i := range x {
				xNew[i] = x[i] + t*d[i]
			}
			vNew = f(xNew, gNew)
			used++
			if !(vNew <= v+1e-4*t*slope) { // also where it is not a number
				hi = t
			} else if dot(gNew, d) < 0.9*slope {
				lo = t
				ok = true
			} else {
				ok = true
				break
			}
			if math.IsInf(hi, 1) {
				t *= 2
			} else {
				t = (lo + hi) / 2
			}
		}
		if s.there = ok && vNew < v; !s.there {
			if len(s.past) == 0 {
				return used
			}
			s.forget()
			if flat++; flat > 2 {
				return used
			}
			continue
		}
		s.remember(xNew, x, gNew, g)
		gain := v - vNew
		copy(x, xNew)
		g, gNew = gNew, g
		v = vNew
		if gain > tol*(1+math.Abs(v)) {
			flat = 0
		} else if flat++; flat > 2 {
			break
		}
	}
	return used
}

// A pair is what one step taught: the change of the gradient along it.
type pair struct {
	dx, dg []float64
	curve  float64 // dx . dg, > 0
}

// direct sets d to the direction to search along from a place with gradient g: two
// passes over the past turn the steepest descent into about Newton's step.
func (s *searcher) direct(g []float64) {
	d := s.d
	for i := range d {
		d[i] = -g[i]
	}
	last := len(s.past) - 1
	var along float64
	if last >= 0 {
		along = dot(s.past[last].dx, d)
	}
	for i := last; i >= 0; i-- {
		h := &s.past[i]
		s.alpha[i] = along / h.curve
		if i > 0 {
			along = axpyDot(-s.alpha[i], h.dg, d, s.past[i-1].dx)
		} else {
			axpy(-s.alpha[i], h.dg, d)
		}
	}
	for i, v := range s.diag {
		d[i] *= v
	}
	if last >= 0 {
		along = dot(s.past[0].dg, d)
	}
	for i := range s.past {
		h := &s.past[i]
		if by := s.alpha[i] - along/h.curve; i < last {
			along = axpyDot(by, h.dx, d, s.past[i+1].dg)
		} else {
			axpy(by, h.dx, d)
		}
	}
	if len(s.past) == 0 && s.diag != nil { // one wild unknown must not hold up all others
		for i, v := range d {
			d[i] = clamp(v, -firstMove, firstMove)
		}
	}
}

// forget makes the next step one of steepest descent, but for the diagonal.
func (s *searcher) forget() {
	s.spare = append(s.spare, s.past...)
	s.past = s.past[:0]
}

// remember appends the step from (x, g) to (xNew, gNew), in the place of the
// oldest one if there are many already.
func (s *searcher) remember(xNew, x, gNew, g []float64) {
	var h pair
	if n := len(s.spare); n > 0 {
		h, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		h = s.past[0]
		s.past = append(s.past[:0], s.past[1:]...)
	}
	for i := range x {
		h.dx[i] = xNew[i] - x[i]
		h.dg[i] = gNew[i] - g[i]
	}
	if h.curve = dot(h.dx, h.dg); h.curve > 1e-12*dot(h.dg, h.dg) {
		s.past = append(s.past, h)
		s.learn(&h)
	} else {
		s.spare = append(s.spare, h)
	}
}

// learn updates the diagonal by one step as M1QN3 does: it is scaled to the step, and
// becomes the diagonal of the BFGS formula (Gilbert and Lemaréchal, Mathematical
// Programming 45, 1989).
func (s *searcher) learn(h *pair) {
	if s.diag == nil {
		s.diag = make([]float64, len(h.dx))
		fillWith(s.diag, h.curve/dot(h.dg, h.dg))
	}
	var dg2, dx2 float64 // squared lengths of both by the diagonal
	for i, v := range s.diag {
		dg2 += v * h.dg[i] * h.dg[i]
		dx2 += h.dx[i] * h.dx[i] / v
	}
	for i, v := range s.diag {
		x := h.dx[i] / v
		if w := dg2*(1/v-x*x/dx2) + h.dg[i]*h.dg[i]; w > 0 {
			s.diag[i] = h.curve / w
		}
	}
}

// dot sums four products side by side, which the processor can overlap.
func dot(a, b []float64) float64 {
	var t, u, v, w float64
	b = b[:len(a)]
	for len(a) >= 4 && len(b) >= 4 {
		t += a[0] * b[0]
		u += a[1] * b[1]
		v += a[2] * b[2]
		w += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i := range a {
		t += a[i] * b[i]
	}
	return (t + u) + (v + w)
}

func axpy(k float64, x, y []float64) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += k * v
	}
}

// axpyDot is axpy, and returns what dot does of z and y then, in one pass.
func axpyDot(k float64, x, y, z []float64) float64 {
	var t, u, v, w float64
	x, z = x[:len(y)], z[:len(y)]
	for len(y) >= 4 && len(x) >= 4 && len(z) >= 4 {
		y[0] += k * x[0]
		y[1] += k * x[1]
		y[2] += k * x[2]
		y[3] += k * x[3]
		t += z[0] * y[0]
		u += z[1] * y[1]
		v += z[2] * y[2]
		w += z[3] * y[3]
		x, y, z = x[4:], y[4:], z[4:]
	}
	for i := range y {
		y[i] += k * x[i]
		t += z[i] * y[i]
	}
	return (t + u) + (v + w)
}

func scale(k float64, x []float64) {
	for i := range x {
		x[i] *= k
	}
}

func maxAbs(x []float64) float64 {
	var m float64
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}
