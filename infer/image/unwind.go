package image

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"
)

// A StackPlace is a place on the stack, relative to a register.
type StackPlace struct {
	Frame bool  // relative to the frame pointer, else to the stack pointer
	Off   int64 // bytes
}

// ReturnAt reports where the return address of the procedure that runs lies, as the
// instruction at a is about to be executed: by Go's table of stack depths, else by
// .eh_frame. The zero place is the word at the stack pointer: so it is at the entry
// of a procedure, before its return, and all through one that keeps no frame. An
// unwinder by frame pointers does not see the caller then.
//
// On AArch64 a procedure that keeps no frame has its return address in a register: see ReturnsByLink.
func (im *Image) ReturnAt(a Addr) (p StackPlace, known bool) {
	if im.Arch != X86_64 {
		return StackPlace{}, false
	}
	if t, i := im.goFunction(a); i >= 0 {
		return t.returnAt(i, a)
	}
	if e := im.unwindEntry(a); e != nil {
		return e.returnAt(a)
	}
	return StackPlace{}, false
}

// ReturnsByLink reports whether the return address of the procedure that runs is in the link register of AArch64 and nowhere else, as the
// instruction at a is about to be executed: so it is until the procedure saves it, after that was restored, and all through one that calls nothing. By
// what ReturnAt goes by. An unwinder by frame pointers does not see the caller then.
func (im *Image) ReturnsByLink(a Addr) bool {
	if im.Arch != AArch64 {
		return false
	}
	if t, i := im.goFunction(a); i >= 0 {
		at, known := t.returnAt(i, a)
		return known && at == StackPlace{}
	}
	e := im.unwindEntry(a)
	if e == nil {
		return false
	}
	rule, ok := e.ruleAt(&armRegisters, a)
	return ok && rule.ra.link
}

// goFunction returns the index of Go's function at a in Go's table; below 0 if there is none.
func (im *Image) goFunction(a Addr) (*goTable, int) {
	t, err := im.goTab()
	if err != nil {
		return nil, -1
	}
	return t, t.find(a)
}

// unwindEntry returns the entry of .eh_frame, or .debug_frame, of code at a; nil if there is none.
func (im *Image) unwindEntry(a Addr) *unwindEntry {
	entries := im.unwind()
	i := sort.Search(len(entries), func(i int) bool { return entries[i].lo > a }) - 1
	if i < 0 || a >= entries[i].hi {
		return nil
	}
	return &entries[i]
}

// returnAt returns the place of the return address at a, in function i. The depth of
// Go's tables is what the stack has grown by since the call (funcspdelta of
// runtime/symtab.go). Functions that set the stack pointer are on another stack
// than the one that the depth is of.
func (t *goTable) returnAt(i int, a Addr) (StackPlace, bool) {
	f, entry := t.record(i), t.entry(i)
	depths := t.unpack(f.depths(), uint32(t.entry(i+1)-entry))
	d := valueAt(depths, uint32(a-entry)+1)
	if d < 0 || f.setsSP() {
		return StackPlace{}, false
	}
	return StackPlace{Off: int64(d)}, true
}

// An unwindEntry is an FDE of .eh_frame or .debug_frame with what a caller is found by.
type unwindEntry struct {
	frame
	cie   *cie
	rules []byte
}

// readUnwind returns the entries of .eh_frame, by address, and those of .debug_frame for other code. What is malformed
// ends those of its section. Go's code has the latter, but keeps frame pointers, which lead from one of its stacks to
// the other.
func (im *Image) readUnwind() ([]unwindEntry, error) {
	addr, b, err := im.ehFrame()
	if err != nil {
		return nil, err
	}
	entries, err := im.unwindEntries(func(each func(frame, *cie, []byte)) error { return eachFrame(b, addr, each) })
	s := im.elf.Section(debugFrameName)
	if s == nil || s.Type == elf.SHT_NOBITS || im.goVersion() != "" || im.kernel != nil {
		return entries, err
	}
	b, debugErr := im.sectionData(s)
	if debugErr == nil {
		var more []unwindEntry
		more, debugErr = im.unwindEntries(func(each func(frame, *cie, []byte)) error { return eachDebugFrame(b, each) })
		entries = addMissing(entries, more)
	}
	return entries, cmp.Or(err, debugErr)
}

// unwindEntries returns those of a section that are of code, by address.
func (im *Image) unwindEntries(read func(each func(frame, *cie, []byte)) error) (out []unwindEntry, err error) {
	out = make([]unwindEntry, 0, len(im.frames))
	err = read(func(f frame, c *cie, rules []byte) {
		if im.executable(f.lo) && f.hi > f.lo {
			out = append(out, unwindEntry{f, c, rules})
		}
	})
	slices.SortStableFunc(out, func(a, b unwindEntry) int { return cmp.Compare(a.lo, b.lo) })
	return out, err
}

// dwarfRegisters are the numbers that DWARF has for registers of a processor.
type dwarfRegisters struct {
	sp, fp, ra uint64
	link       bool // where nothing else is said, the return address is in its register
	signal     signalFrame
}

