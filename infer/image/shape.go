package image

import (
	"debug/elf"
	"encoding/binary"
)

// AppendShapes appends to out a hash of each of insts, all instructions of b: of
// the operation, its registers and constants, but of no address of code or data.
// Two builds of a program have it in common where their code is the same. Direct
// branches are told apart by their condition alone: neither their target counts
// nor how it is encoded.
func (im *Image) AppendShapes(out []uint64, b *Block, insts []Inst) []uint64 {
	code := im.code(b.Start, b.End)
	if im.Arch == AArch64 {
		return appendARMShapes(out, code, insts)
	}
	var d x86
	for _, in := range insts {
		d.decode(code[:in.Len])
		out = append(out, im.x86Shape(&d, code[:in.Len]))
		code = code[in.Len:]
	}
	return out
}

// x86Shape hashes one decoded instruction; code is its bytes.
func (im *Image) x86Shape(d *x86, code []byte) uint64 {
	switch {
	case d.n == 0:
		return Hash(0, uint64(code[0]))
	case d.class&(Jump|DirCall) != 0:
		return Hash(1, uint64(d.class))
	case d.class&CondJump != 0 && (d.op == d.op&0xf|0x70 || d.op == d.op&0xf|map0F|0x80): // of one byte, of four
		return Hash(2, uint64(d.op&0xf))
	case d.class&CondJump != 0: // loop, jrcxz
		return Hash(3, uint64(d.op))
	}
	h := Hash(4, uint64(d.op)|uint64(d.rex)<<16|uint64(d.pfx)<<24|uint64(d.modrm)<<32|uint64(d.scale)<<40|
		uint64(uint8(d.base))<<48|uint64(uint8(d.index))<<56)
	if d.vex {
		v := vexFields(code)
		h = Hash(h, uint64(v.reg2)|uint64(v.regHigh)<<8|uint64(v.rmHigh)<<16|uint64(v.mask)<<24)
	}
	if d.base != ripReg && !im.maybeAddress(d.disp) {
		h = Hash(h, uint64(d.disp))
	}
	if !im.maybeAddress(d.imm) {
		h = Hash(h, uint64(d.imm))
	}
	return h
}

// maybeAddress tells whether v, of an instruction of an image linked at a fixed
// address, may be an address.
func (im *Image) maybeAddress(v int64) bool {
	return im.elf.Type == elf.ET_EXEC && v > 0 && im.segment(Addr(v)) != nil
}

// appendARMShapes is AppendShapes for AArch64, where an address is made of the page
// that ADRP gives and the low bits in an instruction after it.
func appendARMShapes(out []uint64, code []byte, insts []Inst) []uint64 {
	var page uint32 // registers that hold one
	for _, in := range insts {
		if in.Len < 4 {
			return append(out, Hash(0, uint64(code[0])))
		}
		w := binary.LittleEndian.Uint32(code)
		code = code[in.Len:]
		base := page >> (w >> 5 & 31) & 1
		o := armOperands(w, in.Class)
		page &^= uint32(o.Writes.General | o.Update.General)
		switch {
		case in.Class&(Jump|DirCall) != 0:
			w = uint32(in.Class)
		case in.Class&CondJump != 0 && w&0x7e000000 == 0x36000000: // tbz, tbnz
			w &^= 0x7ffe0
		case in.Class&CondJump != 0:
			w &^= 0xffffe0
		case w&0x1f000000 == 0x10000000: // adr, adrp
			page |= w >> 31 << (w & 31)
			w &^= 0x60ffffe0
		case w&0x3b000000 == 0x18000000: // load of a literal
			w &^= 0xffffe0
		case base != 0 && (w&0xffc00000 == 0x91000000 || w&0x3b000000 == 0x39000000): // add; load or store, unsigned offset
			w &^= 0x3ffc00
		}
		out = append(out, Hash(5, uint64(w)))
	}
	return out
}

// Hash mixes v into h, as SplitMix64 does.
func Hash(h, v uint64) uint64 {
	h = h ^ v + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
