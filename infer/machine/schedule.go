package machine

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"backfeed/infer/image"
)

// A Schedule is the least time that a block takes. What comes before the block
// is ignored, but where the block is a loop of its own: then that is the block.
type Schedule struct {
	Insts  []Slot  // by increasing address
	Cycles float64 // per execution of the block: the sum of Insts' Least
	Uops   int     // places that the block takes in dispatch
	Bound  Why     // what Cycles comes from
	Unit   string  // the unit or units, where Bound is Unit
	Loop   bool    // the block ends in a jump to its own start
}

// A Slot is an instruction in a schedule.
type Slot struct {
	Addr  image.Addr
	Least float64 // cycles that it is the oldest one not issued (in order) or not retired (out of order), at least, per execution
	Why   Why
	On    int    // index into Schedule.Insts: what it depends on, where Why is Dependency; itself or a later one where that is of the execution before
	Unit  string // the unit or units, where Why is Unit
	For   int    // index into Schedule.Insts: the instruction whose result or use of units takes most of Least; -1 if none takes so much
}

// Why says what an instruction or a block waits for.
type Why uint8

const (
	Together   Why = iota // it goes with the instruction before: Least is 0
	Dispatch              // nothing: so many instructions take so long
	Dependency            // the result of an instruction
	Unit                  // a unit that others use
	Fetch                 // the bytes of the code
)

func (w Why) String() string {
	return [...]string{"together", "dispatch", "dependency", "unit", "fetch"}[w]
}

// Check reports the first promise that s breaks. Tests call it on every Schedule.
func (s *Schedule) Check() error {
	sum := 0.0
	for i, in := range s.Insts {
		switch {
		case !(in.Least >= 0):
			return fmt.Errorf("%#x: least time %g", uint64(in.Addr), in.Least)
		case (in.Least == 0) != (in.Why == Together):
			return fmt.Errorf("%#x: least time %g, but %s", uint64(in.Addr), in.Least, in.Why)
		case in.On < 0 || in.On >= len(s.Insts) || in.On >= i && !s.Loop && in.Why == Dependency:
			return fmt.Errorf("%#x: depends on %d of %d", uint64(in.Addr), in.On, len(s.Insts))
		case (in.Why == Unit) != (in.Unit != ""):
			return fmt.Errorf("%#x: waits for %s, unit %q", uint64(in.Addr), in.Why, in.Unit)
		case in.For < -1 || in.For >= len(s.Insts):
			return fmt.Errorf("%#x: waits for %d of %d", uint64(in.Addr), in.For, len(s.Insts))
		}
		sum += in.Least
	}
	if math.Abs(sum-s.Cycles) > 1e-6*(1+sum) {
		return fmt.Errorf("instructions take %g cycles, the block %g", sum, s.Cycles)
	}
	return nil
}

// Schedule returns the least time of b. Calls inside b take the time of the call
// alone, and what comes after one depends on nothing before it.
func (m *Model) Schedule(im *image.Image, b *image.Block) *Schedule {
	insts, ops := im.AppendOperands(nil, nil, b)
	return m.ScheduleOf(insts, ops, b)
}

// ScheduleOf is Schedule where the instructions and operands of b are at hand, as
// Image.AppendOperands returns them.
func (m *Model) ScheduleOf(insts []image.Inst, ops []image.Operands, b *image.Block) *Schedule {
	if len(insts) == 0 {
		return &Schedule{}
	}
	return m.schedule(insts, ops, loops(insts, b))
}

// Uops returns the places that instructions take in dispatch, as Schedule.Uops of
// them.
func (m *Model) Uops(insts []image.Inst, ops []image.Operands) int {
	n := 0
	for i, in := range insts {
		if i == 0 || !m.fuses(&ops[i-1], insts[i-1].Class, &ops[i]) {
			n += m.step(in, &ops[i]).uops
		}
	}
	return n
}

// loops reports whether b ends in a jump to its own start.
func loops(insts []image.Inst, b *image.Block) bool {
	last := insts[len(insts)-1]
	return last.Class&(image.CondJump|image.Jump) != 0 && last.Target == b.Start
}

// Cycles returns the Cycles of b's Schedule, without the rest of it.
func (m *Model) Cycles(im *image.Image, b *image.Block) float64 {
	least, _ := m.times(im, b)
	return least
}

