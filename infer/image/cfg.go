package image

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"sort"
	"sync"
)

// Marks of a byte of a procedure.
const (
	markInst  = 1 << iota // an instruction starts here
	markBody              // inside an instruction
	markLead              // a block starts here
	markEntry             // entered from outside the procedure
	markPad               // a landing pad
	markFall              // the instruction before runs on to here
	markData              // the symbol table says that it is data
	markFlow              // a transfer starts here
)

// A transfer is an instruction that ends or may end straight-line execution.
type transfer struct {
	Inst
	off      int
	noReturn bool
	table    *table // targets of an indirect jump
}

// A builder finds the code of one procedure: first what can be reached from its
// entries, then what lies between.
type builder struct {
	im   *Image
	sym  *Symbol
	lo   Addr
	code []byte
	storage

	slicer *slicer // made when the first indirect jump is met
	why    string  // of the first reason for which the code is incomplete
	whyAt  int     // its offset
	torn   bool    // some bytes are not known to be code, or which code
	x86    x86

	depths   map[int]depth // at indirect jumps
	hasFrame bool          // the stack pointer moves somewhere
}

// storage is what one builder leaves to the next.
type storage struct {
	mark      []uint8    // by offset
	at        []int32    // by offset: of what is marked markFlow the index into transfers; after blocks, of a block's start its index
	work      []int      // leaders to decode from
	transfers []transfer // by discovery; after blocks, by offset
	ordered   []transfer
	open      []int // indices into transfers: indirect jumps not looked at yet
	points    []int // what instructions compute the address of
	edges     []Edge
	calls     []Call
	preds     []pred // of the slicer
}

var spare = sync.Pool{New: func() any { return new(storage) }}

// Proc decodes the code of symbol i (an index into Symbols) into blocks, edges
// and calls. The first call scans the code of the whole image, for what refers
// to it.
//
// A jump out of the procedure, be it to the middle of another one or to a part
// that the compiler split off, is a tail call; where it comes back, that block is
// an entry. A jump table with some cases in such a part has Indirect edges for
// the others and a conditional tail call for each of those. A call that only
// pushes the PC is no Call. Padding that nothing leads to is in no block; other
// code that nothing leads to is, in blocks without In edges.
func (im *Image) Proc(i int) (*Proc, error) {
	if i < 0 || i >= len(im.Symbols()) {
		return nil, fmt.Errorf("no symbol %d of %d", i, len(im.Symbols()))
	}
	s := &im.Symbols()[i]
	code := im.code(s.Addr, s.Addr+Addr(s.Size))
	if len(code) == 0 {
		return nil, fmt.Errorf("%s: no code at %#x: %w", s.Name, s.Addr, ErrFormat)
	}
	st := spare.Get().(*storage)
	b := newBuilder(im, s, code, *st)
	b.reach()
	b.reachPoints()
	b.resolveEntered()
	b.resolveStored()
	// From here on, all that runs is decoded, if every indirect jump was resolved.
	b.sweep()
	b.resolveThreaded()
	b.noteUnresolved()
	p := b.proc()
	p.Index = i
	*st = b.storage
	spare.Put(st)
	return p, nil
}

func newBuilder(im *Image, s *Symbol, code []byte, st storage) *builder {
	n := len(code)
	st.mark, st.at = slices.Grow(st.mark[:0], n)[:n], slices.Grow(st.at[:0], n)[:n]
	clear(st.mark)
	st.work, st.transfers, st.ordered, st.open = st.work[:0], st.transfers[:0], st.ordered[:0], st.open[:0]
	st.edges, st.calls, st.points = st.edges[:0], st.calls[:0], st.points[:0]
	b := &builder{im: im, sym: s, lo: s.Addr, code: code, storage: st, whyAt: -1}
	for _, d := range im.dataIn(s.Addr, s.Addr+Addr(len(code))) {
		for a := d.lo; a < d.hi; a++ {
			b.mark[a-b.lo] |= markData
		}
	}
	return b
}

// incomplete notes why the graph cannot be trusted. The lowest address wins, so
// that the message does not depend on the order of discovery.
func (b *builder) incomplete(off int, format string, args ...any) {
	if b.whyAt < 0 || off < b.whyAt {
		b.why, b.whyAt = fmt.Sprintf(format, args...), off
	}
}

