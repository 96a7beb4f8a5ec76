package explain

import (
	"math"
	"math/bits"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample/trace"
)

// How far the address of an access moves, as far as the code of its procedure tells, bounds how
// often it can miss:
//
//   - an address that arithmetic makes from the stack pointer is in the frame, and hits;
//   - an access reaches a new line at most as often as a register of its address changes: a step
//     of c bytes by c/64 of a line, anything else by one;
//   - what is made of a base and an index of few bits lies within a range: where that is less than
//     the first cache, it hits, but for the first pass since its base changed.
//
// Numbers of 32 bits and less are taken to be no addresses, and sums of an address and a number to
// stay within the object that it is of, as in C.

// A form is what a register holds.
type form uint8

const (
	unseen   form = iota // control does not come there
	number               // no address
	frame                // an address in the frame
	fixed                // an address in the data of the image
	anything             // more is not known
)

// A value is what is known of a register.
type value struct {
	form   form
	bits   uint8      // a number is not negative and less than 1 << bits; 64 is any
	lo, hi image.Addr // a fixed address is in [lo, hi)
}

var unknown = value{form: anything}

// numberOf is a number of so many bits.
func numberOf(n int) value {
	if n > 32 {
		n = 64
	}
	return value{form: number, bits: uint8(max(0, n))}
}

// join is what is known where either may be.
func (v value) join(u value) value {
	switch {
	case v.form == unseen || v == u:
		return u
	case u.form == unseen:
		return v
	case v.form != u.form:
		return unknown
	case v.form == number:
		return numberOf(int(max(v.bits, u.bits)))
	}
	return value{form: v.form, lo: min(v.lo, u.lo), hi: max(v.hi, u.hi)}
}

// plus is the sum.
func (v value) plus(u value) value {
	switch {
	case v.form == number && u.form == number:
		return numberOf(int(max(v.bits, u.bits)) + 1)
	case v.form == number && (u.form == frame || u.form == fixed):
		return u
	case u.form == number && (v.form == frame || v.form == fixed):
		return v
	}
	return unknown
}

// times is the value shifted to the left.
func (v value) times(shift int) value {
	if v.form == number {
		return numberOf(int(v.bits) + shift)
	}
	if shift == 0 {
		return v
	}
	return numberOf(64)
}

// low is the lower half of the value.
func (v value) low() value {
	if v.form == number && v.bits <= 32 {
		return v
	}
	return numberOf(32)
}

// registers are what is known of all of them.
type registers [32]value

// A move is an instruction that changes a register: by step, or to something else.
type move struct {
	i     int // index into Insts
	step  float64
	reset bool
}

// An address is what is known of the base of one and of its scaled index, before an instruction that accesses memory there.
type address struct{ base, index value }

// A reach is how far the addresses of a procedure move.
type reach struct {
	ops   []trace.Op // as Insts
	at    []address  // likewise
	moves [32][]move
	small bool // the frame stays in the first cache
}

const (
	// firstCache and secondCache are bytes that caches of data hold for long: no processor that has a model has less
	// than 32 and 256 KB.
	firstCache, secondCache = fits * (32 << 10), fits * (256 << 10)
	// passes is how often the code of a procedure is gone through for numbers to become no wider.
	passes = 4
)

// reaches finds how far the addresses of w move.
func (w *work) reaches() *reach {
	if w.reach != nil {
		return w.reach
	}
	r := &reach{ops: make([]trace.Op, len(w.exp.Insts)), at: make([]address, len(w.exp.Insts)), small: true}
	w.reach = r
	i := 0
	for _, in := range w.im.WalkInsts(w.r.Proc) {
		for i < len(w.exp.Insts) && uint64(w.exp.Insts[i].Addr) < in.Addr {
			i++
		}
		if i < len(w.exp.Insts) && uint64(w.exp.Insts[i].Addr) == in.Addr {
			r.ops[i] = in.Op
		}
	}
	var all registers
	for k := range all {
		all[k] = unknown
	}
	w.fixFrame(&all)
	in := make([]registers, len(w.r.Proc.Blocks)) // by block, at its start
	due := make([]bool, len(in))                  // what may be known there is other than when control last went on from there
	for b := range in {
		due[b] = true
		if w.entered(b) {
			in[b] = all
		}
	}
	for pass, changed := 0, true; changed; pass++ {
		changed = false
		for b := range in {
			if !due[b] {
				continue
			}
			due[b] = false
			v := in[b]
			for i := w.first[b]; i < w.first[b+1]; i++ {
				w.flow(i, &v)
			}
			for _, e := range w.r.Proc.Blocks[b].Out {
				next := w.r.Proc.Edges[e].To
				to := &in[next]
				for k := range v {
					if to[k] == v[k] {
						continue
					}
					u := to[k].join(v[k])
					if u == to[k] {
						continue
					}
					if pass > passes && u.form == number {
						u.bits = 64
					}
					to[k], changed, due[next] = u, true, true
				}
			}
		}
	}
	for b := range in {
		v := &in[b]
		for i := w.first[b]; i < w.first[b+1]; i++ {
			if m, ok := w.memory(i); ok {
				r.at[i] = addressOf(m, v)
			}
			w.move(i, v)
			w.flow(i, v)
		}
	}
	return r
}

