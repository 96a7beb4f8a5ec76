package image

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"strings"

	"backfeed/sample/unwind"
)

// UnwindTable returns the rows of .eh_frame of an ELF file, and those of .debug_frame for other code: none if it has no such
// section. Of more than limit rows, it returns an error. It reads nothing else of the file but, of AArch64, dynamic symbols and the start of the procedure
// linkage table.
//
// With an error about malformed bytes it returns what lies before them, which holds.
func UnwindTable(f *os.File, limit int) ([]unwind.Row, error) {
	var rows []unwind.Row
	_, err := opened(f, func(im *Image, size int64) (err error) {
		if err = im.readHeaders(); err != nil {
			return err
		}
		if err = im.load(size); err == nil {
			rows, err = im.unwindTable(limit)
		}
		return err
	})
	return rows, err
}

// Unwinding returns what is known of how callers are found: rows as those of UnwindTable, as far as they hold.
func (im *Image) Unwinding() *unwind.Table {
	const most = 1 << 22 // 32 MB; libLLVM has 2 million
	rows, _ := im.unwindTable(most)
	arm := im.Arch == AArch64 // of which nearly all code keeps frame pointers (AAPCS64, 6.4.6)
	return &unwind.Table{Rows: rows, Frames: arm || im.Go != "", AArch64: arm}
}

func (im *Image) unwindTable(limit int) ([]unwind.Row, error) {
	entries, err := im.readUnwind()
	entries = addMissing(entries, im.linkageUnwind())
	entries = addMissing(entries, im.signalUnwind())
	t := newTableMaker(im, limit)
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
			return nil, fmt.Errorf("unwind tables: more than %d rows: %w", limit, ErrUnsupported)
		}
	}
	t.close()
	return t.rows, err
}

// addMissing adds those of more to entries, both by address, whose code none of these is of.
func addMissing(entries, more []unwindEntry) []unwindEntry {
	n := len(entries)
	for _, e := range more {
		i := sort.Search(n, func(i int) bool { return entries[i].hi > e.lo })
		if i == n || entries[i].lo >= e.hi {
			entries = append(entries, e)
		}
	}
	if len(entries) > n {
		slices.SortStableFunc(entries, func(a, b unwindEntry) int { return cmp.Compare(a.lo, b.lo) })
	}
	return entries
}

// saveLink is the instruction stp x16, x30, [sp, #-16]! of AArch64.
const saveLink = 0xa9bf7bf0

// linkageUnwind returns entries of the procedure linkage tables of AArch64, for which no linker writes any. All but the
// head leave the stack and the link register alone. The head saves that by its first instruction, or the one after
// a landing pad (elfNN_aarch64_init_small_plt0_entry of bfd/elfnn-aarch64.c).
func (im *Image) linkageUnwind() (out []unwindEntry) {
	if im.Arch != AArch64 {
		return nil
	}
	const head, step, landing = 32, 4, 2
	c := &cie{codeAlign: step, dataAlign: -unwind.WordSize, ra: 30, rules: []byte{cfaDef, byte(armRegisters.sp), 0}}
	for _, s := range im.elf.Sections {
		lo := Addr(s.Addr)
		if s.Name != ".plt" && s.Name != ".iplt" || s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_EXECINSTR == 0 || s.Size < head || !im.executable(lo) {
			continue
		}
		e := unwindEntry{frame: frame{lo: lo, hi: lo + Addr(s.Size)}, cie: c}
		code := im.read(lo, landing*step)
		for i := byte(1); i <= landing && code != nil; i++ {
			if binary.LittleEndian.Uint32(code[(i-1)*step:]) == saveLink {
				e.rules = []byte{cfaAdvance | i, cfaDefOff, 16, cfaOffset | 30, 1, cfaAdvance | (head/step - i), cfaDefOff, 0, cfaRestore | 30}
				break
			}
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b unwindEntry) int { return cmp.Compare(a.lo, b.lo) })
	return out
}

// sigreturn is mov x8, #139; svc #0 of AArch64.
const sigreturn = 0xd4000001d2801168

// signalUnwind returns an entry of what the handler of a signal returns to on AArch64, in the code that the kernel maps into
// processes: its own was taken out, since libgcc crashed by it (arch/arm64/kernel/vdso/sigreturn.S). It begins an
// instruction earlier, where the call would be that has that return address.
func (im *Image) signalUnwind() []unwindEntry {
	if im.Arch != AArch64 {
		return nil
	}
	table, err := im.readTable(im.elf, elf.SHT_DYNSYM)
	if err != nil {
		return nil
	}
	for i := range table {
		s := &table[i]
		if s.name != "__kernel_rt_sigreturn" && !strings.HasPrefix(s.name, "__kernel_rt_sigreturn@") || !im.executable(s.value) {
			continue
		}
		if code := im.read(s.value, 8); code != nil && binary.LittleEndian.Uint64(code) == sigreturn {
			c := &cie{codeAlign: 1, dataAlign: 1, ra: 30}
			return []unwindEntry{{frame: frame{lo: s.value - 4, hi: s.value + 8}, cie: c, rules: armRegisters.signalRules()}}
		}
	}
	return nil
}

