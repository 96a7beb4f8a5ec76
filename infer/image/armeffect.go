package image

import "encoding/binary"

// Registers that a call may change, by the procedure call standard for AArch64.
// Go's own convention keeps none but the one for g.
const (
	armCallClobbers   = 1<<19 - 1 | 1<<30
	armGoCallClobbers = 0x7fffffff &^ (1<<28 | 1<<29)
)

// armEffect returns the meaning of the AArch64 instruction at a.
func armEffect(code []byte, a Addr, goCode bool) effect {
	e := effect{dst: noReg, src: noReg, src2: noReg, a: noReg, b: noReg}
	if len(code) < 4 {
		return e
	}
	w := binary.LittleEndian.Uint32(code)
	switch w >> 25 & 15 {
	case 8, 9:
		armImmediateEffect(&e, w, a)
	case 5, 13:
		armRegisterEffect(&e, w)
	case 4, 6, 12, 14:
		armMemoryEffect(&e, w, a)
	case 7, 15:
		if w&0x7f20fc00 == 0x1e200000 || w&0xbfe0fc00 == 0x0e003c00 || w&0xbfe0fc00 == 0x0e002c00 { // to a general register
			e.clob = armMask(w & 31)
		}
		e.flags = w&0xff200c00 == 0x1e200400 || w&0xff20fc07 == 0x1e202000
	case 10, 11:
		switch c, _ := armBranch(w, a); {
		case c&(DirCall|IndCall) != 0:
			e.what, e.flags, e.clob = doCall, true, armCallClobbers
			if goCode {
				e.clob = armGoCallClobbers
			}
		case w&0xfff00000 == 0xd5300000: // mrs
			e.clob = armMask(w & 31)
		}
	case 2:
		e.clob, e.flags = armMask(w&31), true // counts and predicates to general registers
	}
	return e
}

// armMask is mask for a register field where 31 is the zero register.
func armMask(r uint32) uint32 {
	if r == 31 {
		return 0
	}
	return 1 << r
}

// armReg returns the register of a field where 31 is the zero register.
func armReg(r uint32) reg {
	if r == 31 {
		return noReg
	}
	return reg(r)
}

func armImmediateEffect(e *effect, w uint32, a Addr) {
	rd, rn := w&31, w>>5&31
	switch {
	case w&0x9f000000 == 0x90000000: // adrp
		e.what, e.dst, e.c = doAdd, armReg(rd), int64(armPage(w, a))
	case w&0x9f000000 == 0x10000000: // adr
		e.what, e.dst, e.c = doAdd, armReg(rd), int64(a+armPCRel(w))
	case w&0x1f800000 == 0x11000000: // add, sub
		c := int64(w >> 10 & 0xfff)
		if w>>22&1 != 0 {
			c <<= 12
		}
		sub, flags := w>>30&1 != 0, w>>29&1 != 0
		e.flags = flags
		switch {
		case flags && sub && rd == 31:
			e.what, e.a, e.c = doCmp, reg(rn), c
		case flags && rd == 31:
		case sub:
			e.what, e.dst, e.a, e.c = doAdd, reg(rd), reg(rn), -c
		default:
			e.what, e.dst, e.a, e.c = doAdd, reg(rd), reg(rn), c
		}
	case w&0x7f800000 == 0x52800000: // movz
		e.what, e.dst, e.c = doAdd, armReg(rd), int64(w>>5&0xffff)<<(w>>21&3*16)
	case w&0x1f800000 == 0x12000000: // logical
		e.flags = w>>29&3 == 3
		if n := armLowMask(w); n > 0 && w>>29&3 == 0 {
			e.what, e.dst, e.a, e.c = doAnd, armReg(rd), armReg(rn), n
		} else if !e.flags || rd != 31 {
			e.clob = 1 << rd
		}
	case w&0x1f800000 == 0x13000000:
		armBitfield(e, w)
	default:
		e.clob = armMask(rd)
	}
}

// armLowMask returns the mask of a logical immediate of n low ones; 0 for others.
func armLowMask(w uint32) int64 {
	immr, imms := w>>16&63, w>>10&63
	if immr != 0 || w>>22&1 == 0 && imms >= 32 {
		return 0
	}
	if imms > 30 {
		return 0
	}
	return 1<<(imms+1) - 1
}

