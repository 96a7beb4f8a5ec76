package image

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"backfeed/sample/trace"
)

// A Trip is a branch that leaves a loop at every Turns-th of its executions, as the code says: the loop counts a
// register from one constant to another, or between addresses so far apart, and is left nowhere else.
type Trip struct {
	Block int // index into Proc.Blocks, which ends in the branch
	Edge  int // index into Proc.Edges, which leaves the loop
	Turns float64
}

// Trips returns those of p, by the head of the loop. Loops of AArch64 are not looked at.
func (im *Image) Trips(p *Proc) (all []Trip) {
	if im.Arch != X86_64 || !p.Complete {
		return nil
	}
	if !slices.ContainsFunc(p.Edges, func(e Edge) bool { return e.To <= e.From }) {
		return nil // without an edge back, there is no loop
	}
	c := &counting{im: im, p: p}
	c.dom = Dominators(p.Successors(), p.Entries)
	c.findLoops()
	for i := range c.loops {
		if t, ok := c.trip(&c.loops[i]); ok {
			all = append(all, t)
		}
	}
	return all
}

// Successors returns where each block leads to, indices into Blocks.
func (p *Proc) Successors() [][]int {
	next, all := make([][]int, len(p.Blocks)), make([]int, 0, len(p.Edges))
	for b := range p.Blocks {
		first := len(all)
		for _, e := range p.Blocks[b].Out {
			all = append(all, p.Edges[e].To)
		}
		next[b] = all[first:len(all):len(all)]
	}
	return next
}

// A counting finds the turns of the loops of one procedure.
type counting struct {
	im    *Image
	p     *Proc
	dom   *DomTree
	loops []natural
	insts [][]counted // by block; nil until it is decoded
	entry []bool      // by block: entered from elsewhere
}

// A natural is a loop: the blocks from which control comes back to its head without passing it.
type natural struct {
	head    int
	blocks  []int // by increasing index, the head included
	latches []int // blocks that lead to the head
}

// has reports whether b is a block of l.
func (l *natural) has(b int) bool {
	_, found := slices.BinarySearch(l.blocks, b)
	return found
}

// A counted is an instruction, with what it writes.
type counted struct {
	Inst
	op     trace.Op
	writes uint64 // general registers, and flags
}

// findLoops finds the loops that are entered at their heads alone.
func (c *counting) findLoops() {
	p := c.p
	c.insts, c.entry = make([][]counted, len(p.Blocks)), make([]bool, len(p.Blocks))
	for _, b := range p.Entries {
		c.entry[b] = true
	}
	last := make([]int, len(p.Blocks)) // by block: the loop that it was last put into, from 1 on
	for h := range p.Blocks {
		var latches []int
		for _, e := range p.Blocks[h].In {
			if from := p.Edges[e].From; c.dom.Dominates(h, from) {
				latches = append(latches, from)
			}
		}
		if len(latches) == 0 {
			continue
		}
		l := natural{head: h, blocks: []int{h}, latches: latches}
		number := len(c.loops) + 1
		last[h] = number
		for work := append([]int(nil), l.latches...); len(work) > 0; {
			b := work[len(work)-1]
			work = work[:len(work)-1]
			if last[b] == number {
				continue
			}
			last[b] = number
			l.blocks = append(l.blocks, b)
			for _, e := range p.Blocks[b].In {
				work = append(work, p.Edges[e].From)
			}
		}
		slices.Sort(l.blocks)
		c.loops = append(c.loops, l)
	}
}

// onceATurn reports whether block b runs once in each turn of l.
func (c *counting) onceATurn(l *natural, b int) bool {
	for _, latch := range l.latches {
		if !c.dom.Dominates(b, latch) {
			return false
		}
	}
	first, _ := slices.BinarySearchFunc(c.loops, l.blocks[0], func(o natural, b int) int { return cmp.Compare(o.head, b) })
	for i := first; i < len(c.loops) && c.loops[i].head <= l.blocks[len(l.blocks)-1]; i++ {
		if o := &c.loops[i]; o.head != l.head && o.has(b) && l.has(o.head) {
			return false
		}
	}
	return l.has(b)
}

// exit returns the only edge that leaves l; it is not ok if there are others, or if the procedure is left from there.
func (c *counting) exit(l *natural) (edge int, ok bool) {
	edge = -1
	for _, b := range l.blocks {
		if c.p.Blocks[b].Exit != NoExit || c.entry[b] {
			return 0, false
		}
		for _, e := range c.p.Blocks[b].Out {
			if l.has(c.p.Edges[e].To) {
				continue
			}
			if edge >= 0 {
				return 0, false
			}
			edge = e
		}
	}
	return edge, edge >= 0
}

