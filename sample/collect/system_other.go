//go:build !linux || !(amd64 || arm64)

package collect

import (
	"time"

	"backfeed/sample"
	"backfeed/sample/probe"
)

var noSystem = WholeMachine.unsupported()

// A System samples all that runs on a Linux machine.
type System struct{}

// OpenSystem returns an *Unavailable error.
func OpenSystem(SystemOptions) (*System, error) { return nil, noSystem }

// Drain is never reached: there is no System.
func (*System) Drain() (*sample.Recording, error) { return nil, noSystem }

// Moments is never reached.
func (*System) Moments() []probe.Moments { return nil }

// Used is never reached.
func (*System) Used() time.Duration { return 0 }

// SetFrequency is never reached.
func (*System) SetFrequency(int) error { return noSystem }

// Timer is never reached.
func (*System) Timer() bool { return false }

// Without is never reached.
func (*System) Without() []*Unavailable { return nil }

// Counters is never reached.
func (*System) Counters() Counters { return Counters{} }

// Halt is never reached.
func (*System) Halt() error { return noSystem }

// StopOffCPU is never reached.
func (*System) StopOffCPU() error { return noSystem }

// Close is never reached.
func (*System) Close() error { return noSystem }

// CalibrateCost returns an *Unavailable error.
func CalibrateCost() (time.Duration, error) { return 0, noSystem }
