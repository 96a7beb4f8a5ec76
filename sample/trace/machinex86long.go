package trace

import "math/bits"

// first returns the words of the first source of a vector operation, and which of them are known.
func (x *machineX86) first(op *Op) (*[8]uint64, uint8) { return &x.v[op.Cond&31], x.vk[op.Cond&31] }

// second returns those of the second one: op.Ext bytes, if they are in memory.
func (x *machineX86) second(op *Op, d *X86Detail, ea uint64, kea bool, buf *[8]uint64) (*[8]uint64, uint8) {
	if op.Flags&X86HasMem == 0 {
		return &x.v[op.Src&31], x.vk[op.Src&31]
	}
	if !kea {
		return buf, 0
	}
	n := op.Ext
	if d.Broadcast {
		v, k := x.fetch(ea, d.Elem)
		v = repeat(v, d.Elem)
		*buf = [8]uint64{v, v, v, v, v, v, v, v}
		if k {
			return buf, 0xff
		}
		return buf, 0
	}
	var known uint8
	for j := uint8(0); j*8 < n; j++ {
		v, k := x.fetch(ea+uint64(j)*8, min(8, n-j*8))
		if buf[j] = v; k {
			known |= 1 << j
		}
	}
	return buf, known
}

// result makes a vector register r, as far as the mask says, of which known says which words are known.
func (x *machineX86) result(op *Op, d *X86Detail, r *[8]uint64, known uint8) {
	to, n := op.Dst&31, int(op.Size+7)/8
	all := uint8(1<<n - 1)
	known &= all
	if d.Mask != 0 {
		if x.mk>>d.Mask&1 == 0 {
			known = 0
		}
		was := x.vk[to]
		if d.Zero {
			was = 0xff
		}
		m, elem := x.masks[d.Mask], max(d.Elem, 1)
		known &= was // of a word all is known or nothing
		for j := range n {
			var bit uint64
			for e := 0; e < 8; e += int(elem) {
				if m>>((8*j+e)/int(elem))&1 != 0 {
					bit |= ones(elem) << (8 * e)
				}
			}
			old := x.v[to][j]
			if d.Zero {
				old = 0
			}
			r[j] = r[j]&bit | old&^bit
		}
	}
	copy(x.v[to][:n], r[:n])
	x.vk[to] = x.vk[to]&^all | known
	if d.VEX {
		x.empty(to, n)
	}
}

// usual reports whether arithmetic is as it is done here.
func (x *machineX86) usual() bool { return x.mxk && x.mxcsr&mxcsrUsual == 0 }

// note notes that there was no other exception than that a result was rounded, if only that; it is not looked for.
func (x *machineX86) note(only bool) {
	const rounded = 32
	x.raised = x.raised && only && x.mxcsr&rounded != 0
}

// ordinary reports whether the number of size bytes at the bottom of v is 0 or neither denormal nor infinite, nor none.
func ordinary(v uint64, size uint8) bool {
	if size == 4 {
		e := v >> 23 & 0xff
		return e != 0 && e != 0xff || v&0x7fffffff == 0
	}
	e := v >> 52 & 0x7ff
	return e != 0 && e != 0x7ff || v<<1 == 0
}

// quiet reports whether what makes r of numbers v and w without another exception than that it is rounded.
func quiet(d *X86Detail, v, w, r uint64) bool {
	size := d.Elem
	zero := func(n uint64, size uint8) bool { return n<<(64-8*size)<<1 == 0 }
	switch d.What {
	case X86FFromInt:
		return true
	case X86FToInt, X86FToIntCut:
		return ordinary(w, 4) && uint32(r) != 1<<31
	case X86FCompare, X86FMin, X86FMax:
		return ordinary(v, size) && ordinary(w, size)
	case X86FToOther:
		return ordinary(w, 12-size) && ordinary(r, size) && (!zero(r, size) || zero(w, 12-size))
	case X86FAdd, X86FSub:
		return ordinary(v, size) && ordinary(w, size) && ordinary(r, size)
	case X86FSqrt, X86FRound:
		return ordinary(w, size) && ordinary(r, size)
	}
	return ordinary(v, size) && ordinary(w, size) && ordinary(r, size) && (!zero(r, size) || zero(v, size) || zero(w, size))
}

// knownIf is known if yes.
func knownIf(yes bool, known uint8) uint8 {
	if yes {
		return known
	}
	return 0
}

// allOf returns all ones if all of n words are known.
func allOf(known uint8, n int) uint8 {
	if m := uint8(1<<n - 1); known&m == m {
		return 0xff
	}
	return 0
}

