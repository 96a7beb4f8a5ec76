//go:build !linux || !(amd64 || arm64)

package collect

import (
	"context"

	"backfeed/sample"
)

// Follow returns an *Unavailable error: it needs Linux, on x86-64 or AArch64.
func Follow(context.Context, FollowOptions) (*sample.Recording, *Stats, error) {
	return nil, nil, Ptrace.unsupported()
}

// Read reads nothing.
func (*Stopped) Read(uint64, []byte) int { return 0 }
