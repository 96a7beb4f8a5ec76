package image

import (
	"slices"

	"backfeed/sample/trace"
)

// walk returns the operation of the instruction in that d holds.
func (d *x86) walk(code []byte, in Inst) trace.Op {
	o := x86Op{trace.Op{Kind: trace.Stop, Dst: trace.X86None, Src: trace.X86None, Base: trace.X86NoReg, Index: trace.X86NoReg}}
	if in.Class&Bad != 0 || d.n == 0 {
		return o.Op
	}
	if in.Class&Rep != 0 {
		if long, ok := d.walkLong(o, code, in); ok {
			return long
		}
		return o.Op
	}
	o.Size = d.opSize()
	if d.mem && !d.walkAddress(&o, code, in) {
		return o.Op
	}
	known := false
	if d.pfx&(pfx67|pfxREX2) == 0 {
		switch {
		case d.vex:
			known = d.walkVEX(&o, code)
		case d.op < map0F:
			known = d.walkGeneral(&o, in)
		case d.op < map38:
			known = d.walkGeneral(&o, in) || d.walkVector(&o, vectorForm{false, 16, uint8(d.regField())})
		case d.op < map3A:
			known = d.walkThree(&o)
		}
	}
	if known {
		if d.mem {
			o.Flags |= trace.X86HasMem
		}
		if o.Flags&trace.X86ReadsDst != 0 && o.Dst == trace.X86None || o.Flags&trace.X86ReadsSrc != 0 && o.Src == trace.X86None {
			o.Kind = trace.Stop
		}
		return o.Op
	}
	if long, ok := d.walkLong(o, code, in); ok {
		return long
	}
	return d.walkUnknown(o, code, in)
}

// An x86Op is an operation that becomes that of an instruction of x86-64.
type x86Op struct{ trace.Op }

// walkAddress fills in the memory operand.
func (d *x86) walkAddress(o *x86Op, code []byte, in Inst) bool {
	switch {
	case d.base == ripReg:
		a := int64(in.Addr) + int64(d.n) + d.disp
		if a != int64(uint32(a)) {
			return false
		}
		o.Base, o.Disp = trace.X86BaseImage, int32(uint32(a))
	default:
		o.Disp = int32(d.disp)
		if d.base >= 0 {
			o.Base = uint8(d.base)
		}
		if d.index >= 0 {
			o.Index, o.Scale = uint8(d.index), d.scale
		}
	}
	if d.pfx&pfxSeg != 0 {
		if slices.Contains(code[:len(code)-len(afterPrefixes(code))], 0x65) {
			return false
		}
		o.Flags |= trace.X86FS
	}
	return true
}

// walkUnknown says what an instruction that is not emulated leaves unknown.
func (d *x86) walkUnknown(o x86Op, code []byte, in Inst) trace.Op {
	// maskmovdqu stores where %rdi points
	elsewhere := d.op == map0F|0xf7 || in.Class&Store != 0 && !d.walkWhere(&o, code)
	if elsewhere || in.Class&(System|Trap|CondJump|Jump|IndJump|DirCall|IndCall|Ret|Push) != 0 {
		return trace.Op{Kind: trace.Stop}
	}
	u := d.uses(code)
	o.Kind, o.Src, o.Flags = trace.X86Clobber, trace.X86None, o.Flags&trace.X86FS
	w := u.Writes
	w.add(u.Update)
	w.add(d.walkHidden())
	o.Imm = int64(w.General&0xffff) | int64(w.General>>Flags&1)<<16 | int64(w.Vector)<<32
	if d.x87Control() {
		o.Imm |= 1 << 17
	}
	if in.Class&Store == 0 {
		o.Dst = trace.X86None
		return o.Op
	}
	if !d.mem { // string instructions and the like
		return trace.Op{Kind: trace.Stop}
	}
	o.Dst, o.Flags = trace.X86Mem, o.Flags|trace.X86HasMem|trace.X86WritesDst
	if o.Size = d.memorySize(); o.Size == 0 {
		o.Size = 64 // at most
	}
	return o.Op
}