// long is for the kinds above X86Long. It reports whether the flags are set.
func (x *machineX86) long(op *Op, ea uint64, kea bool, r *uint64, known *bool) (sets bool) {
	if op.Kind >= X86Highs {
		return x.longGeneral(op, ea, kea, r, known)
	}
	d := op.detail()
	n := int(op.Size+7) / 8
	var out, buf [8]uint64
	switch op.Kind {
	case X86Vwords:
		v, kv := x.first(op)
		w, kw := x.second(op, &d, ea, kea, &buf)
		k := kv & kw
		switch {
		case d.What == X86Ternary:
			a := &x.v[op.Dst&31]
			for j := range n {
				out[j] = ternary(a[j], v[j], w[j], d.Imm)
			}
			if k &= x.vk[op.Dst&31]; d.Imm == 0 || d.Imm == 0xff {
				k = 0xff
			}
		case d.What >= X86FAdd:
			k = knownIf(x.usual() || d.What == X86FMin || d.What == X86FMax || d.What == X86FCompare, k)
			if d.Unary {
				k = knownIf(x.usual(), kw)
			}
			for j := range n {
				out[j] = floats(d.What, v[j], w[j], d.Elem, d.Imm)
				if x.raised {
					x.note(k>>j&1 != 0 && quiet(&d, v[j], w[j], out[j]) && (d.Elem == 8 || quiet(&d, v[j]>>32, w[j]>>32, out[j]>>32)))
				}
			}
		default:
			if d.Unary {
				k = kw
			}
			for j := range n {
				out[j] = wordOf(d.What, v[j], w[j])
			}
			if op.Flags&X86HasMem == 0 && op.Cond == op.Src && (d.What == X86LaneXor || d.What == X86LaneAndn || d.What >= X86EqualB && d.What <= X86MoreQ || d.What >= X86SubB && d.What <= X86SubQ) {
				k = 0xff
			}
		}
		x.result(op, &d, &out, k)
	case X86Vshifts:
		v, k := x.first(op)
		by := uint64(d.Imm)
		if !d.Unary {
			w, kw := x.second(op, &d, ea, kea, &buf)
			by = w[0]
			k = knownIf(kw&1 != 0, k)
		}
		for j := range n {
			out[j] = shifted(d.What, v[j], by)
		}
		x.result(op, &d, &out, k)
	case X86Vscalar:
		x.scalar(op, &d, ea, kea)
	case X86Vlanes:
		v, kv := x.first(op)
		w, kw := x.second(op, &d, ea, kea, &buf)
		k := kv & kw
		if d.Unary {
			k = kw
		}
		switch d.What {
		case X86HAddF, X86HSubF:
			k, x.raised = knownIf(x.usual(), k), false
		case X86UnpackLow, X86UnpackHigh:
			if half := uint8(d.What - X86UnpackLow); op.Size == 16 && k>>half&1 != 0 {
				k = 3
			}
		}
		for j := 0; j < n; j += 2 {
			l := laneOp(d, lane16{v[j], v[j+1]}, lane16{w[j], w[j+1]})
			out[j], out[j+1] = l[0], l[1]
			if k>>j&3 != 3 {
				k &^= 3 << j
			}
			switch { // the immediate has other bits for the next 16 bytes
			case d.What == X86BlendD:
				d.Imm >>= 4
			case d.What == X86BlendQ, d.Elem == 8 && (d.What == X86ShuffleF || d.What == X86PermuteF):
				d.Imm >>= 2
			}
		}
		x.result(op, &d, &out, k)
	case X86Vwide:
		x.wide(op, &d, ea, kea)
	case X86Vblend:
		v, kv := x.first(op)
		w, kw := x.second(op, &d, ea, kea, &buf)
		by, kb := &x.v[d.Imm&31], x.vk[d.Imm&31]
		for j := range n {
			var m uint64
			for e := uint(0); e < 64; e += 8 * uint(d.Elem) {
				if by[j]>>(e+8*uint(d.Elem)-1)&1 != 0 {
					m |= ones(d.Elem) << e
				}
			}
			out[j] = v[j]&^m | w[j]&m
		}
		x.result(op, &d, &out, kv&kw&kb)
	case X86Vfused:
		x.fused(op, &d, ea, kea)
	case X86Vcompare:
		a, ka := x.word(op.Dst, 0)
		w, kw := x.second(op, &d, ea, kea, &buf)
		f, g := float64frombits(a), float64frombits(w[0])
		if op.Size == 4 {
			f, g = float64frombits(lengthen(uint32(a))), float64frombits(lengthen(uint32(w[0])))
		}
		set := flag(f == g, zf) | flag(f < g, cf)
		if f != f || g != g {
			set = zf | pf | cf
		}
		x.setFlags(flagsRaw, 8, set, 0, 0)
		*known = ka && kw&1 != 0 && x.mxk && x.mxcsr&64 == 0
		if x.raised {
			x.note(*known && ordinary(a, op.Size) && ordinary(w[0], op.Size))
		}
		return true
	case X86Vfloat:
		v, kv := x.first(op)
		from, k := uint64(0), false
		if op.Flags&X86HasMem != 0 {
			from, k = x.load(ea, kea, op.Ext)
		} else {
			from, k = x.regs[op.Src&15], x.knows(op.Src&15)
		}
		i := extend(from, op.Ext)
		out = *v
		x.note(true)
		if k = k && x.usual(); op.Size == 8 {
			out[0] = float64bits(float64(i))
		} else {
			out[0] = out[0]&^0xffffffff | uint64(float32bits(float32(i)))
			k = k && kv&1 != 0
		}
		kv = kv&^1 | knownIf(k, 1)
		x.wholeLow(op, &d, &out, kv)
	case X86Vinteger:
		w, kw := x.second(op, &d, ea, kea, &buf)
		f := float64frombits(w[0])
		if op.Size == 4 {
			f = float64frombits(lengthen(uint32(w[0])))
		}
		*r, *known = toInt(f, op.Cond, d.What == X86FToIntCut), kw&1 != 0 && (x.usual() || d.What == X86FToIntCut)
		x.note(*known && ordinary(w[0], op.Size) && *r != 1<<(8*op.Cond-1))
	case X86Vsigns:
		top := 8*uint(d.Elem) - 1
		*known = true
		at := 0
		for j := range n {
			v, k := x.word(op.Src, j)
			*known = *known && k
			for e := uint(0); e < 64; e += 8 * uint(d.Elem) {
				*r |= v >> (e + top) & 1 << at
				at++
			}
		}
	case X86Vextract:
		at := uint(d.Imm) * uint(op.Size) % 16
		v, k := x.word(op.Src, int(at/8))
		*r, *known = v>>(at%8*8)&ones(op.Size), k
	case X86Vinsert:
		v, kv := x.first(op)
		var e uint64
		var k bool
		if op.Flags&X86HasMem != 0 {
			e, k = x.load(ea, kea, op.Ext)
		} else {
			e, k = x.regs[op.Src&15], x.knows(op.Src&15)
		}
		out = *v
		at := uint(d.Imm) * uint(op.Ext) % 16
		m := ones(op.Ext) << (at % 8 * 8)
		out[at/8] = out[at/8]&^m | e<<(at%8*8)&m
		if !k {
			kv &^= 1 << (at / 8)
		} else if op.Ext == 8 {
			kv |= 1 << (at / 8)
		}
		x.wholeLow(op, &d, &out, kv)
	case X86Vmove:
		if op.Flags&X86HasMem != 0 && d.Mask != 0 && !d.Broadcast && x.mk>>d.Mask&1 != 0 {
			x.maskedLoad(op, &d, ea, kea, &buf)
			break
		}
		w, kw := x.second(op, &d, ea, kea, &buf)
		out = *w
		x.result(op, &d, &out, kw)
	case X86Vmerge:
		v, kv := x.first(op)
		w, kw := x.second(op, &d, ea, kea, &buf)
		out = *v
		m := ones(op.Size)
		k := kw & 1
		if op.Size < 8 {
			k &= kv
		}
		out[0] = w[0]&m | v[0]&^m
		x.wholeLow(op, &d, &out, kv&^1|k)
	case X86Vhalf:
		v, kv := x.first(op)
		w, kw := x.second(op, &d, ea, kea, &buf)
		out = *v
		to, from := d.Imm&1, d.Imm>>1&1
		out[to] = w[from]
		x.wholeLow(op, &d, &out, kv&^(1<<to)|kw>>from&1<<to)
	case X86Vput:
		x.putVector(op, &d, ea, kea)
		return false
	case X86Vtomask:
		x.toMask(op, &d, ea, kea)
	case X86Vrepeat:
		v, k := repeat(x.regs[op.Src&15], d.Elem), x.knows(op.Src&15)
		out = [8]uint64{v, v, v, v, v, v, v, v}
		x.result(op, &d, &out, knownIf(k, 0xff))
	case X86Mask, X86MaskTo, X86MaskFrom, X86MaskPut, X86MaskTest:
		return x.mask(op, &d, ea, kea, r, known)
	default:
		x.end = EndOp
	}
	return false
}

