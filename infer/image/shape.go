package image

import (
	"debug/elf"
	"encoding/binary"
)

// Shapes returns, by block, a hash of each instruction of p: of the operation, its
// registers and constants, but of no address of code or data. Two builds of a
// program have it in common where their code is the same. Direct branches are
// told apart by their condition alone: neither their target counts nor how it is
// encoded.
func (im *Image) Shapes(p *Proc) [][]uint64 {
	if im.Arch == AArch64 {
		return im.armShapes(p)
	}
	all := make([][]uint64, len(p.Blocks))
	var d x86
	for i := range p.Blocks {
		b := &p.Blocks[i]
		code := im.code(b.Start, b.End)
		all[i] = make([]uint64, 0, b.Insts)
		for _, in := range im.Insts(b) {
			d.decode(code[:in.Len])
			all[i] = append(all[i], im.x86Shape(&d, code[:in.Len]))
			code = code[in.Len:]
		}
	}
	return all
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

// maybeAddress reports whether v, of an instruction of an image linked at a fixed
// address, may be an address.
func (im *Image) maybeAddress(v int64) bool {
	return im.elf.Type == elf.ET_EXEC && v > 0 && im.segment(Addr(v)) != nil
}

// LinkedShapes is Shapes, but of instructions that linkers and post-link tools write anew on
// AArch64: what makes an address there is one instruction or two, and where the parts of a
// procedure have been moved apart, nothing says which offsets are the low bits of an address. All
// are left out but those from the stack pointer. The shape of ADRP is 0: it comes and goes.
func (im *Image) LinkedShapes(p *Proc) [][]uint64 {
	if im.Arch != AArch64 {
		return im.Shapes(p)
	}
	all := make([][]uint64, len(p.Blocks))
	for i := range p.Blocks {
		b := &p.Blocks[i]
		code := im.code(b.Start, b.End)
		all[i] = make([]uint64, 0, b.Insts)
		for _, in := range im.Insts(b) {
			all[i] = append(all[i], linkedARMShape(code[:in.Len], in.Class))
			code = code[in.Len:]
		}
	}
	return all
}

func linkedARMShape(code []byte, class Class) uint64 {
	if len(code) < 4 {
		return Hash(0, uint64(code[0]))
	}
	w := binary.LittleEndian.Uint32(code)
	switch based := w>>5&31 != 31; {
	case w&0x9f000000 == 0x90000000: // adrp
		return 0
	case w&0x9f000000 == 0x10000000, based && w&0xffc00000 == 0x91000000, based && w&0xffc00000 == 0xf9400000: // adr, add, a load from a table of addresses
		return Hash(6, uint64(w&31))
	}
	return armShape(w, class, w>>5&31 != 31)
}

// armShapes is Shapes for AArch64, where an address is made of the page that ADRP
// gives and the low bits in an instruction after it, which may be in another block.
func (im *Image) armShapes(p *Proc) [][]uint64 {
	insts := make([][]Inst, len(p.Blocks))
	enter := make([]uint32, len(p.Blocks)) // registers that may hold a page where a block begins
	var todo []int
	for i := range p.Blocks {
		insts[i] = im.Insts(&p.Blocks[i])
		todo = append(todo, i)
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		_, held := im.armBlockShapes(nil, &p.Blocks[i], insts[i], enter[i])
		for _, e := range p.Blocks[i].Out {
			if to := p.Edges[e].To; held&^enter[to] != 0 {
				enter[to] |= held
				todo = append(todo, to)
			}
		}
	}
	all := make([][]uint64, len(p.Blocks))
	for i := range p.Blocks {
		all[i], _ = im.armBlockShapes(make([]uint64, 0, len(insts[i])), &p.Blocks[i], insts[i], enter[i])
	}
	return all
}

// armBlockShapes appends the shapes of one block to out, if that is not nil. page is the registers
// that hold one, at its begin and at its end.
func (im *Image) armBlockShapes(out []uint64, b *Block, insts []Inst, page uint32) ([]uint64, uint32) {
	code := im.code(b.Start, b.End)
	keep := out != nil
	for _, in := range insts {
		if in.Len < 4 {
			return append(out, Hash(0, uint64(code[0]))), page
		}
		w := binary.LittleEndian.Uint32(code)
		code = code[in.Len:]
		base := page >> (w >> 5 & 31) & 1
		if page != 0 {
			o := armOperands(w, in.Class)
			page &^= uint32(o.Writes.General | o.Update.General)
		}
		switch {
		case in.Class&(DirCall|IndCall) != 0:
			page &^= armCallClobbers
		case w&0x9f000000 == 0x90000000: // adrp
			page |= armMask(w & 31)
		}
		if keep {
			out = append(out, armShape(w, in.Class, base != 0))
		}
	}
	return out, page
}

// armShape hashes one instruction, whose second register holds a page or does not.
func armShape(w uint32, class Class, page bool) uint64 {
	switch {
	case class&(Jump|DirCall) != 0:
		w = uint32(class)
	case class&CondJump != 0 && w&0x7e000000 == 0x36000000: // tbz, tbnz
		w &^= 0x7ffe0
	case class&CondJump != 0:
		w &^= 0xffffe0
	case w&0x1f000000 == 0x10000000: // adr, adrp
		w &^= 0x60ffffe0
	case w&0x3b000000 == 0x18000000: // load of a literal
		w &^= 0xffffe0
	case page && (w&0xffc00000 == 0x91000000 || w&0x3b000000 == 0x39000000): // add; load or store, unsigned offset
		w &^= 0x3ffc00
	}
	return Hash(5, uint64(w))
}

// Hash mixes v into h, as SplitMix64 does.
func Hash(h, v uint64) uint64 {
	h = h ^ v + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