// A tableMaker makes rows of entries, which it gets by address.
type tableMaker struct {
	im    *Image
	regs  *dwarfRegisters
	limit int
	rows  []unwind.Row
	end   Addr // of the entry before
	full  bool

	initial map[*cie]*cfaRule // after the CIE's instructions; nil if they were not understood
}

func newTableMaker(im *Image, limit int) *tableMaker {
	return &tableMaker{im: im, regs: im.dwarfRegisters(), limit: limit, initial: map[*cie]*cfaRule{}}
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
	r := cfaReader{regs: t.regs, cie: e.cie, rule: *initial, initial: *initial, loc: e.lo}
	last := e.lo
	r.row = func(lo Addr, rule *cfaRule) {
		if lo >= last && lo < hi { // an advance may wrap
			last = lo
			t.row(lo, rule.compact(t.regs))
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
		r := newCFAReader(t.regs, c)
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
)

// A signalFrame has the expressions of what is saved in a signal's frame, all of them relative to the stack pointer.
type signalFrame struct{ cfa, ra, fp []byte }

var (
	// rsp at 160 of the ucontext, rip at 168, rbp at 120: breg7, and deref for the CFA
	// (sysdeps/unix/sysv/linux/x86_64/sigaction.c of glibc).
	x86Signal = signalFrame{cfa: []byte{0x77, 0xa0, 0x01, 0x06}, ra: []byte{0x77, 0xa8, 0x01}, fp: []byte{0x77, 0xf8, 0x00}}

	// sp at 560 of struct rt_sigframe, pc at 568, x29 at 544: likewise by breg31.
	armSignal = signalFrame{cfa: []byte{0x8f, 0xb0, 0x04, 0x06}, ra: []byte{0x8f, 0xb8, 0x04}, fp: []byte{0x8f, 0xa0, 0x04}}
)

// signalRules returns the call frame instructions that tell of a signal's frame.
func (regs *dwarfRegisters) signalRules() []byte {
	s := &regs.signal
	b := append([]byte{cfaDefExpr, byte(len(s.cfa))}, s.cfa...)
	b = append(append(b, cfaExpr, byte(regs.fp), byte(len(s.fp))), s.fp...)
	return append(append(b, cfaExpr, byte(regs.ra), byte(len(s.ra))), s.ra...)
}

const lit0 = 0x30

// compact returns r as a row.
func (r *cfaRule) compact(regs *dwarfRegisters) (row unwind.Row) {
	switch {
	case r.ra.end:
		return unwind.Row{Kind: unwind.End}
	case r.computed:
		return r.compactComputed(regs)
	case r.ra.unknown || r.off < 0 || r.off%unwind.WordSize != 0 || r.off/unwind.WordSize > math.MaxUint16:
		return unwind.Row{}
	}
	switch r.reg {
	case regs.sp:
		row.Kind = unwind.SP
	case regs.fp:
		row.Kind = unwind.FP
	default:
		return unwind.Row{}
	}
	row.CFA = uint16(r.off / unwind.WordSize)
	switch {
	case r.ra.link:
		row.Kind |= unwind.Link
	case !regs.link:
		if r.ra.off != -unwind.WordSize || r.off < unwind.WordSize {
			return unwind.Row{}
		}
	case r.fp.saved && r.ra.off == r.fp.off+unwind.WordSize:
		if row.Kind |= unwind.Pair; !saveAt(&row, r.fp.off, true) {
			return unwind.Row{}
		}
		return row
	case r.fp.saved || r.fp.lost || !saveAt(&row, r.ra.off, true):
		return unwind.Row{}
	default:
		row.Kind |= unwind.Alone
		return row
	}
	if r.fp.lost || r.fp.saved && !saveAt(&row, r.fp.off, regs.link) {
		row.Saved = unwind.FPLost
	}
	return row
}

// saveAt says in a row that something is saved so many bytes from its CFA, and reports whether a row has room for that. up is
// whether it may be told from the register on.
func saveAt(row *unwind.Row, off int64, up bool) bool {
	words := -off / unwind.WordSize
	switch {
	case off%unwind.WordSize != 0 || words < 1:
		return false
	case words < unwind.FPLost:
	case up && words <= int64(row.CFA) && int64(row.CFA)-words < unwind.FPLost: // below a large array, as gcc has it
		words = int64(row.CFA) - words
		row.Kind |= unwind.Up
	default:
		return false
	}
	row.Saved = uint8(words)
	return true
}

// compactComputed returns r as a row if its CFA is computed in one of the ways that toolchains do so.
func (r *cfaRule) compactComputed(regs *dwarfRegisters) unwind.Row {
	n, signal := len(pltBefore), &regs.signal
	switch {
	case bytes.Equal(r.expr, signal.cfa) && bytes.Equal(r.ra.expr, signal.ra) && bytes.Equal(r.fp.expr, signal.fp):
		return unwind.Row{Kind: unwind.Signal}
	case regs.link:
	case len(r.expr) == n+1+len(pltAfter) && bytes.HasPrefix(r.expr, pltBefore) && bytes.HasSuffix(r.expr, pltAfter) &&
		r.expr[n] >= lit0 && r.expr[n] <= lit0+15 && !r.ra.unknown && r.ra.off == -unwind.WordSize:
		return unwind.Row{Kind: unwind.PLT, CFA: uint16(r.expr[n] - lit0)}
	}
	return unwind.Row{}
}
