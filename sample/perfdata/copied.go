package perfdata

import (
	"encoding/binary"

	"backfeed/sample"
	"backfeed/sample/unwind"
)

// A copied unwinds the stacks that perf has copied (--call-graph dwarf), by what is known of images.
type copied struct {
	read   func(sample.ImageID) *unwind.Table // nil: nothing is unwound
	depth  int                                // frames of a stack
	tables map[sample.ImageID]*unwind.Table   // that were read; nil of images of which nothing is known
}

// returnOfSignals is of the code that Linux maps into processes of AArch64: it calls nothing, so what returns there is the handler of a
// signal. On x86-64 that returns to the C library.
var returnOfSignals = unwind.Table{AArch64: true, Rows: []unwind.Row{{Kind: unwind.Signal}}}

// unwind puts the callers of a sample into its chain, if its stack was copied. They end where the copy does, or what is known of the code.
func (u *copied) unwind(ct *counter, t *tally, l *located) {
	e := l.e
	if u.read == nil || len(e.dump) == 0 {
		return
	}
	at := e.regs
	word := func(a uint64) (uint64, bool) {
		off := a - e.regs.SP
		if a < e.regs.SP || off > uint64(len(e.dump)) || uint64(len(e.dump))-off < unwind.WordSize {
			return 0, false
		}
		return binary.LittleEndian.Uint64(e.dump[off:]), true
	}
	e.chain = e.chain[:0]
	for len(e.chain) < u.depth-1 {
		code, loss := ct.frame(t, l, at.Code())
		var table *unwind.Table
		switch {
		case code.Image != sample.Unknown:
			table = u.table(t.counts.Images[code.Image].ID)
		case loss == sample.LostVDSO && at.Called && at.AArch64:
			table = &returnOfSignals
		}
		if !at.Up(table, uint64(code.Off), word) {
			break
		}
		e.chain = append(e.chain, at.PC)
	}
	if len(e.chain) > 0 { // the words at the stack pointer need not be looked through for a caller
		e.stack, e.top = true, [len(e.top)]uint64{}
	}
}

func (u *copied) table(id sample.ImageID) *unwind.Table {
	t, ok := u.tables[id]
	if !ok {
		if u.tables == nil {
			u.tables = map[sample.ImageID]*unwind.Table{}
		}
		t = u.read(id)
		u.tables[id] = t
	}
	return t
}
