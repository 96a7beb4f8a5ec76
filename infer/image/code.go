package image

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"
)

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

// instIn decodes the first instruction of code, the rest of a block. On x86-64, d
// then holds it.
func (im *Image) instIn(d *x86, code []byte, a Addr) Inst {
	if im.Arch == AArch64 {
		return armInst(code, a)
	}
	in := d.inst(code, a)
	if in.Class&Bad != 0 && len(code) == 1 && code[0] == lockPrefix {
		in.Class = Locked // jumped over, see splitLock
	}
	return in
}

// Text disassembles the instruction at a in GNU syntax, for people to read.
func (im *Image) Text(a Addr) string {
	r := im.region(a)
	if r == nil {
		return ""
	}
	code := im.code(a, min(a+15, r.hi))
	in := im.decodeOne(code, a)
	if im.Arch == AArch64 {
		return im.armText(code, a)
	}
	if in.Class&Bad == 0 {
		if inst, err := x86asm.Decode(code[:in.Len], 64); err == nil && inst.Op != 0 && inst.Len == in.Len {
			// x86asm spells out that a SIB byte has no index; GNU does so only where its scale is not 1.
			return strings.ReplaceAll(x86asm.GNUSyntax(inst, uint64(a), im.symName), ",%riz)", ")")
		}
	}
	return rawBytes(code[:in.Len])
}

// symName is what x86asm calls to name an address.
func (im *Image) symName(a uint64) (string, uint64) {
	j := im.Find(Addr(a))
	if j < 0 {
		return "", 0
	}
	return im.Symbols()[j].Name, uint64(im.Symbols()[j].Addr)
}

func (im *Image) armText(code []byte, a Addr) string {
	if len(code) < 4 {
		return rawBytes(code)
	}
	inst, err := arm64asm.Decode(code)
	if err != nil || inst.Op == 0 {
		return fmt.Sprintf(".inst 0x%08x", binary.LittleEndian.Uint32(code))
	}
	in := armInst(code, a)
	text := arm64asm.GNUSyntax(inst)
	if i := strings.LastIndex(text, ".+0x"); in.Target != 0 && i >= 0 {
		return text[:i] + im.place(in.Target)
	}
	if i := strings.LastIndex(text, ".-0x"); in.Target != 0 && i >= 0 {
		return text[:i] + im.place(in.Target)
	}
	return text
}

// place shows an address by the symbol that it is in.
func (im *Image) place(a Addr) string {
	name, base := im.symName(uint64(a))
	switch {
	case name == "":
		return fmt.Sprintf("%#x", uint64(a))
	case uint64(a) == base:
		return name
	}
	return fmt.Sprintf("%s+%#x", name, uint64(a)-base)
}

// rawBytes shows what is not known to disassemble as the assembler's data.
func rawBytes(b []byte) string {
	parts := make([]string, len(b))
	for i, c := range b {
		parts[i] = fmt.Sprintf("0x%02x", c)
	}
	return ".byte " + strings.Join(parts, ",")
}
