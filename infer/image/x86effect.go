package image

// Registers of x86-64 by encoding.
const (
	rax = iota
	rcx
	rdx
	rbx
	rsp
	rbp
	rsi
	rdi
)

// Registers that a call may change, by the System V ABI; Go's own convention
// keeps none.
const (
	x86CallClobbers   = 1<<rax | 1<<rcx | 1<<rdx | 1<<rsi | 1<<rdi | 0xf00
	x86GoCallClobbers = 0xffff &^ (1 << rsp)
)

func (d *x86) regField() reg { return reg(d.modrm>>3&7 | d.rex&4<<1) }
func (d *x86) rmField() reg  { return reg(d.modrm&7 | d.rex&1<<3) }
func (d *x86) opReg() reg    { return reg(byte(d.op)&7 | d.rex&1<<3) }

// opSize is the size of the operands of opcodes that come in pairs: byte, and
// word, double or quad.
func (d *x86) opSize() uint8 {
	if d.op&1 == 0 {
		return 1
	}
	return d.wordSize()
}

// wordSize is the size of operands of opcodes that have no form for bytes.
func (d *x86) wordSize() uint8 {
	switch {
	case d.rex&8 != 0:
		return 8
	case d.pfx&pfx66 != 0:
		return 2
	}
	return 4
}

// memory fills in the address of the memory operand of the instruction at a.
func (d *x86) memory(e effect, a Addr) effect {
	e.a, e.b, e.shift, e.c = d.base, d.index, d.scale, d.disp
	if d.base == ripReg {
		e.a, e.c = noReg, int64(a)+int64(d.n)+d.disp
	}
	if d.pfx&pfxSeg != 0 {
		return effect{what: doNothing, dst: noReg, a: noReg, b: noReg, src: noReg, src2: noReg, clob: mask(e.dst)}
	}
	return e
}

func mask(r reg) uint32 {
	if r < 0 {
		return 0
	}
	return 1 << uint(r)
}

// effect returns the meaning of the instruction at a. What it does not know in
// detail clobbers the registers it writes.
func (d *x86) effect(a Addr, goCode bool) effect {
	e := effect{dst: noReg, src: noReg, src2: noReg, a: noReg, b: noReg}
	if d.n == 0 {
		e.clob = 0xffff
		return e
	}
	if d.class&(DirCall|IndCall) != 0 {
		e.what, e.flags, e.clob = doCall, true, x86CallClobbers
		if goCode {
			e.clob = x86GoCallClobbers
		}
		return e
	}
	if d.vex {
		e.flags = d.op&0xff00 == 0x200 && d.op >= 0x2f2 && d.op <= 0x2f7
		return d.otherStore(e, a, d.vexClobbers())
	}
	if d.move(&e, a) || d.arith(&e, a) {
		return e
	}
	e.flags = d.class&(CondJump|Jump|Nop|Push) == 0 && !d.keepsFlags()
	return d.otherStore(e, a, d.clobbers())
}

// widest is more than any store writes.
const widest = 64

// otherStore fills in what an instruction without details writes to memory: of it,
// only the place matters.
func (d *x86) otherStore(e effect, a Addr, clob uint32) effect {
	if d.mem && d.class&Store != 0 {
		e.what, e.size = doStore, widest
		e = d.memory(e, a)
	}
	e.clob = clob
	return e
}

// move fills in e for moves, which leave the flags alone.
func (d *x86) move(e *effect, a Addr) bool {
	switch d.op {
	case 0x8b, 0x89:
		d.copy(e, a, d.op == 0x89, d.opSize(), false)
	case 0x88:
		if !d.mem {
			return false
		}
		d.copy(e, a, true, 1, false)
	case 0x63:
		d.copy(e, a, false, 4, true)
		if !d.mem { // movslq of a register: the index was checked before
			e.what = doAdd
		}
	case map0F | 0xb6, map0F | 0xbe:
		d.copy(e, a, false, 1, d.op&8 != 0)
	case map0F | 0xb7, map0F | 0xbf:
		d.copy(e, a, false, 2, d.op&8 != 0)
	case 0x98:
		if d.rex&8 == 0 {
			return false
		}
		e.what, e.dst, e.a, e.signed = doAdd, rax, rax, true // cltq
	case 0x8d:
		e.what, e.dst = doAdd, d.regField()
		*e = d.memory(*e, a)
	case 0xc7, 0xc6:
		if d.mem {
			e.what, e.size = doStore, d.opSize()
			*e = d.memory(*e, a)
			return true
		}
		e.what, e.dst, e.c = doAdd, d.rmField(), d.imm
	default:
		if d.op < 0xb8 || d.op > 0xbf {
			return false
		}
		e.what, e.dst, e.c = doAdd, d.opReg(), d.imm
		if d.rex&8 == 0 {
			e.c = int64(uint32(d.imm))
		}
	}
	return true
}

