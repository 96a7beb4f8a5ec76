//go:build !linux

package collect

import "os"

// A Held is a process on Linux that stands before its first instruction.
type Held struct{}

// StartHeld returns an *Unavailable error.
func StartHeld(Options) (*Held, error) { return nil, unavailable }

// PID is never reached: there is no Held.
func (*Held) PID() int { return 0 }

// Release is never reached.
func (*Held) Release() error { return unavailable }

// Ended is never reached.
func (*Held) Ended() <-chan struct{} { return nil }

// State is never reached.
func (*Held) State() *os.ProcessState { return nil }

// Stop is never reached.
func (*Held) Stop() {}
