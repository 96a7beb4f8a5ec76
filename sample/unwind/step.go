package unwind

import "sort"

// A Table is what is known of an image of x86-64.
type Table struct {
	Rows   []Row // by place; none if the image has no such section
	Frames bool  // its code keeps frame pointers where there is no row, as Go's does
}

// At returns the row of a place in the file, of kind None if there is none.
func (t *Table) At(off uint64) Row {
	i := sort.Search(len(t.Rows), func(i int) bool { return uint64(t.Rows[i].Off) > off })
	if i == 0 {
		return Row{}
	}
	return t.Rows[i-1]
}

// A Place is where a thread of x86-64 is in user mode, or one of its callers.
type Place struct {
	PC, SP, FP uint64
	// Called says that PC is a return address: the call lies before it.
	Called bool
	lost   bool // FP is not the frame's
}

// Code returns an address in the instruction that is executed there.
func (p *Place) Code() uint64 {
	if p.Called {
		return p.PC - 1
	}
	return p.PC
}

// Where a signal's frame has registers, from arch/x86/include/uapi/asm/sigcontext.h.
const (
	signalFP = 120
	signalSP = 160
	signalPC = 168
)

// Up goes to the caller, and reports whether it could. The table is that of the image whose code runs at p, nil of code in none; off is
// its place in the file. Words of the stack are read by read, which reports whether it has them.
func (p *Place) Up(t *Table, off uint64, read func(at uint64) (word uint64, ok bool)) bool {
	var row Row
	if t != nil {
		row = t.At(off)
	}
	switch row.Kind {
	case End:
		return false
	case Signal:
		return p.bySignal(read)
	case SP, FP, PLT:
		return p.byRow(row, read)
	}
	if t != nil && len(t.Rows) > 0 && !t.Frames || p.lost || p.FP < p.SP {
		return false
	}
	fp, ok := read(p.FP)
	ra, ok2 := read(p.FP + WordSize)
	if !ok || !ok2 || ra == 0 {
		return false
	}
	*p = Place{PC: ra, SP: p.FP + 2*WordSize, FP: fp, Called: true}
	return true
}

// bySignal goes from a signal's frame to where it struck.
func (p *Place) bySignal(read func(uint64) (uint64, bool)) bool {
	pc, ok := read(p.SP + signalPC)
	sp, ok2 := read(p.SP + signalSP)
	fp, ok3 := read(p.SP + signalFP)
	if !ok || !ok2 || !ok3 {
		return false
	}
	*p = Place{PC: pc, SP: sp, FP: fp}
	return true
}

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
