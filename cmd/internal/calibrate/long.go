package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/replay"
	"backfeed/sample/trace"
)

// LongAlone is how long walks sample the processes that they walk in.
type LongAlone struct {
	Frequency int
	MaxCPU    float64 // of samples
}

// leastProcessors are those that a program is taken to use at least: what it costs to look whether it runs is little.
const leastProcessors = 0.02

// longWalks are those of a Calibrator that begin in the processes that it is to probe. Methods of nil do nothing.
type longWalks struct {
	walker *collect.LongWalker
	own    *collect.OwnSampler // nil if they did not begin, or ended
	stats  *collect.Stats
	err    error // why there are none

	model *replay.Model
	walks int
	ready atomic.Bool // there is code to walk through

	alone   bool          // they are what samples
	passing bool          // threads are held while they stop, and no longer
	done    atomic.Bool   // they ended, before the recording or with it
	beside  time.Duration // what the tracer took beside walks
	early   bool          // ended before the recording
}

// replayEvery is how many walks one goes through models of predictors and caches for. That takes about as long as a walk,
// some 1 ms, so a third of the time of long walks is for it.
const replayEvery = 2

// replays reports whether the next walk goes through the model.
func (l *longWalks) replays() bool {
	l.walks++
	return l.walks%replayEvery == 1
}

// count is how many walks there were.
func (l *longWalks) count() uint64 {
	if l == nil {
		return 0
	}
	return uint64(l.walks)
}

// walked takes in a walk.
func (l *longWalks) walked(k *Calibrator, w *collect.LongWalk) {
	id := k.seen.AddLong(w.Long, int(time.Since(k.began)/trace.BatchTime))
	w.Turned = func(t *collect.Turns) {
		if t.End == collect.TurnsCounted {
			k.seen.Time(id, t.Speed())
		}
	}
	if w.Accesses {
		l.model.Walk(w.Code, w.Long)
	}
}

// addTo adds what models made of walks.
func (l *longWalks) addTo(c *sample.Counts) {
	if l != nil {
		l.model.AddTo(c)
	}
}

// forget begins anew.
func (l *longWalks) forget() {
	if l != nil {
		l.model.Forget()
	}
}

// newLongWalks returns nil if there are none, as of a whole machine.
func newLongWalks(k *Calibrator) (*longWalks, error) {
	if k.opt.Dry || len(k.opt.PIDs) == 0 {
		return nil, errors.New("long walks are of a command or of processes")
	}
	if u := collect.TryLongWalks(); u != nil {
		return nil, u
	}
	return &longWalks{model: replay.New()}, nil
}

// Alone reports whether long walks can be all that there is.
func Alone(opt Options) bool {
	return !opt.Dry && len(opt.PIDs) > 0 && collect.TryLongWalks() == nil
}

// Release lets what is to be calibrated go, and has long walks begin in it, if nothing else comes first.
func (k *Calibrator) Release(held *collect.Held) error {
	if k.mayBeginLong() {
		k.long.begin(k, held)
	}
	return held.Release() // unless that was done
}

// roomForLong is how much room there is where long walks begin beside those in the kernel: a third of it is for some tens of them, and for what
// their tracer takes beside. Of a minute of SQLite at 1 %, it took 34 ms of the 250 that were left for walks, for five long ones.
const roomForLong = time.Second

// mayBeginLong reports whether long walks may begin: not before those in the kernel have what they need, which tell more for their
// time, unless a tracer has to be there from the start.
func (k *Calibrator) mayBeginLong() bool {
	switch {
	case k.long == nil || k.long.walker != nil:
		return false
	case k.walkless.Load() || !collect.CanPass():
		return true
	}
	return k.inKernel.Load() && (k.kernelWalks().Walks >= enoughWalks || k.budget.roomy(roomForLong))
}

// beginLong has long walks begin that had to wait.
func (k *Calibrator) beginLong() {
	k.long.begin(k, nil)
	k.long.setCode(k.code)
}

// begin begins them, and lets held go, if it is not nil.
func (l *longWalks) begin(k *Calibrator, held *collect.Held) {
	if l == nil || l.walker != nil {
		return
	}
	pids := k.opt.PIDs
	if held == nil {
		pids = slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return !collect.Alive(pid) })
	}
	if len(pids) == 0 && k.opt.Alone == nil {
		return // all have ended since
	}
	opt := collect.LongWalkOptions{
		Options:  collect.Options{PIDs: pids, Held: held, MaxCPU: k.opt.Budget},
		Pace:     func() float64 { return math.Float64frombits(k.pace.Load()) },
		Untimed:  true,
		Turns:    true,
		Idle:     leastProcessors,
		Passing:  true,
		Accesses: l.replays,
		Walked:   func(w *collect.LongWalk) { l.walked(k, w) },
	}
	if a := k.opt.Alone; a != nil {
		opt.Frequency, opt.MaxCPU, opt.Share = a.Frequency, a.MaxCPU, k.opt.Budget
		opt.Passing = false // samples are of all threads
		l.alone = true
	} else {
		opt.Busy = k.processors
	}
	if l.passing = opt.Passing && collect.CanPass(); l.passing {
		opt.Held = nil // it is let go as if nobody traced it
	} else if held != nil {
		opt.PIDs = nil
	}
	l.walker = collect.NewLongWalker(opt)
	l.own, l.err = l.walker.Open()
}