// copy is a move between registers, a load or a store.
func (d *x86) copy(e *effect, a Addr, store bool, size uint8, signed bool) {
	e.size, e.signed = size, signed
	switch {
	case d.mem && store:
		e.what, e.src = doStore, d.regField()
		*e = d.memory(*e, a)
	case d.mem:
		e.what, e.dst = doLoad, d.regField()
		*e = d.memory(*e, a)
	case size < 4 && d.op != 0x88 && d.op != 0x89 && d.op != 0x8b:
		e.what, e.dst, e.a = doNarrow, d.regField(), d.rmField()
		if size == 1 && d.rex == 0 && e.a >= 4 { // %ah and the like
			e.what, e.clob = doNothing, mask(e.dst)
			e.dst = noReg
		}
	default:
		e.what, e.dst, e.a = doAdd, d.regField(), d.rmField()
		if store {
			e.dst, e.a = e.a, e.dst
		}
	}
}

// arith fills in e for arithmetic that jump tables are made of.
func (d *x86) arith(e *effect, a Addr) bool {
	sub := d.modrm >> 3 & 7
	switch op := d.op; {
	case (op == 0x01 || op == 0x03) && !d.mem:
		e.what, e.dst, e.a, e.b = doAdd, d.rmField(), d.rmField(), d.regField()
		if op == 0x03 {
			e.dst, e.a, e.b = e.b, e.b, e.a
		}
	case (op == 0x31 || op == 0x33) && !d.mem && d.regField() == d.rmField():
		e.what, e.dst = doAdd, d.rmField()
	case op == 0x81 || op == 0x83 || op == 0x80:
		return d.immediateArith(e, a, sub)
	case op == 0x3c || op == 0x3d:
		e.what, e.a, e.c = doCmp, rax, d.unsigned()
	case op == 0x25:
		e.what, e.dst, e.a, e.c = doAnd, rax, rax, d.unsigned()
	case op == 0xc1 && !d.mem && (sub == 4 || sub == 5):
		e.what, e.dst, e.size, e.c = doShr, d.rmField(), d.opSize(), d.imm&63
		if e.a = e.dst; sub == 4 {
			e.what, e.a, e.b, e.shift, e.c = doAdd, noReg, e.dst, uint8(d.imm&63), 0
		}
	default:
		return false
	}
	e.flags = true
	return true
}

// immediateArith is arith for the group of opcodes 80, 81 and 83.
func (d *x86) immediateArith(e *effect, a Addr, sub byte) bool {
	switch {
	case sub == 7 && d.mem:
		e.what, e.size, e.imm = doCmpMem, d.opSize(), d.unsigned()
		if d.op == 0x83 {
			e.size = d.opSize()
		}
		*e = d.memory(*e, a)
	case sub == 7:
		e.what, e.a, e.c = doCmp, d.rmField(), d.unsigned()
		if d.op == 0x80 && d.rex == 0 && e.a >= 4 { // %ah and the like
			e.what = doNothing
		}
	case d.mem || d.op == 0x80:
		return false
	case sub == 4:
		e.what, e.dst, e.a, e.c = doAnd, d.rmField(), d.rmField(), d.unsigned()
	case sub == 0:
		e.what, e.dst, e.a, e.c = doAdd, d.rmField(), d.rmField(), d.imm
	case sub == 5:
		e.what, e.dst, e.a, e.c = doAdd, d.rmField(), d.rmField(), -d.imm
	default:
		return false
	}
	e.flags = true
	return true
}

// unsigned returns the immediate as unsigned comparisons see it: -1 where a 64-bit
// one would exceed int64.
func (d *x86) unsigned() int64 {
	switch d.opSize() {
	case 1:
		return int64(uint8(d.imm))
	case 2:
		return int64(uint16(d.imm))
	case 4:
		return int64(uint32(d.imm))
	}
	return d.imm
}