// wholeLow makes the lowest 16 bytes of a vector register r.
func (x *machineX86) wholeLow(op *Op, d *X86Detail, r *[8]uint64, known uint8) {
	to := op.Dst & 31
	x.v[to][0], x.v[to][1] = r[0], r[1]
	x.vk[to] = x.vk[to]&^3 | known&3
	if d.VEX {
		x.empty(to, 2)
	}
}

// scalar is for X86Vscalar.
func (x *machineX86) scalar(op *Op, d *X86Detail, ea uint64, kea bool) {
	var buf [8]uint64
	v, kv := x.first(op)
	w, kw := x.second(op, d, ea, kea, &buf)
	out := *v
	k := kw&1 != 0 && (kv&1 != 0 || d.Unary && op.Size == 8)
	switch d.What {
	case X86FToOther: // size is that of the result
		if op.Size == 8 {
			out[0] = lengthen(uint32(w[0]))
		} else {
			out[0] = out[0]&^0xffffffff | uint64(shorten(w[0]))
		}
	default:
		if op.Size == 8 {
			out[0] = floatOf(d.What, v[0], w[0], d.Imm)
		} else {
			out[0] = out[0]&^0xffffffff | uint64(floatOf(d.What, uint32(v[0]), uint32(w[0]), d.Imm))
		}
	}
	k = k && (x.usual() || d.What == X86FMin || d.What == X86FMax || d.What == X86FCompare)
	if x.raised {
		x.note(k && quiet(d, v[0], w[0], out[0]))
	}
	x.wholeLow(op, d, &out, kv&^1|knownIf(k, 1))
}

