package stale

import (
	"slices"
	"sort"

	"backfeed/infer/image"
	"backfeed/sample"
)

// A Tie says what ties a place in an old build of a program to one in a newer build; the
// later ones are the surer.
type Tie uint8

const (
	NoTie    Tie = iota
	SamePart     // a block of the same source lines, or in the same order between two blocks that are tied
	SameOps      // a block of the same operations
	SameCode     // a block of the same instructions, but for addresses, that calls the same
	SameProc     // the whole procedure is the same, but for addresses
	NumTies      // how many there are
)

// String says in a word or two what ties the two.
func (t Tie) String() string {
	return [...]string{"lost", "lines or order", "same operations", "same code", "unchanged"}[t]
}

// Builds relates the code of an old build of a program to that of a newer one.
// Procedures are tied by name, renamed ones by code; then the blocks of each by
// the stages of twinOf. It is a function of the two images.
type Builds struct {
	old, new *image.Image
	partner  []int         // by symbol of old: that of new, -1 if there is none
	twins    map[int]*twin // by symbol of old, nil if it is tied to nothing
}

// NewBuilds finds the procedures that old and new have in common. Neither may be
// closed while the result is in use.
func NewBuilds(old, new *image.Image) *Builds {
	return &Builds{old: old, new: new, partner: partners(old, new), twins: map[int]*twin{}}
}

// Partner returns the symbol of the new build that is symbol i of the old one, both
// indices into Image.Symbols, or -1 if there is none.
func (b *Builds) Partner(i int) int {
	if i < 0 || i >= len(b.partner) {
		return -1
	}
	return b.partner[i]
}

// Kept returns the symbols of the new build, indices into its Image.Symbols, that are
// partners of symbols of the old one.
func (b *Builds) Kept() map[int]bool {
	kept := map[int]bool{}
	for _, j := range b.partner {
		if j >= 0 {
			kept[j] = true
		}
	}
	return kept
}

// A Match is the block of a new build that one of an old build is: its index in
// image.Proc.Blocks, which means something unless Tie is NoTie.
type Match struct {
	Block int
	Tie   Tie
}

// Blocks returns what became of each block of the procedure that is symbol i of the old
// build, in the order of its blocks; nil if the new build lacks the procedure. Several
// blocks of the old build may be one of the new.
func (b *Builds) Blocks(i int) []Match {
	p := b.twin(i)
	if p == nil {
		return nil
	}
	blocks := make([]Match, len(p.block))
	for k := range blocks {
		blocks[k] = Match{p.block[k], p.ties[k]}
	}
	return blocks
}

// twinAt is twin of the procedure at a.
func (b *Builds) twinAt(a image.Addr) *twin { return b.twin(b.old.Find(a)) }

// twin returns the blocks in common of the procedure that is symbol i of the old build; nil
// if the new build lacks the procedure.
func (b *Builds) twin(i int) *twin {
	if b.Partner(i) < 0 {
		return nil
	}
	p, ok := b.twins[i]
	if !ok {
		old, err := readCode(b.old, i)
		new, err2 := readCode(b.new, b.partner[i])
		if err == nil && err2 == nil {
			p = twinOf(old, new)
		}
		b.twins[i] = p
	}
	return p
}

// tied returns the block and the instruction at a of the old build, in the twin that
// ties the block; a nil twin if nothing does.
func (b *Builds) tied(a image.Addr) (p *twin, block, inst int) {
	if p = b.twinAt(a); p == nil {
		return nil, 0, 0
	}
	i, k := p.old.find(a)
	if i < 0 || p.ties[i] == NoTie {
		return nil, 0, 0
	}
	return p, i, k
}

// Place returns the place in the new build of the instruction at off of the old one.
func (b *Builds) Place(off sample.Offset) (sample.Offset, Tie) {
	a, ok := b.old.AddrOf(off)
	if !ok {
		return 0, NoTie
	}
	p, i, k := b.tied(a)
	if p == nil {
		return 0, NoTie
	}
	in, ok := p.same(i, k)
	if !ok {
		return 0, NoTie
	}
	if off, ok = b.new.OffsetOf(in.Addr); !ok {
		return 0, NoTie
	}
	return off, p.ties[i]
}

