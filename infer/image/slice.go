package image

import (
	"cmp"
	"slices"
)

// reg is a general register: 0-15 on x86-64 by encoding, 0-30 and spReg on AArch64.
type reg = int8

const spReg reg = 31 // of AArch64; on x86-64 the stack pointer is register 4

// what says what an instruction does, as far as an address can be followed through it.
type what uint8

const (
	doNothing what = iota
	doAdd          // dst = a + b<<shift + c; absent registers are 0
	doLoad         // dst = the size bytes at a + b<<shift + c
	doStore        // the size bytes at a + b<<shift + c = src, and those behind them = src2 if pair
	doAnd          // dst = a & c
	doNarrow       // dst = the low size bytes of a
	doShr          // dst = a >> c, of a register of size bytes
	doCmp          // compares a with c
	doCmpMem       // compares the size bytes at a + b<<shift + c with imm
	doCall         // clobbers what the calling convention allows
)

// An effect is the meaning of one instruction.
type effect struct {
	what   what
	dst    reg
	src    reg
	src2   reg
	pair   bool
	a, b   reg
	shift  uint8
	size   uint8
	signed bool
	flags  bool // writes the flags
	c, imm int64
	clob   uint32 // registers written otherwise, a bit each
}

// A sum is c + reg<<scale, of what reg holds at offset at; reg may be noReg.
type sum struct {
	c     int64
	reg   reg
	scale uint8
	at    int
}

// A value is what a register can be shown to hold: sum, plus, if load, the size bytes at from.
type value struct {
	sum
	load   bool
	from   sum
	size   uint8
	signed bool
	shift  uint8 // of the loaded value
}

func (v value) isConst() bool { return !v.load && v.reg == noReg }

// add returns v + w<<shift; false if that is no value.
func add(v, w value, shift uint8) (value, bool) {
	w.c <<= shift
	w.scale += shift
	w.shift += shift
	if v.load && w.load || v.reg != noReg && w.reg != noReg {
		return value{}, false
	}
	if w.load {
		v, w = w, v
	}
	v.c += w.c
	if v.reg == noReg {
		v.reg, v.at, v.scale = w.reg, w.at, w.scale
	}
	return v, true
}

// A slicer follows values backwards through the code of one procedure that is
// decoded so far. It is only asked at indirect jumps.
type slicer struct {
	b     *builder
	preds []pred
	steps int
	most  int64        // values of the narrowest types that an index came through, the widest of all paths
	busy  map[int]bool // offsets of the instructions whose operands are being followed

	entered bool // a value was followed to where other code leads, too
	within  bool // what registers hold there is what they hold along the paths to it inside, or to where it leads
}

// maxSteps bounds the work for one question about an indirect jump.
const maxSteps = 20000

// A pred is a jump to an offset.
type pred struct {
	to, off int32
	n       int32 // as they were found
}

func newSlicer(b *builder) *slicer {
	s := &slicer{b: b, preds: b.preds[:0], busy: make(map[int]bool)}
	add := func(to Addr, from int) {
		if off, ok := b.inside(to); ok {
			s.preds = append(s.preds, pred{int32(off), int32(from), int32(len(s.preds))})
		}
	}
	for i := range b.transfers {
		t := &b.transfers[i]
		if t.Class&(Jump|CondJump) != 0 {
			add(t.Target, t.off)
		}
		if t.table != nil {
			for _, a := range t.table.targets {
				add(a, t.off)
			}
		}
	}
	slices.SortFunc(s.preds, func(a, b pred) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.n, b.n)) })
	b.preds = s.preds
	return s
}

// jumpsTo returns the jumps to off.
func (s *slicer) jumpsTo(off int) []pred {
	lo, _ := slices.BinarySearchFunc(s.preds, int32(off), func(p pred, off int32) int { return cmp.Compare(p.to, off) })
	hi := lo
	for hi < len(s.preds) && s.preds[hi].to == int32(off) {
		hi++
	}
	return s.preds[lo:hi]
}