// walkWhere makes the displacement what it is; false if the address is another one still.
func (d *x86) walkWhere(o *x86Op, code []byte) bool {
	code = afterPrefixes(code)
	if d.pfx&(pfx67|pfxREX2) != 0 { // cut off, or of other registers
		return false
	}
	if !d.vex || len(code) < 4 || code[0] != 0x62 {
		return true
	}
	if code[1]&8 != 0 || code[2]&4 == 0 || d.op >= map38|0xa0 && d.op <= map38|0xa3 { // registers that APX adds; scatter
		return false
	}
	if d.modrm>>6 != 1 {
		return true
	}
	// EVEX multiplies displacements of a byte, those of whole vectors by their size.
	switch d.op {
	case map0F | 0x11, map0F | 0x29, map0F | 0x2b, map0F | 0x7f, map0F | 0xe7:
		o.Disp *= 16 << (code[3] >> 5 & 3)
		return d.op == map0F|0x7f || d.pfx&(pfxF2|pfxF3) == 0
	}
	return false
}

// walkHidden returns what some instructions write beside what uses tells.
func (d *x86) walkHidden() (w RegSet) {
	switch {
	case d.vex && d.op == map0F|0x77: // vzeroall
		w.Vector = 0xffff
	case d.vex && d.op == map0F|0x93: // kmov
		w.general(int(d.regField()))
	case d.vex && (d.op == map0F|0x98 || d.op == map0F|0x99): // kortest, ktest
		w.general(Flags)
	case d.vex:
	case d.op == 0x9f || d.op == 0xd7 || d.op == 0xa0 || d.op == 0xa1: // lahf, xlat, movabs
		w.general(rax)
	case (d.op == 0xdb || d.op == 0xdf) && !d.mem: // fcomi and the like
		w.general(Flags)
	}
	return w
}

// x87Control reports whether d is of x87 and writes its control word, as loads and stores of all of its state do.
func (d *x86) x87Control() bool {
	return !d.vex && (d.mem && (d.op == 0xd9 || d.op == 0xdd) && (d.regBits() == 4 || d.regBits() == 6) || d.op == 0xdb && d.modrm == 0xe3)
}

// high reports whether a byte operand of ModRM is %ah or the like.
func (d *x86) high(r reg) bool { return d.rex == 0 && r >= 4 && r < 8 }

// walkRM makes one operand the register or memory of ModRM; false if it is %ah or the like.
func (d *x86) walkRM(to *uint8, size uint8) bool {
	if d.mem {
		*to = trace.X86Mem
		return true
	}
	if size == 1 && d.high(d.rmField()) {
		return false
	}
	*to = uint8(d.rmField())
	return true
}

func (d *x86) walkReg(to *uint8, size uint8) bool {
	if size == 1 && d.high(d.regField()) {
		return false
	}
	*to = uint8(d.regField())
	return true
}

// imms makes the source the immediate.
func (o *x86Op) imms(v int64) bool {
	o.Src, o.Imm = trace.X86Imm, v
	return true
}