// trip finds how often l turns.
func (c *counting) trip(l *natural) (t Trip, ok bool) {
	edge, ok := c.exit(l)
	if !ok {
		return t, false
	}
	b := c.p.Edges[edge].From
	test, ok := c.test(b, edge)
	if !ok || len(c.p.Blocks[b].Out) != 2 || !c.onceATurn(l, b) {
		return t, false
	}
	if t, ok := c.counts(l, edge, test); ok || test.bound < 0 {
		return t, ok
	}
	test.register, test.bound, test.exit = test.bound, test.register, test.exit.turned()
	return c.counts(l, edge, test)
}

// counts finds how often l turns until it is left by an edge, where the register of a test counts and the other one stays.
func (c *counting) counts(l *natural, edge int, test test) (t Trip, ok bool) {
	b := c.p.Edges[edge].From
	step, before, ok := c.step(l, b, test)
	if !ok || test.bound >= 0 && c.written(l, test.bound) {
		return t, false
	}
	for _, e := range c.p.Blocks[l.head].In {
		from := c.p.Edges[e].From
		if l.has(from) {
			continue
		}
		x, ok := c.distance(from, test)
		if before {
			x += step
		}
		turns, counts := turnsOf(x, step, test.exit)
		if !ok || !counts || t.Turns != 0 && t.Turns != turns {
			return t, false
		}
		t = Trip{b, edge, turns}
	}
	return t, t.Turns > 1
}

// A test compares a register with another one, or with a constant.
type test struct {
	at       int // index into the instructions of its block
	register int
	bound    int // register; -1 is a constant
	constant int64
	size     uint8
	exit     relation // of register to bound, where control leaves
}

// A relation is what holds of two numbers.
type relation uint8

const (
	never relation = iota
	equal
	less
	atMost
	more
	atLeast
)

// turned is the relation of the second number to the first one.
func (r relation) turned() relation {
	switch r {
	case less:
		return more
	case atMost:
		return atLeast
	case more:
		return less
	case atLeast:
		return atMost
	}
	return r
}

// conditions are the relations that condition codes stand for after a comparison of numbers that are far from
// where they wrap, and after one with 0; others are never. Their lowest bit negates them.
var conditions = [16]relation{
	0x2: less, 0x3: atLeast, // below
	0x4: equal,
	0x6: atMost, 0x7: more,
	0x8: less, 0x9: atLeast, // sign
	0xc: less, 0xd: atLeast,
	0xe: atMost, 0xf: more,
}

// test finds what the branch at the end of block b tests to leave by an edge.
func (c *counting) test(b, edge int) (t test, ok bool) {
	insts := c.decoded(b)
	last := len(insts) - 1
	if last < 1 || insts[last].Class&CondJump == 0 || insts[last].op.Kind != trace.CondJump {
		return t, false
	}
	cond := insts[last].op.Cond & 15
	if c.p.Edges[edge].Kind == FallThrough {
		cond ^= 1
	}
	t = test{bound: -1, exit: conditions[cond]}
	for t.at = last - 1; t.at >= 0 && insts[t.at].writes&(1<<Flags) == 0; t.at-- {
	}
	if t.at < 0 || t.exit == never {
		return t, false
	}
	o := &insts[t.at].op
	t.register, t.size = int(o.Dst), o.Size
	zero := cond>>1 == 2 || cond>>1 == 4 // a test of nothing but 0 and the sign
	switch {
	case o.Dst >= 16 || o.Size < 4:
		return t, false
	case o.Kind == trace.X86Cmp && o.Src == trace.X86Imm:
		t.constant = o.Imm
	case o.Kind == trace.X86Cmp && o.Src < 16:
		t.bound = int(o.Src)
	case o.Kind == trace.X86Test && o.Src == o.Dst && cond>>1 != 1 && cond>>1 != 3: // it carries nothing
	case (o.Kind == trace.X86Add || o.Kind == trace.X86Sub) && o.Src == trace.X86Imm && zero:
	case (o.Kind == trace.X86Inc || o.Kind == trace.X86Dec) && zero:
	default:
		return t, false
	}
	return t, true
}

// step returns by what the register of a test moves in each turn, and whether that is before the test.
func (c *counting) step(l *natural, b int, t test) (by int64, before, ok bool) {
	at, i, ok := c.onlyWrite(l, t.register)
	if !ok || !c.onceATurn(l, at) {
		return 0, false, false
	}
	by, ok = stepOf(&c.decoded(at)[i].op, t.register)
	if at == b {
		return by, i <= t.at, ok
	}
	return by, c.dom.Dominates(at, b), ok
}

// stepOf returns what an operation adds to a register.
func stepOf(o *trace.Op, register int) (by int64, ok bool) {
	if int(o.Dst) != register || o.Size < 4 {
		return 0, false
	}
	switch o.Kind {
	case trace.X86Add:
		return o.Imm, o.Src == trace.X86Imm
	case trace.X86Sub:
		return -o.Imm, o.Src == trace.X86Imm
	case trace.X86Inc:
		return 1, true
	case trace.X86Dec:
		return -1, true
	case trace.X86Lea:
		return int64(o.Disp), int(o.Base) == register && o.Index == trace.X86NoReg
	}
	return 0, false
}