var (
	x86Registers = dwarfRegisters{sp: 7, fp: 6, ra: 16, signal: x86Signal}               // System V ABI, figure 3.36
	armRegisters = dwarfRegisters{sp: 31, fp: 29, ra: 30, link: true, signal: armSignal} // DWARF for the Arm 64-bit architecture, 4.1
)

func (im *Image) dwarfRegisters() *dwarfRegisters {
	if im.Arch == AArch64 {
		return &armRegisters
	}
	return &x86Registers
}

// A cfaRule says where the canonical frame address (CFA) of DWARF is, and where
// the return address and the caller's frame pointer are relative to it.
type cfaRule struct {
	reg      uint64
	off      int64
	computed bool   // by expr, which is not followed
	expr     []byte // of the CFA, if it is computed
	ra       savedRA
	fp       savedFP
}

// A savedRA says where the return address is.
type savedRA struct {
	off     int64  // from the CFA, if nothing else is said
	unknown bool   // it is undefined, in another register or computed
	link    bool   // it is in its register
	end     bool   // it is undefined: there is no caller
	expr    []byte // of its place, if that is computed
}

// A savedFP says where the caller's frame pointer is. The zero one is in its register.
type savedFP struct {
	saved, lost bool
	off         int64  // from the CFA, if it is saved
	expr        []byte // of its place, which is not followed; it is lost then
}

func (e *unwindEntry) returnAt(a Addr) (StackPlace, bool) {
	rule, ok := e.ruleAt(&x86Registers, a)
	if !ok || rule.computed || rule.reg != x86Registers.sp && rule.reg != x86Registers.fp {
		return StackPlace{}, false
	}
	return StackPlace{Frame: rule.reg == x86Registers.fp, Off: rule.off + rule.ra.off}, true
}

// framed reports whether the code of e is entered with a frame: not by a call, then.
func (e *unwindEntry) framed(regs *dwarfRegisters) bool {
	rule, ok := e.ruleAt(regs, e.lo)
	called := cfaRule{reg: regs.sp, ra: rule.ra}
	if !regs.link {
		called.off = -rule.ra.off // the return address is what the stack pointer points at
	}
	return ok && !rule.computed && (rule.reg != called.reg || rule.off != called.off)
}

// ruleAt returns the rule that holds at a, if it says where the return address is.
func (e *unwindEntry) ruleAt(regs *dwarfRegisters, a Addr) (cfaRule, bool) {
	if e.cie.opaque {
		return cfaRule{}, false
	}
	r := newCFAReader(regs, e.cie)
	r.loc = e.lo
	if !r.run(e.cie.rules, e.hi) {
		return cfaRule{}, false
	}
	r.initial, r.loc = r.rule, e.lo
	ok := r.run(e.rules, a) && !r.rule.ra.unknown
	return r.rule, ok
}

// A cfaReader follows call frame instructions (DWARF 5, 6.4.2), as far as they
// tell of the CFA and the return address.
type cfaReader struct {
	regs    *dwarfRegisters
	cie     *cie
	rule    cfaRule
	initial cfaRule // after the CIE's instructions
	saved   []cfaRule
	loc     Addr

	row func(lo Addr, r *cfaRule) // is told of each row that ends; nil is nobody
}

// newCFAReader returns one that the instructions of c have still to be read with.
func newCFAReader(regs *dwarfRegisters, c *cie) cfaReader {
	return cfaReader{regs: regs, cie: c, rule: cfaRule{ra: savedRA{unknown: !regs.link, link: regs.link}}}
}

// Call frame instructions: DWARF 5, table 7.29, GNU's and Arm's. The first three have
// an operand in their low 6 bits.
const (
	cfaAdvance    = 0x40
	cfaOffset     = 0x80
	cfaRestore    = 0xc0
	cfaNop        = 0x00
	cfaAdvance1   = 0x02
	cfaAdvance2   = 0x03
	cfaAdvance4   = 0x04
	cfaOffsetExt  = 0x05
	cfaRestoreExt = 0x06
	cfaUndefined  = 0x07
	cfaSameValue  = 0x08
	cfaRegister   = 0x09
	cfaRemember   = 0x0a
	cfaRecall     = 0x0b
	cfaDef        = 0x0c
	cfaDefReg     = 0x0d
	cfaDefOff     = 0x0e
	cfaDefExpr    = 0x0f
	cfaExpr       = 0x10
	cfaOffsetSF   = 0x11
	cfaDefSF      = 0x12
	cfaDefOffSF   = 0x13
	cfaValOffset  = 0x14
	cfaValExpr    = 0x16
	cfaArgsSize   = 0x2e // GNU

	// That the return address is signed from here on, or no more: what unwinds takes a signature away anyway.
	cfaSigned   = 0x2d // DW_CFA_AARCH64_negate_ra_state
	cfaSignedPC = 0x2c // DW_CFA_AARCH64_negate_ra_state_with_pc
)