// addressOf is what v has of the registers of m.
func addressOf(m image.Memory, v *registers) address {
	a := address{numberOf(0), numberOf(0)}
	if m.Base != image.NoReg {
		a.base = v[m.Base]
	}
	if m.Index != image.NoReg {
		a.index = v[m.Index].times(int(m.Scale))
	}
	return a
}

// entered reports whether control may come to block b otherwise than by its in-edges.
func (w *work) entered(b int) bool {
	block := &w.r.Proc.Blocks[b]
	return b == 0 || len(block.In) == 0 || block.Pad || !w.r.Proc.Complete || slices.Contains(w.r.Proc.Entries, b)
}

// fixFrame sets the stack pointer and the frame pointer.
func (w *work) fixFrame(v *registers) {
	v[w.stackPointer()] = value{form: frame}
	if w.frame >= 0 {
		v[w.frame] = value{form: frame}
	}
}

// changed returns the general registers that instruction i changes: a call, all that it may.
func (w *work) changed(i int) uint64 {
	o := &w.ops[i]
	if w.exp.Insts[i].Class&(image.DirCall|image.IndCall) != 0 {
		return 1<<32 - 1
	}
	return (o.Writes.General | o.Update.General) & (1<<32 - 1)
}

// flow has v go on over instruction i. The stack pointer and the frame pointer are in the frame behind it, whatever it is:
// what is called leaves them as they were.
func (w *work) flow(i int, v *registers) {
	set := w.changed(i)
	switch {
	case set == 0:
	case w.exp.Insts[i].Class&(image.DirCall|image.IndCall) != 0:
		for k := range v {
			v[k] = unknown
		}
	case set&(set-1) == 0: // most
		k := bits.TrailingZeros64(set)
		v[k] = w.result(i, k, v)
	default:
		before := *v
		for ; set != 0; set &= set - 1 {
			k := bits.TrailingZeros64(set)
			v[k] = w.result(i, k, &before)
		}
	}
	w.fixFrame(v)
}

// result is what instruction i leaves in register k.
func (w *work) result(i, k int, v *registers) value {
	o := &w.reach.ops[i]
	if w.exp.Insts[i].Class&(image.DirCall|image.IndCall) != 0 || int(o.Dst) != k {
		if w.im.Arch == image.AArch64 && int(o.Base) == k && o.Flags&(trace.ArmPre|trace.ArmPost) != 0 {
			return v[k].plus(numberOf(64))
		}
		return unknown
	}
	if w.im.Arch == image.AArch64 {
		return w.resultArm(o, v)
	}
	return w.resultX86(o, v)
}

// dataAt is an address of the image's data.
func (w *work) dataAt(a image.Addr) value {
	if lo, hi, ok := w.im.Data(a); ok {
		return value{form: fixed, lo: lo, hi: hi}
	}
	return unknown
}

// constant is what an immediate is: an address, in images that are not moved.
func (w *work) constant(imm int64) value {
	if imm < 0 {
		return numberOf(64)
	}
	if imm >= pageSize {
		if v := w.dataAt(image.Addr(imm)); v.form == fixed && w.im.Fixed() {
			return v
		}
	}
	return numberOf(bits.Len64(uint64(imm)))
}

