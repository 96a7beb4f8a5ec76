package trace

import (
	"errors"
	"slices"

	"backfeed/sample"
)

// A Machine runs ahead of a stopped thread: it emulates the instructions that the thread is about to
// run, hundreds of thousands of them, over the thread's registers and memory, and writes to neither.
// What it does not know it keeps apart from what it knows, as the emulator in the kernel does, whose
// operations it shares; it emulates more of them, those above X86Long.
//
// Over 200,000 instructions, it makes 35 to 77 million a second on an AMD EPYC of family 25, memory read by the page included
// (BenchmarkMachine of package image). A Machine is used again for walk after walk, by one goroutine at a time.
type Machine struct {
	code *Code
	x86  machineX86

	space    Space
	lim      Limits
	long     Long
	branches []hop    // in the order of the walk
	kept     accesses // if Limits.Accesses
	seen     []uint32 // by operation: see FirstNear
	seenIs   uint32   // what seen has of operations of this walk
}

// Limits are where a walk ends if nothing else ends it.
type Limits struct {
	Steps   int    // instructions
	Guesses int    // conditional branches of which it is not known whether they are taken, and of which that is guessed
	Pages   int    // of memory, 4 KB each; 0 is 4096
	Seed    uint64 // of guesses
	// Accesses has accesses to memory kept for Long.Accesses. The walk then takes about twice as long.
	Accesses bool
	Late     func() bool // asked every few thousand instructions: whether there is no more time; nil is never
}

// A Place is where the code of an image is mapped.
type Place struct {
	Lo, Hi uint64 // runtime addresses
	Bias   uint64 // of them against addresses as linked
	Image  int    // index into Code.Ranges
}

// A Space is where a process has images mapped, by ascending address.
type Space []Place

// find returns the place of pc; nil is none.
func (s Space) find(pc uint64) *Place {
	i, _ := slices.BinarySearchFunc(s, pc, func(p Place, pc uint64) int {
		if p.Hi <= pc {
			return -1
		}
		return 1
	})
	if i < len(s) && s[i].Lo <= pc {
		return &s[i]
	}
	return nil
}

// A State is that of a thread of x86-64 which is about to run the instruction at PC.
type State struct {
	PC     uint64
	Regs   [16]uint64 // by their number in instructions: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 and so on
	Flags  uint64
	FSBase uint64
	GSBase uint64
	MXCSR  uint32
	FCW    uint16 // control word of x87
	// Words is how many words of 8 bytes of each of Vectors are known: 0, 2 (SSE), 4 (AVX) or 8 (AVX-512).
	// Below 8, there are but 16 of them.
	Words   uint8
	Vectors [32][8]uint64
	Masks   [8]uint64 // known if Words is 8
}

// A hop is one execution of a branch.
type hop struct {
	op uint32
	to uint32 // operation that it went on to, and below
}

// Of hop.to.
const (
	hopTaken   = 1 << 31
	hopGuessed = 1 << 30
	hopTo      = hopGuessed - 1
)

// A Branch is one execution of a branch.
type Branch struct {
	Op, To  uint32 // operations: the branch, and what ran after it; To is 0 at the end of a walk
	Taken   bool   // control did not just pass it; jumps, calls and returns always are
	Guessed bool   // it is not known whether it was taken
}

// A Long is what a walk of a Machine saw. It is valid until the next walk.
type Long struct {
	Start   uint32 // operation
	Last    uint32 // operation at which it ended: the one after those that ran, or the branch that left the code
	Steps   int    // instructions, of which a repeated string instruction is one
	End     End
	Late    bool // it ended because there was no more time
	Guesses int
	Pages   int // of memory that were read
	// Next is the runtime address at which the thread would go on, 0 if that is not known.
	Next uint64

	m *Machine
}

// ErrARM is returned for code of AArch64, which a Machine does not emulate.
var ErrARM = errors.New("long walks are of x86-64 only")

