// Package unwind holds what an unwinder of stacks is told of an image: at each place of its file, how
// the caller of the code there is found. Of x86-64, the return address lies below the canonical frame
// address (CFA) of DWARF; of AArch64, it is in the link register at first, and then on the stack, in the word above the
// caller's frame pointer or alone. Code that tells its caller in another way has no row.
//
// Package image makes tables of .eh_frame and .debug_frame. Package collect takes over, which has the kernel unwind by them. What
// the kernel does there, Place does of stacks that were copied, as those of package perfdata.
package unwind

import "fmt"

// A Row holds from Off up to the next row of its table. Its 8 bytes are what the kernel's side of package collect reads.
type Row struct {
	Off   uint32 // place in the file, in bytes
	CFA   uint16 // by its Kind
	Saved uint8  // where the caller's frame pointer is saved, in words below the CFA; FPSame or FPLost
	Kind  Kind
}

// A Kind says what the CFA is. Of x86-64, the return address is the word below it where nothing else is said; of AArch64
// one of the flags says where it is.
type Kind uint8

// The kinds of rows.
const (
	None   Kind = iota // nothing is known
	SP                 // CFA words above the stack pointer
	FP                 // CFA words above the frame pointer
	PLT                // a word above the stack pointer; two from byte CFA of each 16 bytes of addresses on
	Signal             // a signal's frame, at the stack pointer: the kernel saved all registers in it
	End                // there is no caller: the stack ends
)

// Flags of the kinds SP and FP, of AArch64.
const (
	Link  Kind = 1 << (4 + iota) // the return address is in the link register
	Pair                         // it is saved, in the word above the caller's frame pointer
	Alone                        // it is saved, where Saved says; the frame pointer has the caller's value
	Up                           // Saved counts from the stack pointer or frame pointer up
)

// Flags are those of all kinds.
const Flags = Link | Pair | Alone | Up

// Values of Row.Saved that are no places, but with Alone and Up.
const (
	FPSame = 0   // the frame pointer has the caller's value still
	FPLost = 255 // it is not known where that is
)

// WordSize is the unit of rows, in bytes.
const WordSize = 8

// String is the rule in readelf's words: "sp+16 c-16", the CFA and where the frame pointer is saved, and, of AArch64, where
// the return address is.
func (r Row) String() string {
	var cfa string
	switch r.Kind &^ Flags {
	case SP:
		cfa = fmt.Sprintf("sp+%d", int(r.CFA)*WordSize)
	case FP:
		cfa = fmt.Sprintf("fp+%d", int(r.CFA)*WordSize)
	case PLT:
		return fmt.Sprintf("plt+%d", r.CFA)
	case Signal:
		return "signal"
	case End:
		return "end"
	default:
		return "none"
	}
	below := int(r.Saved)
	if r.Kind&Up != 0 {
		below = int(r.CFA) - below
	}
	saved := func(words int) string { return fmt.Sprintf("c-%d", words*WordSize) }
	switch {
	case r.Kind&Alone != 0:
		return cfa + " u " + saved(below)
	case r.Kind&Pair != 0:
		return cfa + " " + saved(below) + " " + saved(below-1)
	}
	fp := saved(below)
	switch {
	case r.Kind&Up != 0:
	case r.Saved == FPSame:
		fp = "u"
	case r.Saved == FPLost:
		fp = "lost"
	}
	if r.Kind&Link != 0 {
		fp += " u"
	}
	return cfa + " " + fp
}