// A step leads to an instruction: from the one at off, by its
// jump if taken.
type step struct {
	off   int
	taken bool
}

// before returns the steps that lead to off. entry reports whether there are others.
func (s *slicer) before(off int) (steps []step, entry bool) {
	b := s.b
	if b.mark[off]&markFall != 0 {
		steps = append(steps, step{b.instAt(off - 1), false})
	}
	for _, p := range s.jumpsTo(off) {
		steps = append(steps, step{int(p.off), true})
	}
	return steps, b.mark[off]&markEntry != 0 || len(steps) == 0
}

// effect returns the meaning of the instruction at off.
func (s *slicer) effect(off int) effect {
	if s.b.im.Arch == AArch64 {
		return armEffect(s.b.code[off:], s.b.lo+Addr(off), s.b.im.Go != "")
	}
	s.b.x86.decode(s.b.code[off:])
	return s.b.x86.effect(s.b.lo+Addr(off), s.b.im.Go != "")
}

// A regAt is a register before the instruction at off.
type regAt struct {
	reg reg
	off int
}

// valueBefore returns what r may hold before the instruction at off: the different
// values along the paths there. What is not known is the register itself.
func (s *slicer) valueBefore(r reg, off int) []value {
	return s.values(r, off, make(map[regAt]bool))
}

// operand returns what r may hold before the instruction at off, which reads it.
// An instruction that feeds itself around a loop is not followed again.
func (s *slicer) operand(r reg, off int) []value {
	if r == noReg {
		return []value{{sum: sum{reg: noReg}}}
	}
	if s.busy[off] {
		return unknownValue(r, off)
	}
	s.busy[off] = true
	defer delete(s.busy, off)
	return s.valueBefore(r, off)
}

const maxValues = 64

func unknownValue(r reg, off int) []value { return []value{{sum: sum{reg: r, at: off}}} }

func (s *slicer) values(r reg, off int, seen map[regAt]bool) []value {
	for {
		key := regAt{r, off}
		if seen[key] {
			return nil // around a loop: nothing new
		}
		if s.b.mark[off]&markLead != 0 {
			seen[key] = true
		}
		if s.steps++; s.steps > maxSteps {
			return unknownValue(r, off)
		}
		steps, entry := s.before(off)
		if entry && off > 0 {
			s.entered, entry = true, !s.within
		}
		switch {
		case entry:
			return unknownValue(r, off)
		case len(steps) == 0:
			return nil
		}
		if len(steps) > 1 {
			return s.join(r, off, steps, seen)
		}
		if vs, done := s.through(r, steps[0].off); done {
			return vs
		}
		off = steps[0].off
	}
}

// join returns the values of r along several paths to off.
func (s *slicer) join(r reg, off int, steps []step, seen map[regAt]bool) []value {
	var out []value
	for _, st := range steps {
		vs, done := s.through(r, st.off)
		if !done {
			vs = s.values(r, st.off, seen)
		}
		for _, v := range vs {
			if !contains(out, v) {
				out = append(out, v)
			}
		}
		if len(out) > maxValues {
			return unknownValue(r, off)
		}
	}
	return out
}

func contains(vs []value, v value) bool {
	for _, w := range vs {
		if w == v {
			return true
		}
	}
	return false
}

// through returns the values of r behind the instruction at off, if that writes r.
func (s *slicer) through(r reg, off int) ([]value, bool) {
	e := s.effect(off)
	if e.dst != r {
		if e.clob>>r&1 != 0 {
			return unknownValue(r, off), true
		}
		return nil, false
	}
	switch e.what {
	case doAdd:
		return s.sums(e, off), true
	case doLoad:
		return s.loads(e, r, off), true
	}
	return unknownValue(r, off), true
}