// armBitfield handles shifts and extensions by an immediate.
func armBitfield(e *effect, w uint32) {
	rd, rn := w&31, w>>5&31
	immr, imms, opc := w>>16&63, w>>10&63, w>>29&3
	size := uint32(32)
	if w>>31 != 0 {
		size = 64
	}
	if rd == 31 || rn == 31 || opc == 1 || opc == 3 {
		e.clob = armMask(rd)
		return
	}
	e.dst, e.a = reg(rd), reg(rn)
	switch {
	case immr == 0 && imms == 31: // sxtw, or a move
		e.what = doAdd
	case immr == 0 && (imms == 7 || imms == 15):
		e.what, e.size, e.signed = doNarrow, uint8(imms+1)/8, opc == 0
	case opc == 2 && imms == size-1: // lsr
		e.what, e.size, e.c = doShr, uint8(size/8), int64(immr)
	case opc == 2 && imms+1 == immr: // lsl
		e.what, e.a, e.b, e.shift = doAdd, noReg, reg(rn), uint8(size-immr)
	case opc == 2 && immr <= imms && imms-immr < 30: // ubfx: as many values as its width has
		e.what, e.c = doAnd, 1<<(imms-immr+1)-1
	case opc == 2 || opc == 0 && immr > imms: // ubfiz, sbfiz: an extended index, shifted
		e.what, e.a, e.b, e.shift = doAdd, noReg, reg(rn), uint8(size-immr)
	default:
		e.what, e.dst, e.a, e.clob = doNothing, noReg, noReg, 1<<rd
	}
}

func armRegisterEffect(e *effect, w uint32) {
	rd, rn, rm := w&31, w>>5&31, w>>16&31
	switch {
	case w&0x7fe0ffe0 == 0x2a0003e0 && rm != 31: // mov
		e.what, e.dst, e.a = doAdd, armReg(rd), reg(rm)
	case w&0x7f200000 == 0x0b000000 && w>>22&3 == 0: // add, shifted left
		e.what, e.dst, e.a, e.b, e.shift = doAdd, armReg(rd), armReg(rn), armReg(rm), uint8(w>>10&63)
	case w&0x7fe00000 == 0x0b200000: // add, extended
		e.what, e.dst, e.a, e.b, e.shift = doAdd, reg(rd), reg(rn), armReg(rm), uint8(w>>10&7)
		e.signed = w>>15&1 != 0
	default:
		e.clob = armMask(rd)
		e.flags = w&0x3f000000 == 0x2b000000 || w&0x7f000000 == 0x6a000000 || w&0x1fe00000 == 0x1a400000 || w&0x1fe00000 == 0x1a000000
		if w&0x3fe00000 == 0x3a400000 { // ccmp writes no register
			e.clob = 0
		}
	}
	if e.what == doAdd && e.dst == noReg {
		e.what = doNothing
	}
}

func armMemoryEffect(e *effect, w uint32, a Addr) {
	rt, rn, rt2 := w&31, w>>5&31, w>>10&31
	vector := w>>26&1 != 0
	class := armMemory(w)
	general := w&0x3a000000 == 0x38000000 && !vector // load or store of one register
	size, opc := uint8(1)<<(w>>30), w>>22&3
	switch {
	case general && w>>24&1 != 0: // unsigned offset
		e.a, e.c = reg(rn), int64(w>>10&0xfff)*int64(size)
	case general && w&0x00200c00 == 0x00200800: // register offset
		e.a, e.b = reg(rn), armReg(w>>16&31)
		if w>>12&1 != 0 {
			e.shift = uint8(w >> 30)
		}
	case general && w&0x00200c00 == 0: // unscaled offset
		e.a, e.c = reg(rn), signed(w>>12, 9)
	case w&0xff000000 == 0x58000000 && rt != 31: // 64 bits beside the code
		e.what, e.dst, e.size, e.c = doLoad, reg(rt), 8, int64(a)+signed(w>>5, 19)<<2
		return
	default:
		armOtherMemory(e, w, rt, rn, rt2, vector, class)
		return
	}
	e.size = size
	switch {
	case class&Store != 0:
		e.what, e.src = doStore, armReg(rt)
	case class&Load != 0 && rt != 31:
		e.what, e.dst, e.signed = doLoad, reg(rt), opc >= 2
	}
}

