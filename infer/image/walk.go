package image

import (
	"encoding/binary"
	"slices"

	"backfeed/sample/trace"
)

// WalkInsts returns what walks take p for, by address: an operation for each instruction of its
// blocks. Where the next instruction of the code is none of them, a trace.Stop comes between.
func (im *Image) WalkInsts(p *Proc) []trace.Inst {
	var out []trace.Inst
	stop := trace.Inst{Op: trace.Op{Kind: trace.Stop}, Proc: uint64(p.Addr)}
	var end Addr
	var d x86
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if len(out) > 0 && b.Start != end {
			out = append(out, stop)
		}
		for code, a := im.code(b.Start, b.End), b.Start; len(code) > 0; {
			in := im.instIn(&d, code, a)
			op := trace.Op{}
			if im.Arch == AArch64 && in.Len == 4 {
				op = walkARM(binary.LittleEndian.Uint32(code), in)
			} else {
				op = d.walk(code[:in.Len], in)
			}
			out = append(out, im.walkInst(op, in, p))
			code = code[in.Len:]
			a += Addr(in.Len)
			end = a
		}
	}
	if len(out) > 0 {
		out = append(out, stop)
	}
	return out
}

// walkInst says where the instruction of an operation is.
func (im *Image) walkInst(op trace.Op, in Inst, p *Proc) trace.Inst {
	w := trace.Inst{Op: op, Addr: uint64(in.Addr), Proc: uint64(p.Addr)}
	w.Off, _ = im.OffsetOf(in.Addr)
	if op.Kind != trace.Stop {
		w.Target = uint64(in.Target)
	}
	return w
}