// keepsFlags tells of opcodes without details that they do not write the flags.
func (d *x86) keepsFlags() bool {
	switch op := d.op; {
	case op == 0x86 || op == 0x87 || op >= 0x90 && op <= 0x99 || op >= 0xa0 && op <= 0xa5 || op >= 0xaa && op <= 0xad,
		op >= 0xb0 && op <= 0xb7, op == 0x8a, op == 0x88, op == 0xc9, op == 0xf6 && d.modrm>>3&7 == 2, op == 0xf7 && d.modrm>>3&7 == 2:
		return true
	case op >= map0F|0x40 && op <= map0F|0x4f, op >= map0F|0x90 && op <= map0F|0x9f, op >= map0F|0xc8 && op <= map0F|0xcf:
		return true
	case op >= map0F|0x10 && op <= map0F|0x2d, op >= map0F|0x50 && op <= map0F|0x7f, op >= map0F|0xd0:
		return true
	}
	return false
}

// vexClobbers returns the general registers that VEX and EVEX instructions write:
// BMI and moves out of vectors.
func (d *x86) vexClobbers() uint32 {
	switch op := d.op & 0xff; d.op >> 8 {
	case 1, 5:
		switch op {
		case 0x2c, 0x2d, 0x50, 0x78, 0x79, 0x93, 0xc5, 0xd7:
			return mask(d.regField())
		case 0x7e:
			return d.rmMask()
		}
	case 2:
		switch op {
		case 0xf2, 0xf5, 0xf7:
			return mask(d.regField())
		case 0xf3, 0xf6: // the other destination is in the prefix
			return 0xffff &^ (1<<rsp | 1<<rbp)
		}
		if op >= 0xe0 && op <= 0xef {
			return 0xffff &^ (1 << rsp)
		}
	case 3:
		switch op {
		case 0x14, 0x15, 0x16, 0x17:
			return d.rmMask()
		case 0xf0:
			return mask(d.regField())
		}
	case 4: // APX
		return 0xffff &^ (1 << rsp)
	case 9, 10: // XOP's bit manipulation
		return 0xffff &^ (1<<rsp | 1<<rbp)
	}
	return 0
}

func (d *x86) rmMask() uint32 {
	if d.mem || !d.hasRM {
		return 0
	}
	return mask(d.rmField())
}

// clobbers returns the registers that an instruction without details writes.
func (d *x86) clobbers() uint32 {
	if d.op>>8 == 1 {
		return d.clobbers0F()
	}
	if d.op>>8 == 2 {
		if d.op >= map38|0xf0 && d.op <= map38|0xf6 {
			return mask(d.regField())
		}
		return 0
	}
	if d.op>>8 == 3 {
		if d.op >= map3A|0x14 && d.op <= map3A|0x17 {
			return d.rmMask()
		}
		return 0
	}
	switch op := d.op; {
	case op < 0x40:
		switch op & 7 {
		case 0, 1:
			return d.unlessCmp(d.rmMask())
		case 2, 3:
			return d.unlessCmp(mask(d.regField()))
		}
		return d.unlessCmp(1 << rax)
	case op <= 0x57, op == 0x68, op == 0x6a, op == 0x9c, op == 0x9d:
		return 1 << rsp
	case op <= 0x5f:
		return 1<<rsp | mask(d.opReg())
	case op == 0x69 || op == 0x6b || op == 0x8a:
		return mask(d.regField())
	case op >= 0x70 && op <= 0x7f || op == 0x84 || op == 0x85 || op == 0x88 || op == 0xa8 || op == 0xa9 || d.class&Flow != 0:
		return 0
	case op == 0x86 || op == 0x87:
		return d.rmMask() | mask(d.regField())
	case op == 0x8f:
		return 1<<rsp | d.rmMask()
	case op > 0x90 && op <= 0x97:
		return 1<<rax | mask(d.opReg())
	case op == 0x90 || op == 0x98 || op == 0x9b || op == 0x9e: // cltq leaves the low half
		return 0
	case op == 0x99:
		return 1 << rdx
	case op >= 0xa4 && op <= 0xaf:
		return 1<<rax | 1<<rcx | 1<<rsi | 1<<rdi
	case op >= 0xb0 && op <= 0xb7:
		if r := d.opReg(); d.rex != 0 || r < 4 {
			return mask(r)
		}
		return mask(d.opReg() - 4) // %ah and the like
	case op == 0xc8 || op == 0xc9:
		return 1<<rsp | 1<<rbp
	case op == 0xf6 || op == 0xf7:
		if d.modrm>>3&7 >= 4 {
			return 1<<rax | 1<<rdx
		}
		return d.rmMask()
	case op == 0xff && d.modrm>>3&7 == 6:
		return 1 << rsp
	case op >= 0xd8 && op <= 0xdf:
		return 1 << rax // fnstsw
	case d.hasRM:
		return d.rmMask()
	}
	return 1<<rax | 1<<rcx | 1<<rdx | 1<<rsi | 1<<rdi
}

