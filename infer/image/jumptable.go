package image

import (
	"encoding/binary"
	"slices"
)

type tableKind uint8

const (
	unresolved tableKind = iota
	jumpTable
	tailJump
)

// A table is what is known of an indirect jump.
type table struct {
	kind    tableKind
	targets []Addr // of a jumpTable: by address, each once; else those that are known
	labels  bool   // its entries are addresses, and nothing bounds the index
	bounded bool   // all that leads to the jump bounds the index, as far as that was decoded
	after   int    // transfers that were found by then
	read    bool   // of a jumpTable: all targets are read from data
	entered bool   // other code leads to where what is jumped to comes from
	to      Addr   // of a tailJump, if it is constant
	slot    Addr   // that a tailJump goes through, if its content is constant
	name    string
}

// A shape tells how a jump table is laid out: target = base + entry<<shift, of
// entries of size bytes.
type shape struct {
	addr   Addr
	base   Addr
	size   uint8
	shift  uint8
	signed bool
}

// resolveOpen looks at the indirect jumps that were met since the last time.
// Their targets become leaders.
func (b *builder) resolveOpen() {
	if len(b.open) == 0 {
		return
	}
	b.slicer, b.depths = newSlicer(b), nil
	for _, i := range b.open {
		t := &b.transfers[i]
		t.table = b.resolve(t)
		t.table.after = len(b.transfers)
		b.leadTo(t.table)
	}
	b.open = b.open[:0]
}

// widen looks again at the jumps whose index was bounded by what led there when they were met, now that what they lead to is decoded, too:
// in a loop that is a state machine it sets the next index, and before that only the first was known. More targets become leaders.
func (b *builder) widen() {
	fresh := false // b.slicer knows all transfers
	for i := range b.transfers {
		t := &b.transfers[i]
		if t.table == nil || !t.table.bounded || t.table.after == len(b.transfers) {
			continue
		}
		if !fresh {
			b.slicer, b.depths, fresh = newSlicer(b), nil, true
		}
		t.table.after = len(b.transfers)
		if wider := b.resolve(t); wider.kind == jumpTable && len(wider.targets) > len(t.table.targets) {
			wider.after = len(b.transfers)
			t.table = wider
			b.leadTo(wider)
		}
	}
}

// resolveEntered looks once more at the jumps that are left where other code leads into the procedure, once all is decoded that
// anything else leads to: what was reached from there first may follow the code that loads the address of a table. Tables that
// are found lead to more.
func (b *builder) resolveEntered() {
	for found := true; found; {
		found = false
		b.slicer, b.depths = newSlicer(b), nil
		for i := range b.transfers {
			t := &b.transfers[i]
			if t.table == nil || !t.table.entered || t.table.kind == jumpTable {
				continue
			}
			if again := b.resolve(t); again.kind == jumpTable || again.kind == tailJump && t.table.kind == unresolved {
				t.table, found = again, true
				b.leadTo(again)
			}
		}
		b.drain()
	}
}

// leadTo makes the targets of a table leaders.
func (b *builder) leadTo(t *table) {
	for _, a := range t.targets {
		if off, ok := b.inside(a); ok {
			b.lead(off, 0)
		}
	}
}

// resolveThreaded takes the jumps that are left, once all is decoded, through a table that is not
// known for jumps through those that are: an interpreter has one table of labels, and jumps
// through it at the end of each instruction, with the table's address in a register or wherever
// there is room for it.
func (b *builder) resolveThreaded() {
	var labels []Addr
	var left []*transfer
	for i := range b.transfers {
		t := &b.transfers[i]
		if t.table != nil && t.table.labels {
			labels = append(labels, t.table.targets...)
		}
		if t.table != nil && t.table.kind == unresolved {
			left = append(left, t)
		}
	}
	if len(labels) == 0 || len(left) == 0 {
		return
	}
	slices.Sort(labels)
	all := &table{kind: jumpTable, targets: slices.Compact(labels)}
	b.slicer = newSlicer(b)
	for _, t := range left {
		if b.throughTable(t) {
			t.table = all
		}
	}
}

