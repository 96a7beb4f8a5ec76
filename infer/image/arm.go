package image

import "encoding/binary"

// armInst decodes the AArch64 instruction at the start of b, which lies at a.
// The groups are those of the Arm Architecture Reference Manual's index by
// encoding (C4.1): every instruction that transfers control is matched exactly,
// the others by what they do to memory.
func armInst(b []byte, a Addr) Inst {
	if len(b) < 4 {
		return Inst{Addr: a, Len: max(1, len(b)), Class: Bad}
	}
	w := binary.LittleEndian.Uint32(b)
	in := Inst{Addr: a, Len: 4}
	switch w >> 25 & 15 {
	case 0:
		switch {
		case w>>16 == 0: // udf
			in.Class = Trap
		case w>>31 != 0: // SME
			in.Class = Float
		default:
			in.Class = Bad
		}
	case 1, 3:
		in.Class = Bad
	case 2:
		in.Class = sveClass(w)
	case 8, 9:
		in.Class = armImmediate(w)
	case 10, 11:
		in.Class, in.Target = armBranch(w, a)
	case 4, 6, 12, 14:
		in.Class = armMemory(w)
	case 5, 13:
		in.Class = armRegister(w)
	default:
		in.Class = armFloat(w)
	}
	return in
}

// signed returns the n low bits of v as a signed number.
func signed(v uint32, n uint) int64 { return int64(v) << (64 - n) >> (64 - n) }

// armBranch classes branches, exceptions and system instructions.
func armBranch(w uint32, a Addr) (Class, Addr) {
	to := func(imm uint32, bits uint) Addr { return a + Addr(signed(imm, bits)<<2) }
	switch {
	case w&0xfc000000 == 0x14000000: // b
		return Jump, to(w, 26)
	case w&0xfc000000 == 0x94000000: // bl
		return DirCall, to(w, 26)
	case w&0xff000000 == 0x54000000: // b.cond, bc.cond
		return CondJump, to(w>>5, 19)
	case w&0x7e000000 == 0x34000000: // cbz, cbnz
		return CondJump, to(w>>5, 19)
	case w&0x7e000000 == 0x36000000: // tbz, tbnz
		return CondJump, to(w>>5, 14)
	case w&0x7e000000 == 0x74000000: // cb<cond> of FEAT_CMPBR
		return CondJump, to(w>>5, 9)
	case w&0xff00001f == 0x5500001f: // retaasppc, retabsppc
		return Ret, 0
	case w&0xff000000 == 0xd4000000:
		if op := w & 0xffe0001f; op == 0xd4200000 || op == 0xd4400000 { // brk, hlt
			return Trap, 0
		}
		return System, 0
	case w&0xfe000000 == 0xd6000000:
		switch w >> 21 & 15 {
		case 0, 8: // br, braa
			return IndJump, 0
		case 1, 9: // blr, blraa
			return IndCall, 0
		case 2: // ret, retaa
			return Ret, 0
		case 4: // eret
			return Ret | System, 0
		}
		return Bad, 0
	case w>>24 == 0xd5:
		return armSystem(w), 0
	}
	return Bad, 0
}

func armSystem(w uint32) Class {
	switch {
	case w == 0xd503201f || w&0xffffff3f == 0xd503241f: // nop, bti
		return Nop
	case w&0xfffff0ff == 0xd50330df: // isb
		return System
	case w&0xfffff01f == 0xd503301f: // dmb, dsb, clrex
		return Locked
	case w&0xfffff01f == 0xd503201f: // other hints, among them pointer authentication
		return 0
	case w&0xffffffe0 == 0xd50b7420: // dc zva
		return Store
	case w&0xffd00000 == 0xd5100000: // mrs, msr
		return 0
	}
	return System
}

// armImmediate classes data processing with an immediate.
func armImmediate(w uint32) Class {
	switch {
	case w&0x3f80001f == 0x3100001f: // subs, adds to the zero register
		return Compare
	case w&0x7f80001f == 0x7200001f: // ands
		return Compare
	}
	return 0
}