// walk returns the operation of the instruction in that d holds.
func (d *x86) walk(code []byte, in Inst) trace.Op {
	o := x86Op{trace.Op{Kind: trace.Stop, Dst: trace.X86None, Src: trace.X86None, Base: trace.X86NoReg, Index: trace.X86NoReg}}
	if in.Class&Bad != 0 || d.n == 0 || in.Class&Rep != 0 {
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
			known = d.walkOne(&o, in)
		case d.op < map38:
			known = d.walkTwo(&o, in) || d.walkVector(&o, vectorForm{false, 16, uint8(d.regField())})
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
	o.Imm = int64(w.General&0xffff) | int64(w.General>>Flags&1)<<16 | int64(w.Vector&0xffff)<<32
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
	case d.vex:
	case d.op == 0x9f || d.op == 0xd7 || d.op == 0xa0 || d.op == 0xa1: // lahf, xlat, movabs
		w.general(rax)
	case (d.op == 0xdb || d.op == 0xdf) && !d.mem: // fcomi and the like
		w.general(Flags)
	}
	return w
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

var walkALU = [8]trace.Kind{trace.X86Add, trace.X86Or, trace.X86Adc, trace.X86Sbb, trace.X86And, trace.X86Sub, trace.X86Xor, trace.X86Cmp}

// alu makes o an operation on both operands.
func (o *x86Op) alu(k trace.Kind) {
	o.Kind = k
	o.Flags |= trace.X86ReadsDst | trace.X86ReadsSrc
	if k != trace.X86Cmp && k != trace.X86Test && k != trace.X86Bt {
		o.Flags |= trace.X86WritesDst
	}
}

const (
	walkMove   = trace.X86WritesDst | trace.X86ReadsSrc
	walkModify = trace.X86ReadsDst | trace.X86WritesDst
)

// walkOne is for the one-byte opcodes.
func (d *x86) walkOne(o *x86Op, in Inst) bool {
	c := byte(d.op)
	switch {
	case c < 0x40 && c&7 < 6:
		o.alu(walkALU[c>>3])
		switch c & 7 {
		case 0, 1:
			return d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size)
		case 2, 3:
			return d.walkReg(&o.Dst, o.Size) && d.walkRM(&o.Src, o.Size)
		}
		o.Dst = rax
		return o.imms(d.imm)
	case c&0xf8 == 0x50:
		o.Kind, o.Size, o.Src, o.Flags = trace.X86Push, 8, uint8(d.opReg()), o.Flags|trace.X86ReadsSrc
		return d.pfx&pfx66 == 0
	case c&0xf8 == 0x58:
		o.pop(uint8(d.opReg()))
		return d.pfx&pfx66 == 0
	case c == 0x63:
		o.Kind, o.Cond, o.Size, o.Flags = trace.X86Movsx, 8, 4, o.Flags|walkMove
		return d.rex&8 != 0 && d.walkReg(&o.Dst, 8) && d.walkRM(&o.Src, 4)
	case c == 0x68 || c == 0x6a:
		o.Kind, o.Size, o.Flags = trace.X86Push, 8, o.Flags|trace.X86ReadsSrc
		return d.pfx&pfx66 == 0 && o.imms(d.imm)
	case c == 0x69 || c == 0x6b:
		o.Kind, o.Imm, o.Flags = trace.X86Imul3, d.imm, o.Flags|walkMove
		o.Size = d.wordSize()
		return d.walkReg(&o.Dst, o.Size) && d.walkRM(&o.Src, o.Size)
	case c&0xf0 == 0x70:
		o.Kind, o.Cond = trace.CondJump, c&15
		return true
	case c >= 0x80 && c <= 0x83 && c != 0x82:
		o.alu(walkALU[d.modrm>>3&7])
		return d.walkRM(&o.Dst, o.Size) && o.imms(d.imm)
	case c == 0x84 || c == 0x85:
		o.alu(trace.X86Test)
		return d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size)
	case c == 0x86 || c == 0x87:
		o.alu(trace.X86Xchg)
		return d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size)
	case c == 0x88 || c == 0x89:
		o.Kind, o.Flags = trace.X86Mov, o.Flags|walkMove
		return d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size)
	case c == 0x8a || c == 0x8b:
		o.Kind, o.Flags = trace.X86Mov, o.Flags|walkMove
		return d.walkReg(&o.Dst, o.Size) && d.walkRM(&o.Src, o.Size)
	case c == 0x8d:
		o.Kind, o.Flags = trace.X86Lea, o.Flags|trace.X86WritesDst
		return d.pfx&pfxSeg == 0 && d.walkReg(&o.Dst, o.Size)
	case c == 0x90 && (in.Class&Nop != 0 || d.pfx&pfxF3 != 0):
		o.Kind = trace.X86Nop
		return true
	case c&0xf8 == 0x90:
		o.alu(trace.X86Xchg)
		o.Size = d.wordSize()
		o.Dst, o.Src = uint8(d.opReg()), rax
		return true
	case c == 0x98:
		o.Kind, o.Size, o.Dst, o.Flags = trace.X86Cbw, d.wordSize(), rax, trace.X86WritesDst
		return true
	case c == 0x99:
		o.Kind, o.Size, o.Dst, o.Flags = trace.X86Cwd, d.wordSize(), rdx, trace.X86WritesDst
		return true
	case c == 0xa8 || c == 0xa9:
		o.alu(trace.X86Test)
		o.Dst = rax
		return o.imms(d.imm)
	case c&0xf8 == 0xb0:
		o.Kind, o.Size, o.Flags = trace.X86Mov, 1, o.Flags|walkMove
		if d.high(d.opReg()) {
			return false
		}
		o.Dst = uint8(d.opReg())
		return o.imms(d.imm)
	case c&0xf8 == 0xb8:
		o.Kind, o.Size, o.Flags = trace.X86Mov, d.wordSize(), o.Flags|walkMove
		o.Dst = uint8(d.opReg())
		return o.imms(d.imm)
	case c == 0xc0 || c == 0xc1 || c >= 0xd0 && c <= 0xd3:
		return d.walkShift(o, c)
	case c == 0xc2 || c == 0xc3:
		o.Kind, o.Size, o.Src, o.Base, o.Flags = trace.Ret, 8, trace.X86Mem, rsp, o.Flags|trace.X86ReadsSrc|trace.X86HasMem
		if c == 0xc2 {
			o.Cond = uint8(d.imm)
		}
		return uint16(d.imm) < 256
	case c == 0xc6 || c == 0xc7:
		o.Kind, o.Flags = trace.X86Mov, o.Flags|walkMove
		return d.modrm>>3&7 == 0 && d.walkRM(&o.Dst, o.Size) && o.imms(d.imm)
	case c == 0xc9:
		o.Kind, o.Size, o.Dst, o.Src, o.Base, o.Flags = trace.X86Leave, 8, rbp, trace.X86Mem, rbp, o.Flags|walkMove|trace.X86HasMem
		return true
	case c == 0xe8:
		o.Kind, o.Imm = trace.Call, int64(in.Addr)+int64(in.Len)
		return true
	case c == 0xe9 || c == 0xeb:
		o.Kind = trace.Jump
		return true
	case c == 0xf6 || c == 0xf7:
		return d.walkUnary(o)
	case c == 0xfe || c == 0xff:
		switch d.modrm >> 3 & 7 {
		case 0:
			o.Kind, o.Flags = trace.X86Inc, o.Flags|walkModify
			return d.walkRM(&o.Dst, o.Size)
		case 1:
			o.Kind, o.Flags = trace.X86Dec, o.Flags|walkModify
			return d.walkRM(&o.Dst, o.Size)
		case 2:
			o.Kind, o.Imm, o.Size, o.Flags = trace.CallInd, int64(in.Addr)+int64(in.Len), 8, o.Flags|trace.X86ReadsSrc
			return d.walkRM(&o.Src, 8)
		case 4:
			o.Kind, o.Size, o.Flags = trace.JumpInd, 8, o.Flags|trace.X86ReadsSrc
			return d.walkRM(&o.Src, 8)
		case 6:
			o.Kind, o.Size, o.Flags = trace.X86Push, 8, o.Flags|trace.X86ReadsSrc
			return d.pfx&pfx66 == 0 && d.walkRM(&o.Src, 8)
		}
	}
	return false
}

