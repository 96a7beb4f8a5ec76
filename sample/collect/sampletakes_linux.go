package collect

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	takesFor  = 40 * time.Millisecond
	takesRate = 4999 // Hz
	// A gap shorter than this is a look at the clock, a longer one another
	// thread's turn.
	shortestGap = 300 * time.Nanosecond
	longestGap  = 200 * time.Microsecond
)

// ownSampleTakes measures what a sample of a user's own threads takes from what it interrupts, as CalibrateCost does of all:
// the median of the gaps that a thread sees.
func ownSampleTakes() (d time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := samplerAttr(&ladder[len(ladder)-1], uint64(time.Second/takesRate), false)
	attr.Bits &^= unix.PerfBitInherit // such an event has no ring without a processor
	fd, err := open(attr, 0, -1)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	r, err := newRing(fd, samplePages, false, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := ioctlAll([]int{fd}, unix.PERF_EVENT_IOC_ENABLE); err != nil {
		return 0, err
	}
	gaps, err := gapsOf(takesFor)
	if err != nil {
		return 0, err
	}
	d, enough := medianGap(gaps, takesRate)
	if !enough {
		return 0, errors.New("too few samples: this machine is too busy to tell what they take")
	}
	return d, nil
}

// medianGap returns the median of gaps, unless these are too few, while so many samples a second were taken: then the most are of the host
// or of other threads.
func medianGap(gaps []time.Duration, rate int) (d time.Duration, enough bool) {
	if len(gaps) < rate/100 {
		return 0, false
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2], true
}

// gapsOf returns the times that the calling goroutine's thread was stopped for.
func gapsOf(d time.Duration) ([]time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return nil, err
	}
	for cpu := range len(old) * 64 {
		if old.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return nil, err
	}
	defer unix.SchedSetaffinity(0, &old)
	gaps := make([]time.Duration, 0, 1<<14)
	start := time.Now()
	for last := time.Duration(0); last < d; {
		now := time.Since(start)
		if gap := now - last; gap >= shortestGap && gap <= longestGap && len(gaps) < cap(gaps) {
			gaps = append(gaps, gap)
		}
		last = now
	}
	return gaps, nil
}