// undecoded notes why it is not certain where instructions begin.
func (b *builder) undecoded(off int, format string, args ...any) {
	b.torn = true
	b.incomplete(off, format, args...)
}

// reach decodes from the entry, from entries that others jump to and from landing pads.
func (b *builder) reach() {
	b.lead(0, markEntry)
	for _, a := range b.im.entriesOf(b.sym) {
		b.lead(int(a-b.lo), markEntry)
	}
	for _, a := range b.im.landingPads(b.sym) {
		b.lead(int(a-b.lo), markEntry|markPad)
	}
	for _, a := range b.im.fixups(b.sym) {
		b.lead(int(a-b.lo), markEntry|markPad)
	}
	b.drain()
}

// reachPoints decodes from places whose address some instruction computes, where nothing else led to: control comes there
// by a jump or a return through memory that no flow graph shows.
func (b *builder) reachPoints() {
	if !b.im.hasPoints() {
		return
	}
	for _, a := range b.im.pointsIn(b.sym) {
		b.points = append(b.points, int(a-b.lo))
	}
	var reached []int
	for i := 0; i < len(b.points); i++ { // decoding finds more
		off := b.points[i]
		if off%b.align() != 0 || b.mark[off]&(markInst|markBody|markData) != 0 || isPadding(b.code[off:], b.decode(off)) {
			continue
		}
		b.lead(off, markEntry)
		b.drain()
		reached = append(reached, off)
	}
	for _, off := range reached {
		b.dataBefore(off)
	}
}

// dataBefore marks data between the code at off and the code before that: GHC puts a table before each place where a
// procedure of Haskell goes on. It is what does not decode up to off, from the last jump or return before it on.
func (b *builder) dataBefore(off int) {
	at := off
	for at > 0 && b.mark[at-1]&(markInst|markBody|markData) == 0 {
		at--
	}
	lo := at
	for at < off {
		in := b.decode(at)
		if in.Class&Bad != 0 {
			break
		}
		if at += in.Len; in.Class&(Jump|IndJump|Ret) != 0 {
			lo = at
		}
	}
	if at == off {
		return
	}
	for i := lo; i < off; i++ {
		b.mark[i] |= markData
	}
}

// drain decodes until there is no new leader and no new indirect jump.
func (b *builder) drain() {
	for len(b.work) > 0 || len(b.open) > 0 {
		for len(b.work) > 0 {
			off := b.work[len(b.work)-1]
			b.work = b.work[:len(b.work)-1]
			b.straight(off)
		}
		b.resolveOpen()
		if len(b.work)+len(b.open) == 0 {
			b.widen()
		}
	}
}

// lead makes off the start of a block.
func (b *builder) lead(off int, marks uint8) {
	if off < 0 || off >= len(b.code) {
		return
	}
	if b.mark[off]&markLead == 0 {
		b.work = append(b.work, off)
	}
	b.mark[off] |= markLead | marks
}

// straight decodes from off to where control no longer runs on.
func (b *builder) straight(off int) {
	for first := true; ; first = false {
		if off >= len(b.code) {
			return // proc() sees to blocks that run off the end
		}
		if !first {
			b.mark[off] |= markFall
		}
		if b.mark[off]&markInst != 0 {
			return
		}
		if b.mark[off]&markBody != 0 && !b.splitLock(off) {
			b.undecoded(off, "jump into the middle of the instruction at %#x", b.lo+Addr(b.instAt(off)))
			return
		}
		if b.mark[off]&markInst != 0 {
			return
		}
		in := b.decode(off)
		if in.Class&Bad != 0 || b.mark[off]&markData != 0 {
			b.undecoded(off, "undecodable bytes at %#x", in.Addr)
			return
		}
		if b.im.Arch == X86_64 && b.im.hasPoints() {
			if to, ok := b.inside(b.im.computes(&b.x86, in)); ok {
				b.points = append(b.points, to)
			}
		}
		if in.Len = b.overlap(off, in.Len); in.Len == 0 {
			b.undecoded(off, "instructions overlap at %#x", in.Addr)
			return
		}
		b.literal(off, in)
		b.mark[off] |= markInst
		for i := off + 1; i < off+in.Len; i++ {
			b.mark[i] |= markBody
		}
		if in.Class&Flow != 0 && !b.transfer(off, in) {
			return
		}
		off += in.Len
	}
}