// sums returns the values of a + b<<shift + c before off.
func (s *slicer) sums(e effect, off int) []value {
	var out []value
	bs := s.operand(e.b, off)
	for i := range bs {
		switch {
		case bs[i].load && (e.shift == 0 || s.mayBeTable(bs[i])):
			bs[i].signed = bs[i].signed || e.signed // AArch64 extends as it adds
		case e.shift > 0:
			bs[i] = here(bs[i], e.b, off)
		}
	}
	for _, a := range s.operand(e.a, off) {
		if e.b == noReg && a.load && a.size == 4 {
			a.signed = a.signed || e.signed // cltq
		}
		for _, b := range bs {
			v, ok := add(a, b, e.shift)
			if !ok {
				v = value{sum: sum{reg: e.dst, at: off}}
			}
			v.c += e.c
			out = append(out, v)
		}
		if len(out) > maxValues {
			return unknownValue(e.dst, off)
		}
	}
	return out
}

// loads returns the values of the memory at a + b<<shift + c before off. A register
// that is not known stays the register of this very instruction: the check of
// its bounds comes before it, and perhaps after it was computed.
func (s *slicer) loads(e effect, r reg, off int) []value {
	if s.isStack(e.a) && e.b == noReg {
		if vs, ok := s.spilled(e, off); ok {
			return vs
		}
	}
	var out []value
	as := s.operand(e.a, off)
	bs := unknownValue(e.b, off) // what is scaled is an index
	if e.b == noReg || e.shift == 0 {
		bs = s.operand(e.b, off)
	}
	for i := range as {
		if e.b != noReg || as[i].load || s.b.im.segment(Addr(as[i].c)) == nil { // else a table plus an index, added before
			as[i] = here(as[i], e.a, off)
		}
	}
	for i := range bs {
		bs[i] = here(bs[i], e.b, off)
	}
	for _, a := range as {
		for _, b := range bs {
			addr, ok := add(a, b, e.shift)
			if !ok {
				return unknownValue(r, off)
			}
			addr.c += e.c
			out = append(out, value{sum: sum{reg: noReg}, load: true, from: addr.sum, size: e.size, signed: e.signed})
		}
		if len(out) > maxValues {
			return unknownValue(r, off)
		}
	}
	return out
}

// mayBeTable tells a load from a table from one of a variable. A shared object is linked at 0,
// where its headers are: what is loaded from such a small distance to a register is no table.
func (s *slicer) mayBeTable(v value) bool {
	headers := 64 + 56*int64(len(s.b.im.elf.Progs))
	return !s.isStack(v.from.reg) && v.from.c >= headers && s.b.im.segment(Addr(v.from.c)) != nil
}

// here returns v, which r holds before off, or r itself if v is not made of constants:
// bounds are checked between where an index is computed and where it is used.
func here(v value, r reg, off int) value {
	if v.load || v.reg != noReg && v.scale == 0 {
		return value{sum: sum{reg: r, at: off}}
	}
	return v
}

// isStack reports whether r is the stack or the frame pointer.
func (s *slicer) isStack(r reg) bool {
	if s.b.im.Arch == AArch64 {
		return r == spReg || r == 29
	}
	return r == 4 || r == 5
}