// wide is for X86Vwide.
func (x *machineX86) wide(op *Op, d *X86Detail, ea uint64, kea bool) {
	var buf [8]uint64
	v, kv := x.first(op)
	w, kw := x.second(op, d, ea, kea, &buf)
	if op.Flags&X86WritesDst != 0 { // to memory
		w, kw = &x.v[op.Src&31], x.vk[op.Src&31]
	}
	n := int(op.Size+7) / 8
	reads := n // words of the second source
	switch what := d.What; {
	case what >= X86ExtendBW && what <= X86ExtendDQ:
		e := extends[what-X86ExtendBW]
		reads = (n*int(e[0]) + int(e[1]) - 1) / int(e[1])
	case what >= X86ZeroBW && what <= X86ZeroDQ:
		e := extends[what-X86ZeroBW]
		reads = (n*int(e[0]) + int(e[1]) - 1) / int(e[1])
	case what == X86SpreadAll:
		reads = max(1, int(d.Imm)/8)
	case what == X86InsertLane:
		reads = int(d.Imm & 15)
	case what == X86ExtractLane:
		reads, kw = n, kw>>(d.Imm>>4)
	case what == X86IntToDouble || what == X86FloatToDouble:
		reads = (n + 1) / 2
	case what >= X86DoubleToFloat:
		reads = 2 * n
	}
	k := allOf(kw, reads)
	if !d.Unary {
		k &= allOf(kv, n)
	}
	if d.What == X86DoubleToFloat || d.What == X86DoubleToInt {
		k = knownIf(x.usual(), k)
	}
	if d.What == X86FloatToDouble || d.What == X86DoubleToIntCut {
		k = knownIf(x.mxk && x.mxcsr&64 == 0, k)
	}
	out := wideOp(*d, v, w, n)
	if d.What >= X86FloatToDouble && d.What <= X86DoubleToIntCut {
		x.raised = false
	}
	if op.Flags&X86WritesDst != 0 { // to memory
		x.putWords(op, ea, kea, &out, k)
		return
	}
	x.result(op, d, &out, k)
	if d.What >= X86DoubleToFloat && op.Size == 8 && !d.VEX { // the rest of 16 bytes
		x.setWord(op.Dst, 1, 0, true)
	}
}

// putWords stores size bytes.
func (x *machineX86) putWords(op *Op, ea uint64, kea bool, v *[8]uint64, known uint8) {
	if !kea {
		x.end = EndAddress
		return
	}
	for j := uint8(0); j*8 < op.Size; j++ {
		if !x.put(ea+uint64(j)*8, min(8, op.Size-j*8), v[j], known>>j&1 != 0) {
			return
		}
	}
}

// putVector stores a vector register, as far as the mask says.
func (x *machineX86) putVector(op *Op, d *X86Detail, ea uint64, kea bool) {
	v, k := &x.v[op.Src&31], x.vk[op.Src&31]
	if d.Mask == 0 {
		x.putWords(op, ea, kea, v, k)
		return
	}
	if x.mk>>d.Mask&1 == 0 {
		var none [8]uint64
		x.putWords(op, ea, kea, &none, 0)
		return
	}
	if !kea {
		x.end = EndAddress
		return
	}
	elem := max(d.Elem, 1)
	for i := uint8(0); i*elem < op.Size; i++ {
		at := i * elem
		if x.masks[d.Mask]>>i&1 != 0 && !x.put(ea+uint64(at), elem, v[at/8]>>(at%8*8), k>>(at/8)&1 != 0) {
			return
		}
	}
}

// maskedLoad reads what the mask has of memory, which need not be there otherwise.
func (x *machineX86) maskedLoad(op *Op, d *X86Detail, ea uint64, kea bool, buf *[8]uint64) {
	known := uint8(0xff)
	elem := max(d.Elem, 1)
	for i := uint8(0); i*elem < op.Size; i++ {
		if x.masks[d.Mask]>>i&1 == 0 {
			continue
		}
		at := i * elem
		v, k := x.load(ea+uint64(at), kea, elem)
		buf[at/8] |= v << (at % 8 * 8)
		if !k {
			known &^= 1 << (at / 8)
		}
	}
	x.result(op, d, buf, known)
}

