package collect

import (
	"slices"
	"time"

	"backfeed/sample"
)

// FollowOptions say whose threads Follow stops, and what for.
type FollowOptions struct {
	Options // MaxCPU is for stops and for what Follow does meanwhile, together; Frequency is of stops at most, 0 is DefaultStops

	// Ahead is called for each thread that was stopped in user code, and says where that will be
	// after some instructions. The thread stands until it returns.
	Ahead func(*Stopped) Ahead

	Longest time.Duration // Deadline of a stop; 0 is DefaultStop
	Untimed bool          // no stretch is timed: no breakpoint is set
	Idle    float64       // MaxCPU is of as many processors at least, and of those that the program uses; 0 is one

	// Share has stops be samples first, within MaxCPU and at the Frequency of Record: Ahead is called at those alone that keep it within
	// this share of the processor time. 0 is at all.
	Share float64

	// Pace returns the share that holds from now on, in place of MaxCPU, or of Share if that is not 0: it is asked a few times in
	// a second. 0 is no stops. nil is what these say, always.
	Pace func() float64

	// Busy returns how many processors the program has used so far, in the mean, where that is known better than by looking at its
	// threads now and then, of which short ones are never seen. nil is not.
	Busy func() float64

	// Passing has a thread held only while it is to stop, where the kernel allows that: signals and new threads of the program do not
	// stop for it. It goes with Untimed and PIDs; programs that run so briefly that no look meets them are not stopped.
	Passing bool
}

const (
	// DefaultStops is how many stops there are in a second of processor time, if the budget allows it.
	DefaultStops = 199
	// DefaultStop is how long a thread stands at most. On a busy machine, it may wait for longer: on two processors with
	// 27 other threads that wanted them, 7 of 1,900 stops for walks took more than 2.5 ms and the longest 84 ms, as all of
	// Go waited for its garbage collector.
	DefaultStop = 2 * time.Millisecond
)

// A Stopped is a thread that was stopped at a random moment of its processor time, and stands before the
// instruction at Regs.PC. It is valid until Ahead returns.
type Stopped struct {
	PID, TID int
	Regs     Registers
	Deadline time.Time // Ahead is to return by then

	spaces  *sample.Spaces
	machine machineState
}

// Registers are the general ones of a thread in user mode, as the operations of package trace number them.
type Registers struct {
	R     [32]uint64 // x86-64: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15; AArch64: x0 to x30, sp
	PC    uint64
	Flags uint64 // rflags; pstate
	// TLS is the base of %fs, or tpidr_el0; GS that of %gs.
	TLS, GS uint64
}

// Mapping returns what the process has mapped at pc, as far as that is code.
func (s *Stopped) Mapping(pc uint64) (sample.Mapping, bool) { return s.spaces.Mapping(s.PID, pc) }

// A memoryPart is a part of the memory of a process, and what it is read into.
type memoryPart struct {
	at uint64
	to []byte
}

// An Ahead is where a thread will be.
type Ahead struct {
	// PC is first reached after so many Steps, in instructions. 0 is unknown: the stretch is not timed.
	PC    uint64
	Steps int
	// Later is how many more times the thread is to reach PC, mostLater at most. The stretch finds caches and TLB as
	// the stop left them: of bzip2 on an idle virtual machine, instructions of stretches of 1,000 and more took 0.20 ns
	// in the mean, and all that it ran 0.10 ns. How many instructions lie between later hits, a walk knows only as far as
	// it goes.
	Later int
	// Resumed is called when the thread has gone on; Done after that, when it is known how long the stretch took, or
	// that it will not be. Each is called once, from where Follow runs, and may be nil.
	Resumed func()
	Done    func(Stretch)

	// Again is when the thread is to be stopped once more, so long after it has gone on; 0 is never. Then is called for that
	// stop, with the processor time that the thread had meanwhile, and says when the next one is to be. It is called with nil
	// if the thread was not to be had. Stretches that are timed have none.
	Again time.Duration
	Then  func(s *Stopped, used time.Duration) (again time.Duration)
}