// Expected returns Cycles with what the loads of b wait beside, in the median, where that was measured of the processor.
func (m *Model) Expected(im *image.Image, b *image.Block) float64 {
	least, waits := m.times(im, b)
	return least + waits
}

func (m *Model) times(im *image.Image, b *image.Block) (least, waits float64) {
	t := timers.Get().(*timer)
	defer timers.Put(t)
	if !t.set(m, im, b) {
		return 0, 0
	}
	var s Schedule
	if m.InOrder {
		s.Insts = make([]Slot, len(t.insts))
		t.plan.issue(&s)
	} else {
		t.plan.bound(&s)
	}
	return s.Cycles, m.waits(t.insts, t.ops)
}

// ExpectedEach is Expected, with the Cycles of b's Schedule and what it has at least of each of its instructions, as Slot.Least,
// which it appends to least.
func (m *Model) ExpectedEach(im *image.Image, b *image.Block, least []float64) (expected, cycles float64, _ []float64) {
	t := timers.Get().(*timer)
	defer timers.Put(t)
	if !t.set(m, im, b) {
		return 0, 0, least
	}
	t.slots = slices.Grow(t.slots[:0], len(t.insts))[:len(t.insts)]
	clear(t.slots)
	s := Schedule{Insts: t.slots, Loop: t.plan.loop}
	t.plan.times(&s)
	for i := range s.Insts {
		least = append(least, s.Insts[i].Least)
	}
	return s.Cycles + m.waits(t.insts, t.ops), s.Cycles, least
}

// waits returns what loads wait in the median: none of what is on the stack or at a fixed place, which is in the
// first cache nearly always.
func (m *Model) waits(insts []image.Inst, ops []image.Operands) float64 {
	far := 0
	for i := range insts {
		if insts[i].Class&image.Load != 0 && !ops[i].Fixed(m.Arch) {
			far++
		}
	}
	return m.Memory.Wait * float64(far)
}

// A timer is storage of schedules and of Cycles.
type timer struct {
	insts []image.Inst
	ops   []image.Operands
	slots []Slot
	plan  plan
}

// set reads b and plans it, and reports whether it has instructions.
func (t *timer) set(m *Model, im *image.Image, b *image.Block) bool {
	t.insts, t.ops = im.AppendOperands(t.insts[:0], t.ops[:0], b)
	if len(t.insts) == 0 {
		return false
	}
	t.plan.m = m
	t.plan.set(t.insts, t.ops, loops(t.insts, b))
	return true
}

var timers = sync.Pool{New: func() any { return new(timer) }}

func (m *Model) schedule(insts []image.Inst, ops []image.Operands, loop bool) *Schedule {
	t := timers.Get().(*timer)
	defer timers.Put(t)
	p := &t.plan
	p.m = m
	p.set(insts, ops, loop)
	s := &Schedule{Insts: make([]Slot, len(insts)), Loop: loop}
	for i, in := range insts {
		s.Insts[i].Addr = in.Addr
		s.Uops += p.steps[i].uops
	}
	p.times(s)
	p.blame(s)
	p.insts, p.ops = nil, nil // the caller's
	return s
}

// times sets the least times of s and what they come from, but for For.
func (p *plan) times(s *Schedule) {
	if p.m.InOrder {
		p.issue(s)
		return
	}
	p.bound(s)
	p.retire(s)
}

// blame says which instruction takes most of the least time of each. Of units, that is one of the operations that keep
// them most. Of results: out of order, all that is older is done when an instruction is waited for, so its
// own latency is what is left; in order, it waits before it issues, for the latency of what it depends on. What so
// many instructions take, or their bytes, is no one's.
func (p *plan) blame(s *Schedule) {
	keeps := map[string]int{}
	for i := range s.Insts {
		slot := &s.Insts[i]
		slot.For = -1
		own := p.steps[i].latency
		switch {
		case slot.Why == Unit:
			if _, ok := keeps[slot.Unit]; !ok {
				keeps[slot.Unit] = p.keeps(slot.Unit)
			}
			slot.For = keeps[slot.Unit]
		case slot.Why == Dependency && p.m.InOrder:
			slot.For = slot.On
		case p.m.InOrder || own <= 1 || 2*own < slot.Least:
		case slot.Why == Dependency, slot.Why == Dispatch && 2*slot.Least >= own:
			slot.For = i
		}
	}
}