// fused is for X86Vfused: imm is the order of the operands, as in the names of instructions, and bit 0 of its
// upper half says that the product is subtracted, bit 1 that the sum is, bit 2 that the lowest element is all,
// bits 3 and 4 that signs take turns.
func (x *machineX86) fused(op *Op, d *X86Detail, ea uint64, kea bool) {
	var buf [8]uint64
	u, ku := &x.v[op.Dst&31], x.vk[op.Dst&31]
	v, kv := x.first(op)
	w, kw := x.second(op, d, ea, kea, &buf)
	k := knownIf(x.usual(), ku&kv&kw)
	a, b, c := u, w, v // 132
	switch d.Imm & 3 {
	case 1: // 213
		a, b, c = v, u, w
	case 2: // 231
		a, b, c = v, w, u
	}
	negate, minus, scalar := d.Imm>>4&1 != 0, d.Imm>>5&1 != 0, d.Imm>>6&1 != 0
	turns := d.Imm >> 2 & 3 // 1: subtracts from even elements, 2: from odd ones
	out := *u
	n := int(op.Size+7) / 8
	if scalar {
		n = 1
	}
	for j := range n {
		if isNone(a[j], d.Elem) || isNone(b[j], d.Elem) || isNone(c[j], d.Elem) {
			k &^= 1 << j // which of them is the result depends on the order
		}
		ok, all := x.raised && k>>j&1 != 0, d.Elem == 4 && !scalar
		only := func(r uint64) bool {
			yes := func(h uint64) bool {
				return ordinary(a[j]>>h, d.Elem) && ordinary(b[j]>>h, d.Elem) && ordinary(c[j]>>h, d.Elem) && ordinary(r>>h, d.Elem) && r>>h<<(64-8*d.Elem)<<1 != 0
			}
			return ok && yes(0) && (!all || yes(32))
		}
		if d.Elem == 8 {
			p, q := a[j], c[j]
			if negate {
				p ^= 1 << 63
			}
			if minus || turns == 1 && j&1 == 0 || turns == 2 && j&1 != 0 {
				q ^= 1 << 63
			}
			out[j] = fuse64(p, b[j], q)
			x.note(only(out[j]))
			continue
		}
		var r uint64
		for h := range 2 {
			p, q := uint32(a[j]>>(32*h)), uint32(c[j]>>(32*h))
			if negate {
				p ^= 1 << 31
			}
			if minus || turns == 1 && h == 0 || turns == 2 && h != 0 {
				q ^= 1 << 31
			}
			r |= uint64(fuse32(p, uint32(b[j]>>(32*h)), q)) << (32 * h)
		}
		x.note(only(r))
		if out[j] = r; scalar {
			out[j] = r&0xffffffff | u[j]&^0xffffffff
		}
	}
	if scalar {
		x.wholeLow(op, d, &out, ku&^1|k&1)
		return
	}
	x.result(op, d, &out, k)
}

// isNone reports whether one of the numbers of a word is none.
func isNone(v uint64, size uint8) bool {
	if size == 8 {
		return isNone64(v)
	}
	return isNone32(uint32(v)) || isNone32(uint32(v>>32))
}

// toMask is for X86Vtomask.
func (x *machineX86) toMask(op *Op, d *X86Detail, ea uint64, kea bool) {
	var buf [8]uint64
	v, kv := x.first(op)
	w, kw := x.second(op, d, ea, kea, &buf)
	n := int(op.Size) / 8
	known := allOf(kv&kw, n) != 0
	per := 8 / int(d.Elem)
	var m uint64
	for i := range n * per {
		at := i % per * int(d.Elem) * 8
		a, b := v[i/per]>>at&ones(d.Elem), w[i/per]>>at&ones(d.Elem)
		var yes bool
		switch s, t := extend(a, d.Elem), extend(b, d.Elem); d.What {
		case X86IsLess:
			yes = orders(d.Imm, s == t, s < t)
		case X86IsLessU:
			yes = orders(d.Imm, a == b, a < b)
		case X86TestAny:
			yes = a&b != 0
		case X86TestNone:
			yes = a&b == 0
		}
		m |= flag(yes, 1<<i)
	}
	if d.Mask != 0 {
		m &= x.masks[d.Mask]
		known = known && x.mk>>d.Mask&1 != 0
	}
	x.setMask(op.Dst, m, known)
}

// orders is by the immediate of vpcmp.
func orders(how uint8, equal, less bool) bool {
	var yes bool
	switch how & 3 {
	case 0:
		yes = equal
	case 1:
		yes = less
	case 2:
		yes = less || equal
	}
	return yes != (how&4 != 0)
}

func (x *machineX86) setMask(r uint8, v uint64, known bool) {
	r &= 7
	x.masks[r] = v
	if known {
		x.mk |= 1 << r
	} else {
		x.mk &^= 1 << r
	}
}

// mask is for what there is of mask registers alone.
func (x *machineX86) mask(op *Op, d *X86Detail, ea uint64, kea bool, r *uint64, known *bool) (sets bool) {
	m := ones(op.Size)
	v, w := x.masks[op.Cond&7]&m, x.masks[op.Src&7]&m
	kv, kw := x.mk>>(op.Cond&7)&1 != 0, x.mk>>(op.Src&7)&1 != 0
	width := 8 * uint(op.Size)
	switch op.Kind {
	case X86MaskTo:
		*r, *known = w, kw
	case X86MaskFrom:
		if op.Flags&X86HasMem != 0 {
			w, kw = x.load(ea, kea, op.Size)
		} else {
			w, kw = x.regs[op.Src&15]&m, x.knows(op.Src&15)
		}
		x.setMask(op.Dst, w, kw)
	case X86MaskPut:
		*r, *known = w, kw
	case X86MaskTest: // cond: 0 is kortest
		v, kv = x.masks[op.Dst&7]&m, x.mk>>(op.Dst&7)&1 != 0
		*known = kv && kw
		if d.Imm == 0 {
			x.setFlags(flagsRaw, 8, flag(v|w == 0, zf)|flag(v|w == m, cf), 0, 0)
		} else {
			x.setFlags(flagsRaw, 8, flag(v&w == 0, zf)|flag(^v&w == 0, cf), 0, 0)
		}
		return true
	case X86Mask:
		var out uint64
		k := kv && kw
		switch d.What {
		case X86MaskAnd:
			out = v & w
		case X86MaskAndn:
			out = ^v & w
		case X86MaskOr:
			out = v | w
		case X86MaskXor:
			out = v ^ w
			if op.Cond == op.Src {
				k = true
			}
		case X86MaskXnor:
			out = ^(v ^ w)
			if op.Cond == op.Src {
				k = true
			}
		case X86MaskAdd:
			out = v + w
		case X86MaskNot:
			out, k = ^w, kw
		case X86MaskCopy:
			out, k = w, kw
		case X86MaskUnpack:
			half := ones(op.Size / 2)
			out = v&half<<(width/2) | w&half
		case X86MaskLeft:
			out, k = w<<d.Imm, kw
		case X86MaskRight:
			out, k = w>>d.Imm, kw
		}
		x.setMask(op.Dst, out&m, k)
	}
	return false
}

