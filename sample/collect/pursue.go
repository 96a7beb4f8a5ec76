package collect

import (
	"runtime"
	"time"

	"backfeed/sample/trace"
)

// A pursuit tells how fast a thread went on after a walk that went round no loop that counts: it is stopped again at three
// moments, and emulated from each to the next when it has gone on.
//
// A stop costs the thread some 20 us beside itself, as branch predictors and caches are not what they were. Each stretch begins with that, so
// what the longer one has more than the shorter one is free of it: fib of testdata/programs runs 8.2 instructions a ns, and by what stretches
// of 40 and 140 us, 60 and 200 us and 100 and 300 us differ by 7.8, 7.9 and 8.4 to 9.3, on two processors with a load of 14.
type pursuit struct {
	w       *LongWalker
	walk    *LongWalk
	code    *trace.Code
	space   trace.Space
	pages   []uint64
	moments []*trace.Moment
	used    []time.Duration // of processor before each, from the one before

	now   time.Duration // likewise, since the last one
	again int           // stops since then that came too soon
}

const (
	// pursuitWarm is when the first moment is: caches are colder after a walk than after a stop.
	pursuitWarm = 150 * time.Microsecond
	// mostPursued is how many pages of memory a walk may touch for it to be pursued: they are read at each moment, in some 0.5 us each.
	mostPursued = 48
	// longestPursuit is the most processor time between the first and the last moment: a thread that is stopped too late, on a busy machine,
	// is not pursued. fastest is how many instructions a ns no thread exceeds: one that is not where emulation comes to is emulated for so
	// many, at 20 to 70 million a second.
	longestPursuit, fastest = 500 * time.Microsecond, 16
	// pursuits take up to pursuitPart times what walks do, as walks of the kernel tell where branches go, and nothing else how often
	// where they succeed: with as much as walks, one of two was told in 17 s of fib at 10 %, which is too few, and with twice that two to seven. firstPursuit
	// is what one is thought to take: 1.5 million instructions.
	pursuitPart, firstPursuit = 2, 40 * time.Millisecond
)

// pursuitStretches are the times between moments.
var pursuitStretches = [...]time.Duration{40 * time.Microsecond, 150 * time.Microsecond}

// pursue returns a pursuit of the thread that stands after a walk; nil if there is none, and why.
func (w *LongWalker) pursue(images *walkedImages, walk *LongWalk) (*pursuit, TurnsEnd) {
	pages := walk.Long.TouchedPages(mostPursued)
	if len(pages) == 0 {
		return nil, TurnsNone
	}
	if !w.mayPursue() {
		return nil, TurnsSkipped
	}
	p := &pursuit{w: w, walk: walk, code: images.code, pages: pages}
	p.space = append(p.space, w.space...)
	return p, TurnsCounted
}

// mayPursue reports whether there is time for a pursuit, and none under way.
func (w *LongWalker) mayPursue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	took := firstPursuit
	if w.pursuits > 0 {
		took = w.totals.Pursued / time.Duration(w.pursuits)
	}
	return !w.pursuing && w.totals.Pursued+took <= pursuitPart*(w.totals.Time+firstPursuit)
}

// stop takes in a moment, and returns when the next one is to be; 0 is never.
func (p *pursuit) stop(s *Stopped, used time.Duration) time.Duration {
	if s == nil {
		return p.end(&Turns{End: TurnsEvent})
	}
	st, err := s.State()
	if err != nil {
		return p.end(&Turns{End: TurnsEvent})
	}
	n := len(p.moments)
	if p.now += used; n > 0 && p.now < pursuitStretches[n-1]/2 && p.again < turnsAgain {
		p.again++ // it waited for a processor
		return pursuitStretches[n-1]
	}
	p.w.memory.begin(s)
	p.moments, p.used = append(p.moments, trace.NewMoment(st, p.pages, &p.w.memory)), append(p.used, p.now)
	p.now, p.again = 0, 0
	if n < len(pursuitStretches) {
		return pursuitStretches[n]
	}
	switch more := p.used[2] - p.used[1]; {
	case p.used[1]+p.used[2] > longestPursuit:
		return p.end(&Turns{End: TurnsSkipped})
	case max(more, -more) < pursuitStretches[0]:
		return p.end(&Turns{End: TurnsShort})
	}
	p.w.mu.Lock()
	p.w.pursuing = true
	p.w.mu.Unlock()
	p.w.background.Go(p.count)
	return 0
}

// count emulates the thread from moment to moment, on a thread of its own.
func (p *pursuit) count() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	counts := trace.NewPursuer(p.code).Count(p.moments, p.space, fastest*int(p.used[1]+p.used[2]))
	t := &Turns{End: TurnsLost}
	if len(counts) == 2 {
		n, more := counts[1]-counts[0], p.used[2]-p.used[1]
		if more < 0 {
			n, more = -n, -more
		}
		if n > 0 {
			t = &Turns{End: TurnsPursued, Insts: int64(n), Time: more}
		}
	}
	w := p.w
	w.mu.Lock()
	w.totals.Pursued += threadTime() - before
	w.pursuits++
	w.pursuing = false
	w.mu.Unlock()
	p.end(t)
}

// end says how it ended.
func (p *pursuit) end(t *Turns) time.Duration {
	p.w.turned(p.walk, t)
	return 0
}
