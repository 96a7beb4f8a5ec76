package collect

import (
	"time"

	"backfeed/sample/trace"
)

// WalkOptions bound what a Walker does.
type WalkOptions struct {
	Share float64 // of the processor time of what is sampled, that walks may take
	Paths bool    // a sample of the paths that walks took is kept
	Known bool    // walks end where it is not known whether a branch is taken

	Seen *trace.Walks // what walks saw is added to it; nil is one of the Walker's own
}

// mostGuesses is of how many branches a walk may guess whether they are taken. What floating-point
// numbers say is not known, and little else; the paths mostly meet again, and what runs after that
// would be missed.
const mostGuesses = 16

// guesses is how many there may be.
func (o *WalkOptions) guesses() uint32 {
	if o.Known {
		return 0
	}
	return mostGuesses
}

// shortWalk and longWalk are how many operations a walk has at most, the latter if walks have
// manyShare of the time or more: 45 and 75 us with interrupts off in the mean (Linux 6.18, a virtual
// machine). Walks begin where programs are slow, which matters the less the longer they go on, and
// the shorter they are, the more there are in the same time. Over four programs, the mean block
// overlap of a minute at 1 % each was 0.901 with 512 and 0.880 with 1024; of two at 3 %, it was 0.901
// and 0.903 with 1024, and of four 0.885 with 512, of which more ended early, though.
const (
	shortWalk, longWalk = 512, 1024
	manyShare           = 0.01
)

// longest is how many operations a walk has at most.
func (o *WalkOptions) longest() uint32 {
	if o.Share >= manyShare {
		return longWalk
	}
	return shortWalk
}

// WalkTotals are what walks did.
type WalkTotals struct {
	Walks, Steps uint64
	Lost         uint64             // walks that were dropped: the ring was full
	Late         uint64             // long walks that ended since their thread had stood for long
	Time         time.Duration      // that they took
	Waited       time.Duration      // for which threads stood beside that, of long walks
	Ends         [trace.Ends]uint64 // walks by trace.End
	Turns        [TurnsEnds]uint64  // long walks after which turns were to be counted, by how that ended
}