// kindsOfBytes does what an operation on bytes does for X86Highs.
func (x *machineX86) kindsOfBytes(kind Kind, cond uint8, a, b uint64, known bool) (r uint64, sets bool) {
	switch kind {
	case X86Mov, X86Movzx:
		return b, false
	case X86Add:
		x.setFlags(flagsAdd, 1, a, b, a+b)
		return a + b, true
	case X86Sub, X86Cmp:
		x.setFlags(flagsSub, 1, a, b, a-b)
		return a - b, true
	case X86And, X86Test:
		x.setFlags(flagsLogic, 1, 0, 0, a&b)
		return a & b, true
	case X86Or:
		x.setFlags(flagsLogic, 1, 0, 0, a|b)
		return a | b, true
	}
	x.setFlags(flagsLogic, 1, 0, 0, a^b) // X86Xor
	return a ^ b, true
}

// longGeneral is for the kinds on general registers.
func (x *machineX86) longGeneral(op *Op, ea uint64, kea bool, r *uint64, known *bool) (sets bool) {
	d := op.detail()
	size := op.Size
	switch op.Kind {
	case X86Highs:
		return x.highs(op, &d, ea, kea, r, known)
	case X86Unknown:
		x.known &^= uint32(op.Imm) & 0x1ffff
	case X86Moves, X86Stores, X86Scans, X86Compares, X86Loads:
		x.strings(op)
	case X86MulByte:
		v, k := x.operand(op, ea, kea, 1)
		p := int64(x.regs[0]&0xff) * int64(v)
		over := p > 0xff
		if op.Cond != 0 {
			p = int64(int8(x.regs[0])) * int64(int8(v))
			over = p != int64(int8(p))
		}
		x.setReg(0, 2, uint64(p), k && x.knows(0))
		x.setFlags(flagsCarry, 1, 0, flag(over, cf|of), uint64(p))
		*known = k && x.knows(0)
		return true
	case X86DivByte:
		v, k := x.operand(op, ea, kea, 1)
		kind := X86Div
		if op.Cond != 0 {
			kind = X86Idiv
		}
		x.div(&Op{Kind: kind, Size: 1}, v, k)
	case X86CmpxchgReg:
		a, b := x.regs[op.Dst&15]&ones(size), x.regs[op.Src&15]&ones(size)
		was := x.regs[0] & ones(size)
		k := x.knows(0) && x.knows(op.Dst&15)
		x.setFlags(flagsSub, size, was, a, was-a)
		x.knowFlags(k)
		switch {
		case !k:
			x.known &^= 1 | 1<<(op.Dst&15)
		case was == a:
			x.setReg(op.Dst, size, b, x.knows(op.Src&15))
		default:
			x.setReg(0, size, a, true)
		}
	case X86CmpxchgTwo:
		x.exchangeTwo(op, ea, kea)
	case X86Mulx:
		v, k := x.operand(op, ea, kea, size)
		k = k && x.knows(2)
		high, low := bits.Mul64(v, x.regs[2]&ones(size))
		if size == 4 {
			high = low >> 32
		}
		x.setReg(op.Cond, size, low, k)
		*r, *known = high, k
	case X86Pdep, X86Pext:
		m, k := x.operand(op, ea, kea, size)
		v := x.regs[op.Cond&15] & ones(size)
		*r, *known = scatter(v, m), k && x.knows(op.Cond&15)
		if op.Kind == X86Pext {
			*r = gather(v, m)
		}
	case X86Bextr:
		v, k := x.operand(op, ea, kea, size)
		by := x.regs[op.Cond&15]
		*r, *known = v>>(by&0xff)&(1<<(by>>8&0xff)-1), k && x.knows(op.Cond&15)
		x.setFlags(flagsLogic, size, 0, 0, *r)
		return true
	case X86Adx:
		v, k := x.operand(op, ea, kea, size)
		f := x.flags()
		which := uint64(cf)
		if op.Cond == 11 {
			which = of
		}
		sum, carry := bits.Add64(v, x.regs[op.Dst&15]&ones(size), flag(f&which != 0, 1))
		if size == 4 {
			carry = sum >> 32 & 1
		}
		*r = sum & ones(size)
		*known = k && x.knows(op.Dst&15) && x.known&(knownFlags|noCarry) == knownFlags
		x.setFlags(flagsRaw, size, f&^which|flag(carry != 0, which), 0, 0)
		return true
	case X86Crc32:
		v, k := x.operand(op, ea, kea, size)
		*r, *known = crc32c(uint32(x.regs[op.Dst&15]), v, size), k && x.knows(op.Dst&15)
	case X86Direction:
		x.back = d.Imm != 0
	case X86Carry:
		f := x.flags()
		switch d.Imm {
		case 0:
			f &^= cf
		case 1:
			f |= cf
		default:
			f ^= cf
			if x.known&noCarry != 0 {
				x.known &^= knownFlags
			}
		}
		x.fkind, x.fa = flagsRaw, f
		if d.Imm < 2 {
			x.known &^= noCarry
		}
	case X86BitMem:
		x.bitMem(op, ea, kea, r, known, &d)
		return true
	case X86Mxcsr:
		if op.Cond == 2 {
			v, k := x.load(ea, kea, 4)
			x.mxcsr, x.mxk, x.raised = uint32(v), k, k
		} else if !kea {
			x.end = EndAddress
		} else {
			x.put(ea, 4, uint64(x.mxcsr), x.mxk && x.raised)
		}
	case X86Fcw:
		if op.Cond == 5 {
			v, k := x.load(ea, kea, 2)
			x.fcw, x.fcwk = uint16(v), k
		} else if !kea {
			x.end = EndAddress
		} else {
			x.put(ea, 2, uint64(x.fcw), x.fcwk)
		}
	default:
		x.end = EndOp
	}
	return false
}