// onlyWrite returns the instruction of l that writes a register, if there is but one.
func (c *counting) onlyWrite(l *natural, register int) (block, i int, ok bool) {
	block = -1
	for _, b := range l.blocks {
		for k, inst := range c.decoded(b) {
			if inst.writes>>register&1 == 0 {
				continue
			}
			if block >= 0 {
				return 0, 0, false
			}
			block, i = b, k
		}
	}
	return block, i, block >= 0
}

// written reports whether l writes a register.
func (c *counting) written(l *natural, register int) bool {
	for _, b := range l.blocks {
		for _, inst := range c.decoded(b) {
			if inst.writes>>register&1 != 0 {
				return true
			}
		}
	}
	return false
}

// A start is a number up to a constant: what a register held at a place, or 0.
type start struct {
	at       Addr // the instruction that gave it, or the start of a block; 0 of a constant
	register int
}

// distance returns how far the register of a test is from what it is compared with, at the end of a block.
func (c *counting) distance(b int, t test) (int64, bool) {
	from, x := c.origin(b, t.register)
	var to start
	y := t.constant
	if t.bound >= 0 {
		to, y = c.origin(b, t.bound)
	}
	if from.at == 0 && t.size == 4 {
		x = int64(int32(x))
	}
	return x - y, from == to
}

// originSteps is how many instructions are looked at to find where a number came from.
const originSteps = 500

// origin finds where a register got what it holds at the end of block b, and what was added to it since.
func (c *counting) origin(b, register int) (s start, add int64) {
	insts := c.decoded(b)
	i := len(insts) - 1
	for range originSteps {
		if i < 0 {
			block := &c.p.Blocks[b]
			if len(block.In) != 1 || c.entry[b] || c.p.Edges[block.In[0]].From == b {
				return start{block.Start, register}, add
			}
			b = c.p.Edges[block.In[0]].From
			insts = c.decoded(b)
			i = len(insts) - 1
			continue
		}
		in := &insts[i]
		i--
		if in.writes>>register&1 == 0 {
			continue
		}
		op := &in.op
		by, steps := stepOf(op, register)
		switch {
		case int(op.Dst) != register || op.Size < 4:
			return start{in.Addr, register}, add
		case steps:
			add += by
		case op.Kind == trace.X86Mov && op.Src == trace.X86Imm:
			return start{}, op.Imm + add
		case op.Kind == trace.X86Xor && op.Src == op.Dst:
			return start{}, add
		case op.Kind == trace.X86Mov && op.Src < 16:
			register = int(op.Src)
		case op.Kind == trace.X86Lea && op.Index == trace.X86NoReg && op.Base < 16:
			register, add = int(op.Base), add+int64(op.Disp)
		default:
			return start{in.Addr, register}, add
		}
	}
	return start{^Addr(0), -1 - b}, 0 // equal to none that is not found from the same place
}

// turnsOf returns how many times it is tested whether x, x + step, and so on have a relation to 0 until one does.
func turnsOf(x, step int64, exit relation) (turns float64, ok bool) {
	if step == 0 || bits.Len64(uint64(max(x, -x))) > 40 || bits.Len64(uint64(max(step, -step))) > 40 {
		return 0, false
	}
	if exit == less || exit == atMost { // mirrored
		x, step, exit = -x, -step, exit.turned()
	}
	left := float64(-x) / float64(step)
	switch {
	case exit == equal:
		return left + 1, left >= 0 && left == math.Trunc(left)
	case step < 0 || x > 0 || x == 0 && exit == atLeast:
		return 0, false // never, or at once
	case exit == atLeast:
		return math.Ceil(left) + 1, true
	}
	return math.Floor(left) + 2, true
}

// callClobbers are the registers that a call may change: all but those that it is to save.
const callClobbers = 1<<32 - 1 - (1<<3 | 1<<4 | 1<<5 | 1<<12 | 1<<13 | 1<<14 | 1<<15)

// decoded returns the instructions of block b.
func (c *counting) decoded(b int) []counted {
	if c.insts[b] != nil {
		return c.insts[b]
	}
	blk := &c.p.Blocks[b]
	all := make([]counted, 0, blk.Insts)
	var d x86
	for code, a := c.im.code(blk.Start, blk.End), blk.Start; len(code) > 0; {
		in := c.im.instIn(&d, code, a)
		ops := operands(&d, c.im.Arch, code[:in.Len], in)
		one := counted{in, d.walk(code[:in.Len], in), ops.Writes.General | ops.Update.General}
		if in.Class&(DirCall|IndCall) != 0 {
			one.writes |= callClobbers | 1<<Flags
		}
		all = append(all, one)
		code = code[in.Len:]
		a += Addr(in.Len)
	}
	c.insts[b] = all
	return all
}
