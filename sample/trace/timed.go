package trace

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"backfeed/sample"
)

// How fast a program is where a long walk begins tells how often all that the walk passes through runs in a second. Walks begin
// at random moments; so the mean over them is how often it runs in a second of the recording. How much of the time is in
// which procedure, samples tell better than where walks begin: they are more.

const (
	// leastTimed is how many walks have to be timed, leastTimedShare of how much of the time, or of the executions of a place.
	leastTimed, leastTimedShare = 2, 0.3
	// untimedSD is the standard deviation of how fast a program is, of its logarithm, where no walks are timed, around the mean
	// of where they are. In a procedure of which some are, it is the less the more these are.
	untimedSD = 0.7
	// turnsSD is that of how fast the program is after one walk that is timed, relative to it, beside what walks of one
	// procedure differ by: the quartiles of turns of copy, random, chase and divide of testdata/programs are 3 to 13 % apart on
	// two processors with a load of 5.
	turnsSD = 0.15
)

// Time says how fast the program was after a walk that AddLong added, in instructions per ns of processor time.
func (w *Walks) Time(walk int, speed float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := walk - w.gone; i >= 0 && i < len(w.walks) && speed > 0 && !math.IsInf(speed, 0) {
		w.walks[i].speed = speed
	}
}

// timedRuns are how often a place ran.
type timedRuns struct {
	n, variance float64
	untimed     float64 // of n, by walks that are not timed
	unsure      float64 // of n, as far as it hangs on how fast these were: what untimedSD is of
}

// addTo adds them to p, of a recording of such a weight.
func (r *timedRuns) addTo(p *sample.Probed, weight uint64) {
	if r == nil || r.n < 1 || r.untimed > (1-leastTimedShare)*r.n {
		return
	}
	p.Covered, p.Timed, p.Runs = weight, weight, uint64(math.Round(r.n))
	p.Variance = sample.SquareOf(math.Ceil(r.variance + sq(untimedSD*r.unsure)))
}

// A stratum is the time of one procedure.
type stratum struct {
	samples, walks, timed float64
	speed, logSpeed       float64 // sums over those that are timed; then speed is that of others
}

// runs returns how often places ran in the time of counts, as far as walks tell that were timed; nil if they do not.
func (w *Walks) runs(counts *sample.Counts) map[int32]*timedRuns {
	if counts.Event.Unit != "ns" || counts.Total == 0 || w.long.code == nil {
		return nil
	}
	strata, of := w.strata(counts)
	var timed, logSpeed, samples, covered, known float64
	for i := range strata {
		s := &strata[i]
		timed += s.timed
		logSpeed += s.logSpeed
		samples += s.samples
		if s.walks > 0 {
			covered += s.samples
			known += s.samples * s.timed / s.walks
		}
	}
	if timed < leastTimed || known < leastTimedShare*samples {
		return nil
	}
	for i := range strata { // walks that are not timed are as fast as others of the procedure, or of the program
		if s := &strata[i]; s.timed > 0 {
			s.speed /= s.timed
		} else {
			s.speed = math.Exp(logSpeed / timed)
		}
	}
	type sums struct{ n, nn, untimed float64 }
	type key struct{ place, stratum int32 }
	by := map[key]*sums{}
	worths := w.worths()
	for i := range w.walks {
		s, in := &w.walks[i], of[i]
		if in < 0 || s.steps == 0 {
			continue
		}
		fast := s.speed
		if fast == 0 {
			fast = strata[in].speed
		}
		times := map[int32]float64{}
		worths[i].each(s, func(at via, n float64) { times[at.place()] += n })
		for place, n := range times {
			if w.places[place].to.known {
				continue
			}
			rate := n / float64(s.steps) * fast // per ns
			b := by[key{place, in}]
			if b == nil {
				b = &sums{}
				by[key{place, in}] = b
			}
			b.n, b.nn = b.n+rate, b.nn+rate*rate
			if s.speed == 0 {
				b.untimed += rate
			}
		}
	}
	out := map[int32]*timedRuns{}
	// A walk that was to begin in the kernel begins where that returns to, and how fast the program goes on is by all processor time. So
	// that of the kernel is divided among the procedures, by their own: it was 0.09 of copy of testdata/programs, and its loop was told to
	// 0.84 of its executions.
	total := float64(counts.Weight) / float64(counts.Total-min(counts.Lost[sample.LostKernel], counts.Total-1))
	for _, k := range slices.SortedFunc(maps.Keys(by), func(a, b key) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.stratum, b.stratum)) }) {
		b, r, in := by[k], out[k.place], &strata[k.stratum]
		if r == nil {
			r = &timedRuns{}
			out[k.place] = r
		}
		time := total * in.samples
		r.n += time * b.n / in.walks
		r.untimed += time * b.untimed / in.walks
		r.unsure += time * b.untimed / in.walks * (1 - in.timed/in.walks)
		apart := max(0, b.nn-b.n*b.n/in.walks) * in.walks / max(1, in.walks-1)
		if in.walks < 2 { // one walk alone may be as far off as it is
			apart = b.nn
		}
		r.variance += sq(time/in.walks) * (apart + sq(turnsSD)*b.nn)
	}
	for _, r := range out {
		// What has samples and no walks may have run anything.
		r.untimed += r.n * (1 - covered/samples)
		r.unsure += r.n * (1 - covered/samples)
	}
	return out
}

// strata returns the procedures that are sampled or that long walks begin in, and by walk the index of its own; -1 of others.
func (w *Walks) strata(counts *sample.Counts) (strata []stratum, of []int32) {
	numbers := map[endpoint]int32{}
	at := func(k endpoint) (i int32) {
		if i = number(numbers, k); int(i) == len(strata) {
			strata = append(strata, stratum{})
		}
		return i
	}
	c := w.long.code
	for _, ic := range counts.Images {
		id := ic.ID.Key()
		i := c.indexOf(id)
		for _, off := range slices.Sorted(maps.Keys(ic.At)) {
			k := endpoint{id: id}
			if i >= 0 {
				r := &c.Ranges[i]
				if op := c.start(r, uint64(off)+r.Delta); op != nil {
					k.proc = c.at[*op].proc
				}
			}
			strata[at(k)].samples += float64(ic.At[off])
		}
	}
	spots := make([]endpoint, len(w.spot))
	for p, i := range w.spot {
		spots[i] = endpoint{id: p.id, proc: p.proc}
	}
	of = make([]int32, len(w.walks))
	for i := range w.walks {
		s := &w.walks[i]
		if of[i] = -1; !s.alone {
			continue
		}
		of[i] = at(spots[s.start])
		in := &strata[of[i]]
		in.walks++
		if s.speed > 0 {
			in.timed++
			in.speed += s.speed
			in.logSpeed += math.Log(s.speed)
		}
	}
	return strata, of
}
