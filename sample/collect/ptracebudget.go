package collect

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A traceBudget keeps what sampling by ptrace costs below a share of one processor, or of the processor time of
// the program if that is more: the own time of the tracer, and the time for which it stops threads.
type traceBudget struct {
	share  float64
	idle   float64       // the least processors that the program is taken to use; 0 is one
	differ bool          // stops are of very different lengths: all of them count as they are
	most   time.Duration // the longest time between two looks; 0 is maxTracePeriod

	stops   []time.Duration // of this window: from when the tracer knew that a thread had stopped until it went on
	extra   time.Duration   // of this window: what threads lost otherwise
	both    time.Duration   // of this window: own time while a thread stood for that, which counts once
	shared  time.Duration   // likewise, of all windows
	reach   time.Duration   // the least time from asking until the tracer knew; 0 if there was no stop
	stopped time.Duration   // so far
	looks   int             // of this window
	perLook time.Duration   // cost of a look with all that follows from it, a moving average

	first        int           // looks in the window after this one, while the cost is new; 0 is traceFirst
	at           time.Time     // begin of this window
	own, program time.Duration // then

	windows int           // so far
	began   time.Time     // of the first one
	begun   time.Duration // own then
}

const (
	// traceWindow is how often the rate is set. At first, it is after traceFirst looks, twice as many, and so
	// on up to traceLast, lest the start of a program has many more samples than the rest.
	traceWindow           = 100 * time.Millisecond
	traceFirst, traceLast = 4, 128
	// traceNews is the weight of a window in the moving average, a tenth of it where stops differ.
	traceNews = 0.3
	// maxTracePeriod is the longest time between two looks.
	maxTracePeriod = 100 * time.Millisecond
)

// stop takes in a stop, by when it was asked for, when the tracer knew of it, and when the thread went on. Threads
// that waited for a processor before were not held up by us, and a tracer that was itself made to wait is rare:
// the least of the one time and the median of the other leave that out.
func (b *traceBudget) stop(asked, knew, went time.Time) {
	if reach := knew.Sub(asked); b.reach == 0 || reach < b.reach {
		b.reach = reach
	}
	b.stops = append(b.stops, went.Sub(knew))
}

// took takes in processor time that a thread lost but by a stop.
func (b *traceBudget) took(d time.Duration) { b.extra += d }

// worked takes in that the tracer worked for so long while a thread stood for it.
func (b *traceBudget) worked(d time.Duration) { b.both += d }

// due reports whether a window is over; looks are counted by it.
func (b *traceBudget) due(now time.Time) bool {
	b.looks++
	if b.first = max(b.first, traceFirst); b.first < traceLast && b.looks >= b.first {
		return true
	}
	return now.Sub(b.at) >= traceWindow
}

// spent takes in a window and returns the mean time between two looks that keeps the share. own is the
// tracer's processor time, program that of the program, each since it began.
func (b *traceBudget) spent(now time.Time, own, program, period time.Duration) time.Duration {
	stopped := time.Duration(0)
	if n := len(b.stops); n > 0 {
		if b.differ {
			for _, d := range b.stops {
				stopped += b.reach + d
			}
		} else {
			slices.Sort(b.stops)
			stopped = time.Duration(n) * (b.reach + b.stops[n/2])
		}
	}
	stopped += b.extra
	b.extra = 0
	if b.began.IsZero() {
		b.began, b.begun = b.at, b.own
	}
	cost := (own - b.own + stopped - b.both) / time.Duration(max(1, b.looks))
	if b.first < traceLast { // the start of a program is not like the rest
		b.perLook = cost
		b.first *= 2
	}
	news := traceNews
	if b.windows++; b.differ {
		news = max(1/float64(b.windows), traceNews/10)
	}
	b.perLook += time.Duration(news * float64(cost-b.perLook))
	b.stopped += stopped
	b.shared += b.both
	b.both = 0
	wall := now.Sub(b.at)
	// Where it may be less than one, what the program used of late is known to a few looks.
	processors := max(cmp.Or(b.idle, 1), (program-b.program).Seconds()/wall.Seconds(), program.Seconds()/max(now.Sub(b.began), wall).Seconds())
	b.stops, b.looks, b.at, b.own, b.program = b.stops[:0], 0, now, own, program
	interval := float64(b.perLook) / (b.share * processors)
	if b.differ { // and the dear ones come as they like: what was spent too much is saved again
		const power, most = 4, 64
		all := (own - b.begun + b.stopped - b.shared).Seconds() / (b.share * max(cmp.Or(b.idle, 1)*now.Sub(b.began).Seconds(), program.Seconds()))
		interval *= min(max(1, math.Pow(all, power)), most)
	}
	return min(max(period, time.Duration(interval)), max(period, cmp.Or(b.most, maxTracePeriod)))
}