// armRegister classes data processing with registers.
func armRegister(w uint32) Class {
	switch {
	case w&0x3f00001f == 0x2b00001f, w&0x7f20001f == 0x6a00001f, w&0x3fe00000 == 0x3a400000: // cmp, tst, ccmp
		return Compare
	case w&0x7fe0f800 == 0x1ac00800: // udiv, sdiv
		return Div
	case w&0x1f000000 == 0x1b000000:
		return Mul
	}
	return 0
}

// armFloat classes scalar floating point and Advanced SIMD.
func armFloat(w uint32) Class {
	switch {
	case w&0xff20fc07 == 0x1e202000: // fcmp
		return Float | Compare
	case w&0xff20fc00 == 0x1e201800, w&0xff3ffc00 == 0x1e21c000, // fdiv, fsqrt
		w&0xbfa0fc00 == 0x2e20fc00, w&0xbfe0fc00 == 0x2e403c00, w&0xbfbffc00 == 0x2ea1f800:
		return Float | Div
	case w&0xff3ffc00 == 0x1e204000, w&0x7f36fc00 == 0x1e260000: // fmov between registers
		return 0
	}
	return Float
}

func sveClass(w uint32) Class {
	switch w >> 29 {
	case 4, 5, 6:
		return Load
	case 7:
		return Store
	}
	return Float
}

// armMemory classes loads, stores and atomics.
func armMemory(w uint32) Class {
	loads := func(bit bool) Class {
		if bit {
			return Load
		}
		return Store
	}
	l := w>>22&1 != 0
	switch {
	case w&0xbe000000 == 0x0c000000: // structures of vectors
		return loads(l)
	case w&0x3f000000 == 0x08000000: // exclusive and ordered
		o2, o1 := w>>23&1 != 0, w>>21&1 != 0
		switch {
		case o2 && !o1: // ldar, stlr
			return loads(l)
		case o2 || o1 && w>>31 == 0: // cas, casp
			return Load | Store | Locked
		}
		return loads(l) | Locked
	case w&0x3b200c00 == 0x19000400: // memory copy and set
		return Load | Store | Rep
	case w&0xff200000 == 0xd9200000: // allocation tags
		return loads(w>>22&3 == 1 && w>>10&3 == 0)
	case w&0x3b200c00 == 0x19000000: // ldapur, stlur
		return loads(w>>22&3 != 0)
	case w&0x3b200000 == 0x19200000: // 128-bit atomics
		return Load | Store | Locked
	case w&0x3b000000 == 0x18000000: // literal
		if w>>24 == 0xd8 {
			return 0 // prfm
		}
		return Load
	case w&0x3a000000 == 0x28000000: // pairs
		return loads(l)
	case w&0x3b200c00 == 0x38200000 && w&0xfc00 != 0xc000: // LSE
		return Load | Store | Locked
	case w&0x3f200c00 == 0x38200000: // ldapr
		return Load
	case w&0x3b200400 == 0x38200400: // ldraa, ldrab
		return Load
	}
	switch vector, opc := w>>26&1 != 0, w>>22&3; {
	case vector:
		return loads(opc&1 != 0)
	case opc == 2 && w>>30 == 3: // prfm
		return 0
	default:
		return loads(opc != 0)
	}
}

// armPCRel returns the signed immediate of ADR and ADRP.
func armPCRel(w uint32) Addr { return Addr(signed(w>>5&0x7ffff<<2|w>>29&3, 21)) }

// armPage returns the page that the ADRP w at a computes.
func armPage(w uint32, a Addr) Addr { return a&^0xfff + armPCRel(w)<<12 }

// armLiteral returns the bytes that the load at a reads relative to itself.
func armLiteral(code []byte, a Addr) (lo, hi Addr) {
	w := binary.LittleEndian.Uint32(code)
	if w&0x3b000000 != 0x18000000 {
		return 0, 0
	}
	size := Addr(4) // of ldrsw too
	switch opc := w >> 30; {
	case w>>26&1 != 0:
		size = 4 << opc
	case opc == 1:
		size = 8
	}
	lo = a + Addr(signed(w>>5, 19)<<2)
	return lo, lo + size
}