func (w *work) resultX86(o *trace.Op, v *registers) (u value) {
	src := unknown
	switch {
	case o.Src == trace.X86Imm:
		src = w.constant(o.Imm)
	case o.Src == trace.X86Mem && o.Size < 8:
		src = numberOf(8 * int(o.Size))
	case o.Src < 16:
		src = v[o.Src]
	}
	size := o.Size
	switch dst := v[o.Dst]; o.Kind {
	case trace.X86Mov:
		u = src
	case trace.X86Movzx:
		if u, size = numberOf(8*int(o.Size)), 8; src.form == number && src.bits < u.bits {
			u = src
		}
	case trace.X86Movsx:
		if u, size = numberOf(64), o.Cond; src.form == number && int(src.bits) < 8*int(o.Size) {
			u = src
		}
	case trace.X86Lea:
		u = numberOf(64)
		if o.Disp >= 0 && (o.Base != trace.X86NoReg || o.Index == trace.X86NoReg) {
			u = numberOf(bits.Len32(uint32(o.Disp)))
		}
		if o.Base == trace.X86BaseImage {
			u = w.dataAt(image.Addr(uint32(o.Disp)))
		} else if o.Base < 16 {
			u = u.plus(v[o.Base])
		}
		if o.Index < 16 {
			u = u.plus(v[o.Index].times(int(o.Scale)))
		}
	case trace.X86Add:
		u = dst.plus(src)
	case trace.X86Inc:
		u = dst.plus(numberOf(1))
	case trace.X86Sub, trace.X86Dec:
		if o.Kind == trace.X86Dec || src.form == number {
			u = dst.plus(numberOf(64))
		} else {
			u = unknown
		}
	case trace.X86And:
		u = unknown
		if src.form == number && src.bits <= 32 {
			u = src
		} else if src.form == number && (dst.form == number || dst.form == frame || dst.form == fixed) {
			u = dst
		}
		if dst.form == number && dst.bits <= 32 && (u.form != number || dst.bits < u.bits) {
			u = dst
		}
	case trace.X86Or, trace.X86Xor:
		u = unknown
		if o.Kind == trace.X86Xor && o.Src == o.Dst {
			u = numberOf(0)
		} else if dst.form == number && src.form == number {
			u = dst.join(src)
		}
	case trace.X86Shl:
		u = numberOf(64)
		if o.Src == trace.X86Imm && dst.form == number {
			u = dst.times(int(o.Imm & 63))
		}
	case trace.X86Shr:
		u = numberOf(64)
		if o.Src == trace.X86Imm {
			wide := 8 * int(o.Size)
			if dst.form == number {
				wide = min(wide, int(dst.bits))
			}
			u = numberOf(wide - int(o.Imm&63))
		}
	case trace.X86Sar, trace.X86Imul, trace.X86Imul3, trace.X86Popcnt, trace.X86Neg, trace.X86Not:
		u = numberOf(64)
	case trace.X86Cmov:
		u = dst.join(src)
	default:
		return unknown
	}
	switch {
	case size == 4:
		u = u.low()
	case size < 4: // the rest stays
		if u = unknown; v[o.Dst].form == number {
			u = numberOf(max(int(v[o.Dst].bits), 8*int(size)))
		}
	}
	return u
}

func (w *work) resultArm(o *trace.Op, v *registers) (u value) {
	get := func(k uint8) value {
		switch {
		case k < 32:
			return v[k]
		case k == trace.ArmZero:
			return numberOf(0)
		}
		return unknown
	}
	second := unknown
	switch {
	case o.Flags&trace.ArmImm != 0:
		second = w.constant(o.Imm)
	case o.Ext == trace.ArmLSL:
		second = get(o.Index).times(int(o.Scale))
	case o.Ext == trace.ArmUXTB:
		second = numberOf(8).times(int(o.Scale))
	case o.Ext == trace.ArmUXTH:
		second = numberOf(16).times(int(o.Scale))
	case o.Ext == trace.ArmUXTW:
		second = get(o.Index).low().times(int(o.Scale))
	case o.Ext >= trace.ArmSXTB && o.Ext <= trace.ArmSXTW:
		second = numberOf(64)
	}
	switch o.Kind {
	case trace.ArmLea:
		return w.dataAt(image.Addr(uint64(o.Imm)))
	case trace.ArmAdd:
		if u = get(o.Src).plus(second); o.Flags&trace.ArmNot != 0 {
			if u = unknown; second.form == number {
				u = get(o.Src).plus(numberOf(64))
			}
		}
	case trace.ArmOrr:
		if u = unknown; o.Flags&trace.ArmNot == 0 && o.Src == trace.ArmZero {
			u = second
		}
	case trace.ArmAnd:
		if u = unknown; o.Flags&trace.ArmNot == 0 && second.form == number && second.bits <= 32 {
			u = second
		}
	case trace.ArmUbf:
		u = numberOf(int(o.Imm) + int(o.Scale))
	case trace.ArmLoad:
		if u = unknown; o.Size < 8 {
			if u = numberOf(8 * int(o.Size)); o.Flags&trace.ArmSign != 0 {
				u = numberOf(64)
			}
		}
		return u
	default:
		return unknown
	}
	if o.Size == 4 {
		u = u.low()
	}
	return u
}

