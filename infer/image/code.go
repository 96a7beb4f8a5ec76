package image

import (
	"encoding/binary"
	"slices"
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

// AfterSystemCalls returns where control is when the system calls of a block return, by address; the last may be its end.
func (im *Image) AfterSystemCalls(b *Block) (after []Addr) {
	code := im.code(b.Start, b.End)
	if im.Arch == AArch64 {
		const svc = 0xd4000001 // svc #0 (Arm ARM, C6.2): Linux takes no other
		for i := 0; i+4 <= len(code); i += 4 {
			if binary.LittleEndian.Uint32(code[i:]) == svc {
				after = append(after, b.Start+Addr(i)+4)
			}
		}
		return after
	}
	called := func(end int) bool { return slices.Contains(x86SystemCalls, [2]byte(code[end-2:end])) }
	for i := 2; i <= len(code); i++ {
		if called(i) { // perhaps: it may be the end of another instruction
			for _, in := range im.Insts(b) {
				if end := int(in.Addr-b.Start) + in.Len; in.Len == 2 && called(end) {
					after = append(after, b.Start+Addr(end))
				}
			}
			break
		}
	}
	return after
}

// x86SystemCalls are syscall, sysenter and int 0x80.
var x86SystemCalls = [][2]byte{{0x0f, 0x05}, {0x0f, 0x34}, {0xcd, 0x80}}

// emulated reports whether an instruction is one that user code has and that something else carries out: hypervisors do cpuid, on which every processor leaves
// its guest (Intel SDM 3C, 26.1.2), Linux does what reads AArch64's identification registers (arch/arm64/kernel/cpufeature.c, emulate_mrs).
func (im *Image) emulated(code []byte) bool {
	if im.Arch == AArch64 {
		const mrsID, field = 0xd5380000, 0xfffff000 // MRS Xt, S3_0_C0_Cm_op2 (Arm ARM, C6.2)
		return len(code) == 4 && binary.LittleEndian.Uint32(code)&field == mrsID
	}
	return len(code) == 2 && code[0] == 0x0f && code[1] == 0xa2
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
