//go:build !linux

package collect

import (
	"context"
	"runtime"
	"time"

	"backfeed/sample"
)

var unavailable = &Unavailable{
	Why: "recording needs Linux, this is " + runtime.GOOS,
	Fix: "Record on a Linux machine, or bring a perf.data or pprof file",
}

// Record gives an *Unavailable error: this system has no perf events.
func Record(context.Context, Options) (*sample.Recording, *Stats, error) {
	return nil, nil, unavailable
}

// Probe tells which ways to sample work here: none.
func Probe() ([]Attempt, error) { return nil, unavailable }

// A System samples all that runs on a Linux machine.
type System struct{}

// OpenSystem gives an *Unavailable error: this system has no perf events.
func OpenSystem(SystemOptions) (*System, error) { return nil, unavailable }

// Drain is never reached: there is no System.
func (*System) Drain() (*sample.Recording, error) { return nil, unavailable }

// SetFrequency is never reached.
func (*System) SetFrequency(int) error { return unavailable }

// Counters is never reached.
func (*System) Counters() Counters { return Counters{} }

// Close is never reached.
func (*System) Close() error { return unavailable }

// CalibrateCost gives an *Unavailable error.
func CalibrateCost() (time.Duration, error) { return 0, unavailable }