// keeps returns a step of the kind of operation that keeps the units of that name for more than half of the time
// that all do, -1 if none does.
func (p *plan) keeps(name string) int {
	var by [image.NumOps]float64
	all := 0.0
	at := slices.IndexFunc(p.m.unitSets, func(u unitSet) bool { return u.name == name })
	within := func(s *step) (cycles float64) {
		for _, uses := range [...][]pressure{s.uses, s.mem, s.store} {
			for _, u := range uses {
				if p.m.unitSets[u.set].units&^p.m.unitSets[at].units == 0 {
					cycles += u.cycles
				}
			}
		}
		return cycles
	}
	for i := range p.steps {
		c := within(&p.steps[i])
		by[p.steps[i].op] += c
		all += c
	}
	return slices.IndexFunc(p.steps, func(s step) bool { return 2*by[s.op] > all && within(&s) > 0 })
}

// plan is a block prepared for scheduling.
type plan struct {
	m     *Model
	insts []image.Inst
	ops   []image.Operands // likewise
	steps []step
	deps  []dep // of all steps, by step, once link has found them
	bytes int
	loop  bool

	linked bool // the dependencies are known

	now, before []float64 // scratch of start times, by step
	then        []float64 // likewise, of an execution that others are compared with
	on, waits   []int     // likewise, of retirement
}

// step is an instruction with its costs added up.
type step struct {
	op      image.Op
	latency float64 // from its start to its result
	uops    int
	uses    []pressure // of the operation
	mem     []pressure // of its load
	store   []pressure
	deps    int // end of its dependencies in plan.deps; they begin where those of the step before end
	fused   bool
}

// dep says that a step cannot start before on has started and wait cycles passed.
type dep struct {
	on      int
	wait    float64
	carried bool // on belongs to the execution before
}

// over returns when the wait is over, by when the steps of this execution start and
// those of the one before, if it is to be carried over.
func (d *dep) over(now, before []float64, carry bool) float64 {
	switch {
	case !d.carried:
		return now[d.on] + d.wait
	case carry:
		return before[d.on] + d.wait
	}
	return math.Inf(-1)
}

// set finds costs.
func (p *plan) set(insts []image.Inst, ops []image.Operands, loop bool) {
	m := p.m
	p.insts, p.ops, p.linked = insts, ops, false
	p.steps, p.bytes, p.loop = p.steps[:0], 0, loop
	for i, in := range insts {
		p.steps = append(p.steps, m.step(in, &ops[i]))
		p.bytes += in.Len
	}
	n := len(p.steps)
	p.now, p.before = slices.Grow(p.now[:0], n)[:n], slices.Grow(p.before[:0], n)[:n]
	for i := 1; i < len(insts); i++ {
		if m.fuses(&ops[i-1], insts[i-1].Class, &ops[i]) {
			p.steps[i].fused = true
			p.steps[i-1].uses = nil // the branch's unit does both
			p.steps[i].uops, p.steps[i].latency = 0, 0
		}
	}
}

// link finds dependencies, if that was not done yet. For the bound of most blocks they are of no matter.
func (p *plan) link() {
	if p.linked {
		return
	}
	p.linked, p.deps = true, p.deps[:0]
	var w writers
	if p.loop { // what the execution before leaves
		for i := range p.insts {
			w.step(i, p.insts[i], &p.ops[i])
		}
		w.carry()
	}
	for i := range p.insts {
		p.depend(i, &w, p.insts[i], &p.ops[i])
		w.step(i, p.insts[i], &p.ops[i])
	}
}

// Latency returns the cycles from when an instruction can start to its result, at least.
func (m *Model) Latency(in image.Inst, o *image.Operands) float64 {
	s := m.step(in, o)
	return s.latency
}

// accessOf reports which kind of load, or of store, o is.
func accessOf(o *image.Operands, general access) access {
	switch {
	case o.Pair:
		return general + 2
	case o.Vector:
		return general + 1
	}
	return general
}