func (d *x86) unlessCmp(m uint32) uint32 {
	if d.op>>3 == 7 {
		return 0
	}
	return m
}

// clobbers0F is clobbers for the map 0F.
func (d *x86) clobbers0F() uint32 {
	switch op := d.op & 0xff; {
	case op >= 0x40 && op <= 0x4f, op == 0xaf, op >= 0xb6 && op <= 0xb8, op >= 0xbc && op <= 0xbf,
		op == 0x50, op == 0xd7, op == 0xc5, op == 0x2c, op == 0x2d, op == 0x02, op == 0x03, op >= 0xb2 && op <= 0xb5 && op != 0xb3:
		return mask(d.regField())
	case op >= 0x90 && op <= 0x9f, op == 0x7e && d.pfx&pfxF3 == 0, op == 0x1e, op >= 0x20 && op <= 0x21, op == 0x00,
		op == 0xa4 || op == 0xa5 || op == 0xac || op == 0xad || op == 0xab || op == 0xb3 || op == 0xbb || op == 0xba || op == 0xae:
		return d.rmMask()
	case op == 0xc0 || op == 0xc1:
		return d.rmMask() | mask(d.regField())
	case op == 0xb0 || op == 0xb1:
		return 1<<rax | d.rmMask()
	case op == 0xc7:
		return 1<<rax | 1<<rdx | d.rmMask()
	case op >= 0xc8 && op <= 0xcf:
		return mask(d.opReg())
	case op == 0xa0 || op == 0xa1 || op == 0xa8 || op == 0xa9:
		return 1 << rsp
	case op == 0x01 || op == 0x05 || op >= 0x30 && op <= 0x37 || op == 0xa2 || op == 0xa6 || op == 0xa7:
		return 1<<rax | 1<<rbx | 1<<rcx | 1<<rdx | 1<<rsi | 1<<rdi | 1<<11
	}
	return 0
}

// stack returns what the instruction does to the stack pointer.
func (d *x86) stack() stackEffect {
	sub := d.modrm >> 3 & 7
	switch op := d.op; {
	case d.vex || d.class&Flow != 0:
		return stackEffect{}
	case op >= 0x50 && op <= 0x57, op == 0x68, op == 0x6a, op == 0x9c, op == 0xff && sub == 6, op == map0F|0xa0, op == map0F|0xa8:
		return stackEffect{spMoves, -8}
	case op == 0x5d: // pop %rbp, of the caller
		if d.rex&1 == 0 {
			return stackEffect{spPopsFrame, 8}
		}
		return stackEffect{spMoves, 8}
	case op >= 0x58 && op <= 0x5f, op == 0x9d, op == 0x8f, op == map0F|0xa1, op == map0F|0xa9:
		if op == 0x5c && d.rex&1 == 0 {
			return stackEffect{spLost, 0}
		}
		return stackEffect{spMoves, 8}
	case op == 0xc9: // leave
		return stackEffect{spFromFrame, 8}
	case (op == 0x83 || op == 0x81) && !d.mem && d.rmField() == rsp && (sub == 0 || sub == 5):
		if sub == 5 {
			return stackEffect{spMoves, -d.imm}
		}
		return stackEffect{spMoves, d.imm}
	case op == 0x8d && d.regField() == rsp && d.index == noReg && d.base == rsp:
		return stackEffect{spMoves, d.disp}
	case op == 0x8d && d.regField() == rsp && d.index == noReg && d.base == rbp:
		return stackEffect{spFromFrame, d.disp}
	case op == 0x8d && d.regField() == rbp && d.index == noReg && d.base == rsp:
		return stackEffect{frameFromSP, d.disp}
	case !d.mem && (op == 0x89 && d.moves(rsp, rbp) || op == 0x8b && d.moves(rbp, rsp)): // mov %rsp,%rbp
		return stackEffect{frameFromSP, 0}
	case !d.mem && (op == 0x89 && d.moves(rbp, rsp) || op == 0x8b && d.moves(rsp, rbp)): // mov %rbp,%rsp
		return stackEffect{spFromFrame, 0}
	}
	e := d.effect(0, false)
	if writes(e, rsp) {
		return stackEffect{spLost, 0}
	}
	return stackEffect{}
}

// moves reports whether the two registers that a move names are these, the one in the field for registers first.
func (d *x86) moves(r, rm reg) bool { return d.regField() == r && d.rmField() == rm }
