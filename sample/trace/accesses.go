package trace

// LineSize is that of the lines of caches, in bytes.
const LineSize = 64

// An Access is one of an instruction to one line of memory. An instruction whose operand crosses the end of a line, or
// that is repeated, makes several.
type Access struct {
	Op    uint32 // operation
	After int    // how many branches of the walk ran before
	Addr  uint64 // of the first byte; 0 if it is not known
	Known bool   // Addr is
	Store bool   // it writes; one that reads as well is two accesses
}

// An access is an Access as a walk keeps it.
type access struct {
	addr  uint64
	op    uint32
	after uint32
	how   uint8
}

// Of access.how.
const (
	accessKnown = 1 << iota
	accessStore
)

// accesses are those of a walk.
type accesses struct {
	of   *Machine
	list []access
}

// note notes an access of the operation that runs.
func (k *accesses) note(addr uint64, size uint8, store bool) {
	how := uint8(accessKnown)
	if store {
		how |= accessStore
	}
	last := (addr + uint64(size) - 1) &^ (LineSize - 1)
	for k.add(addr, how); addr&^(LineSize-1) != last; k.add(addr, how) {
		addr = addr&^(LineSize-1) + LineSize
	}
}

// add adds an access, unless the same execution has made it: what is longer than 8 bytes comes in parts, and by
// turns where it is moved.
func (k *accesses) add(addr uint64, how uint8) {
	a := access{addr, k.of.x86.pc, uint32(len(k.of.branches)), how}
	for i := len(k.list) - 1; i >= max(0, len(k.list)-2); i-- {
		b := &k.list[i]
		if b.op == a.op && b.after == a.after && b.how == how && b.addr/LineSize == addr/LineSize {
			return
		}
	}
	k.list = append(k.list, a)
}

// unread notes what op has of memory and the emulator does not go on to read: what is at an address that is not known,
// and operands of what it does not understand.
func (k *accesses) unread(op *Op, ea uint64, known bool) {
	switch {
	case op.Kind == X86Lea || op.Kind == X86Nop:
	case !known && op.Flags&X86WritesDst != 0 && op.Dst == X86Mem: // which ends the walk
	case !known:
		k.add(0, 0)
	case op.Kind == X86Clobber && op.Flags&X86WritesDst == 0:
		k.note(ea, max(1, op.Size), false)
	}
}

// forget takes back what the operation noted at which the walk ended: it did not run. A branch that left
// the code did.
func (k *accesses) forget(op uint32) {
	n := len(k.list)
	for n > 0 && k.list[n-1].op == op && int(k.list[n-1].after) == len(k.of.branches) {
		n--
	}
	k.list = k.list[:n]
}

// AccessCount returns how many accesses there were.
func (l *Long) AccessCount() int { return len(l.m.kept.list) }

// Accesses calls at for the accesses to memory, first to last, until it returns false. There are none without
// Limits.Accesses.
func (l *Long) Accesses(at func(a Access) bool) {
	for i := range l.m.kept.list {
		a := &l.m.kept.list[i]
		if !at(Access{a.op, int(a.after), a.addr, a.how&accessKnown != 0, a.how&accessStore != 0}) {
			return
		}
	}
}