// returnsValue reports whether the result of a long operation is to be put where it says: others do that themselves.
func returnsValue(k Kind) bool {
	switch k {
	case X86Vinteger, X86Vsigns, X86Vextract, X86MaskTo, X86MaskPut, X86Mulx, X86Pdep, X86Pext, X86Bextr, X86Adx, X86Crc32:
		return true
	}
	return false
}

// operand returns the source, a register or memory.
func (x *machineX86) operand(op *Op, ea uint64, kea bool, size uint8) (uint64, bool) {
	if op.Flags&X86HasMem != 0 {
		return x.load(ea, kea, size)
	}
	return x.regs[op.Src&15] & ones(size), x.knows(op.Src & 15)
}

// highs is for operations on %ah and the like.
func (x *machineX86) highs(op *Op, d *X86Detail, ea uint64, kea bool, r *uint64, known *bool) (sets bool) {
	get := func(reg uint8, high bool) (uint64, bool) {
		if reg >= 16 {
			return x.load(ea, kea, 1)
		}
		v := x.regs[reg]
		if high {
			v >>= 8
		}
		return v & 0xff, x.knows(reg)
	}
	kind := Kind(op.Cond)
	var a, b uint64
	ka, kb := true, true
	if op.Src == X86Imm {
		b = uint64(uint8(op.Imm >> 32))
	} else {
		b, kb = get(op.Src, d.Imm&2 != 0)
	}
	if kind != X86Mov && kind != X86Movzx {
		a, ka = get(op.Dst, d.Imm&1 != 0)
	}
	v, sets := x.kindsOfBytes(kind, 0, a, b, ka && kb)
	if *known = ka && kb; sets {
		x.knowFlags(*known)
	}
	if kind == X86Cmp || kind == X86Test {
		return false
	}
	if op.Dst < 16 && d.Imm&1 != 0 { // the byte stays known or not with its register
		reg := op.Dst
		x.regs[reg] = x.regs[reg]&^0xff00 | v&0xff<<8
		if !*known {
			x.known &^= 1 << reg
		}
		return false
	}
	if op.Dst < 16 {
		if kind == X86Movzx {
			x.setReg(op.Dst, op.Size, v&0xff, *known)
		} else {
			x.setReg(op.Dst, 1, v, *known)
		}
		return false
	}
	if !kea {
		x.end = EndAddress
		return false
	}
	x.put(ea, 1, v, *known)
	return false
}

// exchangeTwo is for cmpxchg8b and cmpxchg16b.
func (x *machineX86) exchangeTwo(op *Op, ea uint64, kea bool) {
	if !kea {
		x.end = EndAddress
		return
	}
	size := op.Size
	low, kl := x.fetch(ea, size)
	high, kh := x.fetch(ea+uint64(size), size)
	known := kl && kh && x.knows(0) && x.knows(2)
	f := x.flags() &^ zf
	switch {
	case !known:
		x.known &^= knownFlags | 1 | 1<<2
		if x.put(ea, size, 0, false) {
			x.put(ea+uint64(size), size, 0, false)
		}
		return
	case low == x.regs[0]&ones(size) && high == x.regs[2]&ones(size):
		f |= zf
		if x.put(ea, size, x.regs[3], x.knows(3)) {
			x.put(ea+uint64(size), size, x.regs[1], x.knows(1))
		}
	default:
		x.setReg(0, size, low, true)
		x.setReg(2, size, high, true)
	}
	x.fkind, x.fa = flagsRaw, f
	if x.known&knownFlags == 0 {
		x.known |= knownFlags | noCarry
	}
}

