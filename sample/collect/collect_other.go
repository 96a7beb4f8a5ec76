//go:build !linux

package collect

import (
	"context"
	"runtime"

	"backfeed/sample"
)

var unavailable = &Unavailable{
	Why: "recording needs Linux, this is " + runtime.GOOS,
	Fix: "Record on a Linux machine, or bring a perf.data or pprof file",
}

// Record returns an *Unavailable error: this system has no perf events.
func Record(context.Context, Options) (*sample.Recording, *Stats, error) {
	return nil, nil, unavailable
}

// Probe reports which events can be sampled here: none.
func Probe() ([]Attempt, error) { return nil, unavailable }

// Alive reports whether a process has not ended yet: of what cannot be recorded nobody
// asks.
func Alive(int) bool { return false }
