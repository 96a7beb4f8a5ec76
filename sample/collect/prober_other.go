//go:build !linux || !(amd64 || arm64)

package collect

import (
	"time"

	"backfeed/sample/probe"
)

var noProber = Probes.unsupported()

// BecomeProber does nothing: there is no Prober.
func BecomeProber() {}

// A Prober arms probes in running programs on Linux.
type Prober struct{}

// OpenProber returns an *Unavailable error.
func OpenProber(*System) (*Prober, error) { return nil, noProber }

// TryProbes says that there are none.
func TryProbes() *Unavailable { return noProber }

// Costs is never reached: there is no Prober.
func (*Prober) Costs() []probe.Cost { return nil }

// HitCost is never reached.
func (*Prober) HitCost() time.Duration { return 0 }

// Allows is never reached.
func (*Prober) Allows([]byte, int8) error { return noProber }

// Used is never reached.
func (*Prober) Used() time.Duration { return 0 }

// Window is never reached.
func (*Prober) Window(string, []probe.Site, int, time.Duration) (*probe.Window, error) {
	return nil, noProber
}

// Close is never reached.
func (*Prober) Close() error { return nil }