// resolveStored takes the jumps that are left, through words of memory, for jumps to the labels that data holds: an interpreter may
// keep in its program, in place of numbers of instructions, where each is executed, and then no code reads the table of labels.
func (b *builder) resolveStored() {
	if len(b.throughWords()) == 0 {
		return
	}
	labels := b.im.labelsOf(b.sym)
	if len(labels) < fewLabels {
		return
	}
	all := &table{kind: jumpTable, targets: labels, labels: true}
	b.leadTo(all)
	b.drain()
	left := b.throughWords()
	if len(left)*len(labels) > mostWays {
		return
	}
	for _, t := range left {
		t.table = all
	}
}

// throughWords returns the jumps that are left and go through words of memory, valid until more code is decoded.
func (b *builder) throughWords() (left []*transfer) {
	b.slicer, b.depths = newSlicer(b), nil
	for i := range b.transfers {
		if t := &b.transfers[i]; t.table != nil && t.table.kind == unresolved && b.throughWord(t) {
			left = append(left, t)
		}
	}
	return left
}

// fewLabels is how many labels are too few for an interpreter; of more than mostWays ways that its jumps may go in all, a graph is too large.
const fewLabels, mostWays = 8, 100_000

// throughWord reports whether all that t may jump to are words of memory, at no place that is known.
func (b *builder) throughWord(t *transfer) bool {
	return b.through(t, func(d *x86) bool { return d.pfx&pfxSeg == 0 && d.base != noReg }, func(v value) bool {
		if v.load && v.size == 8 && v.from.reg != noReg {
			return true
		}
		if !v.isReg() {
			return false
		}
		e := b.slicer.effect(v.at)
		return e.what == doLoad && e.size == 8 && e.a != noReg
	})
}

// through reports whether t jumps through memory that is so, by its operand, or to values that all are.
func (b *builder) through(t *transfer, memory func(*x86) bool, is func(value) bool) bool {
	b.slicer.steps = 0
	if b.im.Arch == X86_64 {
		d := &b.x86
		d.decode(b.code[t.off:])
		if d.mem {
			return memory(d)
		}
	}
	values := b.jumpTargets(t)
	return len(values) > 0 && !slices.ContainsFunc(values, func(v value) bool { return !is(v) })
}

// noteUnresolved notes the jumps that go nobody knows where.
func (b *builder) noteUnresolved() {
	for i := range b.transfers {
		if t := &b.transfers[i]; t.table != nil && t.table.kind == unresolved {
			b.incomplete(t.off, "targets of the jump at %#x unknown", t.Addr)
		}
	}
}

// throughTable reports whether all that t may jump to are words of tables.
func (b *builder) throughTable(t *transfer) bool {
	s := b.slicer
	return b.through(t, func(d *x86) bool {
		return s.isWord(d.memory(effect{what: doLoad, dst: noReg, size: 8}, b.lo+Addr(t.off)), t.off)
	}, func(v value) bool {
		if v.load && v.size == 8 && v.from.reg != noReg && b.im.segment(Addr(v.from.c)) != nil {
			return true // of one that is known
		}
		return v.isReg() && s.isWord(s.effect(v.at), v.at)
	})
}

// isWord reports whether e, at off, loads a word by its index in a table.
func (s *slicer) isWord(e effect, off int) bool {
	if e.what != doLoad || e.size != 8 || e.a == noReg {
		return false
	}
	if e.b != noReg {
		return e.shift == 3
	}
	values := s.operand(e.a, off)
	for _, v := range values {
		if !v.isReg() {
			return false
		}
		if add := s.effect(v.at); add.what != doAdd || add.a == noReg || add.b == noReg || add.shift != 3 {
			return false
		}
	}
	return e.c == 0 && len(values) > 0
}

// isReg reports whether v is what a register holds after the instruction at v.at.
func (v value) isReg() bool { return !v.load && v.reg != noReg && v.c == 0 && v.scale == 0 }

// resolve finds out where t goes, of all the values that it may jump to.
func (b *builder) resolve(t *transfer) *table {
	if b.im.toThunk(b.code[t.off:]) {
		return &table{kind: tailJump} // with these, Linux is compiled without jump tables
	}
	s := b.slicer
	s.entered = false
	found := b.resolveBy(t)
	if !s.entered || found.kind == jumpTable {
		return found
	}
	// A part that the compiler split off jumps back into loops, with the address of a table in the register where the
	// loop has it. What is read there leads into the procedure, or it is no table.
	s.within = true
	back := b.resolveBy(t)
	s.within = false
	if back.kind == jumpTable && back.read {
		return back
	}
	found.entered = true
	return found
}