// maxRemembered bounds the stack of rules. Compilers remember one at a time.
const maxRemembered = 64

// run follows rules up to the row that holds at a, and reports whether it understood
// all of them.
func (r *cfaReader) run(rules []byte, a Addr) bool {
	d := frameReader{b: rules}
	for d.off < len(d.b) && d.err == nil {
		op := byte(d.uint(1, "instruction"))
		low := uint64(op & 0x3f)
		switch op &^ 0x3f {
		case cfaAdvance:
			if !r.advance(low, a) {
				return true
			}
			continue
		case cfaOffset:
			r.at(low, int64(d.uleb("offset"))*r.cie.dataAlign)
			continue
		case cfaRestore:
			r.restore(low)
			continue
		}
		switch op {
		case cfaNop:
		case cfaAdvance1, cfaAdvance2, cfaAdvance4:
			if n := d.uint(1<<(op-cfaAdvance1), "advance"); d.err == nil && !r.advance(n, a) {
				return true
			}
		case cfaOffsetExt:
			reg := d.uleb("register")
			r.at(reg, int64(d.uleb("offset"))*r.cie.dataAlign)
		case cfaOffsetSF:
			reg := d.uleb("register")
			r.at(reg, d.sleb("offset")*r.cie.dataAlign)
		case cfaRestoreExt:
			r.restore(d.uleb("register"))
		case cfaUndefined:
			reg := d.uleb("register")
			r.elsewhere(reg, nil)
			r.rule.ra.end = r.rule.ra.end || reg == r.cie.ra
		case cfaSameValue:
			switch reg := d.uleb("register"); {
			case reg == r.regs.fp:
				r.rule.fp = savedFP{}
			case reg == r.cie.ra && r.regs.link:
				r.rule.ra = savedRA{link: true}
			default:
				r.elsewhere(reg, nil)
			}
		case cfaRegister, cfaValOffset:
			r.elsewhere(d.uleb("register"), nil)
			d.uleb("operand")
		case cfaExpr:
			reg := d.uleb("register")
			r.elsewhere(reg, d.bytes(d.uleb("expression")))
		case cfaValExpr:
			r.elsewhere(d.uleb("register"), nil)
			d.bytes(d.uleb("expression"))
		case cfaRemember:
			if len(r.saved) == maxRemembered {
				return false
			}
			r.saved = append(r.saved, r.rule)
		case cfaRecall:
			n := len(r.saved) - 1
			if n < 0 {
				return false
			}
			r.rule, r.saved = r.saved[n], r.saved[:n]
		case cfaDef:
			r.rule.reg, r.rule.off = d.uleb("register"), int64(d.uleb("offset"))
			r.rule.computed = false
		case cfaDefSF:
			r.rule.reg, r.rule.off = d.uleb("register"), d.sleb("offset")*r.cie.dataAlign
			r.rule.computed = false
		case cfaDefReg:
			r.rule.reg = d.uleb("register")
		case cfaDefOff:
			r.rule.off = int64(d.uleb("offset"))
		case cfaDefOffSF:
			r.rule.off = d.sleb("offset") * r.cie.dataAlign
		case cfaDefExpr:
			r.rule.computed = true
			r.rule.expr = d.bytes(d.uleb("expression"))
		case cfaArgsSize:
			d.uleb("size of arguments")
		case cfaSigned, cfaSignedPC:
			if !r.regs.link {
				return false
			}
		default:
			return false
		}
	}
	return d.err == nil
}

// advance moves to the next row, and reports whether it still begins at a or before.
func (r *cfaReader) advance(n uint64, a Addr) bool {
	if r.row != nil {
		r.row(r.loc, &r.rule)
	}
	r.loc += Addr(n * r.cie.codeAlign)
	return r.loc <= a
}

// at says that a register's value lies so far from the CFA.
func (r *cfaReader) at(reg uint64, off int64) {
	switch reg {
	case r.cie.ra:
		r.rule.ra = savedRA{off: off}
	case r.regs.fp:
		r.rule.fp = savedFP{saved: true, off: off}
	}
}

// elsewhere says that a register's value lies in no place by the CFA, but, if expr is not nil, in one
// that it computes.
func (r *cfaReader) elsewhere(reg uint64, expr []byte) {
	switch reg {
	case r.cie.ra:
		r.rule.ra = savedRA{unknown: true, expr: expr}
	case r.regs.fp:
		r.rule.fp = savedFP{lost: true, expr: expr}
	}
}

func (r *cfaReader) restore(reg uint64) {
	switch reg {
	case r.cie.ra:
		r.rule.ra = r.initial.ra
	case r.regs.fp:
		r.rule.fp = r.initial.fp
	}
}

// bytes reads a block of n bytes.
func (d *frameReader) bytes(n uint64) []byte {
	if n > uint64(len(d.b)-d.off) {
		d.fail("expression")
		return nil
	}
	d.off += int(n)
	return d.b[d.off-int(n) : d.off]
}
