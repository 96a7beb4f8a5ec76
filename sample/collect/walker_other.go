//go:build !linux || !(amd64 || arm64)

package collect

import (
	"backfeed/sample"
	"backfeed/sample/trace"
)

var noWalks = Walks.unsupported()

// A Walker goes on from samples, on Linux, x86-64 and AArch64.
type Walker struct{}

// NewWalker returns one that never walks.
func NewWalker(*System, WalkOptions) *Walker { return &Walker{} }

// SetImages returns an *Unavailable error.
func (*Walker) SetImages([]trace.Image) error { return noWalks }

// SetCode returns an *Unavailable error.
func (*Walker) SetCode(*trace.Code, []trace.Image) error { return noWalks }

// SetShare does nothing.
func (*Walker) SetShare(float64) error { return nil }

// AddTo adds nothing.
func (*Walker) AddTo(*sample.Counts, []trace.Rate) {}

// Gather adds nothing.
func (*Walker) Gather() {}

// Left returns nothing.
func (*Walker) Left() (map[trace.Left]int, int) { return nil, 0 }

// Totals are none.
func (*Walker) Totals() (t WalkTotals) { return t }

// Close does nothing.
func (*Walker) Close() error { return nil }