// move notes what instruction i does to registers, which hold v before.
func (w *work) move(i int, v *registers) {
	r, o := w.reach, &w.reach.ops[i]
	called := w.exp.Insts[i].Class&(image.DirCall|image.IndCall) != 0
	for set := w.changed(i); set != 0; set &= set - 1 {
		k := bits.TrailingZeros64(set)
		step, ok := w.step(o, k)
		ok = ok && !called
		r.moves[k] = append(r.moves[k], move{i, math.Abs(step), !ok})
		if k != w.stackPointer() || int(o.Dst) != k || called {
			continue
		}
		// The frame is as large as it is made at once, and of any size where that is not a constant.
		if ok && math.Abs(step) > firstCache || !ok && w.result(i, k, v).form != frame {
			r.small = false
		}
	}
}

// step returns by what an operation steps register k; it is not ok if it does something else.
func (w *work) step(o *trace.Op, k int) (by float64, ok bool) {
	if w.im.Arch == image.AArch64 {
		switch {
		case o.Flags&(trace.ArmPre|trace.ArmPost) != 0 && int(o.Base) == k && int(o.Dst) != k:
			return float64(o.Disp), o.Index == trace.ArmNone
		case o.Kind == trace.ArmAdd && int(o.Dst) == k && int(o.Src) == k && o.Flags&trace.ArmImm != 0:
			return float64(o.Imm), true
		}
		return 0, false
	}
	if int(o.Dst) != k || o.Size < 4 {
		return 0, false
	}
	switch o.Kind {
	case trace.X86Add, trace.X86Sub:
		return float64(o.Imm), o.Src == trace.X86Imm
	case trace.X86Inc, trace.X86Dec:
		return 1, true
	case trace.X86Lea:
		return float64(o.Disp), int(o.Base) == k && o.Index == trace.X86NoReg
	}
	return 0, false
}

// A bound is how often an access may find what was not near.
type bound struct {
	frame        bool    // it is in the frame
	lines, pages float64 // new ones for each execution, at most
	expected     float64 // lines, by the estimated counts
	within       float64 // bytes of data of the image that it is always in; 0 is not known
	table        bool    // while its base stays, it is within less than the first cache
	second       bool    // likewise the second
	passes       float64 // lines of all that it is then in, for each execution, by the estimated counts; where table or second
}

// bounded returns what bounds access l, to m.
func (w *work) bounded(l int, m image.Memory) (b bound) {
	r := w.reaches()
	index := r.at[l].index
	sum := r.at[l].base.plus(index)
	if b.frame = r.small && sum.form == frame; b.frame {
		return b
	}
	b.lines, b.pages, b.expected = w.moved(l, m, false)
	few := math.Inf(1) // bytes between which it lies while its base stays
	if m.Index != image.NoReg && index.form == number && index.bits <= 32 {
		few = math.Ldexp(1, int(index.bits)) + float64(m.Size)
	}
	if sum.form == fixed {
		b.within = float64(sum.hi - sum.lo)
	} else if m.Base == image.NoReg && !math.IsInf(few, 1) {
		b.within = few
	}
	if few <= secondCache { // a pass over all of it for each base
		lines, pages, expected := w.moved(l, m, true)
		b.passes = expected * math.Ceil(few/lineSize)
		b.second = true
		if few <= firstCache {
			b.table = true
			b.lines = min(b.lines, lines*math.Ceil(few/lineSize))
			b.pages = min(b.pages, pages*math.Ceil(few/pageSize))
			b.expected = min(b.expected, b.passes)
		}
	}
	return b
}

// moved returns how many lines and pages the registers of an address, or its base alone, move by
// for each execution of l: at most, and lines by the estimated counts.
func (w *work) moved(l int, m image.Memory, baseOnly bool) (lines, pages, expected float64) {
	at := w.exp.Insts[l].Block
	add := func(block int, part, ofPage float64) {
		ratio := w.ratio(block, at)
		lines, pages = lines+ratio*part, pages+ratio*ofPage
		expected += min(ratio, w.r.Block[block].N/max(w.exp.Insts[l].N, 1e-300)) * part
	}
	add(0, 1, 1) // entered
	var count func(k int8, before int, scale, again float64)
	count = func(k int8, before int, scale, again float64) {
		if k == image.NoReg {
			return
		}
		if from, low, i, ok := w.copied(int(k), before); ok {
			count(from, i, scale, again+math.Ldexp(1, -low))
			return
		}
		for _, mv := range w.reach.moves[k] {
			block := w.exp.Insts[mv.i].Block
			if mv.reset {
				add(block, 1, 1)
			} else {
				add(block, min(1, mv.step*(scale/lineSize+again)), min(1, mv.step*(scale/pageSize+again)))
			}
		}
	}
	count(m.Base, l, 1, 0)
	if !baseOnly {
		count(m.Index, l, math.Ldexp(1, int(m.Scale)), 0)
	}
	return lines, pages, expected
}

