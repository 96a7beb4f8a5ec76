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

// TimerRate is how often a timer samples that is asked for hz samples a second: nothing samples here.
func TimerRate(hz int) int { return hz }

// SlowTimers says why TimerRate is less than hz.
func SlowTimers(int) *Unavailable { return nil }

// Privileged is of no concern where nothing is recorded.
func Privileged(string) string { return "" }

// Alive reports whether a process has not ended yet: of what cannot be recorded nobody
// asks.
func Alive(int) bool { return false }
