package collect

import (
	"math/rand/v2"
	"time"
)

// A pacer says when to stop sampling for a moment, so that samples keep no step
// with the program. A sampler with a fixed period that meets a program with the
// same one sees a single moment of the program's cycle: with both at 1 ms it
// reads 0 or 1 for what takes a quarter of the time.
//
// Drawing the period anew would do too, but the kernel changes it only for the
// event at hand and not for the copies that threads and children inherited
// (_perf_event_period in kernel/events/core.c), while switching off and on
// reaches them all. A stopped timer keeps what remained of its period; a pause
// thus moves the samples that follow it against the program by its own length,
// and a uniform length of up to a period makes them independent of those before.
type pacer struct {
	period time.Duration // between two samples
	step   time.Duration // a pause takes no less: see timerStep
	rand   *rand.Rand
}

const (
	// pauseEvery is the mean time between two pauses. Sampling is off for half
	// of a period each time: 1 % of the time at 997 Hz.
	pauseEvery = 50 * time.Millisecond
	// maxPause bounds a pause where the period is long: several then do what
	// one cannot.
	maxPause = 2 * time.Millisecond
	// pauseCost bounds the share of time that switching off and on may take. It
	// grows with processors and threads, to which each change must be carried.
	pauseCost = 100
	// pauseSteps bounds the share that pauses take where timers fire at ticks
	// only: each then lasts a step and a half.
	pauseSteps = 75
)

// next returns how long to sample and how long to pause after that. cost is how
// long switching off and on took the last time.
func (p *pacer) next(cost time.Duration) (run, pause time.Duration) {
	every := max(pauseEvery, pauseCost*cost, pauseSteps*p.step)
	run = every/2 + time.Duration(p.rand.Int64N(int64(every)))
	pause = time.Duration(p.rand.Int64N(int64(max(1, min(p.period, maxPause)))))
	return run, pause
}