// copied returns the register that register k is a copy of before instruction l, made by instruction i of the same block:
// k then moves as that one does, and begins anew each time that so many low bits of it do.
func (w *work) copied(k, l int) (from int8, low, i int, ok bool) {
	for i = l - 1; i >= w.first[w.exp.Insts[l].Block]; i-- {
		if w.changed(i)>>k&1 != 0 {
			from, low, ok = w.copies(i)
			return from, low, i, ok
		}
	}
	return 0, 0, 0, false
}

// copies reports whether instruction i sets its register to so many low bits of another.
func (w *work) copies(i int) (from int8, low int, ok bool) {
	o := &w.reach.ops[i]
	if w.exp.Insts[i].Class&(image.DirCall|image.IndCall) != 0 {
		return 0, 0, false
	}
	if w.im.Arch == image.AArch64 {
		switch {
		case o.Src >= 32 || o.Src == o.Dst:
			return 0, 0, false
		case o.Kind == trace.ArmUbf:
			return int8(o.Src), int(o.Imm), o.Cond == 0 && o.Scale == 0
		case o.Kind == trace.ArmAnd && o.Flags&(trace.ArmImm|trace.ArmNot) == trace.ArmImm && o.Imm&(o.Imm+1) == 0:
			return int8(o.Src), bits.Len64(uint64(o.Imm)), true
		}
		return 0, 0, false
	}
	switch {
	case o.Src >= 16 || o.Src == o.Dst || o.Size < 2: // of one byte, it may be the second of a register
		return 0, 0, false
	case o.Kind == trace.X86Mov && o.Size >= 4, o.Kind == trace.X86Movzx:
		return int8(o.Src), 8 * int(o.Size), true
	}
	return 0, 0, false
}

// ratio returns how often block b runs for each execution of block of, at most.
func (w *work) ratio(b, of int) float64 {
	if b == of {
		return 1
	}
	n, all := w.r.Block[b], w.r.Block[of]
	if all.N == 0 {
		return math.Inf(1)
	}
	most := n.N * withinError[all.Within] * withinError[n.Within]
	if min(all.Within, n.Within) <= infer.Low && w.r.Most != nil {
		most = max(n.N, w.r.Most[b])
	}
	return most / all.N
}

// withinError is the factor that counts may be off by among those of their procedure, by their
// within-function confidence.
var withinError = [...]float64{infer.None: infer.TimeFactor, infer.Low: infer.TimeFactor, infer.Medium: 2, infer.High: 1.1}

// touched reports whether the bytes that l accesses were accessed before it, on all paths that lead to it,
// since its address changed.
func (w *work) touched(l int, m image.Memory) bool {
	if m.Segment || m.Size == 0 {
		return false
	}
	t := touches{work: w, l: l, m: m, address: m.Registers(), left: maxBack}
	return t.before(w.exp.Insts[l].Block, l-1)
}

// touches is a search for accesses before l.
type touches struct {
	*work
	l       int
	m       image.Memory
	address image.RegSet
	left    int   // instructions to look at
	been    []int // blocks
}

// before reports whether all paths to the end of instruction i, of block b, have one. A path that comes
// back to where it was has one if those have that enter there.
func (t *touches) before(b, i int) bool {
	for ; i >= t.first[b]; i-- {
		if t.left--; t.left < 0 || t.exp.Insts[i].Class&(image.DirCall|image.IndCall) != 0 || changes(&t.ops[i], t.address) {
			return false // even an access by the same registers then was elsewhere
		}
		if o, ok := t.memory(i); ok && sameBase(o, t.m) && o.Size != 0 && o.Disp < t.m.Disp+int64(t.m.Size) && t.m.Disp < o.Disp+int64(o.Size) {
			return true
		}
	}
	if t.entered(b) {
		return false
	}
	for _, e := range t.r.Proc.Blocks[b].In {
		from := t.r.Proc.Edges[e].From
		if slices.Contains(t.been, from) {
			continue
		}
		t.been = append(t.been, from)
		if !t.before(from, t.first[from+1]-1) {
			return false
		}
	}
	return true
}