// resolveBy is resolve by what the slicer holds to be so.
func (b *builder) resolveBy(t *transfer) *table {
	b.slicer.steps = 0
	read := true
	var inside []Addr
	var tails []*table
	labels, bounded, unknown := true, true, false
	for _, v := range b.jumpTargets(t) {
		targets, found := b.resolveValue(t, v)
		if found.kind == unresolved {
			unknown = true
			continue
		}
		inside = append(inside, targets...)
		labels, read, bounded = labels && found.labels, read && found.read, bounded && found.bounded
		if found.kind == tailJump {
			tails = append(tails, found)
		}
	}
	switch {
	case unknown && len(inside) > 0 && labels:
		return &table{kind: unresolved, targets: inside, labels: true}
	case unknown:
		return &table{kind: unresolved}
	case len(inside) > 0 && len(tails) == 0:
		slices.Sort(inside)
		return &table{kind: jumpTable, targets: slices.Compact(inside), labels: labels, bounded: bounded, read: read}
	case len(inside) > 0:
		return &table{kind: unresolved}
	case len(tails) == 0:
		return b.tail(t)
	}
	for _, tail := range tails {
		if tail.to != tails[0].to || tail.name != tails[0].name {
			return &table{kind: tailJump}
		}
	}
	return tails[0]
}

// resolveValue returns the targets of one value inside the procedure and what t is by it: a table,
// or a tail call.
func (b *builder) resolveValue(t *transfer, v value) ([]Addr, *table) {
	found := &table{kind: jumpTable}
	constant := v.reg == noReg && v.from.reg == noReg
	switch {
	case v.isConst() && b.within(Addr(v.c)):
		found.bounded = true
		return []Addr{Addr(v.c)}, found
	case v.isConst() && b.im.executable(Addr(v.c)):
		return nil, &table{kind: tailJump, to: Addr(v.c), name: b.im.nameAt(Addr(v.c))}
	case v.load && constant && v.size == 8 && v.c == 0:
		to, name := b.im.slotTarget(Addr(v.from.c))
		if to != 0 || name != "" {
			return nil, &table{kind: tailJump, to: to, slot: Addr(v.from.c), name: name}
		}
	case v.load && v.reg == noReg:
		if sh, ok := b.shape(v); ok {
			targets, bounded := b.readTable(sh, v)
			if targets != nil {
				found.labels, found.bounded, found.read = sh.size == 8 && !bounded, bounded, true
				return targets, found
			}
			if a, ok := b.im.entry(sh, 0); ok && b.within(a) {
				return nil, &table{kind: unresolved} // a table, but some of it leads elsewhere
			}
		}
	}
	return nil, b.tail(t)
}

// within reports whether a is in the procedure, behind its start: a jump there
// through a pointer is none to a procedure.
func (b *builder) within(a Addr) bool {
	off, ok := b.inside(a)
	return ok && off != 0
}

// tail makes t a tail call if the frame of the procedure is gone by then. Where it
// is not, t jumps inside the procedure, nobody knows where to.
func (b *builder) tail(t *transfer) *table {
	if b.frameGone(t.off) && (b.hasFrame || !b.im.hasLabels(b.sym)) {
		return &table{kind: tailJump}
	}
	return &table{kind: unresolved}
}

// jumpTargets returns the values that t may jump to.
func (b *builder) jumpTargets(t *transfer) []value {
	s := b.slicer
	if b.im.Arch == AArch64 {
		w := binary.LittleEndian.Uint32(b.code[t.off:])
		return s.valueBefore(reg(w>>5&31), t.off)
	}
	d := &b.x86
	d.decode(b.code[t.off:])
	if d.pfx&pfxSeg != 0 {
		return nil
	}
	if !d.mem {
		return s.valueBefore(reg(d.modrm&7|d.rex&1<<3), t.off)
	}
	e := d.memory(effect{what: doLoad, dst: noReg, size: 8}, b.lo+Addr(t.off))
	return s.loads(e, noReg, t.off)
}

