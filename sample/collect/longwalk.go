package collect

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"backfeed/sample"
	"backfeed/sample/trace"
)

// LongWalkOptions say whose threads long walks begin in, and how far they go.
type LongWalkOptions struct {
	Options // as of FollowOptions

	Steps   int            // instructions of a walk at most; 0 is DefaultLongSteps
	Later   int            // how many more times a thread is timed where it was timed, as of Ahead
	Longest time.Duration  // that a thread stands; 0 is DefaultStop
	Untimed bool           // no stretch is timed
	Idle    float64        // as of FollowOptions
	Share   float64        // stops are samples first; as of FollowOptions
	Pace    func() float64 // as of FollowOptions
	Busy    func() float64 // as of FollowOptions
	Passing bool           // as of FollowOptions

	// Turns has threads stopped again after walks that go round loops, to tell how fast they are; with Untimed.
	Turns bool

	// Accesses reports whether the next walk keeps its accesses to memory; nil is none. Such a walk takes longer.
	Accesses func() bool

	// Walked is called for each walk when its thread has gone on.
	Walked func(*LongWalk)
}

// DefaultLongSteps is how long walks are. A machine that emulates 30 million instructions in a second takes
// 1.7 ms for so many, and a breakpoint after them times them to some 5 %, where an instruction takes 0.2 ns.
const DefaultLongSteps = 50_000

// longGuesses is of how many branches a long walk may guess whether they are taken; mostGuesses says why.
const longGuesses = mostGuesses

// A LongWalk is one walk.
type LongWalk struct {
	PID, TID int
	At, Left sample.Mapping // where it began, and, after trace.EndOutside, where it went on to; the zero value if that is not known
	Code     *trace.Code    // that it went through
	Long     *trace.Long    // what it saw; valid until Walked returns
	Accesses bool           // it kept its accesses to memory
	Took     time.Duration  // for which the thread stood until the walk was made
	Waited   time.Duration  // for which it stood after that

	// Timing is the operation whose breakpoint ends the stretch that is timed; 0 is none. Timed is called when it is
	// known how long that took; Walked may set it.
	Timing uint32
	Timed  func(Stretch)

	// Turned is called when it is known how fast the thread went on; Walked may set it, with LongWalkOptions.Turns.
	Turned func(*Turns)
}

// A LongWalker makes long walks: it stops threads as Follow does, and a trace.Machine runs ahead of them.
type LongWalker struct {
	opt  LongWalkOptions
	code atomic.Pointer[walkedImages]
	seed uint64

	mu     sync.Mutex
	left   map[LeftAt]int
	went   int // walks since left is counted
	totals WalkTotals

	space trace.Space
}

// walkedImages are images that walks go through.
type walkedImages struct {
	code    *trace.Code
	machine *trace.Machine
	turner  *trace.Turner
	index   map[sample.ImageID]int // into code.Ranges, by key
}

// NewLongWalker makes one that knows no code yet: its walks end where they begin.
func NewLongWalker(opt LongWalkOptions) *LongWalker {
	opt.Steps = cmp.Or(opt.Steps, DefaultLongSteps)
	w := &LongWalker{opt: opt}
	w.SetImages(nil)
	return w
}

// SetImages says through which code walks go from now on. It may be called at any time.
func (w *LongWalker) SetImages(images []trace.Image) { w.SetCode(trace.NewCode(images), images) }

// SetCode is SetImages with the code of images that others use too.
func (w *LongWalker) SetCode(code *trace.Code, images []trace.Image) {
	c := &walkedImages{code, trace.NewMachine(code), trace.NewTurner(code), map[sample.ImageID]int{}}
	for i := range images {
		c.index[images[i].ID.Key()] = i
	}
	w.code.Store(c)
	w.mu.Lock()
	w.left, w.went = nil, 0
	w.mu.Unlock()
}

// A LeftAt is a place in an image at which walks left the code that they know.
type LeftAt struct {
	ID  sample.ImageID
	Off sample.Offset
}

// Left returns how many walks left the code that SetImages told last, by where they went on to or could not begin, and how
// many walks there were since.
func (w *LongWalker) Left() (left map[LeftAt]int, walks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.left), w.went
}

// Totals tell what walks did.
func (w *LongWalker) Totals() WalkTotals {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.totals
}

