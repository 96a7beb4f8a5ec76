//go:build amd64 || arm64

package collect

import (
	"errors"
	"time"
)

const (
	calibrateFor  = 100 * time.Millisecond
	calibrateRate = 4999 // Hz
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
	d, enough := medianGap(gaps, TimerRate(calibrateRate))
	if !enough {
		return 0, errors.New("too few samples in a tenth of a second: this machine is too busy to calibrate")
	}
	return d, nil
}