// shape returns the layout of the table that v is loaded from, if it can be one.
func (b *builder) shape(v value) (shape, bool) {
	sh := shape{addr: Addr(v.from.c), base: Addr(v.c), size: v.size, shift: v.shift, signed: v.signed}
	switch {
	case v.from.scale > 3 || v.from.reg != noReg && 1<<v.from.scale != v.size,
		sh.size == 8 && (sh.base != 0 || sh.shift != 0), b.im.segment(sh.addr) == nil:
		return sh, false
	}
	return sh, true
}

// readTable returns the targets of the table that v is loaded from, or nil, and whether the code
// bounds the index.
func (b *builder) readTable(sh shape, v value) (targets []Addr, bounded bool) {
	if v.from.reg == noReg {
		return b.entries(sh, 1, 1), true
	}
	n, most := b.slicer.limit(v.from.reg, v.from.at)
	return b.entries(sh, n, most), n != noLimit
}

// maxEntries bounds a table whose end nothing tells.
const maxEntries = 1 << 16

// entries reads the n entries of a table or, where n is noLimit, at most most, up to
// the next object or the first that cannot be one. Every entry of a bounded table
// must lead into the procedure or another part of it: else it is no table, and nil.
func (b *builder) entries(sh shape, n, most int64) []Addr {
	bounded := n != noLimit && n <= maxEntries
	if !bounded {
		n = min(most, maxEntries)
	}
	end := b.im.objectEnd(sh.addr)
	var out []Addr
	for i := int64(0); i < n; i++ {
		if !bounded && sh.addr+Addr(i+1)*Addr(sh.size) > end {
			break
		}
		a, ok := b.im.entry(sh, i)
		if a == b.lo+Addr(len(b.code)) && ok {
			continue // clang's label for a case that cannot be
		}
		if !ok || !b.plausible(a, bounded) {
			if bounded {
				return nil
			}
			break
		}
		out = append(out, a)
	}
	return out
}

// entry reads one entry of a table.
func (im *Image) entry(sh shape, i int64) (Addr, bool) {
	at := sh.addr + Addr(i)*Addr(sh.size)
	if sh.size == 8 {
		return im.pointer(at)
	}
	raw := im.read(at, int(sh.size))
	if raw == nil {
		return 0, false
	}
	var v int64
	switch sh.size {
	case 1:
		v = int64(raw[0])
		if sh.signed {
			v = int64(int8(raw[0]))
		}
	case 2:
		v = int64(binary.LittleEndian.Uint16(raw))
		if sh.signed {
			v = int64(int16(v))
		}
	case 4:
		v = int64(binary.LittleEndian.Uint32(raw))
		if sh.signed {
			v = int64(int32(v))
		}
	}
	return sh.base + Addr(v<<sh.shift), true
}

// plausible reports whether a table of this procedure may lead to a: into the
// procedure or, by a case that is rare, to where the compiler split it.
func (b *builder) plausible(a Addr, bounded bool) bool {
	if off, ok := b.inside(a); ok {
		return b.mark[off]&markBody == 0 && (b.im.Arch != AArch64 || off%4 == 0)
	}
	if slices.ContainsFunc(b.transfers, func(t transfer) bool { return t.Target == a && t.Class&(Jump|CondJump) != 0 }) {
		return true
	}
	j := b.im.Find(a)
	if j < 0 {
		return false
	}
	s := &b.im.Symbols()[j]
	if s.Source == FromEhFrame && bounded { // the names are lost, .cold among them
		return true
	}
	return b.im.isPart(s) != b.im.isPart(b.sym)
}

// frameGone reports whether the stack pointer at off is where it was at the entry: as
// after an epilogue, or in a procedure that never had a frame. A part that the
// compiler split off is entered with a frame: there, it must have been popped.
func (b *builder) frameGone(off int) bool {
	depth, ok := b.depthAt(off)
	switch {
	case !ok:
		return false
	case b.im.isPart(b.sym):
		return depth > 0
	case b.sym.Source == FromEhFrame:
		return depth >= 0
	}
	return depth == 0
}
