package collect

import (
	"time"

	"backfeed/sample/trace"
)

// Turns tell how fast a thread went on after a walk that went round a loop: it is stopped again twice, and what the loop counts
// by says how many turns it made in between.
type Turns struct {
	End  TurnsEnd
	Loop *trace.Turning // nil after TurnsNone
	N    int64          // turns; meaningful after TurnsCounted, as is what follows
	Time time.Duration  // of processor that they took
}

// Speed is how fast the thread was, in instructions per ns.
func (t *Turns) Speed() float64 {
	return float64(t.N) * float64(t.Loop.Insts) / float64(t.Loop.Seen) / float64(t.Time)
}

// A TurnsEnd is what became of counting turns.
type TurnsEnd uint8

// How counting turns ended.
const (
	TurnsCounted TurnsEnd = iota
	TurnsNone             // the walk went round no loop that counts
	TurnsLeft             // the thread was no longer in the loop
	TurnsApart            // two stretches of time differ: the loop was left and begun again, or it changed
	TurnsEvent            // the thread ended, slept or was in the kernel
	TurnsShort            // it hardly ran
	TurnsEnds
)

func (e TurnsEnd) String() string {
	return [TurnsEnds]string{"counted", "went round no loop that counts", "left their loop", "differed from one moment to the next", "slept, ended or were in the kernel", "hardly ran"}[e]
}

const (
	// turnsWarm is when the thread is stopped first: caches and what translates addresses are cold after a walk. A pointer
	// chase over 64 MB takes 340 ns a step in the first 0.3 ms, 260 in the 1 ms after that and 215 after that.
	turnsWarm = 500 * time.Microsecond
	// turnsShort is the least processor time between two stops. A stop takes some us of it.
	turnsShort = 100 * time.Microsecond
	// turnsAgain is how often a thread is stopped once more that has not had so much.
	turnsAgain = 4
	// turnsApart is by what factor the time of a turn may change from one stop to the next. A loop that is left and begun again
	// begins to count anew, and seems slow for that.
	turnsApart = 2
	// leastStretches are as many as have to agree. If there are more, the first is left out: caches are warmest after it.
	leastStretches = 2
)

// turnsStretches are the times from one stop to the next. The longer, the less cold caches matter, and the more often the loop
// is left meanwhile; what came before that counts.
var turnsStretches = [...]time.Duration{400 * time.Microsecond, 600 * time.Microsecond, 1200 * time.Microsecond, 2400 * time.Microsecond, 4 * time.Millisecond}

// A turnCount is one that goes on.
type turnCount struct {
	w      *LongWalker
	walk   *LongWalk
	turner *trace.Turner
	loop   *trace.Turning
	space  trace.Space
	stops  []turnStop // so far

	used  time.Duration // of processor since the last of these
	again int           // stops since then that came too soon
}

// A turnStop is a stop while turns are counted.
type turnStop struct {
	at   trace.Turn
	n    int64         // turns since the one before
	used time.Duration // likewise, of processor
}

// pace is the time of a turn, in ns.
func (s *turnStop) pace() float64 { return float64(s.used) / float64(s.n) }

// turn has the thread stopped again if the walk went round a loop that counts.
func (w *LongWalker) turn(a *Ahead, images *walkedImages, s *Stopped, st *trace.State, walk *LongWalk) {
	c := &turnCount{w: w, walk: walk, turner: images.turner, loop: images.turner.Find(walk.Long, st, w.space, stoppedMemory{s})}
	if c.loop == nil {
		a.Done = func(Stretch) { c.end(TurnsNone) }
		return
	}
	c.space = append(c.space, w.space...)
	a.Again, a.Then = turnsWarm, c.stop
}

// stop takes in a stop, and returns when the next one is to be; 0 is never.
func (c *turnCount) stop(s *Stopped, used time.Duration) time.Duration {
	if s == nil {
		return c.end(TurnsEvent)
	}
	st, err := s.State()
	if err != nil {
		return c.end(TurnsEvent)
	}
	at, ok := c.turner.Next(c.loop, st, c.space, stoppedMemory{s})
	if !ok {
		return c.end(TurnsLeft)
	}
	n := len(c.stops)
	if c.used += used; n > 0 && c.used < turnsShort && c.again < turnsAgain {
		c.again++ // it waited for a processor
		return turnsStretches[n-1]
	}
	now := turnStop{at: at, used: c.used}
	c.used, c.again = 0, 0
	if n > 0 {
		if why := c.follows(&now); why != TurnsCounted {
			return c.end(why)
		}
	}
	if c.stops = append(c.stops, now); n == len(turnsStretches) {
		return c.end(TurnsCounted)
	}
	return turnsStretches[n]
}

// follows finds how many turns there were since the last stop. It returns why that is not known, or TurnsCounted.
func (c *turnCount) follows(now *turnStop) TurnsEnd {
	if now.used < turnsShort {
		return TurnsShort
	}
	var votes int
	if now.n, votes = c.loop.Between(c.stops[len(c.stops)-1].at, now.at); votes == 0 || now.n <= 0 {
		return TurnsLeft
	}
	if n := len(c.stops); n > 1 {
		if was, is := c.stops[n-1].pace(), now.pace(); max(was, is) > turnsApart*min(was, is) {
			return TurnsApart
		}
	}
	return TurnsCounted
}

// end takes in why it ended, and says what was counted until then.
func (c *turnCount) end(how TurnsEnd) time.Duration {
	t := &Turns{End: how, Loop: c.loop}
	if n := len(c.stops) - 1; n >= leastStretches {
		t.End = TurnsCounted
		for i := range c.stops[1:] {
			if s := &c.stops[1+i]; i > 0 || n == leastStretches {
				t.N, t.Time = t.N+s.n, t.Time+s.used
			}
		}
	} else if how == TurnsCounted {
		t.End = TurnsLeft
	}
	c.w.mu.Lock()
	c.w.totals.Turns[t.End]++
	c.w.mu.Unlock()
	if c.walk.Turned != nil {
		c.walk.Turned(t)
	}
	return 0
}
