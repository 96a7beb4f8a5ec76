// Package unwind holds what an unwinder of stacks is told of an image: at each place of its file, how
// the caller of the code there is found. Rows are of x86-64, whose return addresses lie below the
// canonical frame address (CFA) of DWARF; code that tells its caller in another way has none.
//
// Package image makes tables of .eh_frame. Package collect takes over, which has the kernel unwind by them.
package unwind

import "fmt"

// A Row holds from Off up to the next row of its table. Its 8 bytes are what the kernel's side of package collect reads.
type Row struct {
	Off  uint32 // place in the file, in bytes
	CFA  uint16 // by its Kind
	FP   uint8  // how far below the CFA the caller's frame pointer is saved, in words; FPSame or FPLost
	Kind Kind
}

// A Kind says what the CFA is, and with it where the return address lies.
type Kind uint8

// The kinds of rows. Where nothing else is said, the return address is the word below the CFA.
const (
	None   Kind = iota // nothing is known
	SP                 // CFA words above the stack pointer
	FP                 // CFA words above the frame pointer
	PLT                // a word above the stack pointer; two from byte CFA of each 16 bytes of addresses on
	Signal             // a signal's frame, at the stack pointer: the kernel saved all registers in it
	End                // there is no caller: the stack ends
)

// Values of Row.FP that are no places.
const (
	FPSame = 0   // it has the caller's value still
	FPLost = 255 // it is not known where
)

// WordSize is the unit of rows, in bytes.
const WordSize = 8

// String is the rule as readelf writes it: "rsp+16 c-16", the CFA and where the frame pointer is saved.
func (r Row) String() string {
	fp := fmt.Sprintf("c-%d", int(r.FP)*WordSize)
	switch r.FP {
	case FPSame:
		fp = "u"
	case FPLost:
		fp = "lost"
	}
	switch r.Kind {
	case SP:
		return fmt.Sprintf("rsp+%d %s", int(r.CFA)*WordSize, fp)
	case FP:
		return fmt.Sprintf("rbp+%d %s", int(r.CFA)*WordSize, fp)
	case PLT:
		return fmt.Sprintf("plt+%d", r.CFA)
	case Signal:
		return "signal"
	case End:
		return "end"
	}
	return "none"
}