// armOtherMemory returns the registers that other loads and stores write.
func armOtherMemory(e *effect, w, rt, rn, rt2 uint32, vector bool, class Class) {
	switch {
	case w&0x3b000000 == 0x18000000: // literal
		if !vector {
			e.clob = armMask(rt)
		}
	case w&0x3a000000 == 0x28000000: // pairs
		if class&Load != 0 && !vector {
			e.clob = armMask(rt) | armMask(rt2)
		}
		scale := 2 + w>>31
		if vector {
			scale = 2 + w>>30
		}
		if class&Store != 0 {
			e.what, e.pair, e.size, e.a, e.c = doStore, true, 1<<scale, reg(rn), signed(w>>15, 7)<<scale
			if !vector {
				e.src, e.src2 = armReg(rt), armReg(rt2)
			}
		}
		if w>>23&1 != 0 { // with writeback
			e.clob |= 1 << rn
		}
	case w&0x3b200c00 == 0x38000400 || w&0x3b200c00 == 0x38000c00: // writeback
		e.clob = 1 << rn
		if class&Load != 0 && !vector && rt != 31 {
			e.what, e.dst, e.a, e.size, e.signed = doLoad, reg(rt), reg(rn), 1<<(w>>30), w>>22&3 >= 2
			if w&0x800 != 0 { // before the load
				e.c = signed(w>>12, 9)
			}
		}
	case vector && class&Store != 0 && w&0x3b000000 == 0x39000000: // one vector register
		e.what, e.size, e.a, e.c = doStore, 16, reg(rn), int64(w>>10&0xfff)<<(w>>30|w>>21&4)
	case vector:
		if w&0xbe800000 == 0x0c800000 {
			e.clob = 1 << rn
		}
	default: // atomics, exclusives: the status or the old value
		e.clob = armMask(rt) | armMask(w>>16&31) | armMask(rt2)
	}
}

// armBelow reports whether a conditional branch, taken or not, means below as
// unsigned numbers, and whether equal is included.
func armBelow(code []byte, taken bool) (inclusive, ok bool) {
	w := binary.LittleEndian.Uint32(code)
	if w&0xff000000 != 0x54000000 {
		return false, false
	}
	cond := w & 15
	if !taken {
		cond ^= 1
	}
	return cond == 9, cond == 9 || cond == 3 // ls, lo
}

// armStack returns what the instruction does to the stack pointer.
func armStack(code []byte) stackEffect {
	w := binary.LittleEndian.Uint32(code)
	rd, rn := w&31, w>>5&31
	switch {
	case w&0xff800000 == 0x91000000 || w&0xff800000 == 0xd1000000: // add, sub
		n := int64(w >> 10 & 0xfff)
		if w>>22&1 != 0 {
			n <<= 12
		}
		if w>>30&1 != 0 {
			n = -n
		}
		switch {
		case rd == 31 && rn == 31:
			return stackEffect{spMoves, n}
		case rd == 31 && rn == 29:
			return stackEffect{spFromFrame, n}
		case rd == 29 && rn == 31:
			return stackEffect{frameFromSP, n}
		case rd == 31:
			return stackEffect{spLost, 0}
		}
	case w&0x3a000000 == 0x28000000 && w>>23&1 != 0 && rn == 31: // pairs with writeback
		scale := uint(2 + w>>31)
		if w>>26&1 != 0 {
			scale = uint(2 + w>>30)
		}
		return stackEffect{spMoves, signed(w>>15, 7) << scale}
	case w&0x3b200400 == 0x38000400 && rn == 31: // one register with writeback
		return stackEffect{spMoves, signed(w>>12, 9)}
	case w&0xff2003e0 == 0xcb2003e0 && rd == 31 || w&0xffe0001f == 0x8b20001f: // by a register
		return stackEffect{spLost, 0}
	}
	return stackEffect{}
}