// NewMachine makes one that goes through code, which must not change any more.
func NewMachine(code *Code) *Machine {
	// What is large is made here: a thread stands for what a walk makes, and for the garbage collection that this sets off.
	return &Machine{code: code, seen: make([]uint32, len(code.Ops))}
}

// mostPagesRead is what a walk reads at most, where Limits does not say.
const mostPagesRead = 4096

// Run emulates what a thread in state st would run, until something of lim ends that.
func (m *Machine) Run(st *State, space Space, mem Memory, lim Limits) (*Long, error) {
	l, err := m.Start(st, space, mem, lim)
	if err == nil {
		m.More(lim.Steps)
	}
	return l, err
}

// Start makes ready for More.
func (m *Machine) Start(st *State, space Space, mem Memory, lim Limits) (*Long, error) {
	switch {
	case len(m.code.Ops) >= hopTo:
		return nil, errors.New("too much code for long walks")
	case m.code.arm:
		return nil, ErrARM
	}
	if lim.Pages == 0 {
		lim.Pages = mostPagesRead
	}
	m.branches, m.space, m.lim = m.branches[:0], space, lim
	m.long = Long{m: m}
	m.kept = accesses{of: m, list: m.kept.list[:0]}
	m.x86.start(m.code, st, mem, &lim)
	if m.x86.kept = nil; lim.Accesses {
		m.x86.kept = &m.kept
	}
	if !m.x86.enter(space, st.PC) {
		m.x86.end, m.x86.next = EndStart, st.PC
	}
	m.long.Start = m.x86.pc
	m.tell()
	return &m.long, nil
}

// betweenLate is how many instructions run before Limits.Late is asked again: some 0.1 ms.
const betweenLate = 1024

// More emulates so many instructions more.
func (m *Machine) More(steps int) {
	l := &m.long
	for steps > 0 && m.x86.end == EndLength && !l.Late {
		ran := m.x86.steps(m, min(steps, betweenLate))
		l.Steps += ran
		steps -= ran
		if steps > 0 && m.x86.end == EndLength && m.lim.Late != nil {
			l.Late = m.lim.Late()
		}
	}
	if l.End != EndLength {
		m.kept.forget(m.x86.pc)
	}
	m.tell()
}

// tell says in m.long how far the walk came.
func (m *Machine) tell() {
	l, x := &m.long, &m.x86
	l.End, l.Last, l.Guesses, l.Pages, l.Next = x.end, x.pc, m.lim.Guesses-x.guides, x.used, x.next
	if l.Next == 0 {
		l.Next = m.space.PC(m.code, x.pc)
	}
}

// Known says what of a State is known; what is not has no meaning there.
type Known struct {
	Regs    uint16    // bit by register
	Flags   bool      // carry, parity, zero, sign and overflow
	Vectors [32]uint8 // bit by word
	Masks   uint8     // bit by register
	MXCSR   bool
}

// State sets st to the state in which the walk is, but for PC, and returns what of it is known.
func (m *Machine) State(st *State) Known {
	x := &m.x86
	st.Regs, st.Vectors, st.Masks, st.FSBase, st.MXCSR = [16]uint64(x.regs[:]), x.v, x.masks, x.tls, x.mxcsr
	st.Flags = x.flags() | flag(x.back, df)
	return Known{uint16(x.known), x.known&(knownFlags|noCarry) == knownFlags, x.vk, x.mk, x.mxk && x.raised}
}

// Load returns size bytes of memory, at most 8, as the walk would read them, and whether all are known.
func (m *Machine) Load(addr uint64, size uint8) (uint64, bool) {
	return m.x86.fetchParts(addr, size)
}

// Branches calls at for each execution of a branch, first to last, until it returns false. step is how
// many instructions ran before.
func (l *Long) Branches(at func(step int, b Branch) bool) {
	step, from := 0, l.Start
	for _, b := range l.m.branches {
		step += int(b.op - from)
		if !at(step, Branch{b.op, b.to & hopTo, b.to&hopTaken != 0, b.to&hopGuessed != 0}) {
			return
		}
		step++
		from = b.to & hopTo
	}
}

