package trace

import (
	"math/rand/v2"
	"slices"

	"backfeed/sample"
)

// Long walks lead from one piece of code to the next, and what they see hardly depends on where they begin; but from one
// phase of a program to the next they do not lead either. Of 800 walks each of 50,000 instructions of SQLite, bzip2, a Go
// program and zstd, two halves have overlaps of 0.97, 0.95, 0.90 and 0.97, in executions of branches, and all have 0.87, 0.83,
// 0.83 and 0.76 with those of callgrind, hardly more than with 8,000 instructions; with the best weights by procedure where they
// begin, 0.95, 0.92, 0.96 and 0.99. So nearly all of what is left is how fast phases are, one beside another.
//
// That as many end in a piece of code as begin there tells nothing of it: with it, the overlaps are 0.86, 0.86, 0.82 and 0.81,
// without it 0.86, 0.87, 0.83 and 0.85. What tells is how many branches of a walk are guessed wrongly, of all that it passes
// through: 0.87, 0.89, 0.83 and 0.84. Both weigh by the same cost of a wrong guess.
//
// What a long walk passes through is kept in sums, but for a head of it.

// A viaTimes is what a long walk passed through, and how often.
type viaTimes struct {
	via
	times uint32
}

const (
	// headSteps are the instructions of a long walk that are kept one by one: as many as short walks have.
	headSteps = 512
	// longWorth is how many short walks tell as much of how often code runs as a long one: it sees a hundred times as much, but
	// in one phase of the program. Of 800 walks of four programs, two halves differ by 0.05 in the mean with 50,000 instructions,
	// in block overlap, and by 0.13 with 512.
	longWorth = 5
)

// A longAdder is what AddLong keeps from one walk to the next.
type longAdder struct {
	numbers
	times []uint32 // by via
	seen  []via    // of which times are not 0

	gone []histories // by place: where it went after its last outcomes in the same walk
	last []uint8     // by place: these; of the walk that is added
	told []int32     // places of which last is not 0
}

// outcome notes where a conditional branch went.
func (a *longAdder) outcome(place int32, taken bool) {
	if more := int(place) + 1 - len(a.gone); more > 0 {
		a.gone, a.last = append(a.gone, make([]histories, more+256)...), append(a.last, make([]uint8, more+256)...)
	}
	h := &a.gone[place][a.last[place]]
	h.n++
	next := a.last[place] << 1 % uint8(len(histories{}))
	if taken {
		h.taken++
		next++
	}
	a.last[place] = next
	a.told = append(a.told, place)
}

// add counts at.
func (a *longAdder) add(at via) {
	if int(at) >= len(a.times) {
		a.times = append(a.times, make([]uint32, int(at)+1024-len(a.times))...)
	}
	if a.times[at]++; a.times[at] == 1 {
		a.seen = append(a.seen, at)
	}
}

// take returns what was counted, in order, and begins anew.
func (a *longAdder) take() (all []viaTimes) {
	slices.Sort(a.seen)
	for _, at := range a.seen {
		all = append(all, viaTimes{at, a.times[at]})
		a.times[at] = 0
	}
	for _, place := range a.told {
		a.last[place] = 0
	}
	a.seen, a.told = a.seen[:0], a.told[:0]
	return all
}

