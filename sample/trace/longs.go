package trace

import (
	"cmp"
	"slices"
)

// Long walks lead from one part of a program to another, which short ones don't: of those of 50,000 instructions, as
// many that begin in a loop may end in another one. They are weighed as short ones are, by where they begin, and
// what they pass through is kept in sums, but for a head of it, which tells how slow the code is where they begin.

// A viaTimes is what a long walk passed through, and how often.
type viaTimes struct {
	via
	times uint32
}

const (
	// headSteps are the instructions of a long walk that are kept one by one: as many as short walks have.
	headSteps = 512
	// tailBranches are the last branches of a long walk, enough for loopOf.
	tailBranches = 64
)

// AddLong adds what a long walk saw, as one of a batch; batches go up. What comes after a guess is left out, and a walk with
// one tells nothing by where it ended.
func (w *Walks) AddLong(l *Long, batch int) {
	if l.End == EndStart || l.Start == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	c := l.m.code
	s := seenWalk{batch: batch, steps: int32(l.Steps), end: -1}
	var steps []Step
	var insts uint64
	times := map[via]uint32{}
	tail := make([]via, 0, 2*tailBranches)
	guessed := false
	l.Branches(func(step int, b Branch) bool {
		if guessed = b.Guessed; guessed {
			s.steps = int32(step)
			return false
		}
		at := w.placeOf(c, b.Op, target{}) * viaPlace
		if b.Taken {
			at |= viaTaken
			if w.keeps {
				steps, insts = append(steps, Step{b.Op, b.To}), uint64(step)+1
			}
		}
		if len(tail) == cap(tail) {
			tail = append(tail[:0], tail[tailBranches:]...)
		}
		tail = append(tail, at)
		saw := func(at via) {
			if step < headSteps {
				s.at = append(s.at, at)
			} else {
				times[at]++
			}
		}
		saw(at)
		switch {
		case !c.leads(b.Op, b.To):
		case b.To != 0:
			saw(w.placeOf(c, b.Op, c.targetAt(b.To))*viaPlace | viaTaken | viaTarget)
		case l.End == EndOutside:
			saw(w.placeOf(c, b.Op, target{known: true})*viaPlace | viaTaken | viaTarget)
		}
		return true
	})
	s.head = min(s.steps, headSteps)
	if w.keeps {
		w.keep(c, steps, insts, nil)
	}
	for at, n := range times {
		s.rest = append(s.rest, viaTimes{at, n})
	}
	slices.SortFunc(s.rest, func(a, b viaTimes) int { return cmp.Compare(a.via, b.via) })
	s.start = w.spotOf(c, l.Start, loopOf(slices.Values(s.at)))
	if l.End == EndLength && !guessed {
		s.end = w.spotOf(c, l.Last, loopOf(backward(tail)))
	}
	w.saw(s)
}
