package collect

import (
	"cmp"
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
	// turnsFirst is how long turns are counted for at first, turnsLeast and turnsMost are the bounds: the longer, the less cold
	// caches matter, and the more often the loop is left meanwhile. It grows while the loop is not left.
	turnsFirst, turnsLeast, turnsMost = 4 * time.Millisecond, 400 * time.Microsecond, 8 * time.Millisecond
	turnsGrow, turnsShrink            = 1.5, 0.5
	// turnsPart is the part of that after which the thread is stopped in between, and turnsApart by what factor the turns of
	// both parts may differ. A loop that is left and begun again begins to count anew.
	turnsPart, turnsApart = 0.35, 1.5
	// mostTurnTimes is of how many loops it is known for how long they go on.
	mostTurnTimes = 4096
)

// A turnCount is one that goes on.
type turnCount struct {
	w      *LongWalker
	walk   *LongWalk
	images *walkedImages
	loop   *trace.Turning
	space  trace.Space
	within time.Duration
	stops  []turnStop // so far
}

// A turnStop is a stop while turns are counted.
type turnStop struct {
	at   trace.Turn
	used time.Duration // since the one before
}

// turn has the thread stopped again if the walk went round a loop that counts.
func (w *LongWalker) turn(a *Ahead, images *walkedImages, st *trace.State, walk *LongWalk) {
	c := &turnCount{w: w, walk: walk, images: images, loop: images.turner.Find(walk.Long, st, w.space, &w.memory)}
	if c.loop == nil {
		a.Done = func(Stretch) { c.end(TurnsNone) }
		return
	}
	c.space = append(c.space, w.space...)
	c.within = cmp.Or(images.turnTimes[c.loop.Header], turnsFirst)
	a.Again, a.Then = turnsWarm, c.stop
}

// stop takes in a stop, and returns when the next one is to be.
func (c *turnCount) stop(s *Stopped, used time.Duration) time.Duration {
	if s == nil {
		return c.end(TurnsEvent)
	}
	st, err := s.State()
	if err != nil {
		return c.end(TurnsEvent)
	}
	c.w.memory.begin(s)
	at, ok := c.images.turner.Next(c.loop, st, c.space, &c.w.memory)
	if !ok {
		return c.end(TurnsLeft)
	}
	c.stops = append(c.stops, turnStop{at, used})
	part := time.Duration(turnsPart * float64(c.within))
	switch len(c.stops) {
	case 1:
		return part
	case 2:
		return c.within - part
	}
	return c.end(c.count())
}

// count counts the turns between the stops.
func (c *turnCount) count() TurnsEnd {
	var pace [2]float64 // ns a turn
	for i := range pace {
		a, b := &c.stops[i], &c.stops[i+1]
		n, votes := c.loop.Between(a.at, b.at)
		switch {
		case b.used < turnsLeast/8:
			return TurnsShort
		case votes == 0 || n <= 0:
			return TurnsLeft
		}
		pace[i] = float64(b.used) / float64(n)
	}
	if max(pace[0], pace[1]) > turnsApart*min(pace[0], pace[1]) {
		return TurnsApart
	}
	return TurnsCounted
}

// end takes in how it ended.
func (c *turnCount) end(how TurnsEnd) time.Duration {
	t := &Turns{End: how, Loop: c.loop}
	switch how {
	case TurnsCounted:
		t.N, _ = c.loop.Between(c.stops[0].at, c.stops[2].at)
		t.Time = c.stops[1].used + c.stops[2].used
		c.lasts(turnsGrow)
	case TurnsLeft, TurnsApart:
		c.lasts(turnsShrink)
	}
	c.w.mu.Lock()
	c.w.totals.Turns[how]++
	c.w.mu.Unlock()
	if c.walk.Turned != nil {
		c.walk.Turned(t)
	}
	return 0
}

// lasts takes in for how long turns of the loop can be counted.
func (c *turnCount) lasts(times float64) {
	if at := c.images.turnTimes; len(at) < mostTurnTimes {
		at[c.loop.Header] = min(max(time.Duration(times*float64(c.within)), turnsLeast), turnsMost)
	}
}