// Exact returns the place in the new build of the same instruction, in a block of the
// same instructions: what was counted at off of the old one was counted there. turns
// tells of a conditional branch that it leads to the same code as well.
func (b *Builds) Exact(off sample.Offset) (to sample.Offset, turns, ok bool) {
	a, ok := b.old.AddrOf(off)
	if !ok {
		return 0, false, false
	}
	p, i, k := b.tied(a)
	if p == nil || p.ties[i] < SameCode {
		return 0, false, false
	}
	old := p.old.insts[i][k]
	var in image.Inst
	switch {
	case old.Addr != a:
		return 0, false, false
	case counts(old):
		in, ok = p.same(i, k)
	case old.Class&image.Jump != 0:
		in, ok = p.transfer(i, k)
	default: // padding
		return 0, false, false
	}
	if !ok {
		return 0, false, false
	}
	to, ok = b.new.OffsetOf(in.Addr)
	return to, in.Class&image.CondJump != 0 && b.sameTarget(p, old.Target, in.Target), ok
}

// sameTarget reports whether branches of the procedures of p to old and to new lead to
// the same code.
func (b *Builds) sameTarget(p *twin, old, new image.Addr) bool {
	if i, k := p.old.find(old); i >= 0 {
		return k == 0 && p.ties[i] != NoTie && p.new.proc.Blocks[p.block[i]].Start == new
	}
	partner := b.Partner(b.old.Find(old))
	return partner >= 0 && b.new.Symbols()[partner].Addr == new
}

// call returns the instruction in the new build of the call that returns to off of the
// old one.
func (b *Builds) call(off sample.Offset) (new image.Inst, ok bool) {
	a, ok := b.old.AddrOf(off)
	if !ok || a == 0 {
		return new, false
	}
	p, i, k := b.tied(a - 1)
	if p == nil || p.old.insts[i][k].Addr+image.Addr(p.old.insts[i][k].Len) != a {
		return new, false
	}
	return p.transfer(i, k)
}

// AfterCall returns the place in the new build that the call returns to which in
// the old one returns to off; false if there is no such call in both.
func (b *Builds) AfterCall(off sample.Offset) (sample.Offset, bool) {
	in, ok := b.call(off)
	if !ok || in.Class&(image.DirCall|image.IndCall) == 0 {
		return 0, false
	}
	return b.new.OffsetOf(in.Addr + image.Addr(in.Len))
}

// Branch returns the place in the new build of the branch instruction at off, and
// its target if it has but one.
func (b *Builds) Branch(off sample.Offset) (from sample.Offset, target image.Addr, ok bool) {
	a, ok := b.old.AddrOf(off)
	if !ok {
		return 0, 0, false
	}
	p, i, k := b.tied(a)
	if p == nil || p.old.insts[i][k].Addr != a {
		return 0, 0, false
	}
	in, ok := p.transfer(i, k)
	if !ok {
		return 0, 0, false
	}
	from, ok = b.new.OffsetOf(in.Addr)
	return from, in.Target, ok
}

// Target returns the place in the new build that a branch enters which in the old
// one enters off: the start of a block, or the return from a call.
func (b *Builds) Target(off sample.Offset) (sample.Offset, bool) {
	if to, ok := b.AfterCall(off); ok {
		return to, true
	}
	a, ok := b.old.AddrOf(off)
	if !ok {
		return 0, false
	}
	p, i, k := b.tied(a)
	if p == nil || k > 0 {
		return 0, false
	}
	return b.new.OffsetOf(p.new.proc.Blocks[p.block[i]].Start)
}

// Straight returns the ends in the new build of code that runs straight from the
// instruction at first to that at last: all of its blocks have to follow each
// other there too.
func (b *Builds) Straight(first, last sample.Offset) (lo, hi sample.Offset, ok bool) {
	from, ok1 := b.old.AddrOf(first)
	to, ok2 := b.old.AddrOf(last)
	if !ok1 || !ok2 || b.old.Find(from) != b.old.Find(to) {
		return 0, 0, false
	}
	p := b.twinAt(from)
	if p == nil {
		return 0, 0, false
	}
	i, _ := p.old.find(from)
	end, _ := p.old.find(to)
	if i < 0 || end < i {
		return 0, 0, false
	}
	for ; i < end; i++ {
		if p.ties[i] == NoTie || p.ties[i+1] == NoTie || p.block[i+1] != p.block[i]+1 {
			return 0, 0, false
		}
	}
	lo, tie := b.Place(first)
	hi, tie2 := b.Place(last)
	return lo, hi, tie != NoTie && tie2 != NoTie && lo <= hi
}

