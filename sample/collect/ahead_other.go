//go:build !linux || !(amd64 || arm64)

package collect

import (
	"context"

	"backfeed/sample"
	"backfeed/sample/trace"
)

// A machineState is nothing here.
type machineState struct{}

var noFollowing = Ptrace.unsupported()

// Follow returns an *Unavailable error: it needs Linux, on x86-64 or AArch64.
func Follow(context.Context, FollowOptions) (*sample.Recording, *Stats, error) {
	return nil, nil, noFollowing
}

// TryLongWalks returns why there are none.
func TryLongWalks() *Unavailable { return LongWalks.unsupported() }

// CanPass reports that none is.
func CanPass() bool { return false }

// State returns an *Unavailable error.
func (*Stopped) State() (*trace.State, error) { return nil, noFollowing }

// Read reads nothing.
func (*Stopped) Read(uint64, []byte) int { return 0 }

func readParts(int, []memoryPart) int { return 0 }
