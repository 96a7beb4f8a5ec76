//go:build !linux || !(amd64 || arm64)

package collect

import (
	"runtime"
	"time"

	"backfeed/sample"
)

var noSystem = &Unavailable{
	Why: "sampling a whole machine needs Linux on amd64 or arm64, this is " + runtime.GOOS + " on " + runtime.GOARCH,
}

// A System samples all that runs on a Linux machine.
type System struct{}

// OpenSystem gives an *Unavailable error.
func OpenSystem(SystemOptions) (*System, error) { return nil, noSystem }

// Drain is never reached: there is no System.
func (*System) Drain() (*sample.Recording, error) { return nil, noSystem }

// SetFrequency is never reached.
func (*System) SetFrequency(int) error { return noSystem }

// Counters is never reached.
func (*System) Counters() Counters { return Counters{} }

// Close is never reached.
func (*System) Close() error { return noSystem }

// CalibrateCost gives an *Unavailable error.
func CalibrateCost() (time.Duration, error) { return 0, noSystem }