// code is a procedure with what its blocks are told apart by.
type code struct {
	proc   *image.Proc
	insts  [][]image.Inst                 // by block
	full   []uint64                       // by block: hash of instructions, but for addresses
	calls  []uint64                       // the same with the names of what it calls
	ops    []uint64                       // hash of operations
	kinds  [][]uint64                     // the operations themselves, sorted
	frames func(image.Addr) []image.Frame // of source; nil if there are none
}

func readCode(im *image.Image, i int) (*code, error) {
	p, err := im.Proc(i)
	if err != nil {
		return nil, err
	}
	c := &code{proc: p}
	if lines, err := im.Lines(); err == nil {
		c.frames = lines.Frames
	}
	shapes := im.Shapes(p)
	var operands []image.Operands
	for b := range p.Blocks {
		blk := &p.Blocks[b]
		var insts []image.Inst
		insts, operands = im.AppendOperands(nil, operands[:0], blk)
		var full, ops uint64
		var kinds []uint64
		for k, in := range insts {
			if counts(in) {
				full = image.Hash(full, shapes[b][k])
				kind := uint64(in.Class) | uint64(operands[k].Op)<<32
				ops = image.Hash(ops, kind)
				kinds = append(kinds, kind)
			}
		}
		calls := full
		for _, k := range blk.Calls {
			calls = hashString(calls, calleeName(im, p, &p.Calls[k]))
		}
		slices.Sort(kinds)
		c.insts, c.kinds = append(c.insts, insts), append(c.kinds, kinds)
		c.full, c.calls, c.ops = append(c.full, full), append(c.calls, calls), append(c.ops, ops)
	}
	return c, nil
}

// counts reports whether an instruction is one that blocks are told apart by:
// padding and jumps come and go with the order of blocks.
func counts(in image.Inst) bool { return in.Class&(image.Jump|image.Nop) == 0 }

// calleeName is what a call's target is called in other builds too; "" if it has
// no name there, and "." for a procedure that calls itself.
func calleeName(im *image.Image, p *image.Proc, c *image.Call) string {
	if c.To != 0 {
		if i := im.Find(c.To); i == p.Index {
			return "."
		} else if i >= 0 && nameless(&im.Symbols()[i]) {
			return ""
		}
	}
	return image.SourceName(c.Target)
}

func hashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3 // FNV-1a
	}
	return image.Hash(h, uint64(len(s)))
}

// find returns the block and the index of the instruction that a lies in, or -1.
func (c *code) find(a image.Addr) (block, inst int) {
	i := sort.Search(len(c.proc.Blocks), func(i int) bool { return c.proc.Blocks[i].Start > a }) - 1
	if i < 0 || a >= c.proc.Blocks[i].End {
		return -1, 0
	}
	k := sort.Search(len(c.insts[i]), func(k int) bool { return c.insts[i][k].Addr > a }) - 1
	return i, max(k, 0)
}

// same returns the instruction, in the block tied to i, in the place of instruction
// k of block i: as many before it that count. False if that block has none, as
// where nothing decodes at the entry.
func (p *twin) same(i, k int) (image.Inst, bool) {
	n := 0
	for _, in := range p.old.insts[i][:k] {
		if counts(in) {
			n++
		}
	}
	insts := p.new.insts[p.block[i]]
	for _, in := range insts {
		if counts(in) {
			if n == 0 {
				return in, true
			}
			n--
		}
	}
	if len(insts) == 0 {
		return image.Inst{}, false
	}
	return insts[len(insts)-1], true
}

// transfer returns the instruction, in the block tied to i, that transfers control
// as instruction k of block i does: as many before it that do so the same way.
func (p *twin) transfer(i, k int) (image.Inst, bool) {
	old := p.old.insts[i]
	way := old[k].Class & image.Flow
	if way == 0 {
		return image.Inst{}, false
	}
	n := 0
	for _, in := range old[:k] {
		if in.Class&image.Flow == way {
			n++
		}
	}
	for _, in := range p.new.insts[p.block[i]] {
		if in.Class&image.Flow == way {
			if n == 0 {
				return in, true
			}
			n--
		}
	}
	return image.Inst{}, false
}

// unchanged reports whether two procedures are the same but for addresses.
func unchanged(old, new *code) bool {
	if !slices.Equal(old.full, new.full) || !slices.Equal(old.proc.Edges, new.proc.Edges) {
		return false
	}
	for i := range old.insts {
		if len(old.insts[i]) != len(new.insts[i]) {
			return false
		}
	}
	return true
}