// A Stretch is the instructions that a thread runs from its resumption on until it first reaches an address.
type Stretch struct {
	Steps  int           // of Ahead
	End    StretchEnd    // what follows is meaningful after StretchHit; Time, Fixed, SD and Watched after StretchLimit too
	Time   time.Duration // of processor that the stretch took, less Fixed; after StretchLimit it is longer than that
	Fixed  time.Duration // what stop, resumption and breakpoint take themselves: the median of stretches of 0 steps
	SD     time.Duration // standard deviation of that, and so of Time
	Waited time.Duration // from its resumption on, for a processor or for pages; negative is unknown
	CPU    int           // processor that it was on at the end; -1 is unknown
	// Later is the processor time from when the thread reached the address until it did so again, less HitCost, for as
	// many times as there were before the limit of time.
	Later []time.Duration
	// Watched is the processor time for which the breakpoint was set, less what stop and hits took: 1 + len(Later) hits in
	// it, or none after StretchLimit. If there are as many as Ahead asked for, it ended with the last of them.
	Watched time.Duration
}

// A StretchEnd is how a stretch ended.
type StretchEnd uint8

// How stretches ended.
const (
	StretchHit        StretchEnd = iota // at its address
	StretchLimit                        // not before its time was up
	StretchEvent                        // at a signal or another stop
	StretchGone                         // with the thread or its program
	StretchFixed                        // its stop served to measure Fixed
	StretchUnknown                      // Ahead returned no address
	StretchRefused                      // no breakpoint was to be had
	StretchUnfinished                   // it went on when Follow ended
	StretchEnds
)

func (e StretchEnd) String() string {
	return [StretchEnds]string{"at their address", "at the limit of time", "at a signal or another stop", "with the thread or its program",
		"not timed: fixed costs were measured", "not timed: no address is known", "not timed: no breakpoint was to be had", "when following ended"}[e]
}

const (
	// stretchLimit is the processor time after which a breakpoint is removed. A walk's 200,000 instructions take
	// that long at 100 ns each, as when every one of them misses all caches.
	stretchLimit = 20 * time.Millisecond
	// mostLater is how many hits there is room for, beside the first.
	mostLater = 48
	// fixedFirst stops measure fixed costs before any stretch is timed, and one of fixedEvery after that.
	fixedFirst, fixedEvery = 5, 10
	// fixedKept is of how many the median is taken.
	fixedKept = 31
)

// Followed says how following went.
type Followed struct {
	Stops   uint64              // in user code
	Ends    [StretchEnds]uint64 // of their stretches, by StretchEnd
	Fixed   time.Duration       // cost of a stretch of 0 steps, a median; 0 if none was measured
	SD      time.Duration       // its standard deviation
	HitCost time.Duration       // what a breakpoint takes beside that, each time that it is hit; 0 if that is not known
	Refused string              // why stretches had no breakpoint; "" if they had
	// Of stops in user code, from when the tracer knew until the thread was let go.
	Median, P99, Longest time.Duration
}

// A fixedCost is what a stretch of 0 steps took, the last few times.
type fixedCost struct {
	seen []time.Duration
	next int
}

func (f *fixedCost) add(d time.Duration) {
	if len(f.seen) < fixedKept {
		f.seen = append(f.seen, d)
		return
	}
	f.seen[f.next] = d
	f.next = (f.next + 1) % fixedKept
}

// cost returns the median, and the standard deviation by the quartiles: a few that were disturbed do not count.
func (f *fixedCost) cost() (median, sd time.Duration) {
	if len(f.seen) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(f.seen))
	const quartiles = 1.349 // how many standard deviations lie between those of a normal distribution
	return s[len(s)/2], time.Duration(float64(s[len(s)*3/4]-s[len(s)/4]) / quartiles)
}
