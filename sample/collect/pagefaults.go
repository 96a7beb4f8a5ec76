package collect

import (
	"math"
	"time"

	"backfeed/sample"
)

// Where a page fault takes long, samples of a timer pile up at the instructions that fault: on a guest of PVM, whose host looks at each
// change of page tables, that is 14 us, all of it sampled there as the kernel holds interrupts up, and half of the samples of a Python that does nothing are there.
// They say nothing of how often code runs. So there faults are sampled beside the timer, each of them, in windows with pauses between that are
// the longer the more faults there are: about as many as will do to tell where the timer's samples are of faults.
const (
	faultTries  = 32 // pages that are touched to find out
	faultWindow = 5 * time.Millisecond
	faultRate   = 4 // samples of faults for each of the timer, at most, beside those of the first window
	faultPause  = 2 * time.Second
)

// faultPauseAfter is how long to look away after a window in which there were so many faults, where hz are the timer's
// samples in a second: on average, for u from 0 to 1; 0 is not at all.
func faultPauseAfter(window time.Duration, faults uint64, hz int, u float64) time.Duration {
	wanted := faultRate * float64(hz) * window.Seconds()
	pause := float64(window) * (float64(faults)/wanted - 1) * (0.5 + u)
	if pause < float64(window)/4 {
		return 0
	}
	return time.Duration(math.Min(pause, float64(faultPause)))
}

// standFor returns what the faults of a window stand for, as there was a pause after it: both in processor time of what is sampled.
func standFor(faults uint64, window, pause time.Duration) float64 {
	if window <= 0 {
		return float64(faults)
	}
	return float64(faults) * (1 + max(0, pause.Seconds())/window.Seconds())
}

// dearFault is the time of a page fault from which they are looked at: of 0.1 to 1 us, as is usual, they take the kernel most. Tests change it.
var dearFault = 3 * time.Microsecond

// addFaults adds to c the faults that were sampled, which stand for so many. Those of images without samples say nothing.
func addFaults(c, faults *sample.Counts, of float64) {
	n := faults.Delivered()
	if n == 0 || !(of > 0) {
		return
	}
	images := map[sample.ImageID]int{}
	for i, ic := range c.Images {
		images[ic.ID.Key()] = i
	}
	rec := &sample.Recording{Counts: []*sample.Counts{faults}}
	for _, all := range rec.Scale(of / float64(n)).Counts {
		for _, ic := range all.Images {
			i, sampled := images[ic.ID.Key()]
			if !sampled {
				continue
			}
			for off, n := range ic.At {
				c.AddFaults(i, off, n)
			}
		}
	}
}
