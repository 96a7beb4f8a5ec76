package infer

import (
	"cmp"
	"slices"

	"backfeed/infer/image"
	"backfeed/sample"
)

// Where a system call returns there are samples of the kernel's time, for two reasons. The kernel runs with interrupts off as it is
// entered and left, and a timer's interrupt that is due by then is held up until the first instruction of the
// program. And signals, by which runtime/pprof samples, and the stops of ptrace arrive there whatever the call took.
//
// None is time of the code there. Those of the first kind still tell how often the call was made, better than samples of code do: each
// call brings some, however warm the caches are. Signals do not: a call takes anything.
const (
	// systemCycles is how long interrupts are held up by a system call, in the median, where the recording does not say how long by one
	// that does next to nothing: on a Cascade Lake 94 to 114 cycles by those,
	// 190 to 570 by those of servers, which wait. README says how that was measured. Its
	// logarithm is as uncertain as the cost of systemInsts instructions.
	systemCycles = 200
	systemInsts  = 6

	// coldCycles is what a call holds interrupts up for beyond one that does next to nothing.
	coldCycles = 100

	// returnCycles is what code takes longer after a system call: 16 cycles at the ret behind a call that does next to
	// nothing, 25 to 60 in servers.
	returnCycles = 20

	// emulatedCycles is what an instruction takes that may be emulated (image.Block.Emulated), or may not, with that variance of its logarithm: cpuid takes 100 to
	// 200 cycles on a machine, 1,500 to 2,500 in a guest of KVM, and 25,000 to 35,000 under PVM.
	emulatedCycles = 2000
	emulatedVar    = 4

	// besideVar is the variance that the logarithm of the cost of a block next to such a call has beside that of any code.
	besideVar = 4
)

// heldUp reports whether samples are of a timer's interrupts.
func heldUp(cs []*sample.Counts) bool {
	return !slices.ContainsFunc(cs, func(c *sample.Counts) bool { return !c.OfInterrupts() })
}

// returnsHold is for how many cycles a system call holds up interrupts as it returns: what the recordings measured, or
// what is usual. It differs by machines: under PVM, whose guests leave the kernel by way of the hypervisor, it is 1,400 cycles.
func returnsHold(cs []*sample.Counts) float64 {
	cycles, weight := 0.0, 0.0
	for _, c := range cs {
		held := float64(systemCycles - coldCycles)
		if c.Returns > 0 {
			held = c.ReturnCycles()
		}
		cycles, weight = cycles+float64(c.Total)*held, weight+float64(c.Total)
	}
	if !(weight > 0) {
		return systemCycles
	}
	return cycles/weight + coldCycles
}

// systemCalls are those of a procedure.
type systemCalls struct {
	calls []systemCall // by address
	of    []int        // how many each block makes
	after []bool       // by block: whether it only runs after one in another block

	beside []bool // by block: whether it is next to one that makes calls, and makes none

	held []uint64 // by block: samples where calls in it return
	here []uint64 // by block: those of them that lie in it
}

// A systemCall is one place that makes system calls.
type systemCall struct {
	block   int
	returns image.Addr
}

// systemCallsOf returns the system calls of a procedure of im; nil if there are none.
func systemCallsOf(im *image.Image, p *image.Proc) *systemCalls {
	var s *systemCalls
	for b := range p.Blocks {
		for _, after := range im.AfterSystemCalls(&p.Blocks[b]) {
			if s == nil {
				s = newSystemCalls(len(p.Blocks))
			}
			s.of[b]++
			s.calls = append(s.calls, systemCall{b, after})
		}
	}
	if s != nil {
		s.follow(p)
	}
	return s
}

func newSystemCalls(blocks int) *systemCalls {
	return &systemCalls{of: make([]int, blocks), after: make([]bool, blocks), beside: make([]bool, blocks), held: make([]uint64, blocks), here: make([]uint64, blocks)}
}

// follow finds the blocks that only run after a call.
func (s *systemCalls) follow(p *image.Proc) {
	for b := range p.Blocks {
		in := p.Blocks[b].In
		for _, e := range in {
			from := p.Edges[e].From
			s.beside[b] = s.beside[b] || s.of[from] > 0 && s.of[b] == 0
			s.beside[from] = s.beside[from] || s.of[b] > 0 && s.of[from] == 0
		}
		s.after[b] = b > 0 && s.of[b] == 0 && len(in) > 0 && !slices.ContainsFunc(in, func(e int) bool { return s.of[p.Edges[e].From] == 0 })
	}
}

// returns heeds the samples of one place, which lies in block b, and returns how many are of a call's return.
func (s *systemCalls) returns(b int, h hit) (n uint64) {
	if s == nil {
		return 0
	}
	i := s.from(h.addr)
	if i == len(s.calls) || s.calls[i].returns != h.addr {
		return 0
	}
	if c := s.calls[i]; b == c.block || b == c.block+1 {
		n = h.n - h.faulted
		s.held[c.block] += n
		s.here[b] += n
	}
	return n
}

// from returns the index of the first call that returns to a or behind it; len(calls) is none.
func (s *systemCalls) from(a image.Addr) int {
	i, _ := slices.BinarySearchFunc(s.calls, a, func(c systemCall, a image.Addr) int { return cmp.Compare(c.returns, a) })
	return i
}

// in reports whether b makes one of them.
func (s *systemCalls) in(b *image.Block) bool {
	if s == nil {
		return false
	}
	i := s.from(b.Start + 1)
	return i < len(s.calls) && s.calls[i].returns <= b.End
}

// own returns those of the samples of all blocks that are time of their code.
func (s *systemCalls) own(samples []uint64) []uint64 {
	own := slices.Clone(samples)
	for b, n := range s.here {
		own[b] -= n
	}
	return own
}

// callSystem has blocks bring what their system calls do.
func (q *problem) callSystem(s *systemCalls) {
	perCycle := q.par.heldUp
	if perCycle == 0 {
		return
	}
	q.system, q.beside = make([]float64, len(q.cost)), make([]float64, len(q.cost))
	for b, n := range s.of {
		switch {
		case n > 0:
			q.system[b] = float64(n) * q.par.returns * perCycle
			q.samples[b] += q.par.counts() * float64(s.held[b])
			q.insts[b] = systemInsts
			q.invVar[b] = systemInsts / q.par.costVar
		case s.after[b]:
			q.system[b] = returnCycles * perCycle
		}
		q.cost[b] += q.system[b]
		if s.beside[b] {
			q.beside[b] = besideVar
			q.invVar[b] = 1 / (1/q.invVar[b] + besideVar)
		}
	}
	q.begin()
}

// heedEmulated has blocks with instructions that may be emulated tell next to nothing.
func (q *problem) heedEmulated(p *image.Proc) {
	for b := range p.Blocks {
		if p.Blocks[b].Emulated {
			q.invVar[b] = 1 / (1/q.invVar[b] + emulatedVar)
		}
	}
}
