package explain

import (
	"math"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// The rules by which causes are ruled out or bounded. All causes are guilty until
// proven innocent, as in DCPI ("Continuous Profiling: Where Have All the Cycles
// Gone?", SOSP 1997, section 6.3): a rule has to show why a cause cannot be, or how
// much it can explain at most.
//
// Where the core executes out of order, an instruction is waited for once all before
// it are done: only its own time is left. What gave it its operands is done by then, but
// for what may retire with it, which chance tells apart, and so is all that callers and
// callees did: DCPI's question of what to assume of other procedures (its option
// -cross_procedure) does not come up. In order, the wait for an operand is at the
// instruction that needs it, and what other procedures hand over stays a suspect:
// DCPI's answer "pessimistic".

// The order of culprits is by likelihood: that of a cause is its prior, by the evidence
// in the code and in where the samples are, times the part of the stall that it is
// expected to explain by the estimated counts. What a bound allows over all counts that
// may be is its Most, and does not enter: a branch that may be balanced is not one that is.
//
// The priors are how likely a cause is to be that of all that it can explain, beside
// others that can explain as much. Only their order matters. Chosen by the programs of
// testdata/stalls, each of which stalls for one known reason.
const (
	surely    = 0.95
	likely    = 0.80
	perhaps   = 0.50
	scarcely  = 0.20
	remotely  = 0.05
	unbounded = math.MaxFloat64
)

// Cycles that no table of a model has.
const (
	refill      = 1.5 // times Model.Mispredict: the pipeline fills again
	forwardFail = 20  // a load waits for a store to leave its buffer: 12 to 15 cycles by Intel's optimization manual (248966, "Store Forwarding"), and some
	aliasFail   = 10  // a load waits for a store 4096 bytes apart: a few cycles, ibid., "Aliasing Cases"
	assistCost  = 200 // subnormal operands: about 150 cycles by Intel's optimization manual, "Floating-point Exceptions and Assists"
	takenJump   = 2   // the bubble behind a taken branch
	maxBack     = 256 // instructions that are looked at for where a value comes from
	window      = 64  // instructions in which a store may still be in its buffer
	hotShare    = 0.1 // of the executions of a block that a predecessor has to bring to be looked at
)

// blame finds the culprits of instruction i.
func (w *work) blame(i int) {
	sl := w.slice(i)
	w.blameMemory(i, sl)
	w.blameFlow(i)
	w.blameStores(i)
	w.blameUnits(i, sl)
	w.blameReturn(i)
	w.boundByEvents(i)
	w.blameFaulted(i)
}

// accuse adds a culprit, or lets one of the same cause explain more.
func (w *work) accuse(i int, c Cause, from image.Addr, most, score float64) {
	w.suspect(i, c, from, most, most, score)
}

// suspect is accuse of a cause that is expected to explain less than the most that it can.
func (w *work) suspect(i int, c Cause, from image.Addr, most, expected, score float64) {
	if most, expected, score = w.weighReplayed(i, c, from, most, expected, score); !(most > 0) {
		return
	}
	s := &w.exp.Insts[i].Stall
	weight := score * min(expected, s.Cycles)
	for k := range s.Culprits {
		if have := &s.Culprits[k]; have.Cause == c {
			if weight > have.weight {
				have.From, have.weight = from, weight
			}
			have.Most = max(have.Most, most)
			return
		}
	}
	s.Culprits = append(s.Culprits, Culprit{Cause: c, From: from, Most: most, weight: weight})
}

// An origin is an instruction that a value comes from.
type origin struct {
	i    int // index into Insts
	back int // how many instructions ran from its start to when the value was needed
}

// A dataSlice is what the operands of an instruction were made from.
type dataSlice struct {
	origins []origin
	chain   float64 // cycles of the longest chain that may still be waited for
	callee  int     // call whose result is among it; -1 if there is none
	since   int     // instructions since that call
	caller  int     // what was handed to the procedure is among it, so many instructions after it was entered; -1 if not
}

// slice follows the operands of instruction i backwards, through blocks that lead
// there often, at most once around a loop.
func (w *work) slice(i int) *dataSlice {
	s := &slicing{work: w, dataSlice: dataSlice{callee: -1, caller: -1}, start: i}
	w.seen = w.seen[:0]
	need := w.ops[i].Reads
	add(&need, w.ops[i].Address)
	w.dropStack(&need)
	if need != (image.RegSet{}) {
		b := w.exp.Insts[i].Block
		s.back(b, i-1, w.first[b], 1, need, &[regCount]float64{})
	}
	return &s.dataSlice
}

type slicing struct {
	*work
	dataSlice
	start int
	steps int
}

const regCount = 64 + 32

func add(s *image.RegSet, t image.RegSet) { s.General |= t.General; s.Vector |= t.Vector }
func remove(s *image.RegSet, t image.RegSet) {
	s.General &^= t.General
	s.Vector &^= t.Vector
}

// back looks for what computes need, from instruction i of block b, which ran so many
// instructions before the start, back to instruction stop; lat is how long before the end
// each register is needed.
func (s *slicing) back(b, i, stop, dist int, need image.RegSet, lat *[regCount]float64) {
	for ; i >= stop; i-- {
		if s.steps++; s.steps > maxBack {
			return
		}
		in, o := &s.exp.Insts[i], &s.ops[i]
		if in.Class&(image.DirCall|image.IndCall) != 0 {
			if gives := resultRegisters(s.im.Arch); need.Has(gives) {
				if s.callee < 0 {
					s.callee, s.since = i, dist
				}
				remove(&need, gives)
			}
		}
		gives := o.Writes
		add(&gives, o.Update)
		if need.Has(gives) {
			hit := image.RegSet{General: need.General & gives.General, Vector: need.Vector & gives.Vector}
			cycles := 0.0
			each(hit, func(r int) { cycles = max(cycles, lat[r]) })
			cycles += s.model.Latency(in.Inst, o)
			s.origins = append(s.origins, origin{i, dist})
			if s.near(dist) {
				s.chain = max(s.chain, cycles)
			}
			remove(&need, hit)
			from := o.Reads
			add(&from, o.Address)
			s.dropStack(&from)
			each(from, func(r int) { lat[r] = max(lat[r], cycles) })
			add(&need, from)
		}
		if need == (image.RegSet{}) {
			return
		}
		dist++
	}
	s.before(b, dist, need, lat)
}

// before goes on at the ends of the blocks that lead to b.
func (s *slicing) before(b, dist int, need image.RegSet, lat *[regCount]float64) {
	block := &s.r.Proc.Blocks[b]
	if s.caller < 0 && (len(block.In) == 0 || slices.Contains(s.r.Proc.Entries, b)) {
		s.caller = dist
	}
	all := max(s.r.Block[b].N, 1e-300)
	for _, e := range block.In {
		from := s.r.Proc.Edges[e].From
		if s.r.Edge[e].N < hotShare*all || s.again(from) {
			continue
		}
		stop := s.first[from]
		if from == s.exp.Insts[s.start].Block { // once around: up to where it began
			stop = s.start
		}
		l := *lat
		s.back(from, s.first[from+1]-1, stop, dist, need, &l)
	}
}

// again reports whether the present search has been in block b, and notes that it now
// has.
func (w *work) again(b int) bool {
	if slices.Contains(w.seen, b) {
		return true
	}
	w.seen = append(w.seen, b)
	return false
}

// near reports whether what happened so many instructions before one may be what that
// one waits for: see the comment above.
func (w *work) near(back int) bool { return w.model.InOrder || back <= w.model.Width.Retire }

// each calls f for the registers of a set.
func each(s image.RegSet, f func(r int)) {
	for r := range 64 {
		if s.General>>r&1 != 0 {
			f(r)
		}
	}
	for r := range 32 {
		if s.Vector>>r&1 != 0 {
			f(64 + r)
		}
	}
}

// resultRegisters are those that calls give results in, by the System V ABI and the
// procedure call standard for AArch64; Go's results begin with the same.
func resultRegisters(a image.Arch) image.RegSet {
	if a == image.AArch64 {
		return image.RegSet{General: 0xff, Vector: 0xff}
	}
	return image.RegSet{General: 1<<0 | 1<<2, Vector: 3} // rax, rdx, xmm0, xmm1
}

// stackPointer is the number of the stack pointer's register.
func (w *work) stackPointer() int {
	if w.im.Arch == image.AArch64 {
		return 31
	}
	return 4
}

// dropStack takes the stack pointer and the frame pointer out of s: nobody waits for them.
func (w *work) dropStack(s *image.RegSet) {
	s.General &^= 1 << w.stackPointer()
	if w.frame >= 0 {
		s.General &^= 1 << w.frame
	}
}

// framePointer finds the register that holds the frame's address: rbp or x29, if the
// first instructions set it to the stack pointer, or something near it.
func (w *work) framePointer() int {
	fp := 5
	if w.im.Arch == image.AArch64 {
		fp = 29
	}
	for i := range min(16, len(w.exp.Insts)) {
		o := &w.ops[i]
		from := o.Reads
		add(&from, o.Address)
		if o.Writes.General>>fp&1 != 0 && from.General>>w.stackPointer()&1 != 0 &&
			w.exp.Insts[i].Class&(image.Load|image.Push) == 0 {
			return fp
		}
	}
	return -1
}

// frameLeaks reports whether the procedure may have pointers into its frame: an
// instruction makes another register from the stack or the frame pointer.
func (w *work) frameLeaks() bool {
	frame := image.RegSet{General: 1 << w.stackPointer()}
	if w.frame >= 0 {
		frame.General |= 1 << w.frame
	}
	for i := range w.ops {
		o, class := &w.ops[i], w.exp.Insts[i].Class
		from, to := o.Reads, o.Writes
		if class&(image.Load|image.Store|image.Push) == 0 { // of others, Address is of what they load or store
			add(&from, o.Address)
		}
		to.General &^= 1 << image.Flags
		remove(&to, frame)
		if !from.Has(frame) {
			continue
		}
		if to != (image.RegSet{}) {
			return true
		}
		if m, ok := w.memory(i); class&image.Store != 0 && !(ok && w.onStack(m)) { // not saved there
			return true
		}
	}
	return false
}

// onStack reports whether an access is to the frame of its procedure, at a fixed place.
func (w *work) onStack(m image.Memory) bool {
	return m.Index == image.NoReg && (int(m.Base) == w.stackPointer() || w.frame >= 0 && int(m.Base) == w.frame)
}

// blameMemory accuses the loads that i makes itself or waits for.
func (w *work) blameMemory(i int, sl *dataSlice) {
	in := &w.exp.Insts[i]
	own, other := likely, scarcely
	switch {
	case in.Class&image.Locked != 0:
		own = scarcely // atomic operations take long even where the data is near
	case w.model.InOrder:
		own, other = perhaps, likely
	}
	switch {
	case w.chained(i):
		own = surely // nothing can be fetched ahead: each step waits for the one before
	case w.dispatched(i):
		own = min(own, perhaps) // the jump is the likelier cause
	case w.streams(sl) && own == likely:
		own = streaming
	}
	w.blameLoad(i, i, own)
	if i > w.first[in.Block] && in.Class&image.CondJump != 0 {
		w.blameLoad(i, i-1, own) // fused: both retire as one
	}
	for _, o := range sl.origins {
		if w.near(o.back) {
			w.blameLoad(i, o.i, other)
		}
	}
	if sl.callee >= 0 && w.near(sl.since) {
		w.accuse(i, DCache, w.exp.Insts[sl.callee].Addr, unbounded, remotely)
	}
	if sl.caller >= 0 && w.near(sl.caller) {
		w.accuse(i, DCache, 0, unbounded, remotely)
	}
	if in.Class&image.Rep != 0 {
		w.accuse(i, DCache, in.Addr, unbounded, likely)
		w.accuse(i, DTLB, in.Addr, unbounded, scarcely)
		w.blameFault(i, i, unbounded)
	}
}

// chained reports whether load i gets its address from what it loaded itself, the turn before.
func (w *work) chained(i int) bool {
	if w.exp.Insts[i].Class&image.Load == 0 || !w.ops[i].Writes.Has(w.ops[i].Address) {
		return false
	}
	w.read()
	if m, ok := w.memory(i); ok && (w.onStack(m) || m.Constant()) {
		return false
	}
	return slices.ContainsFunc(w.slice(i).origins, func(o origin) bool { return o.i == i })
}

// streams reports whether what sl is of was made by arithmetic alone, as indices are that a loop
// steps: the processor fetches such data ahead, and of small steps most are within a line.
func (w *work) streams(sl *dataSlice) bool {
	return len(sl.origins) > 0 && sl.callee < 0 && !slices.ContainsFunc(sl.origins, func(o origin) bool {
		return w.exp.Insts[o.i].Class&(image.Load|image.Push) != 0
	})
}

// streaming is the prior of a miss of a load whose address arithmetic alone steps.
const streaming = 0.3

// dispatched reports whether i is the first instruction of a block that an indirect jump
// with several targets leads to most often.
func (w *work) dispatched(i int) bool {
	b := w.exp.Insts[i].Block
	if i != w.first[b] {
		return false
	}
	from := w.hottestBefore(b)
	return from >= 0 && w.r.Proc.Dispatches(from)
}

// blameLoad accuses load l of what i waits for.
func (w *work) blameLoad(i, l int, score float64) {
	in := &w.exp.Insts[l]
	if in.Class&image.Load == 0 {
		return
	}
	mem := &w.model.Memory
	m, ok := w.memory(l)
	if !ok {
		m = image.Memory{Base: image.NoReg, Index: image.NoReg, Segment: true}
	}
	w.blameForward(i, l, m, score)
	switch {
	case ok && (w.onStack(m) || w.touched(l, m)): // read or written just before, or all the time: in the first cache
	case ok && m.Constant():
		// One place that is used each time is in a near cache, unless others write it.
		w.accuse(i, DCache, in.Addr, float64(mem.L3), score/2)
	case in.Class&image.Locked != 0: // others access it, too
		w.accuse(i, DCache, in.Addr, unbounded, score)
		w.accuse(i, DTLB, in.Addr, float64(2*mem.DRAM), score/2)
		w.blameFault(i, l, faultCost)
	default:
		w.blameBounded(i, l, m, ok, score)
	}
}

// blameBounded accuses load l, of m if that is understood, as far as its address moves.
func (w *work) blameBounded(i, l int, m image.Memory, ok bool, score float64) {
	in, mem := &w.exp.Insts[l], &w.model.Memory
	b := bound{lines: 1, pages: 1, expected: 1}
	if ok && !m.Segment {
		b = w.bounded(l, m)
	}
	if b.frame {
		return
	}
	miss := float64(2 * mem.DRAM) // a line takes so long to come, at most
	most, expected := unbounded, unbounded
	if b.lines < 1 { // what is used besides may take its place, as far as to the last cache
		most = max(b.lines*miss, float64(mem.L3))
	}
	if b.within > 0 && b.within <= secondCache {
		most = min(most, float64(mem.L3))
	}
	if b.expected < 1 {
		expected = b.expected * miss
	}
	if b.second { // what is not in the first cache comes from the second, but for the first pass
		expected = min(expected, min(1, b.expected)*float64(mem.L2)+b.passes*miss)
	}
	switch {
	case b.table || b.within > 0 && b.within <= firstCache:
		score = min(score, remotely)
	case most <= float64(mem.L3):
		score /= 2
	}
	w.suspect(i, DCache, in.Addr, most, min(most, expected), score)
	w.accuse(i, DTLB, in.Addr, min(1, b.pages)*miss, score/2)
	w.blameFault(i, l, min(1, b.pages)*faultCost)
}

// quickBefore reports whether nothing can be waited for just before instruction k: samples at it are its own.
func (w *work) quickBefore(k int) bool {
	b := w.exp.Insts[k].Block
	if k > w.first[b] {
		return w.quick(k - 1)
	}
	in := w.r.Proc.Blocks[b].In
	for _, e := range in {
		from := w.r.Proc.Edges[e].From
		last := w.first[from+1] - 1
		if w.r.Edge[e].N >= hotShare*w.r.Block[b].N && !(last >= w.first[from] && w.quick(last) && w.missExpected(from) < hotShare) {
			return false
		}
	}
	return len(in) > 0 && !slices.Contains(w.r.Proc.Entries, b)
}

// quick reports whether instruction i, and what retires with it if it is a branch, is of registers alone, and of no unit that is slow.
func (w *work) quick(i int) bool {
	const slow = image.Load | image.Store | image.Push | image.Float | image.DirCall | image.IndCall | image.IndJump
	class := w.exp.Insts[i].Class
	if class&image.CondJump != 0 && i > w.first[w.exp.Insts[i].Block] {
		class |= w.exp.Insts[i-1].Class
	}
	_, unit := slowCause(class)
	return class&slow == 0 && !unit
}

func changes(o *image.Operands, regs image.RegSet) bool {
	return o.Writes.Has(regs) || o.Update.Has(regs)
}

// sameBase reports whether two addresses differ by their displacements alone.
func sameBase(a, b image.Memory) bool {
	return a.Base == b.Base && a.Index == b.Index && (a.Scale == b.Scale || a.Index == image.NoReg) && !a.Segment && !b.Segment
}

// blameForward accuses the stores before load l that it may overlap with.
func (w *work) blameForward(i, l int, m image.Memory, score float64) {
	block, moved := w.exp.Insts[l].Block, false
	address := m.Registers()
	w.seen = w.seen[:0]
	for k, steps := l-1, 0; steps < window; k, steps = k-1, steps+1 {
		for k < w.first[block] {
			if block = w.hottestBefore(block); block < 0 || w.again(block) {
				return
			}
			k = w.first[block+1] - 1
		}
		in := &w.exp.Insts[k]
		if in.Class&image.Store != 0 {
			if st, ok := w.memory(k); ok && w.suspectStore(i, k, st, m, moved, score) {
				return
			}
		}
		moved = moved || changes(&w.ops[k], address)
	}
}

// suspectStore accuses store k, to st, of keeping a load of m. moved tells that
// registers of the address have changed between. It returns true if the store wrote all that is loaded,
// so that what was written before does not matter.
func (w *work) suspectStore(i, k int, st, m image.Memory, moved bool, score float64) bool {
	from := w.exp.Insts[k].Addr
	switch {
	case w.onStack(m) != w.onStack(st) && (!w.leaks || m.Constant() || st.Constant()):
		return false // a frame, and what is not in it
	case moved || !sameBase(st, m):
		w.accuse(i, StoreForward, from, forwardFail, min(score, scarcely))
		return false
	case st.Size == 0 || m.Size == 0:
		w.accuse(i, StoreForward, from, forwardFail, min(score, scarcely))
		return false
	}
	lo, hi := m.Disp, m.Disp+int64(m.Size)
	sLo, sHi := st.Disp, st.Disp+int64(st.Size)
	switch {
	case sLo <= lo && hi <= sHi:
		return true // forwarded
	case sLo < hi && lo < sHi:
		w.accuse(i, StoreForward, from, forwardFail, surely)
	case (sLo-lo)%pageSize == 0 || overlapsPage(sLo-lo, int64(st.Size), int64(m.Size)):
		w.accuse(i, StoreForward, from, aliasFail, likely)
	}
	return false
}

// overlapsPage reports whether accesses so many bytes apart share the low 12 bits of an address.
func overlapsPage(apart, store, load int64) bool {
	d := apart % pageSize
	if d < 0 {
		d += pageSize
	}
	return d < load || pageSize-d < store
}

// hottestBefore returns the block that leads to b most often, -1 if none does.
func (w *work) hottestBefore(b int) int {
	best, n := -1, 0.0
	for _, e := range w.r.Proc.Blocks[b].In {
		if w.r.Edge[e].N > n {
			best, n = w.r.Proc.Edges[e].From, w.r.Edge[e].N
		}
	}
	return best
}

// blameFlow accuses the edges to and from i: prediction, fetch and decoding. While the
// pipeline is empty, because a branch was mispredicted or code has not come, the next
// instruction is waited for. Some cores let it finish before they take an interrupt,
// which then names the one after it; others name the one that has not come.
func (w *work) blameFlow(i int) {
	in := &w.exp.Insts[i]
	for _, t := range w.next[i] {
		if !t.entry && w.skid {
			w.blamePassage(i, i, t)
		}
		to := &w.exp.Insts[t.to]
		if to.Class&image.Locked != 0 { // it starts when it is the oldest, and all stores before it are done
			w.accuse(i, Lock, to.Addr, unbounded, surely)
		}
		if to.Class&(image.Load|image.Store) != 0 && to.Class&image.Push == 0 {
			w.blameFault(i, t.to, faultCost) // samples before it is executed again
		}
		if w.skid && to.Class&(image.CondJump|image.IndJump) != 0 {
			w.blameBranch(i, to)
		}
	}
	w.blameFlush(i)
	if i > w.first[in.Block] {
		called := w.exp.Insts[i-1].Class&(image.DirCall|image.IndCall) != 0
		w.blamePassage(i, i-1, passage{to: i, share: 1, called: called})
		return
	}
	came := 0.0
	all := max(in.N, 1e-300)
	for _, e := range w.r.Proc.Blocks[in.Block].In {
		edge, n := &w.r.Proc.Edges[e], w.r.Edge[e].N
		last := w.first[edge.From+1] - 1
		if n > 0 && last >= w.first[edge.From] {
			w.blamePassage(i, last, passage{to: i, share: min(1, n/all), most: min(1, w.edgeMost(int(e))/all), taken: edge.Kind != image.FallThrough})
		}
		came += n
	}
	if rest := 1 - came/all; rest > 1e-9 {
		w.blamePassage(i, i, passage{to: i, share: rest, entry: true})
	}
}

// blameBranch accuses branch at, which samples of what i waits for are at, of its own mispredictions: Zen 4 interrupts
// there until what it leads to has come. Of a loop whose branch follows random bits, 47 to 95 % of the samples were at
// the branch, by the recording, the others about evenly where it leads. Which way it goes hangs on few samples then, so
// what is expected is the middle of what is estimated and what may be, as logarithms.
func (w *work) blameBranch(i int, at *InstTime) {
	penalty := refill * float64(w.model.Mispredict) * at.N / max(w.exp.Insts[i].N, 1e-300)
	most := w.missRate(at.Block)
	w.suspect(i, Mispredict, at.Addr, most*penalty, math.Sqrt(most*w.missExpected(at.Block))*penalty, perhaps)
}

// blameFlush accuses branches before i of the time that i takes itself. Behind a
// misprediction the window is empty, and what takes long is not hidden by what is older,
// until as many instructions are in flight as are dispatched in that time.
func (w *work) blameFlush(i int) {
	in := &w.exp.Insts[i]
	own := w.model.Latency(in.Inst, &w.ops[i])
	if w.model.InOrder || own <= 1 {
		return
	}
	left := min(window, int(own)*w.model.Width.Dispatch)
	w.seen = w.seen[:0]
	rate, expected, most := 0.0, 0.0, 0.0
	var from image.Addr // the branch that may be mispredicted most often
	for b, k := in.Block, i; b >= 0 && !w.again(b); {
		if left -= k - w.first[b] + 1; left < 0 {
			break
		}
		for _, e := range w.r.Proc.Blocks[b].In {
			last := w.first[w.r.Proc.Edges[e].From+1] - 1
			if last < 0 || w.exp.Insts[last].Class&(image.CondJump|image.IndJump) == 0 {
				continue
			}
			branch := &w.exp.Insts[last]
			all := max(in.N, 1e-300)
			rate += min(w.edgeMost(int(e)), w.missRate(branch.Block)*branch.N) / all
			if n := min(w.r.Edge[e].N, w.missExpected(branch.Block)*branch.N) / all; n > 0 {
				expected += n
				if n > most {
					most, from = n, branch.Addr
				}
			}
		}
		if b = w.hottestBefore(b); b >= 0 {
			k = w.first[b+1] - 1
		}
	}
	w.suspect(i, Mispredict, from, min(1, rate)*own, min(1, expected)*own, perhaps)
}

// blamePassage accuses what may delay the arrival at t.to from instruction k, of what i waits for.
func (w *work) blamePassage(i, k int, t passage) {
	from, to := &w.exp.Insts[k], &w.exp.Insts[t.to]
	penalty := refill * float64(w.model.Mispredict)
	switch {
	case t.entry:
		w.accuse(i, Mispredict, 0, t.share*penalty, scarcely)
	case t.called: // the stack of return addresses knows better, unless calls are nested deep
		w.accuse(i, Mispredict, from.Addr, penalty, remotely)
	case from.Class&(image.CondJump|image.IndJump) != 0:
		// All of its mispredictions may be on this edge, but not more than its executions.
		each := from.N / max(w.exp.Insts[i].N, 1e-300)
		most, expected := w.missRate(from.Block)*each, w.missExpected(from.Block)*each
		score := likely
		if w.r.Proc.Dispatches(from.Block) {
			score = surely
		}
		w.suspect(i, Mispredict, from.Addr, min(max(t.share, t.most), most)*penalty, min(t.share, expected)*penalty, score)
	}
	n := max(to.N, 1e-300)
	start, end := uint64(to.Addr), uint64(to.Addr)+uint64(to.Len)-1
	last := uint64(from.Addr) + uint64(from.Len) - 1
	away := t.entry || t.called || t.taken
	if away || start/lineSize != last/lineSize || end/lineSize != start/lineSize {
		w.accuse(i, ICache, to.Addr, t.share*w.fetchMiss(w.lines.between(n)), perhaps)
	}
	if (away || start/pageSize != last/pageSize) && w.pages.between(n) > fits*float64(w.model.Buffers.ITLB) {
		w.accuse(i, ITLB, to.Addr, t.share*float64(w.model.Memory.L3), scarcely)
	}
	front := 0.0
	if away {
		front += takenJump
	}
	if uops := float64(w.model.Buffers.Uops); uops > 0 && w.lines.between(n)*lineSize/bytesPerUop > uops {
		front += w.decode(t.to)
	}
	w.accuse(i, FrontEnd, to.Addr, t.share*front, scarcely)
}

// fits is the share of a cache up to which what is used in turn is taken to stay in it.
const fits = 0.75

// bytesPerUop is a low mean length of instructions: dense code fills the cache of decoded
// operations first.
const bytesPerUop = 4

// fetchMiss returns the cycles that a line of code may take to come, if so many other
// lines were executed since it was last: 0 if it must still be in the first cache.
func (w *work) fetchMiss(lines float64) float64 {
	m := &w.model.Memory
	switch bytes := lines * lineSize; {
	case bytes <= fits*float64(w.model.Buffers.L1I):
		return 0
	case bytes <= 1<<18:
		return float64(m.L2)
	case bytes <= 1<<23:
		return float64(m.L3)
	}
	return float64(m.DRAM)
}

// decode returns the cycles by which decoding i may hold up what follows: decoders take
// 16 bytes of code a cycle on the cores that have a cache of decoded operations.
func (w *work) decode(i int) float64 {
	in := &w.exp.Insts[i]
	if uint64(in.Addr)/16 != (uint64(in.Addr)-1)/16 {
		return 1
	}
	return 0.5
}

// edgeMost returns the executions of edge e, as many as they may be: an edge that nothing but the
// flow around it tells of may take all that its block does. Of a block that is known to be
// cold it cannot.
func (w *work) edgeMost(e int) float64 {
	edge, f := &w.r.Proc.Edges[e], w.r.Edge[e]
	n := f.N
	switch f.Within {
	case infer.High:
	case infer.Medium:
		n *= 2
	default:
		n = w.r.Block[edge.From].N
		if w.r.Most != nil {
			n = min(n, w.r.Most[edge.To])
		}
		n = max(n, f.N)
	}
	return n
}

// misses says how often a branch is mispredicted each time.
type misses struct{ most, expected float64 }

// missRate returns how often the branch at the end of block b is mispredicted at most, by
// how often it may take its rarer out-edges.
func (w *work) missRate(b int) float64 { return w.missesOf(b).most }

// missExpected is missRate by the estimated counts of out-edges.
func (w *work) missExpected(b int) float64 { return w.missesOf(b).expected }

func (w *work) missesOf(b int) misses {
	if m, ok := w.miss[b]; ok {
		return m
	}
	m := misses{most: w.missesBy(b, w.edgeMost)}
	if p, ok := w.replayedMisses(b); ok {
		m.most, m.expected = min(m.most, p.most), p.did
	} else {
		m.expected = w.missesBy(b, func(e int) float64 { return w.r.Edge[e].N })
	}
	if w.miss == nil {
		w.miss = map[int]misses{}
	}
	w.miss[b] = m
	return m
}

// missesBy returns the misses of each execution of the branch at the end of block b, if its rarer
// out-edges are taken so often: a predictor that always predicts the likelier outcome errs as often as
// others are taken. None that learns is taken to do worse than twice that, nor worse than by chance.
func (w *work) missesBy(b int, rarer func(e int) float64) float64 {
	block := &w.r.Proc.Blocks[b]
	all, best := 0.0, -1
	for _, e := range block.Out {
		n := w.r.Edge[e].N
		all += n
		if best < 0 || n > w.r.Edge[best].N {
			best = int(e)
		}
	}
	outs := float64(len(block.Out))
	rare := 0.0
	for _, e := range block.Out {
		if int(e) != best {
			rare += rarer(int(e))
		}
	}
	if n := w.r.Block[b].N; n > all*(1+1e-6) { // it leaves the procedure, too
		rare += n - all
		all, outs = n, outs+1
	}
	if !(all > 0) {
		return 0
	}
	if rare = min(1, rare/all); outs < 2 { // targets that are not known
		return min(1, 2*rare)
	}
	return min(1-1/outs, 2*rare)
}

// missed returns how often the branch at the end of block b is mispredicted, by its out-edges alone: a conditional
// branch where it takes the rarer one, an indirect jump where its target is not the one before. Of
// procedures of 21 programs, this times executions correlates with what callgrind simulates by 0.72, by exact counts 0.90, all
// their time by 0.64 (TestPapers); by ranks it is 0.61 and 0.45. With 2p(1-p) for conditional branches it is 0.70.
func (w *work) missed(b int) float64 {
	last := w.first[b+1] - 1
	n := w.r.Block[b].N
	if last < w.first[b] || !(n > 0) {
		return 0
	}
	most, squares := 0.0, 0.0
	for _, e := range w.r.Proc.Blocks[b].Out {
		p := min(1, w.r.Edge[e].N/n)
		most, squares = max(most, p), squares+p*p
	}
	switch class := w.exp.Insts[last].Class; {
	case class&image.CondJump != 0:
		return min(most, 1-most)
	case class&image.IndJump != 0 && len(w.r.Proc.Blocks[b].Out) > 1:
		return max(0, 1-squares)
	}
	return 0
}

// blameStores accuses the store buffer. A store that finds it full cannot be
// dispatched: it is caught itself, or what is just before it.
func (w *work) blameStores(i int) {
	block := w.exp.Insts[i].Block
	at := -1
	for k := i; k < min(i+4, w.first[block+1]); k++ {
		if w.storesAway(k) {
			at = k
			break
		}
	}
	far := at < 0
	if far {
		if at = w.storeAhead(i); at < 0 {
			return
		}
	}
	stores, steps := 0, 0
	w.seen = w.seen[:0]
	for b, k := block, i; steps < window; k, steps = k-1, steps+1 {
		for k < w.first[b] && b >= 0 {
			if b = w.hottestBefore(b); b < 0 || w.again(b) {
				b = -1
				break
			}
			k = w.first[b+1] - 1
		}
		if b < 0 {
			break
		}
		if w.storesAway(k) {
			stores++
		}
	}
	score := scarcely
	if 8*stores >= steps { // a burst
		score = perhaps
	}
	if far {
		if score != perhaps {
			return
		}
		score = ahead
	}
	from := w.exp.Insts[at].Addr
	w.accuse(i, StoreBuffer, from, unbounded, score)
	if far {
		return
	}
	w.accuse(i, DTLB, from, float64(2*w.model.Memory.DRAM), remotely)
	if at == i {
		w.blameFault(i, i, faultCost)
	}
}

// ahead is the prior of a full store buffer at what is dispatched with a store of a burst, or
// just before: Zen 5 names the branch that ends the turn of a loop before the one that waits.
const ahead = 0.25

// storeAhead returns the store elsewhere that i leads to most often within as many instructions
// as are dispatched at a time, -1 if there is none.
func (w *work) storeAhead(i int) int {
	b := w.exp.Insts[i].Block
	w.seen = w.seen[:0]
	for k, steps := i, 0; steps < w.model.Width.Dispatch; k, steps = k+1, steps+1 {
		for k >= w.first[b+1] {
			next, n := -1, 0.0
			for _, e := range w.r.Proc.Blocks[b].Out {
				if w.r.Edge[e].N > n {
					next, n = w.r.Proc.Edges[e].To, w.r.Edge[e].N
				}
			}
			if next < 0 || w.again(next) {
				return -1
			}
			b, k = next, w.first[next]
		}
		if w.storesAway(k) {
			return k
		}
	}
	return -1
}

// storesAway reports whether instruction i stores elsewhere than into its frame.
func (w *work) storesAway(i int) bool {
	in := &w.exp.Insts[i]
	if in.Class&image.Rep != 0 {
		return true
	}
	if in.Class&image.Store == 0 {
		return false
	}
	m, ok := w.memory(i)
	return !ok || !w.onStack(m)
}

// blameUnits accuses slow operations, of i itself and of what it waits for.
func (w *work) blameUnits(i int, sl *dataSlice) {
	in := &w.exp.Insts[i]
	w.blameOp(i, i, likely)
	other := scarcely
	if w.model.InOrder {
		other = likely
	}
	for k := max(w.first[in.Block], i-w.model.Width.Retire); k < i; k++ {
		w.blameOp(i, k, scarcely) // it may have been next to retire, or keep a unit
	}
	for _, o := range sl.origins {
		if w.near(o.back) {
			w.blameOp(i, o.i, other)
		}
	}
	if n := len(sl.origins); n > 0 {
		w.accuse(i, Dependency, w.exp.Insts[sl.origins[0].i].Addr, sl.chain+w.model.Latency(in.Inst, &w.ops[i]), scarcely)
	} else if l := w.model.Latency(in.Inst, &w.ops[i]); l > 1 {
		w.accuse(i, Dependency, in.Addr, l, scarcely)
	}
}

// blameOp accuses operation k of what i waits for.
func (w *work) blameOp(i, k int, score float64) {
	in, o := &w.exp.Insts[k], &w.ops[k]
	latency := w.model.Latency(in.Inst, o)
	if cause, ok := slowCause(in.Class); ok {
		switch cause {
		case Lock:
			w.accuse(i, Lock, in.Addr, unbounded, max(score, scarcely))
		case Microcode:
			if w.timer && w.callsSystem(k) {
				break // see blameReturn
			}
			w.accuse(i, Microcode, in.Addr, unbounded, score)
		case Divider:
			w.suspect(i, Divider, in.Addr, 2*latency+slowDivide, latency, score)
		case Multiplier:
			w.accuse(i, Multiplier, in.Addr, 2*latency, score/2)
		}
	}
	switch o.Op {
	case image.OpFloatAdd, image.OpFloatMul, image.OpFMA, image.OpFloatDiv32, image.OpFloatDiv64, image.OpSqrt32, image.OpSqrt64, image.OpConvert, image.OpX87:
		w.accuse(i, Assist, in.Addr, assistCost, remotely/2)
	}
}

// blameReturn accuses the kernel's return of what i waits for, if i is a system call, or comes behind one where the instruction itself is named:
// samples of a timer where a call returns are of the kernel, which held the interrupt up, or are signals that it brought.
func (w *work) blameReturn(i int) {
	k := i
	if !w.skid {
		k--
	}
	if w.timer && k >= 0 && w.callsSystem(k) {
		w.accuse(i, KernelReturn, w.exp.Insts[k].Addr, unbounded, surely)
	}
}

// callsSystem reports whether instruction k is a system call.
func (w *work) callsSystem(k int) bool {
	in := &w.exp.Insts[k]
	return in.Class&image.System != 0 && slices.Contains(w.im.AfterSystemCalls(&w.r.Proc.Blocks[in.Block]), in.Addr+image.Addr(in.Len))
}

// slowDivide is how many cycles the slowest operands of a division take more than
// those of a model's table: 64-bit divisions of Intel's cores before Ice Lake.
const slowDivide = 80

// eventCounts are the samples of an event.
type eventCounts struct {
	eventCause
	period float64                                     // events per sample
	at     map[sample.ImageID]map[sample.Offset]uint64 // by ImageID.Key

	// Of what is counted for top-down.
	dispersion  float64 // sample.Dispersion
	reliability float64 // part of the time in which it was counted; 0 is unknown
}

// eventCause says what an event counts: a cause, as far as it takes more cycles than
// some.
type eventCause struct {
	cause  Cause
	beyond level
}

// A level is how far an access goes that an event does not count.
type level uint8

const (
	inFirst  level = iota // all misses count
	inSecond              // what the second TLB has does not count
	inLast                // nor what the last cache has
)

// eventCauses are the causes that events of perf count. The generic cache-misses are those
// of the last cache on Intel's and Arm's processors, of the second on AMD's
// (arch/x86/events of Linux 6.12).
var eventCauses = map[string]eventCause{
	"branch-misses":         {Mispredict, inFirst},
	"cache-misses":          {DCache, inLast},
	"LLC-load-misses":       {DCache, inLast},
	"L1-dcache-load-misses": {DCache, inFirst},
	"dTLB-load-misses":      {DTLB, inSecond},
	"iTLB-load-misses":      {ITLB, inSecond},
	"L1-icache-load-misses": {ICache, inFirst},
	"page-faults":           {PageFault, inFirst},
	"faults":                {PageFault, inFirst},
}

// secondTLB is what a translation takes at most that the second TLB has, in cycles: 7 on
// Skylake to 8 on Zen 4, by their optimization manuals.
const secondTLB = 10

// readEvents gathers the samples of events that count a cause, and of those that count
// places of the pipeline.
func (x *Explainer) readEvents(rec *sample.Recording) {
	x.counted = map[string]*eventCounts{}
	if rec == nil {
		return
	}
	byName := map[string]*eventCounts{}
	slots := map[string][]*sample.Counts{}
	var used map[string]bool
	most := uint64(0)
	for _, c := range rec.Counts {
		if c.Total > most {
			most, x.cpu = c.Total, c.CPU
		}
	}
	if f := x.family(); f != nil {
		used = f.events()
	}
	for _, c := range rec.Counts {
		name := sample.BareEvent(c.Event.Name)
		period := c.MeanPeriod()
		if !(period > 0) || c.Total == 0 {
			continue
		}
		if lower := strings.ToLower(name); used[lower] && !strings.HasPrefix(c.Event.Name, "cpu_atom/") { // small cores have formulas of their own
			slots[lower] = append(slots[lower], c)
		}
		cause, bounds := eventCauses[name]
		if !bounds {
			continue
		}
		e := byName[name]
		if e == nil {
			e = &eventCounts{eventCause: cause, at: map[sample.ImageID]map[sample.Offset]uint64{}}
			byName[name] = e
			x.events = append(x.events, e)
		}
		e.period = max(e.period, period)
		e.add(c)
	}
	for name, counts := range slots {
		x.counted[name] = countsOf(counts)
	}
}

// countsOf adds up the counts of one event. What was counted for a part of the time stands for all of it.
func countsOf(counts []*sample.Counts) *eventCounts {
	e := &eventCounts{at: map[sample.ImageID]map[sample.Offset]uint64{}, dispersion: sample.Dispersion(counts)}
	var events, samples float64
	for _, c := range counts {
		e.add(c)
		events, samples = events+c.MeanPeriod()*float64(c.Total), samples+float64(c.Total)
	}
	e.period = events / samples
	if e.reliability, _ = sample.Reliability(counts); e.reliability > 0 {
		e.period /= e.reliability
	}
	return e
}

// add adds the samples of c.
func (e *eventCounts) add(c *sample.Counts) {
	for _, ic := range c.Images {
		at := e.at[ic.ID.Key()]
		if at == nil {
			at = map[sample.Offset]uint64{}
			e.at[ic.ID.Key()] = at
		}
		for off, n := range ic.At {
			at[off] += n
		}
	}
}

// boundByEvents bounds the culprits of i by the samples of their events around it: of
// its block and of where it leads. n samples are of at most n + 2 sqrt(n) + 3 periods
// of events, with 95 % confidence.
func (w *work) boundByEvents(i int) {
	s := &w.exp.Insts[i].Stall
	for _, e := range w.events {
		for k := range s.Culprits {
			if c := &s.Culprits[k]; c.Cause == e.cause {
				most, seen := w.eventCycles(e, i, c.From)
				if most < w.exp.Insts[i].Time { // else they explain all of it, however often it was executed
					c.Most = min(c.Most, most)
				}
				if e.cause == Mispredict || e.cause == PageFault { // of misses, how far they went is not known
					c.weight = max(min(c.weight, surely*most), surely*min(seen, s.Cycles))
				}
			}
		}
	}
	s.Culprits = slices.DeleteFunc(s.Culprits, func(c Culprit) bool { return !(c.Most > 0) })
}

// eventCycles returns the cycles per execution that instruction i may wait for what e
// counts of the instruction at an address, at most, and by as many events as were sampled, if these are more than chance
// makes of a few.
func (w *work) eventCycles(e *eventCounts, i int, culprit image.Addr) (most, seen float64) {
	at := e.at[w.ipKey]
	n := 0.0
	count := func(lo, hi int) {
		for j := lo; j < hi && len(at) > 0; j++ {
			if off, ok := w.im.OffsetOf(w.exp.Insts[j].Addr); ok {
				n += float64(at[off])
			}
		}
	}
	block := w.exp.Insts[i].Block
	count(max(w.first[block], i-maxBack), min(w.first[block+1], i+maxBack))
	for _, t := range w.next[i] {
		if b := w.exp.Insts[t.to].Block; b != block {
			count(w.first[b], min(w.first[b+1], w.first[b]+maxBack))
		}
	}
	rest := 0.0
	switch {
	case e.beyond == inLast:
		rest = float64(w.model.Memory.L3)
	case e.beyond == inSecond:
		rest = secondTLB
	}
	each := e.period / w.exp.Insts[i].N * w.eventCost(e.cause, culprit)
	return (n+2*math.Sqrt(n)+3)*each + rest, max(0, n-2*math.Sqrt(n)) * each
}

// eventCost is what one event costs at most, in cycles, if the instruction at an address is to blame.
func (w *work) eventCost(c Cause, culprit image.Addr) float64 {
	switch c {
	case Mispredict:
		return refill * float64(w.model.Mispredict)
	case PageFault:
		return w.faultCostAt(culprit)
	}
	return 2 * float64(w.model.Memory.DRAM)
}
