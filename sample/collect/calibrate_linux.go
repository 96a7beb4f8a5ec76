//go:build amd64 || arm64

package collect

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	calibrateFor  = 100 * time.Millisecond
	calibrateRate = 4999 // Hz
	// A gap shorter than this is a look at the clock, a longer one another
	// thread's turn.
	shortestGap = 300 * time.Nanosecond
	longestGap  = 200 * time.Microsecond
)

// CalibrateCost measures how much time a sample takes from what it interrupts:
// the median of the gaps that a thread sees which does nothing but look at the
// clock, while its processor is sampled at a high rate.
func CalibrateCost() (time.Duration, error) {
	s, err := OpenSystem(SystemOptions{Frequency: calibrateRate, Drain: time.Second})
	if err != nil {
		return 0, err
	}
	gaps, err := gapsOf(calibrateFor)
	if err = errors.Join(err, s.Close()); err != nil {
		return 0, err
	}
	// Besides samples there are the tick's interrupts, of which there are few.
	if len(gaps) < TimerRate(calibrateRate)/100 {
		return 0, errors.New("too few samples in a tenth of a second: this machine is too busy to calibrate")
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2], nil
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