// step adds up the costs of an instruction's load, operation and store.
func (m *Model) step(in image.Inst, o *image.Operands) step {
	s := step{op: o.Op}
	load, store := in.Class&image.Load != 0, in.Class&image.Store != 0
	if in.Class&image.Push != 0 { // the class leaves push and pop out of both
		if o.Writes.General&^(1<<image.Flags) != 0 {
			load = true
		} else {
			store = true
		}
	}
	if o.Op != image.OpNone {
		c := &m.ops[o.Op]
		s.latency, s.uops, s.uses = c.latency, c.uops, c.uses
		if whole(o.Op) {
			return s
		}
	}
	if load {
		c := &m.memory[accessOf(o, loadGeneral)]
		s.latency += c.latency
		s.mem = c.uses
		if s.uops == 0 || !m.fusion.loadOp {
			s.uops += c.uops
		}
	}
	if store {
		c := &m.memory[accessOf(o, storeGeneral)]
		s.store = c.uses
		if s.uops == 0 || !m.fusion.opStore {
			s.uops += c.uops
		}
	}
	return s
}

// whole tells of operations whose costs include their memory accesses.
func whole(op image.Op) bool {
	return op == image.OpAtomic || op == image.OpString || op == image.OpSystem
}

// fuses reports whether b is a conditional jump that becomes one with a before it.
func (m *Model) fuses(a *image.Operands, c image.Class, b *image.Operands) bool {
	if !m.fusion.branch || b.Op != image.OpBranch || b.Reads.General>>image.Flags&1 == 0 || a.Writes.General>>image.Flags&1 == 0 {
		return false
	}
	if c&image.Store != 0 || a.Op != image.OpALU && a.Op != image.OpALUFlags {
		return false
	}
	return m.fusion.wideBranch || c&image.Compare != 0
}

// writers has the last writer of each register: 1 + its step, 0 is none. Negative
// ones are of the execution before.
type writers struct {
	by     [image.Registers]int32
	update [image.Registers]bool // the write steps an address
}

// step enters what step i writes.
func (w *writers) step(i int, in image.Inst, o *image.Operands) {
	if in.Class&(image.DirCall|image.IndCall) != 0 {
		*w = writers{}
		return
	}
	o.Update.Each(func(r int) { w.by[r], w.update[r] = int32(i+1), true })
	o.Writes.Each(func(r int) { w.by[r], w.update[r] = int32(i+1), false })
}

// carry makes all writers those of the execution before.
func (w *writers) carry() {
	for r, by := range w.by {
		w.by[r] = -by
	}
}

// depend enters what step i waits for. An operation on memory needs the address
// first and its other operands only once the load is done.
func (p *plan) depend(i int, w *writers, in image.Inst, o *image.Operands) {
	s := &p.steps[i]
	if s.fused { // it goes with the one before
		s.deps = len(p.deps)
		return
	}
	early := 0.0
	if in.Class&image.Load != 0 && o.Op != image.OpNone && !whole(o.Op) {
		early = p.m.memory[accessOf(o, loadGeneral)].latency
	}
	o.Reads.Each(func(r int) { p.depends(w, r, -early) })
	o.Address.Each(func(r int) {
		if p.m.stack && w.update[r] {
			return
		}
		extra := p.m.address
		if in.Class&image.Load != 0 && !o.Vector && w.loads(p, r) {
			extra -= p.m.chased
		}
		p.depends(w, r, extra)
	})
	s.deps = len(p.deps)
}

// loads reports whether register r comes from a load and nothing but a load.
func (w *writers) loads(p *plan, r int) bool {
	by := max(w.by[r], -w.by[r])
	return by > 0 && !w.update[r] && p.steps[by-1].op == image.OpNone && p.steps[by-1].mem != nil
}

// depends enters that a step waits for register r, and extra cycles after it.
func (p *plan) depends(w *writers, r int, extra float64) {
	by := int(w.by[r])
	if by == 0 {
		return
	}
	d := dep{on: by - 1}
	if by < 0 {
		d = dep{on: -by - 1, carried: true}
	}
	from := &p.steps[d.on]
	switch {
	case w.update[r]:
		d.wait = p.m.ops[image.OpALU].latency + max(extra, 0)
	case extra > 0 && from.mem != nil: // results of loads reach addresses as fast as anything
		d.wait = from.latency
	default:
		d.wait = from.latency + extra
	}
	p.deps = append(p.deps, d)
}

// of returns the dependencies of step i.
func (p *plan) of(i int) []dep {
	lo := 0
	if i > 0 {
		lo = p.steps[i-1].deps
	}
	return p.deps[lo:p.steps[i].deps]
}