// pop loads a register from the stack.
func (o *x86Op) pop(to uint8) {
	o.Kind, o.Size, o.Dst, o.Src, o.Base, o.Flags = trace.X86Pop, 8, to, trace.X86Mem, rsp, o.Flags|walkMove|trace.X86HasMem
}

func (d *x86) walkShift(o *x86Op, c byte) bool {
	kinds := [8]trace.Kind{trace.X86Rol, trace.X86Ror, 0, 0, trace.X86Shl, trace.X86Shr, trace.X86Shl, trace.X86Sar}
	k := kinds[d.modrm>>3&7]
	if k == 0 || !d.walkRM(&o.Dst, o.Size) {
		return false
	}
	o.alu(k)
	switch {
	case c < 0xd0:
		return o.imms(d.imm & 0xff)
	case c < 0xd2:
		return o.imms(1)
	}
	o.Src = rcx
	return true
}

func (d *x86) walkUnary(o *x86Op) bool {
	switch d.modrm >> 3 & 7 {
	case 0, 1:
		o.alu(trace.X86Test)
		return d.walkRM(&o.Dst, o.Size) && o.imms(d.imm)
	case 2:
		o.Kind, o.Flags = trace.X86Not, o.Flags|walkModify
		return d.walkRM(&o.Dst, o.Size)
	case 3:
		o.Kind, o.Flags = trace.X86Neg, o.Flags|walkModify
		return d.walkRM(&o.Dst, o.Size)
	}
	o.Kind, o.Flags = [4]trace.Kind{trace.X86MulWide, trace.X86ImulWide, trace.X86Div, trace.X86Idiv}[d.modrm>>3&3], o.Flags|trace.X86ReadsSrc
	return o.Size > 1 && d.walkRM(&o.Src, o.Size)
}

