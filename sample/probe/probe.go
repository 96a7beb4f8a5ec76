package probe

import (
	"time"

	"backfeed/sample"
)

// A Site is an instruction to be probed: one that the kernel emulates, so that
// a hit costs half a microsecond instead of 20.
type Site struct {
	ID   sample.ImageID
	Off  sample.Offset // of the instruction in the image's file
	Cond int8          // condition of a conditional branch, as its opcode has it, or one of the Cond constants
}

// Conditions of AArch64 that are none of the flags, after the 15 of flags.
const (
	CondZero    = 17 // a register is 0
	CondNotZero = 18
	CondClear   = 19 // a bit of a register is 0
	CondSet     = 20
)

// NoCond is the Cond of instructions that are not conditional branches.
const NoCond = -1

// MaxSites is how many sites one window may arm.
const MaxSites = 50

// A Window is what happened while the sites of one window were armed.
type Window struct {
	Number uint32 // of this one, as its Moments have it; 0 if nothing samples meanwhile

	Hits, Taken []uint64 // by site, while the window was open: hits, and those at which the branch was taken

	Open  time.Duration // from when all were armed to when the first was disarmed
	Armed time.Duration // from before the first was armed to after the last was disarmed, the kernel's own waits included
	Time  time.Duration // processor time of all that is recorded, while it was open
	Total time.Duration // the same, since the prober was opened
	All   uint64        // hits, those before and after it was open included

	Sampling time.Duration // of Time, what samples took that were of it alone

	Attach, Detach time.Duration // that the two calls took

	Own time.Duration // processor time of the prober itself for this window
}

// A Group is sites of one file that are always armed together.
type Group struct {
	ID    sample.ImageID
	File  string // to open; the path in ID is that of the process
	Sites []Site
	Own   []Own   // by site; nil if that is not known
	Procs []int   // by site: those of one number are of one procedure, and run together; nil if that is not known
	Rate  float64 // of all sites together, expected: executions per second of processor time
	Gain  float64 // what it is worth, in any unit
	Alone bool    // armed without others: how often its sites run is asked for
}
