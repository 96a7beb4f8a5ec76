package image

import (
	"bytes"
	"fmt"
	"math"
	"os"

	"backfeed/sample/unwind"
)

// UnwindTable returns the rows of .eh_frame of an ELF file of x86-64: none if it has no such section, or
// is of another processor. Of more than limit rows, it returns an error. It reads nothing else of the file.
//
// With an error about malformed bytes it returns what lies before them, which holds.
func UnwindTable(f *os.File, limit int) ([]unwind.Row, error) {
	var rows []unwind.Row
	_, err := opened(f, func(im *Image, size int64) (err error) {
		if err = im.readHeaders(); err != nil || im.Arch != X86_64 {
			return err
		}
		if err = im.load(size); err == nil {
			rows, err = im.unwindTable(limit)
		}
		return err
	})
	return rows, err
}

func (im *Image) unwindTable(limit int) ([]unwind.Row, error) {
	entries, err := im.readUnwind()
	t := tableMaker{im: im, limit: limit, initial: map[*cie]*cfaRule{}}
	for i := range entries {
		e := &entries[i]
		hi := e.hi
		if i+1 < len(entries) { // ranges that overlap, as no linker makes them: the later one holds
			hi = min(hi, entries[i+1].lo)
		}
		if hi > e.lo {
			t.add(e, hi)
		}
		if t.full {
			return nil, fmt.Errorf(".eh_frame: more than %d rows: %w", limit, ErrUnsupported)
		}
	}
	t.close()
	return t.rows, err
}

// A tableMaker makes rows of entries, which it gets by address.
type tableMaker struct {
	im    *Image
	limit int
	rows  []unwind.Row
	end   Addr // of the entry before
	full  bool

	initial map[*cie]*cfaRule // after the CIE's instructions; nil if they were not understood
}

// padding is what a linker leaves between two functions at most, for alignment: the row before may hold
// there, since nothing runs.
const padding = 64

// add adds the rows of e up to hi.
func (t *tableMaker) add(e *unwindEntry, hi Addr) {
	if t.end > 0 && e.lo > t.end+padding {
		t.row(t.end, unwind.Row{})
	}
	t.end = hi
	initial := t.begin(e.cie)
	if initial == nil {
		t.row(e.lo, unwind.Row{})
		return
	}
	r := cfaReader{cie: e.cie, rule: *initial, initial: *initial, loc: e.lo}
	last := e.lo
	r.row = func(lo Addr, rule *cfaRule) {
		if lo >= last && lo < hi { // an advance may wrap
			last = lo
			t.row(lo, rule.compact())
		}
	}
	understood := r.run(e.rules, hi-1)
	switch {
	case !understood && r.loc >= last && r.loc < hi:
		t.row(r.loc, unwind.Row{})
	case understood && r.loc < hi:
		r.row(r.loc, &r.rule)
	}
}

// begin returns the rule that the entries of a CIE begin with.
func (t *tableMaker) begin(c *cie) *cfaRule {
	rule, known := t.initial[c]
	if !known {
		r := cfaReader{cie: c, rule: cfaRule{noRA: true}}
		if !c.opaque && r.run(c.rules, math.MaxUint64) {
			rule = &r.rule
		}
		t.initial[c] = rule
	}
	return rule
}

// close ends the table.
func (t *tableMaker) close() {
	if t.end > 0 {
		t.row(t.end, unwind.Row{})
	}
}

// row says what holds from an address on.
func (t *tableMaker) row(a Addr, r unwind.Row) {
	n := len(t.rows)
	if t.full {
		return
	}
	off, ok := t.im.OffsetOf(a)
	if !ok { // the end of a segment
		off, ok = t.im.OffsetOf(a - 1)
		off++
	}
	if !ok || off > math.MaxUint32 || n > 0 && uint32(off) < t.rows[n-1].Off {
		return // segments whose order in the file is another than in memory, as no linker makes them
	}
	r.Off = uint32(off)
	if n > 0 && t.rows[n-1].Off == r.Off { // the row before holds nowhere
		t.rows[n-1] = r
		n--
		if n > 0 && sameRule(t.rows[n-1], r) {
			t.rows = t.rows[:n]
		}
		return
	}
	if n > 0 && sameRule(t.rows[n-1], r) {
		return
	}
	if n == t.limit {
		t.full = true
		return
	}
	t.rows = append(t.rows, r)
}

func sameRule(a, b unwind.Row) bool {
	a.Off = b.Off
	return a == b
}

// Expressions that toolchains write, byte by byte (DWARF 5, 7.7.1).
var (
	// The CFA in a procedure linkage table is rsp + 8 + (rip & 15 >= N) * 8: breg7 8, breg16 0, lit15, and, litN,
	// ge, lit3, shl, plus (elf_x86_64_eh_frame_lazy_plt of bfd/elf64-x86-64.c).
	pltBefore = []byte{0x77, 8, 0x80, 0, 0x3f, 0x1a}
	pltAfter  = []byte{0x2a, 0x33, 0x24, 0x22}

	// In a signal's frame the registers are in a ucontext at rsp (sysdeps/unix/sysv/linux/x86_64/sigaction.c of
	// glibc): rsp at 160, rip at 168, rbp at 120.
	signalCFA = []byte{0x77, 0xa0, 0x01, 0x06}
	signalRA  = []byte{0x77, 0xa8, 0x01}
	signalFP  = []byte{0x77, 0xf8, 0x00}
)

const lit0 = 0x30

// compact returns r as a row.
func (r *cfaRule) compact() (row unwind.Row) {
	switch {
	case r.end:
		return unwind.Row{Kind: unwind.End}
	case r.computed:
		n := len(pltBefore)
		if bytes.Equal(r.expr, signalCFA) && bytes.Equal(r.raExpr, signalRA) && bytes.Equal(r.fp.expr, signalFP) {
			return unwind.Row{Kind: unwind.Signal}
		}
		if len(r.expr) == n+1+len(pltAfter) && bytes.HasPrefix(r.expr, pltBefore) && bytes.HasSuffix(r.expr, pltAfter) &&
			r.expr[n] >= lit0 && r.expr[n] <= lit0+15 && !r.noRA && r.ra == -unwind.WordSize {
			return unwind.Row{Kind: unwind.PLT, CFA: uint16(r.expr[n] - lit0)}
		}
		return unwind.Row{}
	case r.noRA || r.ra != -unwind.WordSize:
		return unwind.Row{}
	}
	switch r.reg {
	case dwarfRSP:
		row.Kind = unwind.SP
	case dwarfRBP:
		row.Kind = unwind.FP
	default:
		return unwind.Row{}
	}
	if r.off < unwind.WordSize || r.off%unwind.WordSize != 0 || r.off/unwind.WordSize > math.MaxUint16 {
		return unwind.Row{}
	}
	row.CFA = uint16(r.off / unwind.WordSize)
	switch {
	case r.fp.lost:
		row.FP = unwind.FPLost
	case r.fp.saved:
		words := -r.fp.off / unwind.WordSize
		if r.fp.off%unwind.WordSize != 0 || words < 1 || words >= unwind.FPLost {
			words = unwind.FPLost
		}
		row.FP = uint8(words)
	}
	return row
}