// AddLong adds what a long walk saw, as one of a batch; batches go up. What comes after a guess is left out. Of paths, it
// is one of sample.MaxPathBranches at most. It returns what Time knows the walk by.
func (w *Walks) AddLong(l *Long, batch int) (walk int) {
	if l.End == EndStart || l.Start == 0 {
		return -1
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	c := l.m.code
	s := seenWalk{batch: batch, steps: int32(l.Steps), end: -1, alone: true}
	var steps []Step // of a path, from a branch chosen at random on
	var insts uint64
	first, branch, from := -1, 0, 0
	if w.keeps {
		first = rand.IntN(max(1, len(l.m.branches)-sample.MaxPathBranches))
	}
	a := &w.long
	if w.places == nil {
		clear(a.gone)
	}
	a.of(w, c)
	l.Branches(func(step int, b Branch) bool {
		if b.Guessed {
			s.steps = int32(step)
			return false
		}
		at := a.placeOf(w, b.Op) * viaPlace
		if b.Taken {
			at |= viaTaken
			if first >= 0 && branch >= first && len(steps) < sample.MaxPathBranches {
				steps, insts = append(steps, Step{b.Op, b.To}), uint64(step+1-from)
			}
		}
		if branch++; branch == first {
			from = step + 1
		}
		if c.Ops[b.Op].Kind == CondJump {
			a.outcome(at.place(), b.Taken)
		}
		saw := func(at via) {
			if step < headSteps {
				s.at = append(s.at, at)
			} else {
				a.add(at)
			}
		}
		saw(at)
		switch {
		case !c.leads(b.Op, b.To):
		case b.To != 0:
			saw(a.wentTo(w, b.Op, b.To)*viaPlace | viaTaken | viaTarget)
		case l.End == EndOutside:
			saw(w.placeOf(c, b.Op, target{known: true})*viaPlace | viaTaken | viaTarget)
		}
		return true
	})
	s.head = min(s.steps, headSteps)
	if w.keeps {
		w.keep(c, steps, insts, nil)
	}
	s.rest = a.take()
	s.start = w.spotOf(c, l.Start, loopOf(slices.Values(s.at)))
	walk = w.gone + len(w.walks)
	w.saw(s)
	return walk
}

// longMost is how many instructions of a long walk count beside what short ones saw, at most; of long ones alone, as many as
// they have in the mean. A walk stands for the moment where it began, and not for how far it came. Of 627 long walks of gcc's
// cc1, half left the code that was known within 108 instructions; the 7 that came to 50,000 had 41 % of all instructions, and
// were of what cc1 does at first, in loops that are known soon.
func (w *Walks) longMost() float64 {
	var steps, many float64
	for i := range w.walks {
		if s := &w.walks[i]; s.long() {
			steps, many = steps+float64(s.steps), many+1
		}
	}
	if many == float64(len(w.walks)) {
		return steps / max(many, 1)
	}
	return longWorth * headSteps
}

// long reports whether s is a long walk that went on beyond its head.
func (s *seenWalk) long() bool { return s.steps > s.head }

// share is how often what s passed through counts, if so many instructions of a long walk do at most.
func (s *seenWalk) share(most float64) float64 {
	if s.long() {
		return min(1, most/float64(s.steps))
	}
	return 1
}

// weights returns those of walks, by weights of the regions where they begin. Where windows tell nothing, long ones
// weigh the less the more of their branches are guessed wrongly, and in the mean as much as by region.
func (w *Walks) weights(region []int32, of []float64) []float64 {
	weights := make([]float64, len(w.walks))
	missed := make([]float64, len(w.long.gone)) // of an execution, by place
	for place := range w.long.gone {
		n := 0.0
		for before, h := range w.long.gone[place] {
			if h.n > 0 {
				n += h.n
				missed[place] += h.n * w.long.gone[place].missed(before)
			}
		}
		missed[place] /= max(n, 1)
	}
	var byRegion, own float64
	for i := range w.walks {
		s := &w.walks[i]
		weights[i] = of[region[s.start]]
		if len(w.rates) > 0 || !s.long() {
			continue
		}
		byRegion += weights[i]
		sum := 0.0
		worth(nil).each(s, func(at via, times float64) {
			if place := at.place(); int(place) < len(missed) {
				sum += times * missed[place]
			}
		})
		weights[i] = 1 / (1 + missedCost*sum/float64(s.steps))
		own += weights[i]
	}
	for i := range w.walks {
		if len(w.rates) == 0 && w.walks[i].long() {
			weights[i] *= byRegion / max(own, 1e-300)
		}
	}
	return weights
}
