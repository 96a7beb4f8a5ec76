package unwind

import "sort"

// A Table is what is known of an image.
type Table struct {
	Rows    []Row // by place; none if the image has no such section
	Frames  bool  // its code keeps frame pointers where there is no row, as Go's does
	AArch64 bool  // it is of AArch64, else of x86-64
}

// At returns the row of a place in the file, of kind None if there is none.
func (t *Table) At(off uint64) Row {
	i := sort.Search(len(t.Rows), func(i int) bool { return uint64(t.Rows[i].Off) > off })
	if i == 0 {
		return Row{}
	}
	return t.Rows[i-1]
}

// A Place is where a thread is in user mode, or one of its callers.
type Place struct {
	PC, SP, FP uint64
	// LR is the link register of AArch64, and tells of a caller until there was a call.
	LR uint64
	// AArch64 says that the thread is of that, else of x86-64.
	AArch64 bool
	// Called says that PC is a return address: the call lies before it.
	Called bool
	lost   bool // FP is not the frame's
	bound  bool // SP is the least that it may be: of the frame, it is known where FP points to
}

// Code returns an address in the instruction that is executed there.
func (p *Place) Code() uint64 {
	if p.Called {
		return p.PC - 1
	}
	return p.PC
}

// A signalFrame says where a signal's frame has registers, from the stack pointer on.
type signalFrame struct{ fp, lr, sp, pc uint64 }

var (
	x86Signal = signalFrame{fp: 120, sp: 160, pc: 168}          // arch/x86/include/uapi/asm/sigcontext.h
	armSignal = signalFrame{fp: 544, lr: 552, sp: 560, pc: 568} // struct rt_sigframe of arch/arm64/kernel/signal.c
)

// AddressBits are those that addresses of code have on AArch64: the others of a return address may be a signature. Processors whose addresses
// are longer sign fewer bits, but the kernel maps nothing there for who does not ask (Documentation/arch/arm64/memory.rst).
const AddressBits = 1<<48 - 1

// frameBelow is how far below the stack pointer a frame pointer may be on AArch64: Go keeps that of a function a word
// below it (Frame layout of src/cmd/compile/abi-internal.md).
const frameBelow = WordSize

// Up goes to the caller, and reports whether it could. The table is that of the image whose code runs at p, nil of code in none; off is
// its place in the file. Words of the stack are read by read, which reports whether it has them. The stack pointer never goes down but from
// a signal's frame, and stays where it was only once until the next such.
func (p *Place) Up(t *Table, off uint64, read func(at uint64) (word uint64, ok bool)) bool {
	var row Row
	if t != nil {
		if t.AArch64 != p.AArch64 {
			return false
		}
		row = t.At(off)
	}
	switch row.Kind &^ Flags {
	case End:
		return false
	case Signal:
		return !p.bound && p.bySignal(read)
	case SP, FP, PLT:
		if p.AArch64 {
			return p.byArmRow(row, read)
		}
		return p.byRow(row, read)
	}
	return (t == nil || len(t.Rows) == 0 || t.Frames) && p.byFrame(read)
}

// byFrame goes to the caller by the frame pointer.
func (p *Place) byFrame(read func(uint64) (uint64, bool)) bool {
	least := p.SP
	if p.AArch64 {
		least -= frameBelow
	}
	if p.lost || p.FP < least {
		return false
	}
	fp, ok := read(p.FP)
	ra, ok2 := read(p.FP + WordSize)
	if p.AArch64 {
		ra &= AddressBits
	}
	if !ok || !ok2 || ra == 0 {
		return false
	}
	// What else is in a frame lies below the pair on x86-64, and mostly above it on AArch64.
	*p = Place{PC: ra, SP: p.FP + 2*WordSize, FP: fp, AArch64: p.AArch64, Called: true, bound: p.AArch64}
	return true
}

// bySignal goes from a signal's frame to where it struck.
func (p *Place) bySignal(read func(uint64) (uint64, bool)) bool {
	f, lr, ok4 := &x86Signal, uint64(0), true
	if p.AArch64 {
		f = &armSignal
		lr, ok4 = read(p.SP + f.lr)
	}
	pc, ok := read(p.SP + f.pc)
	sp, ok2 := read(p.SP + f.sp)
	fp, ok3 := read(p.SP + f.fp)
	if !ok || !ok2 || !ok3 || !ok4 {
		return false
	}
	*p = Place{PC: pc, SP: sp, FP: fp, LR: lr, AArch64: p.AArch64}
	return true
}

// byRow goes to the caller on x86-64.
func (p *Place) byRow(row Row, read func(uint64) (uint64, bool)) bool {
	var cfa uint64
	switch row.Kind {
	case SP:
		cfa = p.SP + uint64(row.CFA)*WordSize
	case FP:
		if p.lost {
			return false
		}
		cfa = p.FP + uint64(row.CFA)*WordSize
	case PLT:
		cfa = p.SP + WordSize
		if p.Code()&15 >= uint64(row.CFA) {
			cfa += WordSize
		}
	}
	ra, ok := read(cfa - WordSize)
	if cfa <= p.SP || !ok || ra == 0 {
		return false
	}
	fp, lost := p.FP, p.lost
	switch row.Saved {
	case FPSame:
	case FPLost:
		lost = true
	default:
		if fp, ok = read(cfa - uint64(row.Saved)*WordSize); !ok {
			return false
		}
		lost = false
	}
	*p = Place{PC: ra, SP: cfa, FP: fp, Called: true, lost: lost}
	return true
}

// byArmRow goes to the caller on AArch64, as by_row of package collect's unwind.h does.
func (p *Place) byArmRow(row Row, read func(uint64) (uint64, bool)) bool {
	size := uint64(row.CFA) * WordSize
	above := size - uint64(row.Saved)*WordSize // the place that is told of, from the register on
	if row.Kind&Up != 0 {
		above = uint64(row.Saved) * WordSize
	}
	var at uint64
	switch {
	case row.Kind&^Flags == PLT:
		return false
	case row.Kind&^Flags == FP && !p.lost:
		at = p.FP + above
	case row.Kind&^Flags == SP && !p.bound:
		at = p.SP + above
	case row.Kind&Pair != 0 && !p.lost: // the frame pointer points to the pair, unless the row says that it does otherwise
		at = p.FP
	default:
		return false
	}
	cfa := at - above + size
	ra, ok := p.LR, !p.Called // once it has called, there is another return address in the register
	switch {
	case row.Kind&Link != 0:
	case row.Kind&Pair != 0:
		ra, ok = read(at + WordSize)
		ok = ok && cfa != p.SP
	default:
		ra, ok = read(at)
		ok = ok && cfa != p.SP
	}
	if ra &= AddressBits; !ok || cfa < p.SP || ra == 0 {
		return false
	}
	fp, lost := p.FP, p.lost
	switch saved := row.Kind&Up != 0 || row.Saved != FPSame; {
	case row.Kind&Link != 0 && row.Kind&Up == 0 && row.Saved == FPLost:
		lost = true
	case row.Kind&Pair != 0, row.Kind&Link != 0 && saved:
		if fp, ok = read(at); !ok {
			return false
		}
		lost = false
	}
	*p = Place{PC: ra, SP: cfa, FP: fp, AArch64: true, Called: true, lost: lost}
	return true
}