// walkTwo is for opcodes after 0F that have to do with general registers.
func (d *x86) walkTwo(o *x86Op, in Inst) bool {
	c := byte(d.op)
	o.Size = d.wordSize()
	rm := func(k trace.Kind) bool { // reg = f(rm)
		o.Kind, o.Flags = k, o.Flags|walkMove
		return d.walkReg(&o.Dst, 8) && d.walkRM(&o.Src, o.Size)
	}
	switch {
	case in.Class&Nop != 0, c == 0x0d, c == 0x18, c >= 0x19 && c <= 0x1f && c != 0x1e:
		o.Kind, d.mem = trace.X86Nop, false
		return true
	case c&0xf0 == 0x40:
		o.alu(trace.X86Cmov)
		o.Cond = c & 15
		return d.walkReg(&o.Dst, o.Size) && d.walkRM(&o.Src, o.Size)
	case c&0xf0 == 0x80:
		o.Kind, o.Cond = trace.CondJump, c&15
		return true
	case c&0xf0 == 0x90:
		o.Kind, o.Size, o.Cond, o.Flags = trace.X86Setcc, 1, c&15, o.Flags|trace.X86WritesDst
		return d.walkRM(&o.Dst, 1)
	case c == 0xa3 || c == 0xab || c == 0xb3 || c == 0xbb:
		o.alu([4]trace.Kind{trace.X86Bt, trace.X86Bts, trace.X86Btr, trace.X86Btc}[c>>3&3])
		return !d.mem && d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size) // a bit string of any length in memory
	case c == 0xba:
		o.alu([8]trace.Kind{0, 0, 0, 0, trace.X86Bt, trace.X86Bts, trace.X86Btr, trace.X86Btc}[d.modrm>>3&7])
		return d.modrm>>3&7 >= 4 && d.walkRM(&o.Dst, o.Size) && o.imms(d.imm&0xff)
	case c == 0xa4 || c == 0xac || c == 0xa5 || c == 0xad:
		o.alu([2]trace.Kind{trace.X86Shld, trace.X86Shrd}[c>>3&1])
		o.Cond = uint8(d.regField())
		o.Src = rcx
		if c&1 == 0 {
			o.imms(d.imm & 0xff)
		}
		return d.walkRM(&o.Dst, o.Size)
	case c == 0xaf:
		o.alu(trace.X86Imul)
		return d.walkReg(&o.Dst, o.Size) && d.walkRM(&o.Src, o.Size)
	case c == 0xb0 || c == 0xb1:
		o.Size = d.opSize()
		o.alu(trace.X86Cmpxchg)
		return d.mem && d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size) // of a register, the upper half may stay
	case c == 0xc0 || c == 0xc1:
		o.Size = d.opSize()
		o.alu(trace.X86Xadd)
		return d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size)
	case c == 0xb6 || c == 0xb7 || c == 0xbe || c == 0xbf:
		k := trace.X86Movzx
		if c >= 0xbe {
			k = trace.X86Movsx
		}
		o.Cond, o.Size = o.Size, 1+c&1
		return rm(k)
	case c == 0xb8 && d.pfx&pfxF3 != 0:
		return rm(trace.X86Popcnt)
	case c == 0xbc:
		return rm([2]trace.Kind{trace.X86Bsf, trace.X86Tzcnt}[d.repeated()])
	case c == 0xbd:
		return rm([2]trace.Kind{trace.X86Bsr, trace.X86Lzcnt}[d.repeated()])
	case c >= 0xc8 && c <= 0xcf:
		o.Kind, o.Dst, o.Flags = trace.X86Bswap, uint8(d.opReg()), o.Flags|walkModify
		return o.Size >= 4
	case c == 0xae && !d.mem && d.modrm>>3&7 >= 5 && d.pfx&(pfx66|pfxF2|pfxF3) == 0:
		o.Kind = trace.X86Nop
		return true
	}
	return false
}