// bitMem is for bit strings in memory.
func (x *machineX86) bitMem(op *Op, ea uint64, kea bool, r *uint64, known *bool, d *X86Detail) {
	size := op.Size
	n := extend(x.regs[op.Src&15], size)
	if !kea || !x.knows(op.Src&15) {
		*known = false
		if d.Imm != 0 {
			x.end = EndAddress
		}
		x.setFlags(flagsRaw, size, 0, 0, 0)
		return
	}
	at := ea + uint64(n>>3)&^uint64(size-1) // towards -infinity
	v, k := x.fetch(at, size)
	bit := uint64(1) << (uint64(n) & (8*uint64(size) - 1))
	x.setFlags(flagsRaw, size, flag(v&bit != 0, cf)|x.flags()&zf, 0, 0)
	*known = k
	switch d.Imm {
	case 1:
		v |= bit
	case 2:
		v &^= bit
	case 3:
		v ^= bit
	default:
		return
	}
	x.put(at, size, v, k)
}

// scatter puts the low bits of v where m has bits, gather does the reverse.
func scatter(v, m uint64) (r uint64) {
	for ; m != 0; m &= m - 1 {
		r |= v & 1 * (m & -m)
		v >>= 1
	}
	return r
}

func gather(v, m uint64) (r uint64) {
	for i := 0; m != 0; m &= m - 1 {
		r |= flag(v&m&-m != 0, 1<<i)
		i++
	}
	return r
}

// crc32c adds size bytes to a checksum.
func crc32c(crc uint32, v uint64, size uint8) uint64 {
	for range size {
		crc ^= uint32(v & 0xff)
		v >>= 8
		for range 8 {
			crc = crc>>1 ^ crc&1*0x82f63b78
		}
	}
	return uint64(crc)
}

// mostRepeated is how many bytes or elements a string instruction goes through at most.
const mostRepeated = 1 << 24

// strings is for string instructions, which are one instruction each.
func (x *machineX86) strings(op *Op) {
	const rsi, rdi, rcx = 6, 7, 1
	n, size := uint64(1), op.Size
	if op.Ext != 0 { // repeated
		if !x.knows(rcx) {
			x.end = EndAddress
			return
		}
		n = x.regs[rcx]
	}
	if !x.knows(rdi) && op.Kind != X86Loads || !x.knows(rsi) && op.Kind != X86Stores && op.Kind != X86Scans {
		x.end = EndAddress
		return
	}
	if n > mostRepeated {
		x.end = EndRoom
		return
	}
	step := uint64(size)
	if x.back {
		step = -step
	}
	from, to := &x.regs[rsi], &x.regs[rdi]
	switch op.Kind {
	case X86Moves:
		if wide := n * uint64(size); !x.back && size < 8 && *to-*from >= 8 && wide >= 8 { // the same by 8 bytes
			for ; wide >= 8; wide -= 8 {
				v, k := x.fetch(*from, 8)
				if !x.put(*to, 8, v, k) {
					return
				}
				*from += 8
				*to += 8
			}
			n = wide / uint64(size)
		}
		for ; n > 0; n-- {
			v, k := x.fetch(*from, size)
			if !x.put(*to, size, v, k) {
				return
			}
			*from += step
			*to += step
		}
	case X86Stores:
		k := x.knows(0)
		if wide := n * uint64(size); !x.back && size < 8 {
			v := repeat(x.regs[0], size)
			for ; wide >= 8; wide -= 8 {
				if !x.put(*to, 8, v, k) {
					return
				}
				*to += 8
			}
			n = wide / uint64(size)
		}
		for ; n > 0; n-- {
			if !x.put(*to, size, x.regs[0], k) {
				return
			}
			*to += step
		}
	case X86Loads:
		if op.Ext != 0 {
			x.end = EndOp
			return
		}
		v, k := x.fetch(*from, size)
		x.setReg(0, size, v, k)
		*from += step
		return
	default:
		x.compareStrings(op, n, step)
		return
	}
	if op.Ext != 0 {
		x.regs[rcx] = 0
	}
}

// compareStrings is for scas and cmps.
func (x *machineX86) compareStrings(op *Op, n, step uint64) {
	const rsi, rdi, rcx = 6, 7, 1
	size := op.Size
	for ; n > 0; n-- {
		b, kb := x.fetch(x.regs[rdi], size)
		a, ka := x.regs[0]&ones(size), x.knows(0)
		if op.Kind == X86Compares {
			a, ka = x.fetch(x.regs[rsi], size)
			x.regs[rsi] += step
		}
		x.regs[rdi] += step
		x.setFlags(flagsSub, size, a, b, a-b)
		if x.knowFlags(ka && kb); op.Ext == 0 {
			return
		}
		x.regs[rcx]--
		if !ka || !kb {
			x.known &^= 1<<rcx | 1<<rdi | flagKnown(op.Kind == X86Compares, 1<<rsi)
			return
		}
		if (a == b) != (op.Ext == 1) {
			return
		}
	}
}

func flagKnown(yes bool, bit uint32) uint32 { return uint32(flag(yes, uint64(bit))) }
