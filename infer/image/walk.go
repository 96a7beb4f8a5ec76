package image

import (
	"cmp"
	"encoding/binary"
	"slices"

	"backfeed/sample/trace"
)

// WalkInsts returns what walks take p for, by address: an operation for each instruction of its
// blocks. Where the next instruction of the code is none of them, a trace.Stop comes between.
func (im *Image) WalkInsts(p *Proc) []trace.Inst {
	size := 0
	for i := range p.Blocks {
		size += int(p.Blocks[i].End - p.Blocks[i].Start)
	}
	w := im.newWalkOps(p.Addr, size)
	for i := range p.Blocks {
		w.add(p.Blocks[i].Start, p.Blocks[i].End, func(Inst) bool { return true })
	}
	return w.done()
}

// WalkSymbol returns what walks take the code of symbol i for, like WalkInsts, and where its direct calls and jumps lead outside it, by
// where they are. It takes code from its start to its end for instructions, without looking for what may run: half the
// work, and none for the rest of the image; where that cannot be so, as a jump goes into the middle of one or bytes are none, it decodes as Proc does.
func (im *Image) WalkSymbol(i int) (insts []trace.Inst, to []Addr, err error) {
	if insts, to, ok := im.walkStraight(i); ok {
		return insts, to, nil
	}
	p, err := im.Proc(i)
	if err != nil {
		return nil, nil, err
	}
	for c := range p.Calls {
		if a := p.Calls[c].To; a != 0 {
			to = append(to, a)
		}
	}
	return im.WalkInsts(p), to, nil
}

// walkStraight decodes symbol i from its start to its end; ok is false where that is not how its code is.
func (im *Image) walkStraight(i int) (insts []trace.Inst, to []Addr, ok bool) {
	if i < 0 || i >= len(im.Symbols()) {
		return nil, nil, false
	}
	s := &im.Symbols()[i]
	lo, hi := s.Addr, s.Addr+Addr(s.Size)
	if len(im.code(lo, hi)) == 0 || len(im.dataIn(lo, hi)) > 0 {
		return nil, nil, false
	}
	var inside []Addr
	w := im.newWalkOps(lo, int(s.Size))
	ok = w.add(lo, hi, func(in Inst) bool {
		switch {
		case in.Class&Bad != 0:
			return false
		case in.Class&(DirCall|Jump|CondJump) == 0:
		case in.Target >= lo && in.Target < hi:
			inside = append(inside, in.Target)
		default:
			to = append(to, in.Target)
		}
		return true
	})
	insts = w.done()
	// All but the last are instructions, so that where one begins can be looked up.
	for _, a := range inside {
		if _, found := slices.BinarySearchFunc(insts[:len(insts)-1], uint64(a), func(w trace.Inst, a uint64) int { return cmp.Compare(w.Addr, a) }); !found {
			return nil, nil, false
		}
	}
	return insts, to, ok
}

// walkOps makes operations of code.
type walkOps struct {
	im   *Image
	proc Addr
	out  []trace.Inst
	end  Addr // of the last one's instruction
	d    x86
}

// newWalkOps is for size bytes of the procedure at proc.
func (im *Image) newWalkOps(proc Addr, size int) *walkOps {
	return &walkOps{im: im, proc: proc, out: make([]trace.Inst, 0, 1+size/4)} // an instruction is of 4 bytes or so
}

// add adds the code from lo to hi, as long as more is true of its instructions.
func (w *walkOps) add(lo, hi Addr, more func(in Inst) bool) bool {
	if len(w.out) > 0 && lo != w.end {
		w.stop()
	}
	for code, a := w.im.code(lo, hi), lo; len(code) > 0; {
		in := w.im.instIn(&w.d, code, a)
		if !more(in) {
			return false
		}
		op := trace.Op{}
		if w.im.Arch == AArch64 && in.Len == 4 {
			op = walkARM(binary.LittleEndian.Uint32(code), in)
		} else {
			op = w.d.walk(code[:in.Len], in)
		}
		w.out = append(w.out, w.im.walkInst(op, in, w.proc))
		code = code[in.Len:]
		a += Addr(in.Len)
		w.end = a
	}
	return true
}

func (w *walkOps) stop() {
	w.out = append(w.out, trace.Inst{Op: trace.Op{Kind: trace.Stop}, Proc: uint64(w.proc)})
}

// done returns all that was added.
func (w *walkOps) done() []trace.Inst {
	if len(w.out) > 0 {
		w.stop()
	}
	return w.out
}

// walkInst says where the instruction of an operation is.
func (im *Image) walkInst(op trace.Op, in Inst, proc Addr) trace.Inst {
	w := trace.Inst{Op: op, Addr: uint64(in.Addr), Proc: uint64(proc)}
	w.Off, _ = im.OffsetOf(in.Addr)
	if op.Kind != trace.Stop {
		w.Target = uint64(in.Target)
	}
	return w
}