// walkVEX is for what VEX encodes.
func (d *x86) walkVEX(o *x86Op, code []byte) bool {
	code = afterPrefixes(code)
	if len(code) < 3 || code[0] != 0xc5 && code[0] != 0xc4 {
		return false
	}
	f := vexFields(code)
	long := code[1]&4 != 0 // L
	if code[0] == 0xc4 {
		long = code[2]&4 != 0
	}
	v := vectorForm{true, 16, uint8(f.reg2)}
	if long {
		v.bytes = 32
	}
	reg, rm := uint8(d.regField()), uint8(d.rmField())
	switch {
	case d.op&^0xff == map0F:
		return d.walkVector(o, v)
	case d.op >= map38|0xf2 && d.op <= map38|0xf7 && !long:
		return d.walkBMI(o, uint8(f.reg2))
	case d.op == map3A|0xf0 && d.pfx&pfxF2 != 0:
		o.Kind, o.Size, o.Imm, o.Flags = trace.X86Rorx, d.wordSize(), d.imm, o.Flags|walkMove
		return d.walkReg(&o.Dst, o.Size) && d.walkRM(&o.Src, o.Size)
	case d.op == map38|0x29 && d.pfx&pfx66 != 0:
		return d.walkLanes(o, trace.X86Vcmpq, v)
	case d.op == map38|0x17 && d.pfx&pfx66 != 0:
		return d.walkTest(o, v)
	case (d.op == map38|0x78 || d.op == map38|0x79 || d.op == map38|0x58 || d.op == map38|0x59) && d.pfx&pfx66 != 0: // vpbroadcast
		o.Kind, o.Dst, o.Src, o.Cond = trace.X86Vbcast, reg, rm, v.bytes
		o.Size = map[uint16]uint8{0x78: 1, 0x79: 2, 0x58: 4, 0x59: 8}[d.op&0xff]
		return true
	}
	return false
}

// walkTest is for ptest.
func (d *x86) walkTest(o *x86Op, v vectorForm) bool {
	o.Kind, o.Dst, o.Src, o.Size = trace.X86Vtest, uint8(d.regField()), uint8(d.rmField()), v.bytes
	return true
}

// walkBMI is for BMI1 and BMI2; second is the register that VEX names.
func (d *x86) walkBMI(o *x86Op, second uint8) bool {
	o.Size, o.Cond = d.wordSize(), second
	if d.pfx&pfx66 != 0 && o.Size == 2 {
		o.Size = 4
	}
	o.Flags |= walkMove
	if !d.walkReg(&o.Dst, 8) || !d.walkRM(&o.Src, 8) {
		return false
	}
	which := d.pfx & (pfx66 | pfxF2 | pfxF3)
	switch {
	case d.op == map38|0xf2 && which == 0:
		o.Kind = trace.X86Andn
	case d.op == map38|0xf3 && which == 0 && d.regBits() >= 1 && d.regBits() <= 3:
		o.Kind, o.Dst = [4]trace.Kind{0, trace.X86Blsr, trace.X86Blsmsk, trace.X86Blsi}[d.regBits()&3], second
	case d.op == map38|0xf5 && which == 0:
		o.Kind = trace.X86Bzhi
	case d.op == map38|0xf7 && which == pfx66:
		o.Kind = trace.X86Shlx
	case d.op == map38|0xf7 && which == pfxF2:
		o.Kind = trace.X86Shrx
	case d.op == map38|0xf7 && which == pfxF3:
		o.Kind = trace.X86Sarx
	default:
		return false
	}
	return true
}

// walkThree is for opcodes after 0F 38 without VEX.
func (d *x86) walkThree(o *x86Op) bool {
	switch {
	case d.op == map38|0xf0 && d.pfx&(pfxF2|pfxF3) == 0 && d.mem:
		o.Kind, o.Size, o.Flags = trace.X86Movbe, d.wordSize(), o.Flags|walkMove
		return d.walkReg(&o.Dst, o.Size) && d.walkRM(&o.Src, o.Size)
	case d.op == map38|0xf1 && d.pfx&(pfxF2|pfxF3) == 0 && d.mem:
		o.Kind, o.Size, o.Flags = trace.X86Movbe, d.wordSize(), o.Flags|walkMove
		return d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size)
	case d.op == map38|0x17 && d.pfx&pfx66 != 0:
		return d.walkTest(o, vectorForm{false, 16, 0})
	case d.op == map38|0x29 && d.pfx&pfx66 != 0:
		return d.walkLanes(o, trace.X86Vcmpq, vectorForm{false, 16, uint8(d.regField())})
	}
	return false
}