// tell takes in a walk.
func (w *LongWalker) tell(walk *LongWalk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := walk.Long
	w.totals.Walks++
	w.totals.Steps += uint64(l.Steps)
	w.totals.Time += walk.Took
	w.totals.Waited += walk.Waited
	w.totals.Ends[l.End]++
	if l.Late {
		w.totals.Late++
	}
	if walk.Code != w.code.Load().code {
		return // of the code before
	}
	w.went++
	out := walk.Left
	if l.End == trace.EndStart {
		out = walk.At
	} else if l.End != trace.EndOutside {
		return
	}
	if out.Loss != "" || out.End == 0 {
		return
	}
	if w.left == nil {
		w.left = map[LeftAt]int{}
	}
	if at := (LeftAt{out.Image, out.Off + sample.Offset(l.Next-out.Start)}); len(w.left) < mostLeft || w.left[at] > 0 {
		w.left[at]++
	}
}

// mostLeft is at how many places walks are counted that left the code.
const mostLeft = 10000

// Open walks as Walk does until it is closed, and returns when it has begun. Where its threads stopped can be drained as
// samples.
func (w *LongWalker) Open() (*OwnSampler, error) {
	return openOwn(func(ctx context.Context, s *OwnSampler) (*sample.Recording, *Stats, error) {
		w.opt.own = s
		return w.Walk(ctx)
	})
}

// Walk walks until the command or all processes have ended, the context is done, or Duration has passed. It returns
// what Follow does.
func (w *LongWalker) Walk(ctx context.Context) (*sample.Recording, *Stats, error) {
	return Follow(ctx, FollowOptions{Options: w.opt.Options, Longest: w.opt.Longest, Untimed: w.opt.Untimed, Idle: w.opt.Idle, Share: w.opt.Share, Pace: w.opt.Pace, Busy: w.opt.Busy, Passing: w.opt.Passing, Ahead: w.ahead})
}

// ahead walks from where a thread stands.
func (w *LongWalker) ahead(s *Stopped) Ahead {
	began := time.Now()
	st, err := s.State()
	if err != nil {
		return Ahead{} // it was killed meanwhile, or its registers are not those of this processor
	}
	c := w.code.Load()
	w.seed++
	w.findSpace(c, s)
	// What comes after the walk takes a part of the time.
	deadline := s.Deadline.Add(-time.Until(s.Deadline) / 8)
	accesses := w.opt.Accesses != nil && w.opt.Accesses()
	long, err := c.machine.Run(st, w.space, stoppedMemory{s}, trace.Limits{
		Steps: w.opt.Steps, Guesses: longGuesses, Seed: w.seed, Accesses: accesses,
		Late: func() bool { return time.Now().After(deadline) },
	})
	if err != nil {
		return Ahead{}
	}
	walk := &LongWalk{PID: s.PID, TID: s.TID, Code: c.code, Long: long, Accesses: accesses}
	walk.At, _ = s.Mapping(s.Regs.PC)
	if long.End == trace.EndOutside {
		walk.Left, _ = s.Mapping(long.Next)
	}
	a := Ahead{
		Resumed: func() {
			walk.Waited = time.Since(began) - walk.Took
			w.tell(walk)
			if w.opt.Walked != nil {
				w.opt.Walked(walk)
			}
			walk.Long = nil
		},
		Done: func(s Stretch) {
			if walk.Timed != nil {
				walk.Timed(s)
			}
		},
	}
	if w.opt.Untimed {
		if w.opt.Turns && long.End != trace.EndStart {
			w.turn(&a, c, s, st, walk)
		}
		walk.Took = time.Since(began)
		return a
	}
	if op, steps, ok := long.FirstNear(w.opt.Steps); ok {
		a.PC, a.Steps, a.Later = w.space.PC(c.code, op), steps, w.opt.Later
		walk.Timing = op
	}
	walk.Took = time.Since(began)
	return a
}

// findSpace finds where the process has the images of c.
func (w *LongWalker) findSpace(c *walkedImages, s *Stopped) {
	w.space = w.space[:0]
	for m := range s.spaces.Mappings(s.PID) {
		if m.Loss != "" {
			continue
		}
		if i, ok := c.index[m.Image.Key()]; ok && c.code.Ranges[i].Hi != 0 {
			w.space = append(w.space, trace.Place{Lo: m.Start, Hi: m.End, Bias: m.Start - uint64(m.Off) - c.code.Ranges[i].Delta, Image: i})
		}
	}
}

// A stoppedMemory is that of a stopped thread, as a trace.Machine reads it.
type stoppedMemory struct{ of *Stopped }

// Read fills p with what is at addr.
func (m stoppedMemory) Read(addr uint64, p []byte) bool { return m.of.Read(addr, p) == len(p) }

var _ trace.Memory = stoppedMemory{}