// Executions returns how often a walk passed through each operation that it passed through: sums of
// those that it began a run of instructions at, and went on from by a branch.
//
// It calls at with an operation, how often it ran, and how often it was taken if it is a branch, by
// ascending operation.
func (l *Long) Executions(at func(op uint32, n, taken int)) {
	change := map[uint32]int{} // of executions, at this operation
	taken := map[uint32]int{}
	run := func(from, to uint32) {
		change[from]++
		change[to+1]--
	}
	from := l.Start
	for _, b := range l.m.branches {
		run(from, b.op)
		if b.to&hopTaken != 0 {
			taken[b.op]++
		}
		from = b.to & hopTo
	}
	if from != 0 && l.Last > from {
		run(from, l.Last-1)
	}
	ops := make([]uint32, 0, len(change))
	for op := range change {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	n := 0
	for i, op := range ops {
		n += change[op]
		if n == 0 || i+1 == len(ops) {
			continue
		}
		for o := op; o < ops[i+1]; o++ {
			at(o, n, taken[o])
		}
	}
}

// FirstNear returns an operation that ran for the first time after some instructions, as near to k of
// them as there is one, and after how many; false if there is none. Where the thread is in step with
// the walk, a breakpoint there is hit after just so many instructions. Guesses end that: after one, it
// may be elsewhere.
func (l *Long) FirstNear(k int) (op uint32, step int, ok bool) {
	m := l.m
	if m.seenIs += 2; m.seenIs == 0 { // once in 2^31 times
		clear(m.seen)
		m.seenIs = 2
	}
	// An operation is seen once it ran, and it begins a run once what follows up to a branch was seen, too.
	seen, begins := m.seenIs, m.seenIs+1
	at := 0
	run := func(from, to uint32) { // operations but the last
		if m.seen[from] != begins {
			for o := from; o < to; o++ {
				if m.seen[o] >= seen {
					continue
				}
				m.seen[o] = seen
				if s := at + int(o-from); s > 0 && (!ok || apart(s-k) < apart(step-k)) {
					op, step, ok = o, s, true
				}
			}
			m.seen[from] = begins
		}
		at += int(to - from)
	}
	from := l.Start
	for _, b := range m.branches {
		run(from, b.op+1)
		if from = b.to & hopTo; b.to&hopGuessed != 0 {
			return op, step, ok
		}
	}
	if from != 0 && l.Last > from {
		run(from, l.Last)
	}
	return op, step, ok
}

// apart is how far n is from 0.
func apart(n int) int { return max(n, -n) }

// Offset returns the image that an operation is in, as an index into Ranges, and where in its file; false
// for an operation that is no instruction.
func (c *Code) Offset(op uint32) (image int, off sample.Offset, ok bool) {
	if int(op) >= len(c.at) || c.at[op].image < 0 {
		return 0, 0, false
	}
	at := c.at[op]
	return int(at.image), at.off, at.off != 0
}

// PC returns the runtime address of an operation; 0 if it is mapped nowhere.
func (s Space) PC(c *Code, op uint32) uint64 {
	im, off, ok := c.Offset(op)
	if !ok {
		return 0
	}
	r := &c.Ranges[im]
	for i := range s {
		p := &s[i]
		if pc := uint64(off) + r.Delta + p.Bias; p.Image == im && pc >= p.Lo && pc < p.Hi {
			return pc
		}
	}
	return 0
}

// taken reports whether a branch that may be guessed is taken, as the emulator in the kernel guesses:
// as often taken as not, and most of the time back.
func guess(seed, n uint64, back bool) bool {
	h := (seed<<16 ^ n) * 0x9e3779b97f4a7c15 >> 60
	if back {
		return h < 14
	}
	return h < 8
}
