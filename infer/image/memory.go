package image

import "encoding/binary"

// A Memory is the memory operand of an instruction: the address is Base + Index <<
// Scale + Disp, of which only what the instruction says is known.
type Memory struct {
	Base, Index int8  // registers as in RegSet.General; NoReg where there is none
	Scale       uint8 // log2 of the factor
	Disp        int64 // bytes; of an operand relative to the PC, its address
	Size        uint8 // bytes; 0 is unknown
	Segment     bool  // relative to %fs or %gs: Disp and registers are not all of the address
}

// NoReg stands for no register in a Memory.
const NoReg = noReg

// Constant reports whether the instruction itself says which address it accesses.
func (m Memory) Constant() bool { return m.Base == NoReg && m.Index == NoReg && !m.Segment }

// Registers returns the registers that the address is made from.
func (m Memory) Registers() (s RegSet) {
	for _, r := range []int8{m.Base, m.Index} {
		if r != NoReg {
			s.general(int(r))
		}
	}
	return s
}

// Memory returns the memory operand of an instruction that Insts returned, if it loads or
// stores by one that is understood; those of push, pop, call and string instructions
// are not given. It does not allocate.
func (im *Image) Memory(in Inst) (Memory, bool) {
	return memory(im.Arch, im.code(in.Addr, in.Addr+Addr(in.Len)), in)
}

func memory(arch Arch, code []byte, in Inst) (Memory, bool) {
	if in.Class&Bad != 0 || in.Class&(Load|Store) == 0 || len(code) < in.Len {
		return Memory{}, false
	}
	if arch == AArch64 {
		return armAddress(binary.LittleEndian.Uint32(code), in.Addr)
	}
	var d x86
	d.decode(code)
	if !d.mem {
		return Memory{}, false
	}
	m := Memory{Base: d.base, Index: d.index, Scale: d.scale, Disp: d.disp, Size: d.memorySize(), Segment: d.pfx&pfxSeg != 0}
	if d.base == ripReg {
		m.Base, m.Disp = NoReg, int64(in.Addr)+int64(in.Len)+d.disp
	}
	return m, true
}

// memorySize returns the bytes of the memory operand, 0 where the opcode alone does
// not tell.
func (d *x86) memorySize() uint8 {
	switch {
	case d.vex || d.op >= map38:
		return 0
	case d.op < map0F:
		switch {
		case d.op == 0x63:
			return 4
		case d.op >= 0xd8 && d.op <= 0xdf, d.op == 0x62, d.op == 0xff && d.modrm>>3&6 == 2:
			return 0
		}
		return d.opSize()
	}
	switch d.op & 0xff {
	case 0xb6, 0xbe:
		return 1
	case 0xb7, 0xbf:
		return 2
	case 0x10, 0x11:
		switch {
		case d.pfx&pfxF3 != 0:
			return 4
		case d.pfx&pfxF2 != 0:
			return 8
		}
		return 16
	case 0x28, 0x29, 0x6f, 0x7f:
		return 16
	case 0x7e, 0xd6:
		return 8
	case 0x6e:
		if d.rex&8 != 0 {
			return 8
		}
		return 4
	}
	if d.op&0xff >= 0x90 && d.op&0xff <= 0x9f {
		return 1
	}
	if d.op&0xff >= 0x40 && d.op&0xff <= 0x4f || d.op&0xff == 0xaf {
		if d.opSize() == 1 { // these opcodes do not come in pairs
			if d.rex&8 != 0 {
				return 8
			}
			return 4
		}
		return d.opSize()
	}
	return 0
}

// armAddress reads loads and stores of AArch64: of a register or a pair, with an
// immediate, an index register or a literal ("Arm Architecture Reference Manual for
// A-profile architecture", C4.1, loads and stores).
func armAddress(w uint32, a Addr) (m Memory, ok bool) {
	m = Memory{Base: int8(w >> 5 & 31), Index: NoReg}
	size := uint8(1) << (w >> 30)
	if w>>26&1 != 0 && w>>23&1 != 0 { // a 128-bit vector register
		size = 16
	}
	switch {
	case w&0x3b000000 == 0x18000000: // literal
		m.Base, m.Disp = NoReg, int64(a)+int64(int32(w<<8)>>13)*4
		m.Size = 4 << (w >> 30 & 1)
	case w&0x3b000000 == 0x39000000: // unsigned offset
		m.Disp, m.Size = int64(w>>10&0xfff)*int64(size), size
	case w&0x3b200000 == 0x38000000: // unscaled, before and after with writeback
		if w>>10&3 != 1 { // after: the access is at the base
			m.Disp = int64(int32(w<<11) >> 23)
		}
		m.Size = size
	case w&0x3b200c00 == 0x38200800: // register
		m.Index, m.Size = int8(w>>16&31), size
		if w>>12&1 != 0 {
			for 1<<m.Scale < size {
				m.Scale++
			}
		}
	case w&0x3a000000 == 0x28000000: // pair
		one := uint8(4) << (w >> 31)
		if w>>26&1 != 0 {
			one = 4 << (w >> 30)
		}
		if w>>23&3 != 1 {
			m.Disp = int64(int32(w<<10)>>25) * int64(one)
		}
		m.Size = 2 * one
	default:
		return Memory{}, false
	}
	return m, true
}