// repeated returns 1 with the prefix F3.
func (d *x86) repeated() int { return int(d.pfx & pfxF3 / pfxF3) }

// vectorForm is how the operands of a vector instruction are written.
type vectorForm struct {
	vex   bool
	bytes uint8 // of a vector: 16 or 32
	first uint8 // first source: the register that VEX names, or the destination
}

// rest is how many bytes of the destination are written by what loads less.
func (v vectorForm) rest() uint8 {
	if v.vex {
		return 32
	}
	return 16
}

// walkVector is for moves of vector registers, and what compilers and libraries look for
// bytes with.
func (d *x86) walkVector(o *x86Op, v vectorForm) bool {
	c := byte(d.op)
	reg, rm := uint8(d.regField()), uint8(d.rmField())
	op := func(k trace.Kind, to, from, size, cond uint8) bool {
		o.Kind, o.Dst, o.Src, o.Size, o.Cond = k, to, from, size, cond
		return true
	}
	load := func(size uint8) bool { return op(trace.X86Vload, reg, trace.X86None, size, v.rest()) }
	move := func(to, from, size uint8) bool { return op(trace.X86Vmov, to, from, size, v.rest()) }
	store := func(size uint8) bool { return op(trace.X86Vstore, trace.X86None, reg, size, 0) }
	whole := func() bool { // movups and the like
		switch {
		case !d.mem && c&1 == 0, !d.mem && c == 0x6f:
			return move(reg, rm, v.bytes)
		case !d.mem:
			return move(rm, reg, v.bytes)
		case c&1 == 0, c == 0x6f:
			return load(v.bytes)
		}
		return store(v.bytes)
	}
	scalar := func(size uint8) bool { // movss, movsd
		switch {
		case d.mem && c&1 == 0:
			return load(size)
		case d.mem:
			return store(size)
		case v.vex:
			return false
		case c&1 == 0:
			return op(trace.X86VmovLow, reg, rm, size, 0)
		}
		return op(trace.X86VmovLow, rm, reg, size, 0)
	}
	wide := uint8(4)
	if d.rex&8 != 0 {
		wide = 8
	}
	switch c {
	case 0x10, 0x11:
		switch {
		case d.pfx&pfxF3 != 0:
			return scalar(4)
		case d.pfx&pfxF2 != 0:
			return scalar(8)
		}
		return whole()
	case 0x28, 0x29:
		return whole()
	case 0x6f, 0x7f:
		return d.pfx&(pfx66|pfxF3) != 0 && whole() // else MMX
	case 0xe7, 0x2b: // movntdq, movntps
		return d.mem && d.pfx&(pfxF2|pfxF3) == 0 && (c == 0x2b || d.pfx&pfx66 != 0) && store(v.bytes) // else MMX
	case 0x12, 0x16: // movlps, movhps, movlhps
		switch {
		case d.pfx&(pfxF2|pfxF3) != 0 || v.vex:
			return false
		case d.mem && c == 0x12:
			return op(trace.X86VloadLow, reg, trace.X86None, 8, 0)
		case d.mem:
			return op(trace.X86Vhigh, reg, trace.X86None, 8, 0)
		case c == 0x16:
			o.Imm = 8
			return op(trace.X86Vunpack, reg, rm, 16, reg)
		}
	case 0x13:
		return d.mem && store(8)
	case 0x17:
		return d.mem && op(trace.X86VstoreHigh, trace.X86None, reg, 8, 0)
	case 0x6e:
		switch {
		case d.pfx&pfx66 == 0:
			return false
		case d.mem:
			return load(wide)
		}
		o.Flags |= trace.X86ReadsSrc
		return op(trace.X86Vfrom, reg, rm, wide, v.rest())
	case 0x7e:
		switch {
		case d.pfx&pfxF3 != 0 && d.mem: // movq
			return load(8)
		case d.pfx&pfxF3 != 0:
			return move(reg, rm, 8)
		case d.pfx&pfx66 == 0:
			return false
		case d.mem:
			return store(wide)
		}
		o.Flags |= trace.X86WritesDst
		return op(trace.X86Vto, rm, reg, wide, 0)
	case 0xd6:
		switch {
		case d.pfx&pfx66 == 0:
			return false
		case d.mem:
			return store(8)
		}
		return move(rm, reg, 8)
	case 0xd7:
		if d.pfx&pfx66 == 0 || d.mem {
			return false
		}
		o.Flags |= trace.X86WritesDst
		return op(trace.X86Vmaskb, reg, rm, 4, v.bytes)
	case 0x77:
		return v.vex && v.bytes == 16 && op(trace.X86Vzeroupper, trace.X86None, trace.X86None, 16, 0)
	case 0x54, 0x55, 0x56, 0x57: // andps and the like
		return d.pfx&(pfxF2|pfxF3) == 0 && d.walkLanes(o, [4]trace.Kind{trace.X86Vand, trace.X86Vandn, trace.X86Vor, trace.X86Vxor}[c&3], v)
	}
	if d.pfx&pfx66 == 0 && c != 0x70 {
		return false // MMX
	}
	switch c {
	case 0x60, 0x61, 0x62, 0x68, 0x69, 0x6a, 0x6c, 0x6d: // punpck
		if v.bytes != 16 || v.vex {
			return false
		}
		o.Imm = int64([]uint8{1, 2, 4, 0, 8, 8}[c&7]) | int64(c>>3&1)<<8
		if c == 0x6c {
			o.Imm = 8
		}
		return op(trace.X86Vunpack, reg, rm, 16, v.first)
	case 0x70:
		if v.bytes != 16 || v.vex {
			return false
		}
		o.Imm = d.imm & 0xff
		switch d.pfx & (pfxF2 | pfxF3 | pfx66) {
		case pfx66: // pshufd
		case pfxF2: // pshuflw
			o.Imm |= 1 << 8
		case pfxF3: // pshufhw
			o.Imm |= 1 << 9
		default:
			return false
		}
		return op(trace.X86Vshufd, reg, rm, 16, 0)
	case 0x73: // psrldq
		if d.modrm>>3&7 != 3 || d.mem || v.vex {
			return false
		}
		o.Imm = min(d.imm&0xff, 16) // more empties it too
		return op(trace.X86Vshift, rm, trace.X86None, 16, rm)
	}
	if k, ok := walkLane[c]; ok {
		return d.walkLanes(o, k, v)
	}
	return false
}

