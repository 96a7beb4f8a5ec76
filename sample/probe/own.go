package probe

import (
	"math"
	"slices"

	"backfeed/sample"
)

// Own is the code in whose own time the executions of a site are told, its procedure: hits over the time that it ran while windows
// were open, by samples, and this times its time in all. Which phases of a program windows met does not matter then, as far as the
// procedure does the same in each, nor how much hits slow down the rest.
type Own struct {
	From, To sample.Offset   // [From, To); empty if it is not known
	Next     []sample.Offset // where the program may go on from the site
}

// Moments are where the processes were found while a window was open: samples that no recording has.
type Moments struct {
	Number uint32         // of the window
	Counts *sample.Counts // all of them, also those that were in the kernel, or in no image
}

const (
	// slowedBy is how much longer a procedure takes after each hit, in s, where no sample shows that it was one: code that follows
	// it runs as after an interrupt. At places that run 2e7 to 9e7 times in a second of their own time, of which executions were too
	// few by factors of 1.7 to 9, it was 8 to 20 ns; slowedSD is the standard deviation.
	slowedBy, slowedSD = 15e-9, 7.5e-9
	// mostSlowed is how many times longer that may make it for its own time to be known.
	mostSlowed = 2
	// fewOwn is how many samples tell a procedure's own time, and fewOwnHits how many hits tell how often a site runs in it.
	fewOwn, fewOwnHits = 4, 10
)

// Sampled takes in what was sampled during a window.
func (c *Windows) Sampled(s Moments) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range append(slices.Clone(c.old), c.groups...) {
		for i := range m.windows {
			if w := &m.windows[i]; w.number == s.Number {
				w.sampled(m, s.Counts)
			}
		}
	}
}

// sampled takes in samples of a window of m.
func (w *groupWindow) sampled(m *measured, counts *sample.Counts) {
	w.samples = float64(counts.Total)
	w.ownSamples = make([]float64, len(w.hits))
	for _, ic := range counts.Images {
		if ic.ID.Key() != m.ID.Key() {
			continue
		}
		for i := range w.hits {
			w.ownSamples[i] = m.ownSamples(i, ic.At)
		}
	}
}

// ownSamples returns how many samples are of the own time of site i. Those at sites and behind them are not: there the hits are.
func (m *measured) ownSamples(i int, at map[sample.Offset]uint64) (n float64) {
	own := m.own(i)
	for off, k := range at {
		if off >= own.From && off < own.To && !m.atHit(off) {
			n += float64(k)
		}
	}
	return n
}

// own returns what m has as the Own of site i.
func (m *measured) own(i int) (o Own) {
	if i < len(m.Own) {
		o = m.Own[i]
	}
	return o
}

// atHit reports whether a sample there may be of a hit.
func (m *measured) atHit(off sample.Offset) bool {
	for i, s := range m.Sites {
		if s.Off == off || slices.Contains(m.own(i).Next, off) {
			return true
		}
	}
	return false
}

// An ownTime is what windows tell of a site for its own time.
type ownTime struct {
	m       *measured
	site    int
	each    float64 // own time for each execution, in s
	relSD   float64 // of it, relative to it
	samples float64
}

// ownTimeOf finds it for site i of m, in windows that have samples.
func (m *measured) ownTimeOf(windows []groupWindow, i int) (o ownTime) {
	var hits, time, met float64
	var own []float64 // by window
	for k := range windows {
		w := &windows[k]
		t := 0.0
		if w.samples > 0 && i < len(w.ownSamples) {
			t = w.time * w.ownSamples[i] / w.samples
			hits, time, o.samples = hits+float64(w.hits[i]), time+t, o.samples+w.ownSamples[i]
			if w.ownSamples[i] > 0 || w.hits[i] > 0 {
				met++
			}
		}
		own = append(own, t)
	}
	if hits < fewOwnHits || o.samples < fewOwn {
		return ownTime{}
	}
	var v float64
	for k := range windows {
		if w := &windows[k]; w.samples > 0 {
			v += sq((float64(w.hits[i]) - hits/time*own[k]) / hits)
		}
	}
	slowed := time / hits
	if o.each = slowed - slowedBy; o.each < slowed/mostSlowed {
		return ownTime{}
	}
	// One window more, of which nothing is known, half as different as whole programs are: see priorSpread.
	v = (v + sq(priorSpread/2/met)) * (1 + 2/met)
	o.relSD = math.Sqrt(v + 1/o.samples + 1/hits + sq(slowedSD/o.each))
	o.m, o.site = m, i
	return o
}

// inAll returns what o tells of all the time of counts, which is so many native s: executions per second, and their standard deviation
// relative to them; 0 if nothing.
func (o *ownTime) inAll(counts *sample.Counts, native float64) (rate, relSD float64) {
	if o.m == nil || counts == nil || counts.Delivered() == 0 || native <= 0 {
		return 0, 0
	}
	n := 0.0
	for _, ic := range counts.Images {
		if ic.ID.Key() == o.m.ID.Key() {
			n += o.m.ownSamples(o.site, ic.At)
		}
	}
	if n < fewOwn {
		return 0, 0
	}
	return n / float64(counts.Delivered()) / o.each, math.Sqrt(sq(o.relSD) + 1/n)
}

// with returns e with what its own time tells, each by how sure it is, for so many native s that counts are of.
func (e estimate) with(counts *sample.Counts, native float64) estimate {
	rate, sd := e.ownTime.inAll(counts, native)
	if rate == 0 {
		return e
	}
	v := sq(sd)
	if e.known && e.rate > 0 && e.variance > 0 {
		other := e.variance / sq(e.rate)
		w := other / (other + v)
		rate = math.Exp(w*math.Log(rate) + (1-w)*math.Log(e.rate))
		v *= w
	}
	e.rate, e.variance, e.known = rate, v*sq(rate), true
	return e
}