// What a tracer takes beside walks, as each signal and each new thread of a program stops for one that does not pass, may be tracedShare of
// the budget, and freeTime: of a Go program with a collector of garbage at work, it was 5 % of the processor time. Beside walks in the kernel, it
// may be besideShare: of a shell that starts SQLite again and again, it was 82 ms of a minute at 1 %, in which there were 3 long walks
// and 2671 others.
const tracedShare, besideShare, freeTime = 0.2, 0.07, 20 * time.Millisecond

// endIfDear ends long walks that take too much of a budget, in ns, beside walks. Where they sample, they go on. Others is whether there
// are walks in the kernel, or will be.
func (l *longWalks) endIfDear(budget float64, others bool) {
	if l == nil || l.own == nil || l.alone || l.done.Load() {
		return
	}
	share := tracedShare
	if others {
		share = besideShare
	}
	if l.beside = l.own.Used() - l.walker.Totals().Time; float64(l.beside-freeTime) > share*budget {
		l.stop()
		l.early = true
	}
}

// stop ends them.
func (l *longWalks) stop() {
	if l == nil || l.own == nil || l.done.Load() {
		return
	}
	l.done.Store(true)
	l.ready.Store(false)
	l.err = l.own.Close()
	l.stats = l.own.Stats()
}

// setCode has them go through code; nil is none yet.
func (l *longWalks) setCode(code *walksCode) {
	if l != nil && l.walker != nil && code != nil {
		l.walker.SetCode(code.table, code.images)
		l.ready.Store(len(code.images) > 0 && !l.done.Load())
	}
}

// left returns how many long walks, of so many, left the code that they know, by where they went on to.
func (l *longWalks) left(k *Calibrator) (left map[trace.Left]int, walks int) {
	if l == nil || l.walker == nil {
		return nil, 0
	}
	at, walks := l.walker.Left()
	left = map[trace.Left]int{}
	addrs := map[sample.ImageID]func(sample.Offset) (image.Addr, bool){}
	for a, n := range at {
		id := a.ID.Key()
		if addrs[id] == nil {
			addrs[id] = func(sample.Offset) (image.Addr, bool) { return 0, false }
			if pi := k.images[id]; pi != nil && pi.err == nil {
				addrs[id] = pi.im.AddrOf
			}
		}
		if addr, ok := addrs[id](a.Off); ok {
			left[trace.Left{ID: id, Addr: uint64(addr)}] += n
		}
	}
	return left, walks
}

// tell says what they did, and what that cost.
func (l *longWalks) tell(k *Calibrator) {
	if l == nil || l.walker == nil {
		return
	}
	if u := (*collect.Unavailable)(nil); errors.As(l.err, &u) {
		k.opt.Notify.Warn("--calibrate: no long walks: %s", u.Reason())
		return
	} else if l.err != nil {
		k.opt.Notify.Warn("--calibrate: long walks: %v", l.err)
	}
	if l.early {
		why := "the program's signals and new threads, at which it stops for them"
		if l.passing {
			why = "to look for threads that run"
		}
		k.opt.Notify.Warn("long walks ended before the recording: %s, took %v beside them", why, l.beside.Round(time.Millisecond))
	}
	t := l.walker.Totals()
	if l.stats == nil || t.Walks == 0 {
		return
	}
	if n := t.Turns[collect.TurnsCounted]; n > 0 {
		k.opt.Notify.Warn("of long walks, %s tell by the turns of a loop how fast the program was; of others, %s", report.Share(n, t.Walks), notCounted(&t.Turns))
	}
	traced, followed := l.stats.Traced, l.stats.Followed
	k.opt.Notify.Warn("%d long walks of %.0f instructions took %v: threads stood for %v, half of them for less than %v, one for %v; %s reached their full length",
		t.Walks, float64(t.Steps)/float64(t.Walks), traced.Cost().Round(time.Millisecond), traced.Stopped.Round(time.Millisecond), followed.Median.Round(10*time.Microsecond), followed.Longest.Round(10*time.Microsecond), report.Share(t.Ends[trace.EndLength]-t.Late, t.Walks))
}

// notCounted says what became of counting turns where it told nothing.
func notCounted(ends *[collect.TurnsEnds]uint64) string {
	var why []string
	for end, n := range ends {
		if n > 0 && collect.TurnsEnd(end) != collect.TurnsCounted {
			why = append(why, fmt.Sprintf("%d %s", n, collect.TurnsEnd(end)))
		}
	}
	return cmp.Or(strings.Join(why, ", "), "there are none")
}
