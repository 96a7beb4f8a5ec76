package image

import (
	"encoding/binary"

	"backfeed/sample/trace"
)

// WalkInsts returns what walks take p for, by address: an operation for each instruction of its
// blocks. Where the next instruction of the code is none of them, a trace.Stop comes between.
func (im *Image) WalkInsts(p *Proc) []trace.Inst {
	size := 0
	for i := range p.Blocks {
		size += int(p.Blocks[i].End - p.Blocks[i].Start)
	}
	out := make([]trace.Inst, 0, 1+size/4) // an instruction is of 4 bytes or so
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