// literal marks what an AArch64 instruction loads from the code around it as data.
func (b *builder) literal(off int, in Inst) {
	if b.im.Arch != AArch64 || in.Class != Load {
		return
	}
	lo, hi := armLiteral(b.code[off:], in.Addr)
	for a := lo; a < hi; a++ {
		if i, ok := b.inside(a); ok && b.mark[i]&(markInst|markBody) == 0 {
			b.mark[i] |= markData
		}
	}
}

// decode reads the instruction at off.
func (b *builder) decode(off int) Inst {
	return b.im.inst(&b.x86, b.code[off:], b.lo+Addr(off))
}

const lockPrefix = 0xf0

// splitLock handles a jump behind a lock prefix, with which glibc skips the lock
// in programs of one thread: the prefix becomes an instruction of its own.
func (b *builder) splitLock(off int) bool {
	if off == 0 || b.mark[off-1]&markInst == 0 || !b.isLocked(off-1) {
		return false
	}
	b.mark[off] = b.mark[off]&^markBody | markInst | markLead | markFall
	return true
}

// isLocked reports whether an instruction begins at off with a lock prefix, of those
// that may have one.
func (b *builder) isLocked(off int) bool {
	return b.im.Arch == X86_64 && b.code[off] == lockPrefix && b.decode(off).Class&(Flow|Locked|Bad) == Locked
}

// overlap returns the length of the instruction at off: n, or 1 if that is a lock
// prefix in front of a known instruction, or 0 if it overlaps known ones otherwise.
func (b *builder) overlap(off, n int) int {
	for i := off + 1; i < off+n; i++ {
		if b.mark[i]&markInst == 0 {
			continue
		}
		if i == off+1 && b.isLocked(off) {
			return 1
		}
		return 0
	}
	return n
}

// instAt returns the start of the instruction that holds the byte at off.
func (b *builder) instAt(off int) int {
	for off > 0 && b.mark[off]&markInst == 0 {
		off--
	}
	return off
}

// inside returns the offset of a in the procedure.
func (b *builder) inside(a Addr) (int, bool) {
	return int(a - b.lo), a >= b.lo && a-b.lo < Addr(len(b.code))
}

// transfer notes a flow instruction and the leaders it makes. It reports whether
// control may run on behind it.
func (b *builder) transfer(off int, in Inst) bool {
	t := transfer{Inst: in, off: off}
	next := off + in.Len
	target, inside := b.inside(in.Target)
	runsOn := in.Class&(CondJump|DirCall|IndCall) != 0
	switch {
	case in.Class&(CondJump|Jump) != 0:
		if inside {
			b.lead(target, 0)
		}
	case in.Class&DirCall != 0 && target == next:
		return true // "call next": it only pushes the PC
	case in.Class&(DirCall|IndCall) != 0:
		if in.Class&DirCall != 0 && inside && target != 0 {
			b.lead(target, markEntry)
		}
		t.noReturn = b.im.callEnds(b, &t)
		runsOn = !t.noReturn
	case in.Class&IndJump != 0:
		b.open = append(b.open, len(b.transfers))
	}
	b.mark[off] |= markFlow
	b.at[off] = int32(len(b.transfers))
	b.transfers = append(b.transfers, t)
	if next < len(b.code) && (in.Class&(DirCall|IndCall) == 0 || t.noReturn) && runsOn {
		b.lead(next, 0)
	}
	return runsOn
}

// transferAt returns the transfer at off, or nil.
func (b *builder) transferAt(off int) *transfer {
	if b.mark[off]&markFlow == 0 {
		return nil
	}
	return &b.transfers[b.at[off]]
}

// align returns what the offsets of instructions are multiples of.
func (b *builder) align() int {
	if b.im.Arch == AArch64 {
		return 4
	}
	return 1
}

// sweep decodes what nothing leads to: code behind calls wrongly taken to return
// elsewhere, and dead code. Padding is left out.
func (b *builder) sweep() {
	for off := 0; off < len(b.code); {
		if b.mark[off]&(markInst|markBody|markData) != 0 || off%b.align() != 0 {
			off++
			continue
		}
		in := b.decode(off)
		if isPadding(b.code[off:], in) {
			off += b.paddingLen(off, in)
			continue
		}
		var entry uint8
		switch {
		case b.im.isPart(b.sym):
			entry = markEntry // a case of a switch in the hot part
		case b.sym.Source == FromPLT:
			entry = markEntry // where the slot leads until it is bound
		case b.recovers(off):
			entry = markEntry | markPad
		}
		b.lead(off, entry)
		b.drain()
		if b.mark[off]&markInst == 0 { // not code: why says so
			off++
		}
	}
}

