package collect

import (
	"os"
	"time"

	"backfeed/sample"
	"backfeed/sample/unwind"
)

// DefaultSystemFrequency, in Hz, costs 0.5 % of each processor on a virtual
// machine where the interrupt of a sample takes 21 us, elsewhere less.
const DefaultSystemFrequency = 199

// DefaultDrain is the longest time between two drains that the maps have room
// for, if nothing else is asked for.
const DefaultDrain = 5 * time.Second

// SystemOptions say what of the machine to sample, and how often.
type SystemOptions struct {
	Frequency int           // samples per second and processor; 0 is DefaultSystemFrequency
	Events    []string      // "branches", "instructions", "cycles" or "cpu-clock", at Frequency each; nil is the best that there is
	Tick      bool          // ride on the scheduler's tick: no timer, but blind to what is in step with it
	Callers   CallersOf     // record the words that hold the caller of these user samples
	Frames    int           // with CallersOfAll: unwind stacks, and record so many return addresses at most; 0 is the words alone
	Kernel    bool          // keep the places of kernel samples; they are counted in any case
	PIDs      []int         // only these processes and what they start; nil is all
	Cgroups   []string      // only these cgroups (v2 paths) and those below; nil is all
	Probes    bool          // there will be a Prober: leave out the samples that its windows disturb
	Drain     time.Duration // longest time between two drains; 0 is DefaultDrain
	OffCPU    bool          // with Frames, add up the time that threads are off the processor; it is in Recording.Off
	// Opened is called with the file of each image when it is first seen to be mapped, which is open until it returns: soon nobody may find the
	// file again, as in a container that ends. It is called while other things wait. nil is nobody.
	Opened func(id sample.ImageID, f *os.File)

	Origins bool // say of which processes and threads, by their names, and control groups samples are, and in which slices of time they were taken

	// Maps is the directory to copy to what processes of containers tell of code that they made (/tmp/perf-PID.map), as these are gone
	// with the container; "" is none.
	Maps string

	// Unwind reads the rows of an image to unwind by, limit of them at most. Where it is nil, and for images without
	// rows, frame pointers are what there is.
	Unwind func(f *os.File, limit int) ([]unwind.Row, error)
}

// CallersOf says of which samples callers are recorded.
type CallersOf uint8

const (
	CallersOfNone CallersOf = iota
	CallersOfGo             // in code of Go's compiler, which keeps frame pointers
	CallersOfAll
)

// MaxFrames is how many return addresses of a stack are recorded at most, as many as Linux itself records
// (kernel.perf_event_max_stack).
const MaxFrames = 127

// Counters say what became of all samples since a System was opened.
type Counters struct {
	All, User, Kernel, Idle uint64 // samples seen: All = User + Kernel + Idle

	Filtered uint64 // user and kernel samples of what was not asked for
	Probed   uint64 // user and kernel samples that probes had disturbed
	Failed   uint64 // not stored: a map was full
	Drained  uint64 // taken out; after Close, Drained + Failed + Filtered + Probed = User + Kernel
	Bare     uint64 // stored without their callers or branch records: the ring was full

	Processors  int           // that are sampled now
	LostRecords uint64        // records of mappings and tasks that the kernel dropped
	BPF         time.Duration // run time of the sampler's program; 0 if the kernel keeps no such statistics
	MapEntries  int           // places that one buffer has room for
	MapUsed     int           // the most of them used at a drain
	MapBytes    uint64        // memory of all maps
	UnwindRows  int           // by which stacks are unwound, of all images
	Shed        uint64        // images and processes that there was no room to unwind by; by frame pointers they are

	Unresolved map[sample.Loss]uint64 // drained samples that have no place in an image, by reason

	Events []EventTime // none with SystemOptions.Tick

	Off OffCounters // with SystemOptions.OffCPU
}

// TimerMissed returns the share of the times when a timer of such a period, in ns, was to strike all processors and did not, as where
// interrupts come late or a hypervisor runs others; 0 where several events were sampled. It does not say of what code these would have been.
func (c *Counters) TimerMissed(period uint64) float64 {
	if len(c.Events) != 1 || c.Events[0].Running < time.Duration(period) || period == 0 {
		return 0
	}
	return max(0, 1-float64(c.All)*float64(period)/float64(c.Events[0].Running))
}

// OffCounters say what became of times that threads were off the processor.
type OffCounters struct {
	Times  uint64 // that threads came back
	Stacks uint64 // that were unwound, and kept
	Failed uint64 // times that were not stored: a map was full
	Bare   uint64 // stacks that there was no room for

	Took    time.Duration // processor time of the kernel's programs at switches, timing them included, if it is timed
	Untimed string        // why that is not known; "" where it is
}

// An EventTime says how long an event was wanted and how long it was counted,
// over all processors: a PMU with more events than counters takes turns.
type EventTime struct {
	Name             string
	Enabled, Running time.Duration
	Counted          uint64  // events while it ran, in its unit; 0 is unknown
	Missed           float64 // share of Counted that brought no sample, although it should have; those there are stand for it too
}
