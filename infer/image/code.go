package image

// Insts decodes the instructions of one block, by increasing address.
func (im *Image) Insts(b *Block) []Inst {
	out := make([]Inst, 0, b.Insts)
	var d x86
	for code, a := im.code(b.Start, b.End), b.Start; len(code) > 0; {
		in := im.instIn(&d, code, a)
		out = append(out, in)
		code = code[in.Len:]
		a += Addr(in.Len)
	}
	return out
}

// inst decodes the first instruction of code, which lies at a. On x86-64, d then holds it.
func (im *Image) inst(d *x86, code []byte, a Addr) Inst {
	if im.Arch == AArch64 {
		return im.asKernel(armInst(code, a))
	}
	return im.asKernel(d.inst(code, a))
}

// instIn decodes the first instruction of code, the rest of a block. On x86-64, d
// then holds it.
func (im *Image) instIn(d *x86, code []byte, a Addr) Inst {
	in := im.inst(d, code, a)
	if im.Arch == X86_64 && in.Class&Bad != 0 && len(code) == 1 && code[0] == lockPrefix {
		in.Class = Locked // jumped over, see splitLock
	}
	return in
}
