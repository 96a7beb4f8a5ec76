package collect

import (
	"errors"
	"fmt"
	"os"
	"time"

	"backfeed/sample"
)

// Options say what to record. Either Command or PIDs is set.
type Options struct {
	Command []string // program to run and its arguments; it gets the three files below
	Dir     string   // where Command runs; "" is here
	Env     []string // environment of Command; nil is that of this process
	Stdin   *os.File // nil is /dev/null
	Stdout  *os.File // nil is /dev/null
	Stderr  *os.File // nil is /dev/null

	Group bool // Command has a process group of its own, which is told to end with it, and is gone when the recording ends

	PIDs []int // processes to watch, with all their threads, and what they start

	Frequency int           // samples per second of processor time; 0 is DefaultFrequency
	Duration  time.Duration // of the recording; 0 is until the command or all processes have ended

	MaxCPU float64 // where ptrace samples: its cost at most, as a share; 0 is DefaultMaxCPU

	// Progress is called some ten times a second with what there is so far, from where samples
	// are taken in: it holds them up while it runs. nil is not.
	Progress func(Progress)

	Events []string // to sample, by name or as rNNN by number, up to mostEvents; nil is the best there is for time
	Period uint64   // of one of Events, the events between two samples; 0 is by its kind

	Held *Held // what StartHeld started, instead of Command or PIDs: it is let go once it is followed; for Follow alone

	Opened func(id sample.ImageID, f *os.File) // as that of SystemOptions

	Maps string // as that of SystemOptions

	own *OwnSampler // takes out what was sampled, meanwhile; nil is none
}

// A Progress is how far a recording is.
type Progress struct {
	Samples uint64 // so far, those that are lost too
	Lost    uint64 // of them: to no image, or dropped by the kernel

	Images []sample.ImageID // seen for the first time since the last Progress
}

// progressEvery is how often Progress is called, at most.
const progressEvery = 100 * time.Millisecond

// DefaultFrequency, in Hz, is prime, so that it keeps no step with programs that
// do something every millisecond. On a virtual machine where the interrupt of a
// sample costs 21 us it slows a program by 2.5 %, elsewhere by less.
const DefaultFrequency = 997

// DefaultMaxCPU is what sampling by ptrace may cost, as a share of one processor or of
// the processor time of the program, whichever is more.
const DefaultMaxCPU = 0.05

// MaxStack is the number of frames kept of a call stack, the sampled one
// included. Whoever wants call edges needs two.
const MaxStack = 8

// Stats say how a recording went, beyond what the recording itself holds.
type Stats struct {
	Tried   []Attempt        // events to sample, best first; the last one is what was used
	Command *os.ProcessState // how the command ended; nil if none was run

	Traced   *Traced   // if it was by ptrace
	Followed *Followed // if it was by Follow

	Clock Clock // of the processors, as measured while they were sampled; the zero value where it was not

	Chosen bool // the events are those of Options, not the best of a ladder

	Throttled   uint64      // times that the kernel stopped sampling for a moment, to save its time
	Times       []EventTime // by event, as they were asked for
	Began       uint64      // threads that began meanwhile, by the kernel's events: of each, what it runs until its first period ends has no sample
	LostRecords uint64      // records of mappings, forks and ends that the kernel dropped: samples may be called unmapped for that
}

// A Clock is what was measured of one, some times.
type Clock struct {
	Least, Most float64 // cycles per ns
	Times       int
}

// Traced says how sampling by ptrace went.
type Traced struct {
	Why, Fix string // why it was not by the kernel's events, and what would help; "" if ptrace was asked for

	Looks, Stops uint64        // moments at which threads were looked at; threads that were stopped then
	Own          time.Duration // processor time of the tracer
	Stopped      time.Duration // for which threads were held up, all together
	Worked       time.Duration // of Own, while they were: by Follow alone
	Program      time.Duration // processor time of the threads while they were traced
	Wall         time.Duration // of the recording
	Period       time.Duration // mean time between two looks at the end: longer than was asked for if that costs too much

	Restarted   uint64   // system calls that were interrupted and made again, unseen by the program
	Interrupted uint64   // those that could not be: the program saw EINTR
	Setuid      []string // programs that ran without the privileges of their files, for being traced
}

// Cost is what tracing took, as its budget has it: time for which the tracer worked while a thread stood counts once.
func (t *Traced) Cost() time.Duration { return t.Own + t.Stopped - t.Worked }

// ErrEvent is wrapped where no event has the name of Options.
var ErrEvent = errors.New("no such event")

// mostEvents is how many events of processes may be sampled at once. Each takes a file descriptor for each thread on each processor.
const mostEvents = 16

// Event is the event that was sampled, or the last of them.
func (s *Stats) Event() string { return s.Tried[len(s.Tried)-1].Name }

// An Attempt is an event to sample and what the kernel said to it.
type Attempt struct {
	Name string // "cycles with branch records", "precise instructions", "cycles", "cpu-clock", "ptrace-clock"
	Err  error  // nil if it works
	Fix  string // what would help, if another event has to do for that; "" if nothing would
}

// Unavailable is the error where the kernel does not let this process sample.
type Unavailable struct {
	Tried []Attempt
	Why   string // one sentence
	Fix   string // what would help, one sentence; "" if nothing would
	Log   string // what the kernel's verifier says of a program; "" if nothing
	err   error  // of the system call; nil if there was none
}

// VerifierVar is the variable of the environment that asks commands to print a Log.
const VerifierVar = "BACKFEED_VERIFIER_LOG"

// Reason is why, and what would help.
func (u *Unavailable) Reason() string {
	if u.Fix == "" {
		return u.Why
	}
	return u.Why + ". " + u.Fix
}

func (u *Unavailable) Error() string {
	msg := "cannot sample: " + u.Why
	if n := len(u.Tried); n > 0 {
		last := u.Tried[n-1]
		msg += fmt.Sprintf(" (%s: %v)", last.Name, last.Err)
	}
	if u.Fix != "" {
		msg += ". " + u.Fix
	}
	return msg
}

// Names of events to sample, best first, and of events and their units.
const (
	cyclesBranches      = "cycles with branch records"
	preciseInstructions = "precise instructions"
	cycles              = "cycles"
	cpuClock            = "cpu-clock"
	ptraceClock         = "ptrace-clock" // no event of the kernel: see tracer

	instructions = "instructions"
)
