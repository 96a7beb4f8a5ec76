package collect

import (
	"time"

	"backfeed/sample"
)

// A returnMeter measures how long system calls hold a timer's interrupts up as they return: with the first clock, and once more.
type returnMeter struct {
	seen  returnsSeen
	times int // that it was measured
	next  time.Time
}

const (
	heldEvery = 10 * time.Second // so often, for heldFor each
	heldTimes = 2                // and so many times in all
)

// measure measures it, if that is of matter for samples of e, and it is time to. It takes heldFor.
func (m *returnMeter) measure(e sample.Event) {
	if now := time.Now(); m.times < heldTimes && now.After(m.next) && e.OfTimer() {
		m.next = now.Add(heldEvery)
		m.times++
		m.seen.add(measureHeld())
	}
}

// tell says it of c.
func (m *returnMeter) tell(c *sample.Counts) {
	if c.Event.OfTimer() {
		c.Returns, c.Held = m.seen.cycles()
	}
}

// A returnsSeen is what was seen of how system calls hold a timer's interrupts up as they return.
type returnsSeen struct {
	calls       int // before each of which there were callLength additions, each of a cycle
	held, added int // samples at the returns and at the additions
}

const (
	callLength = 512
	leastSeen  = 20 // samples that tell anything
)

func (s *returnsSeen) add(o returnsSeen) {
	s.calls, s.held, s.added = s.calls+o.calls, s.held+o.held, s.added+o.added
}

// cycles returns the calls, and the cycles that interrupts were held up for in all of them; 0 if that is not known.
func (s *returnsSeen) cycles() (calls, held uint64) {
	if s.added == 0 || s.added+s.held < leastSeen {
		return 0, 0
	}
	return uint64(s.calls), uint64(callLength * float64(s.calls) * float64(s.held) / float64(s.added))
}