// walkLane are the operations on the elements of two vectors, by opcode after 66 0F.
var walkLane = map[byte]trace.Kind{
	0xdb: trace.X86Vand, 0xdf: trace.X86Vandn, 0xeb: trace.X86Vor, 0xef: trace.X86Vxor,
	0x74: trace.X86Vcmpb, 0x75: trace.X86Vcmpw, 0x76: trace.X86Vcmpd, 0xda: trace.X86Vminb,
	0xfe: trace.X86Vaddd, 0xfa: trace.X86Vsubd, 0xd4: trace.X86Vaddq,
}

func (d *x86) walkLanes(o *x86Op, k trace.Kind, v vectorForm) bool {
	o.Kind, o.Dst, o.Src, o.Size, o.Cond = k, uint8(d.regField()), trace.X86None, v.bytes, v.first
	if !d.mem {
		o.Src = uint8(d.rmField())
	}
	if v.vex {
		o.Imm = 1 // what is beyond the vector becomes 0
	}
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

// trace.X86Test is for ptest.
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
	case d.op == map38|0xf3 && which == 0 && d.modrm>>3&7 >= 1 && d.modrm>>3&7 <= 3:
		o.Kind, o.Dst = [4]trace.Kind{0, trace.X86Blsr, trace.X86Blsmsk, trace.X86Blsi}[d.modrm>>3&3], second
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
