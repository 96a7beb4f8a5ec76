package collect

import (
	"time"

	"backfeed/sample"
)

// A System samples all that runs on this machine. Its methods may be called from
// several goroutines at once.
type System struct{}

// OpenSystem starts to sample. The error is an *Unavailable where the machine or
// the privileges of this process do not allow it.
func OpenSystem(SystemOptions) (*System, error) {
	return nil, &Unavailable{Why: "this build cannot sample the whole machine"}
}

// Drain gives what was sampled since the last Drain, put down to images.
func (s *System) Drain() (*sample.Recording, error) { return &sample.Recording{}, nil }

// SetFrequency changes the samples per second and processor.
func (s *System) SetFrequency(hz int) error { return nil }

// Counters tell what became of all samples since s was opened.
func (s *System) Counters() Counters { return Counters{} }

// Close stops sampling. Drain may be called once more, for the rest.
func (s *System) Close() error { return nil }

// CalibrateCost measures the time that one sample takes from whatever runs on
// its processor, the interrupt included.
func CalibrateCost() (time.Duration, error) { return 0, nil }