// spilled returns what a stack slot holds if every store to it in the procedure
// stores one constant: compilers spill the address of a table that a loop uses.
func (s *slicer) spilled(e effect, off int) ([]value, bool) {
	var out []value
	from := 0
	if s.b.im.Arch == AArch64 && e.a == spReg {
		from = s.b.prologueEnd()
	}
	for at := from; at < len(s.b.mark); at++ {
		if s.b.mark[at]&markInst == 0 {
			continue
		}
		w := s.effect(at)
		if w.what != doStore || w.a != e.a || w.b != noReg {
			continue
		}
		src, touched := w.stored(e.c, e.size)
		if !touched {
			continue
		}
		if src == noReg || s.steps > maxSteps {
			return nil, false
		}
		for _, v := range s.operand(src, at) {
			if !v.isConst() {
				return nil, false
			}
			if !contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out, len(out) == 1
}

// stored returns the register that a store writes to the size bytes at offset c from
// its base: noReg if it is not just one. touched is whether it writes to them at all.
func (e *effect) stored(c int64, size uint8) (src reg, touched bool) {
	n := int64(e.size)
	switch {
	case e.c == c && e.size == size:
		return e.src, true
	case e.pair && e.c+n == c && e.size == size:
		return e.src2, true
	case e.pair:
		n *= 2
	}
	return noReg, e.c < c+int64(size) && c < e.c+n
}

// A cell is where an index lives on the path back from its use: a register, or
// memory.
type cell struct {
	reg   reg // noReg: memory
	a, b  reg
	shift uint8
	size  uint8
	c     int64
}

// limits of an index.
const (
	noLimit  = -1 // some path has no bound
	loopOnly = -2 // only around a loop: says nothing
)

type cellAt struct {
	cell
	off int
}

// limit returns how many values the index r can have before the instruction at off,
// by a check of its bounds: 1 + the greatest, or noLimit. most is what its type
// allows: more than the table has, often.
func (s *slicer) limit(r reg, off int) (n, most int64) {
	s.most = 0
	n = s.limitOf(cell{reg: r}, off, make(map[cellAt]int64))
	if n == loopOnly {
		n = noLimit
	}
	if s.most == 0 {
		s.most = maxEntries
	}
	return n, s.most
}

func (s *slicer) limitOf(c cell, off int, seen map[cellAt]int64) int64 {
	key := cellAt{c, off}
	if n, ok := seen[key]; ok {
		return n
	}
	seen[key] = loopOnly
	if s.steps++; s.steps > maxSteps {
		return noLimit
	}
	steps, entry := s.before(off)
	if entry {
		return noLimit
	}
	n := int64(loopOnly)
	for _, st := range steps {
		m := s.limitVia(c, st, seen)
		if m == noLimit {
			n = noLimit
			break
		}
		n = max(n, m)
	}
	seen[key] = n
	return n
}

// limitVia is limitOf along one path.
func (s *slicer) limitVia(c cell, st step, seen map[cellAt]int64) int64 {
	if t := s.b.transferAt(st.off); t != nil && t.Class&CondJump != 0 {
		if n := s.guard(c, st); n != noLimit {
			return n
		}
	}
	e := s.effect(st.off)
	if c.reg == noReg {
		src, touched := e.stored(c.c, c.size)
		if e.what == doStore && e.a == c.a && e.b == c.b && e.shift == c.shift && touched {
			if src == noReg {
				return noLimit
			}
			c = cell{reg: src}
		} else if writes(e, c.a) || writes(e, c.b) || e.what == doCall && !s.isStack(c.a) {
			return noLimit
		}
	} else if writes(e, c.reg) {
		// What a mask, a shift or a narrow type leaves room for is more than the
		// table has where the compiler knew more of the values.
		s.most = max(s.most, room(e))
		from, n, ok := origin(c, e)
		if !ok {
			return n
		}
		c = from
	}
	return s.limitOf(c, st.off, seen)
}

func writes(e effect, r reg) bool { return r != noReg && (e.dst == r || e.clob>>uint(r)&1 != 0) }

// origin returns where the value of c came from before e wrote it. It is not ok
// where there is no use in going on: then n is how many values e leaves it.
func origin(c cell, e effect) (from cell, n int64, ok bool) {
	if e.dst != c.reg {
		return c, noLimit, false
	}
	switch e.what {
	case doAdd:
		if e.a != noReg && e.b == noReg && e.c == 0 {
			return cell{reg: e.a}, noLimit, true
		}
		if e.a == noReg && e.b != noReg && e.c == 0 && e.shift == 0 {
			return cell{reg: e.b}, noLimit, true
		}
		if e.a == noReg && e.b == noReg && e.c >= 0 {
			return c, e.c + 1, false
		}
	case doNarrow:
		return cell{reg: e.a}, noLimit, true
	case doLoad:
		return cell{reg: noReg, a: e.a, b: e.b, shift: e.shift, c: e.c, size: e.size}, noLimit, !e.writesAddress()
	}
	return c, noLimit, false
}

// room returns how many values the result of e can have by its operation alone; 0
// if that is no use.
func room(e effect) int64 {
	switch {
	case e.what == doAnd && e.c >= 0:
		return e.c + 1
	case e.what == doShr && int64(e.size)*8 > e.c && int64(e.size)*8-e.c < 16:
		return 1 << (int64(e.size)*8 - e.c)
	case (e.what == doNarrow || e.what == doLoad) && !e.signed && e.size <= 2:
		return 1 << (8 * e.size)
	}
	return 0
}

// writesAddress reports whether a load overwrites a register of its address.
func (e *effect) writesAddress() bool { return e.dst == e.a || e.dst == e.b }

// guard returns the limit that the conditional branch st puts on c, or noLimit.
func (s *slicer) guard(c cell, st step) int64 {
	inclusive, ok := s.below(st)
	if !ok {
		return noLimit
	}
	// The flags come from the nearest instruction that writes them.
	for off, n := st.off, 0; n < 8; n++ {
		steps, entry := s.before(off)
		if entry || len(steps) != 1 {
			return noLimit
		}
		off = steps[0].off
		e := s.effect(off)
		imm, hit := int64(0), false
		switch e.what {
		case doCmp:
			imm, hit = e.c, c.reg != noReg && e.a == c.reg
		case doCmpMem:
			imm, hit = e.imm, c.reg == noReg && c.a == e.a && c.b == e.b && c.shift == e.shift && c.c == e.c && c.size == e.size
		}
		if e.what == doCmp && c.reg != noReg && e.a != noReg && e.a != c.reg {
			hit = s.equal(c.reg, e.a, off)
		}
		switch {
		case hit && imm >= 0 && inclusive:
			return imm + 1
		case hit && imm > 0:
			return imm
		case e.flags:
			return noLimit
		case c.reg != noReg && writes(e, c.reg) && (e.what != doAdd || e.a == noReg || e.b != noReg || e.c != 0):
			return noLimit
		case c.reg != noReg && writes(e, c.reg):
			c.reg = e.a // a move between the comparison and the branch
		}
	}
	return noLimit
}

// maxCopy is how far before a comparison a copy of what it compares is looked for.
const maxCopy = 16

// equal reports whether two registers hold the same before off, as one was copied from the other:
// gcc compares an argument, and keeps a copy of it for the table.
func (s *slicer) equal(x, y reg, off int) bool {
	for range maxCopy {
		steps, entry := s.before(off)
		if entry || len(steps) != 1 {
			return false
		}
		off = steps[0].off
		e := s.effect(off)
		to, other := x, y
		if !writes(e, x) {
			to, other = y, x
		}
		switch {
		case !writes(e, to):
		case writes(e, other) || e.what != doAdd || e.a == noReg || e.b != noReg || e.c != 0 || e.dst != to:
			return false
		case e.a == other:
			return true
		default:
			x, y = e.a, other
		}
	}
	return false
}

// below reports whether the branch of st, followed by this step, means below as unsigned
// numbers, and whether equal is included.
func (s *slicer) below(st step) (inclusive, ok bool) {
	if s.b.im.Arch == AArch64 {
		return armBelow(s.b.code[st.off:], st.taken)
	}
	s.b.x86.decode(s.b.code[st.off:])
	switch cc := s.b.x86.op & 0xff0f; {
	case s.b.x86.op&0xf0 != 0x70 && s.b.x86.op&0xfff0 != map0F|0x80:
		return false, false
	case st.taken:
		return cc&15 == 6, cc&15 == 6 || cc&15 == 2 // jbe, jb
	default:
		return cc&15 == 7, cc&15 == 7 || cc&15 == 3 // ja, jae
	}
}