// recovers reports whether the code at off is where a Go procedure resumes when a
// deferred call has recovered a panic: its first call is to runtime.deferreturn.
func (b *builder) recovers(off int) bool {
	if b.im.Go == "" {
		return false
	}
	for n := 0; n < 4 && off < len(b.code); n++ {
		in := b.decode(off)
		if in.Class&DirCall != 0 {
			return b.im.nameAt(in.Target) == "runtime.deferreturn"
		}
		if in.Class&(Flow|Bad) != 0 {
			return false
		}
		off += in.Len
	}
	return false
}

// isPadding reports what fills the gaps between blocks and procedures.
func isPadding(code []byte, in Inst) bool {
	return in.Class&Nop != 0 && !marksTarget(code) || in.Class&Trap != 0 && in.Len == 1 && code[0] == 0xcc || code[0] == 0 && allZero(code[:min(len(code), 4)])
}

// marksTarget reports whether code begins with what has no effect but to allow indirect branches to it.
func marksTarget(code []byte) bool {
	return len(code) >= 4 && (string(code[:4]) == "\xf3\x0f\x1e\xfa" || code[0]&0x3f == 0x1f && code[1] == 0x24 && code[2] == 0x03 && code[3] == 0xd5) // endbr64, bti
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// paddingLen bounds the padding at off by the next known instruction.
func (b *builder) paddingLen(off int, in Inst) int {
	n := max(in.Len, 1)
	if b.code[off] == 0 {
		n = b.align()
	}
	for i := 1; i < n && off+i < len(b.mark); i++ {
		if b.mark[off+i]&markInst != 0 {
			return i
		}
	}
	return n
}

// proc makes the Proc of what was found.
func (b *builder) proc() *Proc {
	p := &Proc{Symbol: *b.sym}
	b.blocks(p)
	// From here on, transfers are by offset.
	for i, next := 0, 0; i < len(p.Blocks); i++ {
		next = b.leave(p, i, next)
	}
	b.link(p)
	p.Complete, p.Why, p.torn = b.why == "", b.why, b.torn
	return p
}

// blocks cuts the instructions at leaders and behind transfers, which it puts in order.
func (b *builder) blocks(p *Proc) {
	n := 0
	for _, m := range b.mark {
		if m&(markLead|markInst) == markLead|markInst {
			n++
		}
	}
	p.Blocks = make([]Block, 0, n+1)
	if b.mark[0]&markInst == 0 { // nothing decodes at the entry
		p.Blocks = append(p.Blocks, Block{Start: b.lo, End: b.lo, Last: b.lo})
		p.Entries = append(p.Entries, 0)
	}
	var cur *Block
	ended := true
	for off, end := 0, 0; off < len(b.mark); off = end {
		m := b.mark[off]
		end = off + 1
		if m&markInst == 0 {
			ended = ended || m&markBody == 0
			continue
		}
		a, t := b.lo+Addr(off), b.transferAt(off)
		if m&markLead != 0 || ended {
			b.at[off] = int32(len(p.Blocks))
			p.Blocks = append(p.Blocks, Block{Start: a, Pad: m&markPad != 0})
			cur = &p.Blocks[len(p.Blocks)-1]
			if m&markEntry != 0 {
				p.Entries = append(p.Entries, len(p.Blocks)-1)
			}
			ended = false
		}
		for end < len(b.mark) && b.mark[end]&(markBody|markInst) == markBody {
			end++
		}
		cur.Insts++
		cur.Last, cur.End = a, b.lo+Addr(end)
		cur.Emulated = cur.Emulated || b.im.emulated(b.code[off:end])
		if t != nil {
			ended = t.Class&(DirCall|IndCall) == 0 || t.noReturn
			b.ordered = append(b.ordered, *t)
		}
	}
	b.transfers, b.ordered = b.ordered, b.transfers
}

// leave finds the out-edges of block i, and its calls. Its first transfer is next or
// a later one; the next block's is what leave returns, or later.
func (b *builder) leave(p *Proc, i, next int) int {
	blk := &p.Blocks[i]
	end := int(blk.End - b.lo)
	last := int(blk.Last - b.lo)
	var t *transfer
	for ; next < len(b.transfers) && b.transfers[next].off < end; next++ {
		t = &b.transfers[next]
		if t.Class&(DirCall|IndCall) != 0 {
			b.calls = append(b.calls, b.call(i, t))
		}
	}
	if t != nil && t.off != last {
		t = nil
	}
	edges := len(b.edges)
	b.exits(p, i, t)
	slices.SortFunc(b.edges[edges:], func(x, y Edge) int { return cmp.Or(cmp.Compare(x.To, y.To), cmp.Compare(x.Kind, y.Kind)) })
	return next
}

// exits adds the edges of block i, which ends in t, or in no transfer if t is nil.
func (b *builder) exits(p *Proc, i int, t *transfer) {
	blk := &p.Blocks[i]
	switch {
	case t == nil || t.Class&(DirCall|IndCall) != 0 && !t.noReturn:
		b.runsOn(p, i)
	case t.Class&(DirCall|IndCall|Trap) != 0:
		blk.Exit = NoReturn
	case t.Class&Ret != 0:
		blk.Exit = Return
	case t.Class&IndJump != 0:
		b.indirectExits(p, i, t)
	default:
		if off, ok := b.inside(t.Target); ok {
			b.edge(p, i, off, Taken)
		} else {
			blk.Exit = TailCall
			c := b.call(i, t)
			c.Tail, c.Cond = true, t.Class&CondJump != 0
			b.calls = append(b.calls, c)
		}
		if t.Class&CondJump != 0 {
			b.runsOn(p, i)
		}
	}
}

// runsOn adds the fall-through edge of block i, or says where it leads instead.
func (b *builder) runsOn(p *Proc, i int) {
	blk := &p.Blocks[i]
	if i+1 < len(p.Blocks) && p.Blocks[i+1].Start == blk.End {
		b.edges = append(b.edges, Edge{i, i + 1, FallThrough})
		return
	}
	// Hand-written procedures run on into the next one.
	if end := b.lo + Addr(len(b.code)); blk.End == end && blk.Insts > 0 {
		if j := b.im.next(end); j >= 0 {
			blk.Exit = TailCall
			s := &b.im.Symbols()[j]
			b.calls = append(b.calls, Call{Block: i, Site: blk.Last, Return: blk.End, To: s.Addr, Target: b.im.procName(j), Tail: true})
			return
		}
	}
	blk.Exit = RunsOff
	b.undecoded(int(blk.End-b.lo), "runs off at %#x", blk.End)
}

// next returns the symbol that starts at a or behind padding that control may run through, or -1.
func (im *Image) next(a Addr) int {
	syms := im.Symbols()
	j := sort.Search(len(syms), func(j int) bool { return syms[j].Addr >= a })
	if j == len(syms) || syms[j].Addr-a > 64 {
		return -1
	}
	code := im.code(a, syms[j].Addr)
	if code == nil && a != syms[j].Addr {
		return -1
	}
	for len(code) > 0 {
		in := im.decodeOne(code, a)
		if in.Class&Nop == 0 {
			return -1
		}
		code = code[in.Len:]
	}
	return j
}

// indirectExits adds the edges of a jump table, or says what else t is.
func (b *builder) indirectExits(p *Proc, i int, t *transfer) {
	blk := &p.Blocks[i]
	tab := t.table
	if tab == nil || tab.kind == unresolved {
		blk.Exit = Unresolved
		return
	}
	if tab.kind == tailJump {
		blk.Exit = TailCall
		c := b.call(i, t)
		c.Tail, c.To, c.Target, c.slot = true, tab.to, tab.name, tab.slot
		b.calls = append(b.calls, c)
		return
	}
	for _, a := range tab.targets {
		if off, ok := b.inside(a); ok {
			b.edge(p, i, off, Indirect)
			continue
		}
		blk.Exit = TailCall // a case of the switch lies in the cold part
		b.calls = append(b.calls, Call{Block: i, Site: t.Addr, Return: t.Addr + Addr(t.Len), To: a, Target: b.im.nameAt(a), Tail: true, Cond: true})
	}
}

// edge adds an edge to the block at off. There is none where off could not be
// decoded, which is why the procedure is incomplete then.
func (b *builder) edge(p *Proc, from, off int, k Kind) {
	if b.mark[off]&markInst == 0 {
		if p.Blocks[from].Exit == NoExit {
			p.Blocks[from].Exit = RunsOff
		}
		b.undecoded(off, "no code at %#x, target of a jump", b.lo+Addr(off))
		return
	}
	b.edges = append(b.edges, Edge{from, int(b.at[off]), k}) // targets lead, so a block starts there
}

// call makes the Call of a call instruction or of a jump that leaves.
func (b *builder) call(i int, t *transfer) Call {
	c := Call{Block: i, Site: t.Addr, Return: t.Addr + Addr(t.Len), NoReturn: t.noReturn}
	switch {
	case t.Class&(DirCall|Jump|CondJump) != 0:
		c.To, c.Target = t.Target, b.im.nameAt(t.Target)
	case t.Class&IndCall != 0:
		c.To, c.Target, c.slot = b.im.throughSlot(b.code[t.off:t.off+t.Len], t.Addr)
	}
	return c
}

// link takes over edges and calls and fills the indices of the blocks.
func (b *builder) link(p *Proc) {
	b.edges = slices.Compact(b.edges)
	p.Edges = append(make([]Edge, 0, len(b.edges)), b.edges...)
	p.Calls = append(make([]Call, 0, len(b.calls)), b.calls...)
	slices.SortStableFunc(p.Calls, func(x, y Call) int { return cmp.Or(cmp.Compare(x.Site, y.Site), cmp.Compare(x.To, y.To)) })
	b.at = p.index(b.at)
}

// index fills the indices of the blocks. It uses room, and returns it.
func (p *Proc) index(room []int32) []int32 {
	outs, ins, calls := make([]int, len(p.Edges)), make([]int, len(p.Edges)), make([]int, len(p.Calls))
	for i := range p.Edges { // by From: the edges out of a block are neighbours
		outs[i] = i
	}
	degree := slices.Grow(room[:0], len(p.Blocks)+1)[:len(p.Blocks)+1]
	clear(degree)
	for _, e := range p.Edges {
		degree[e.To+1]++
	}
	for i := range p.Blocks {
		degree[i+1] += degree[i]
		p.Blocks[i].In = ins[degree[i]:degree[i]:degree[i+1]]
	}
	for i, e := range p.Edges {
		blk := &p.Blocks[e.To]
		blk.In = append(blk.In, i)
	}
	for i, n := 0, 0; i < len(p.Blocks); i++ {
		from := n
		for n < len(p.Edges) && p.Edges[n].From == i {
			n++
		}
		p.Blocks[i].Out = outs[from:n:n]
	}
	for i, n := 0, 0; i < len(p.Blocks); i++ {
		from := n
		for n < len(p.Calls) && p.Calls[n].Block == i {
			calls[n] = n
			n++
		}
		p.Blocks[i].Calls = calls[from:n:n]
	}
	return degree
}

// Check reports the first promise that p breaks. Tests call it on every Proc.
func (p *Proc) Check() error {
	if len(p.Blocks) == 0 || p.Blocks[0].Start != p.Addr {
		return fmt.Errorf("%s: blocks do not begin at the entry", p.Name)
	}
	if len(p.Entries) == 0 || p.Entries[0] != 0 || !slices.IsSorted(p.Entries) || p.Entries[len(p.Entries)-1] >= len(p.Blocks) {
		return fmt.Errorf("%s: entries %v of %d blocks", p.Name, p.Entries, len(p.Blocks))
	}
	if p.Complete != (p.Why == "") {
		return fmt.Errorf("%s: complete %v, why %q", p.Name, p.Complete, p.Why)
	}
	nIn, nOut, nCalls := 0, 0, 0
	for i := range p.Blocks {
		if err := p.checkBlock(i); err != nil {
			return fmt.Errorf("%s: block %#x: %w", p.Name, p.Blocks[i].Start, err)
		}
		nIn += len(p.Blocks[i].In)
		nOut += len(p.Blocks[i].Out)
		nCalls += len(p.Blocks[i].Calls)
	}
	if nIn != len(p.Edges) || nOut != len(p.Edges) || nCalls != len(p.Calls) {
		return fmt.Errorf("%s: %d edges, %d in, %d out; %d calls, %d in blocks", p.Name, len(p.Edges), nIn, nOut, len(p.Calls), nCalls)
	}
	return nil
}

func (p *Proc) checkBlock(i int) error {
	blk := &p.Blocks[i]
	empty := i == 0 && blk.Insts == 0 && blk.Start == blk.End && !p.Complete
	switch {
	case !empty && (blk.Insts <= 0 || blk.End <= blk.Start || blk.Last < blk.Start || blk.Last >= blk.End):
		return fmt.Errorf("%d instructions to %#x, last %#x", blk.Insts, blk.End, blk.Last)
	case uint64(blk.End-p.Addr) > p.Size:
		return fmt.Errorf("ends at %#x, outside", blk.End)
	case i > 0 && blk.Start < p.Blocks[i-1].End:
		return fmt.Errorf("overlaps the one before")
	}
	fall := false
	for _, e := range blk.Out {
		if e < 0 || e >= len(p.Edges) || p.Edges[e].From != i || p.Edges[e].To < 0 || p.Edges[e].To >= len(p.Blocks) {
			return fmt.Errorf("out: edge %d", e)
		}
		if p.Edges[e].Kind == FallThrough {
			if fall = true; p.Blocks[p.Edges[e].To].Start != blk.End {
				return fmt.Errorf("falls through to %#x", p.Blocks[p.Edges[e].To].Start)
			}
		}
	}
	for _, e := range blk.In {
		if e < 0 || e >= len(p.Edges) || p.Edges[e].To != i {
			return fmt.Errorf("in: edge %d", e)
		}
	}
	tails := 0
	for _, c := range blk.Calls {
		if c < 0 || c >= len(p.Calls) || p.Calls[c].Block != i {
			return fmt.Errorf("call %d", c)
		}
		if p.Calls[c].Tail {
			tails++
		}
	}
	return blk.checkExit(p, fall, tails)
}

func (blk *Block) checkExit(p *Proc, fall bool, tails int) error {
	switch blk.Exit {
	case NoExit:
		if len(blk.Out) == 0 || tails > 0 {
			return fmt.Errorf("leads nowhere")
		}
	case TailCall:
		if tails == 0 {
			return fmt.Errorf("tail call without a call")
		}
	case Return, NoReturn:
		if len(blk.Out) > 0 || tails > 0 {
			return fmt.Errorf("leaves, and has %d edges, %d tail calls", len(blk.Out), tails)
		}
	case Unresolved, RunsOff:
		if p.Complete {
			return fmt.Errorf("exit %d in a complete procedure", blk.Exit)
		}
	}
	return nil
}

// decodeOne decodes one instruction of code, which lies at a.
func (im *Image) decodeOne(code []byte, a Addr) Inst {
	var d x86
	return im.inst(&d, code, a)
}

// throughSlot returns the target and the name of the procedure that an indirect
// call or jump reaches through a constant slot, such as one of the GOT, and the slot.
func (im *Image) throughSlot(code []byte, a Addr) (to Addr, name string, slot Addr) {
	if im.Arch != X86_64 {
		return 0, "", 0
	}
	var d x86
	d.decode(code)
	if d.n == 0 || !d.mem || d.base != ripReg || d.pfx&pfxSeg != 0 {
		return 0, "", 0
	}
	slot = a + Addr(d.n) + Addr(d.disp)
	if to, name = im.slotTarget(slot); to == 0 && name == "" {
		slot = 0
	}
	return to, name, slot
}

// constant reports whether the program cannot change the slot at a once it is
// relocated: it is part of the GOT or read-only by then.
func (im *Image) constant(a Addr) bool {
	for _, p := range im.elf.Progs {
		if p.Type == elf.PT_GNU_RELRO && uint64(a) >= p.Vaddr && uint64(a)-p.Vaddr < p.Memsz {
			return true
		}
	}
	for _, s := range im.elf.Sections {
		if (s.Name == ".got" || s.Name == ".got.plt") && uint64(a) >= s.Addr && uint64(a)-s.Addr < s.Size {
			return true
		}
	}
	return false
}

// slotTarget returns the procedure whose address a constant slot holds.
func (im *Image) slotTarget(slot Addr) (Addr, string) {
	r, ok := im.relocAt(slot)
	if !ok && im.Arch == AArch64 && im.executable(slot) {
		// A literal beside the code: lld's veneer to what a branch cannot reach.
		if to, ok := im.pointer(slot); ok && im.executable(to) {
			return to, im.nameAt(to)
		}
	}
	if !ok || r.ifunc || !im.constant(slot) {
		return 0, ""
	}
	if r.target != 0 && im.executable(r.target) {
		return r.target, im.nameAt(r.target)
	}
	return 0, im.importAt(slot)
}
