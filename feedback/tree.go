package feedback

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
)

const (
	SkipNoLines    Reason = "procedures without line numbers"
	SkipNoStart    Reason = "instructions of functions whose first line is unknown"
	SkipLang       Reason = "procedures of other languages or compilers"
	SkipOtherBuild Reason = "procedures of another compiler's build of the program"
	SkipAbsent     Reason = "procedures without samples, whose loops should have had some"
	SkipAssembly   Reason = "procedures in assembly"
	SkipNoInstLine Reason = "instructions without a line"
	SkipStraight   Reason = "functions whose branches are hardly taken, which gcc lays out no better with a profile"
	SkipImageLines Reason = "images without a line table"
)

// A tree is what sample profiles hold: functions of a source, each with the
// counts of its lines and of the bodies that were inlined into it.
type tree struct {
	remainder
	funcs map[string]*function // by the compiler's name
	procs int                  // procedures that are in it
}

func newTree() *tree {
	return &tree{funcs: map[string]*function{}, remainder: newRemainder()}
}

// A function is a function, or the body of an inlined call to one.
type function struct {
	total   uint64                     // executions of its instructions times their bytes, inlined bodies included
	head    uint64                     // entries; of inlined bodies unknown, and 0
	body    map[spot]uint64            // executions
	calls   map[spot]map[string]uint64 // executions of calls, by callee
	inlined map[inlinedCall]*function

	asides map[spot]uint64 // executions of the parts of lines that unmix asks for, where dialect.mixes

	own   bool   // it has code of its own that calls enter, not only parts that were split off it
	parts uint64 // entries of these

	branches, taken float64 // executions of its branches and jumps, and how many of them were taken; of inlined bodies 0
	insts           float64 // executions of its instructions; of inlined bodies 0
	guided          bool    // the recorded build of it had a profile

	checksum uint64 // of the control flow, where spots are probes: their IDs are the offsets
}

func newFunction() *function {
	return &function{
		body:    map[spot]uint64{},
		calls:   map[spot]map[string]uint64{},
		inlined: map[inlinedCall]*function{},
	}
}

// A spot is a place in the source of a function.
type spot struct {
	offset uint16 // lines from that of its declaration, modulo 2^16
	disc   uint32
	copy   uint32 // which copy of the code it is, where the compiler numbers them; 0 after gather
}

// An inlinedCall is a call in place of which the callee's body stands.
type inlinedCall struct {
	at     spot
	callee string
}

// A dialect is how a compiler speaks of the code that it reads counts of.
type dialect struct {
	// made reports whether code of such a unit may be in the profile.
	made func(image.Unit) bool
	// name returns the name that a symbol's function has where the profile is read.
	name func(symbol string) string
	// discriminator reports how to read the discriminators of the line table in code
	// of a unit.
	discriminator func(v *view, u image.Unit) func(raw uint32) discriminator
	// indirectOnly leaves the targets of direct calls out.
	indirectOnly bool
	// seldom takes what runs seldom in a function for cold: absent procedures are left out.
	seldom bool
	// doubts halves what instructions that choose between two values say: see conditional.
	doubts bool
	// mixes is said of a compiler that has one count for a line, whichever blocks are of it: see unmix.
	mixes bool
	// loudest is said of a compiler that takes the largest count of a block's lines for the block's: see quieten.
	loudest bool
	// splits is said of a compiler that splits functions and puts the parts back: see framesOf.
	splits bool
}

// A discriminator is one of the line table, taken apart.
type discriminator struct {
	disc   uint32 // what the profile has for it
	copies uint64 // of the code, in one place: its count is of each
	copy   uint32 // which of the copies in several places it is, each of which ran by itself; 0 where the compiler does not say
}

// image adds the procedures of an image. A procedure and the cold part that was
// split off it are one piece of code: of a line that is in both, the maximum
// counts. Procedures that are copies of one function ran one by one: their counts
// add up.
func (t *tree) image(v *view, as dialect) {
	s := newSites(v)
	pieces := map[string]*function{}
	told := map[string][]blockTold{}
	names := map[string]string{} // of functions, by piece
	t.of(v.Procs)
	for _, r := range v.Procs {
		if as.seldom && absent(r) {
			t.skip(SkipAbsent, r.Instructions())
			continue
		}
		name, ok := t.nameOf(v, r, as)
		if !ok {
			continue
		}
		piece := withoutCold(r.Proc.Name)
		if pieces[piece] == nil {
			names[piece] = name
		}
		d := treeDecoder{tree: t, view: v, dialect: as, sites: s, disc: as.discriminator(v, v.lines.Unit(r.Proc.Addr)), told: told[piece]}
		d.proc(childOf(pieces, piece), r)
		told[piece] = d.told
	}
	for _, piece := range sortedKeys(pieces, cmp.Compare) {
		name := names[piece]
		if as.loudest {
			quieten(told[piece])
		}
		pieces[piece].gather()
		pieces[piece].raise()
		pieces[piece].unmix()
		childOf(t.funcs, name).add(pieces[piece])
	}
}

// enter makes the entries of functions no less than those of the parts that were split off them, which are entered from them and from where the rest
// was inlined, and takes those out of which it is then not known whether they run. Compilers take a function for cold that is not entered. Of one of which
// there are only parts that did not run, as failures of checks, the rest may have run wherever it was inlined.
func (t *tree) enter() {
	for name, f := range t.funcs {
		f.head = max(f.head, f.parts)
		if !f.own && f.head == 0 && slices.Max(f.counts([]uint64{0})) == 0 {
			delete(t.funcs, name)
		}
	}
}

// absent reports whether nothing but the absence of samples says which way r goes: it is called, by what is said of its callers, and has
// loops, of which none runs half as often. That is so of a procedure which would have had samples in its loops if it had run. A
// compiler that is told so takes them for cold, where all that is known is that this run did not need them. What was split off another
// procedure is cold by that.
func absent(r *infer.Result) bool {
	if r.Seen || isPart(r.Proc.Name) {
		return false
	}
	loops, most := false, 0.0
	for _, e := range r.Proc.Edges {
		if e.To <= e.From {
			loops, most = true, max(most, r.Block[e.To].N)
		}
	}
	return loops && most < r.Entries.N/2
}

// nameOf returns the name of the function that r is code of, or counts why r
// cannot be in the profile.
func (t *tree) nameOf(v *view, r *infer.Result, as dialect) (string, bool) {
	if !known(r) {
		t.skip(SkipUnknown, r.Instructions())
		return "", false
	}
	if why := foreign(v.lines.Unit(r.Proc.Addr), as.made); why != "" {
		t.skip(why, r.Instructions())
		return "", false
	}
	for i := range r.Proc.Blocks {
		if fs := v.lines.Frames(r.Proc.Blocks[i].Start); len(fs) > 0 {
			t.procs++
			return as.name(fs[len(fs)-1].Func), true
		}
	}
	t.skip(SkipNoLines, r.Instructions())
	return "", false
}

// foreign says why code of a unit is not for a compiler that made others; "" where it is, or where nothing is known of the unit.
func foreign(u image.Unit, made func(image.Unit) bool) Reason {
	switch {
	case u == image.Unit{} || made(u):
		return ""
	case u.Lang == "asm":
		return SkipAssembly
	}
	return SkipLang
}

// A treeDecoder adds the code of one procedure to a function.
type treeDecoder struct {
	*tree
	*view
	dialect
	sites *sites
	disc  func(raw uint32) discriminator
	told  []blockTold // of the blocks so far, where dialect.loudest
}

func (d *treeDecoder) proc(f *function, r *infer.Result) {
	switch {
	case !isPart(r.Proc.Name):
		f.own = true
		f.head += whole(r.Entries.N)
	case !isCold(r.Proc.Name):
		f.parts += whole(r.Entries.N)
	}
	f.branched(r)
	f.guided = f.guided || guided(d.lines.Unit(r.Proc.Addr))
	var ends []bool
	var calls map[image.Addr]bool
	if d.mixes {
		ends = r.Proc.Doomed(func(b *image.Block) bool { return b.Exit == image.NoReturn })
		calls = d.chosenCalls(r.Proc)
	}
	for i := range r.Proc.Blocks {
		if r.Block[i].Conf == infer.None {
			continue
		}
		n := whole(r.Block[i].N)
		if d.loudest {
			d.told = append(d.told, blockTold{n: n, conditional: len(r.Proc.Blocks[i].Out) > 1})
		}
		insts := d.code.Insts(&r.Proc.Blocks[i])
		var doubted []bool
		if d.doubts {
			doubted = d.conditional(insts)
		}
		for k, in := range insts {
			times := n
			if d.doubts && doubted[k] {
				times /= 2
			}
			d.inst(f, in, times, d.mixes && (ends[i] || calls[in.Addr]))
		}
	}
	for i := range r.Proc.Calls {
		d.call(f, r, i)
	}
}

// chooses reports whether the first of some instructions takes one of two values by the flags, or adds them, or compares for one that
// does. Compilers put that in the place of a branch: then it has the line of an assignment that ran between never and each time. A
// compiler that takes it for one that ran each time lays the other side elsewhere, and gcc does not choose again where branches
// are said to go one way.
func chooses(c code, insts []image.Inst) bool {
	if insts[0].Class&image.Compare != 0 && len(insts) > 1 {
		insts = insts[1:]
	}
	switch c.Operands(insts[0]).Op {
	case image.OpSelect, image.OpCarry:
		return true
	}
	return false
}

// A spotOf is a spot of a function, or of a body that was inlined.
type spotOf struct {
	f  *function
	at spot
}

// A blockTold is what a basic block tells of the places of its instructions.
type blockTold struct {
	n           uint64 // executions
	places      []spotOf
	last        spotOf // of its last instruction that has one
	conditional bool   // it ends in a branch
}

// alike is by how much counts may differ that are taken for those of one block.
const alike = 4. / 3

// quieten leaves out, or lowers, the counts of places that say too much of some of their blocks. A compiler that takes the largest count of a block's
// statements for the block's has no use for those that lie in several blocks of different counts, as of loads that were moved up to where their line may
// not be reached, of conditions `a && b` and loops `for (i = 0; i < n; i++)`; nor for those of branches: gcc has notes of what it guesses
// of a branch (GIMPLE_PREDICT), as in `if (x) continue;`, in the block that it leads to, with the line of the condition. So these places are told of
// only for the blocks that no other place tells of, by the most of these. What is too low then, gcc raises by what flows in and out; what is too high stays.
func quieten(blocks []blockTold) {
	spans := map[spotOf]*span{}
	for _, b := range blocks {
		for _, p := range b.places {
			s := spans[p]
			if s == nil {
				s = &span{least: b.n, most: b.n}
				spans[p] = s
			}
			s.least, s.most = min(s.least, b.n), max(s.most, b.n)
			s.branches = s.branches || b.conditional && p == b.last
		}
	}
	needed := map[spotOf]uint64{}
	for _, b := range blocks {
		covered := slices.ContainsFunc(b.places, func(p spotOf) bool {
			return !spans[p].doubtful() && alike*float64(p.f.body[p.at]) >= float64(b.n)
		})
		if covered {
			continue
		}
		for _, p := range b.places {
			needed[p] = max(needed[p], b.n)
		}
	}
	for p, s := range spans {
		if !s.doubtful() {
			continue
		}
		if n, ok := needed[p]; ok {
			p.f.body[p.at] = min(p.f.body[p.at], n)
		} else {
			delete(p.f.body, p.at)
		}
	}
}

// A span is what the blocks of a place have in common.
type span struct {
	least, most uint64 // executions
	branches    bool   // one of them ends in a branch of that place
}

// doubtful reports whether a count of the place may be wrong of a block that it is of.
func (s *span) doubtful() bool { return s.branches || float64(s.most) > alike*float64(s.least) }

// mixed is how many times as often as in blocks that lead to no return a line ran where these say nothing of its count.
const mixed = 64

// unmix leaves out the lines of which one part runs, and another, which has the same count for a compiler that has one for each
// line, hardly ran, and leads to a call that does not return, or is a call that the line itself branches to: checks that macros make,
// `if (top >= end) fail();`, and containers, `if (size == room) grow(); data[size++] = x;`. gcc would take the call for what happens
// each time; without a count, what is around it says that it does not.
func (f *function) unmix() {
	for at, n := range f.asides {
		if f.body[at]/mixed > n {
			delete(f.body, at)
		}
	}
	for _, g := range f.inlined {
		g.unmix()
	}
}

// branched adds the branches of r.
func (f *function) branched(r *infer.Result) {
	f.insts += r.Instructions()
	for i, e := range r.Proc.Edges {
		n := r.Edge[i].N
		switch e.Kind {
		case image.Taken, image.Indirect:
			f.taken += n
			f.branches += n
		case image.FallThrough:
			if len(r.Proc.Blocks[e.From].Out) > 1 {
				f.branches += n
			}
		}
	}
}

// chosenCalls returns the calls that a branch of their own line leads to.
func (d *treeDecoder) chosenCalls(p *image.Proc) map[image.Addr]bool {
	chosen := map[image.Addr]bool{}
	for _, c := range p.Calls {
		frames := d.lines.Frames(c.Site)
		chosen[c.Site] = slices.ContainsFunc(p.Blocks[c.Block].In, func(e int) bool {
			from := &p.Blocks[p.Edges[e].From]
			return len(from.Out) > 1 && slices.EqualFunc(frames, d.lines.Frames(from.Last), func(a, b image.Frame) bool {
				a.Disc, b.Disc = 0, 0
				return a == b
			})
		})
	}
	return chosen
}

// Who reads a register, of the instructions of a block from one on, until it is written anew.
const (
	readByNone  = -1
	readByOther = -2
	// an index is that of the only reader, which selects
)

// conditional returns which instructions of a block choose (see chooses), or compute nothing but what an instruction of the same
// line selects: their line may have run each time, never, or anything between. Compilers compute both sides of a branch that they
// make a choice of, in `if (i < 0) i += n;` the sum, and say that the comparison is of its line: gcc would take that to be of a line that ran each time.
func (d *treeDecoder) conditional(insts []image.Inst) []bool {
	is := make([]bool, len(insts))
	var reader [image.Registers]int
	for r := range reader {
		reader[r] = readByNone
	}
	for k, in := range slices.Backward(insts) {
		ops := d.code.Operands(in)
		is[k] = chooses(d.code, insts[k:])
		side, alone := -1, in.Class&(image.Store|image.Jump) == 0 && ops.Update == image.RegSet{} && ops.Writes.Vector == 0
		ops.Writes.Each(func(r int) {
			switch {
			case r == image.Flags && in.Class&image.Compare == 0:
				alone = alone && reader[r] == readByNone
			case reader[r] < 0 || side >= 0 && side != reader[r]:
				alone = false
			default:
				side = reader[r]
			}
		})
		alone = alone && side >= 0 && slices.Equal(d.lines.Frames(in.Addr), d.lines.Frames(insts[side].Addr))
		is[k] = is[k] || alone
		written := func(r int) { reader[r] = readByNone }
		ops.Writes.Each(written)
		ops.Update.Each(written)
		by := readByOther
		switch {
		case ops.Op == image.OpSelect:
			by = k
		case alone && in.Class&image.Compare == 0: // what is compared is needed each time
			by = side
		}
		read := func(r int) {
			if reader[r] != readByNone && reader[r] != by {
				reader[r] = readByOther
			} else {
				reader[r] = by
			}
		}
		ops.Reads.Each(read)
		ops.Address.Each(read)
	}
	return is
}

// inst adds n executions of an instruction, of a part of its line that unmix asks for if aside is set.
func (d *treeDecoder) inst(f *function, in image.Inst, n uint64, aside bool) {
	frames := d.frames(in.Addr)
	if len(frames) == 0 {
		d.skip(SkipNoInstLine, float64(n))
		return
	}
	f, ok := d.descend(f, frames, n*uint64(in.Len))
	if !ok {
		d.skip(SkipNoStart, float64(n))
		return
	}
	if frames[0].Line == 0 {
		d.skip(SkipNoInstLine, float64(n))
		return
	}
	at, copies := d.spot(frames[0])
	f.body[at] = max(f.body[at], n*copies)
	if d.loudest {
		b := &d.told[len(d.told)-1]
		if p := (spotOf{f, at}); b.last != p { // to be there twice says no more
			b.last = p
			b.places = append(b.places, p)
		}
	}
	if aside {
		f.aside(at, max(f.asides[at], n*copies))
	}
}

// aside says how often the part of a spot ran that unmix asks for.
func (f *function) aside(at spot, n uint64) {
	if f.asides == nil {
		f.asides = map[spot]uint64{}
	}
	f.asides[at] = n
}

// frames returns the frames of an instruction.
func (d *treeDecoder) frames(at image.Addr) []image.Frame {
	if d.splits {
		return framesOf(d.view, at)
	}
	return d.lines.Frames(at)
}

// descend adds n to the totals of f and of the inlined bodies around frames[0],
// and returns the innermost. It returns false if the first line of one is unknown.
func (d *treeDecoder) descend(f *function, frames []image.Frame, n uint64) (*function, bool) {
	for _, fr := range frames {
		if fr.StartLine == 0 {
			return nil, false
		}
	}
	f.total += n
	for i := len(frames) - 2; i >= 0; i-- {
		at, _ := d.spot(frames[i+1])
		f = childOf(f.inlined, inlinedCall{at, d.name(frames[i].Func)})
		f.total += n
	}
	return f, true
}

// spot returns the place of a frame within its function, and how many copies of
// it the compiler has said to have made.
func (d *treeDecoder) spot(f image.Frame) (at spot, copies uint64) {
	as := d.disc(f.Disc)
	return spot{uint16(f.Line - f.StartLine), as.disc, as.copy}, as.copies
}

// call adds the targets of a call.
func (d *treeDecoder) call(f *function, r *infer.Result, i int) {
	c := r.Proc.Calls[i]
	indirect := c.To == 0 && c.Target == ""
	if whole(r.Call[i].N) == 0 || d.indirectOnly && !indirect {
		return
	}
	frames := d.frames(c.Site)
	if len(frames) == 0 || frames[0].Line == 0 {
		return
	}
	if f, ok := d.descend(f, frames, 0); ok {
		at, _ := d.spot(frames[0])
		d.targets(f, at, d.sites, d.dialect, r, i)
	}
}

// targets adds the targets of call i of r to a spot of f.
func (t *tree) targets(f *function, at spot, s *sites, as dialect, r *infer.Result, i int) {
	targets := s.targets(r, i)
	if c := &r.Proc.Calls[i]; len(targets) == 0 && c.To == 0 && c.Target == "" {
		t.skip(SkipIndirect, r.Call[i].N)
	}
	for _, target := range targets {
		n := whole(r.Call[i].N * target.share)
		sym, ok := s.symbolAt(target.to)
		if !ok || isPart(sym.Name) || n == 0 {
			continue // a jump between two parts of one function
		}
		f.addCall(at, as.name(sym.Name), n)
	}
}

// gather adds up the copies of each line and of each inlined body: where code was copied, as before a loop and behind it, the source
// ran as often as all copies together.
func (f *function) gather() {
	for _, counts := range []map[spot]uint64{f.body, f.asides} {
		for at, n := range counts {
			if to := at.ofAll(); to != at {
				delete(counts, at)
				counts[to] = addCounts(counts[to], n)
			}
		}
	}
	for at, calls := range f.calls {
		if to := at.ofAll(); to != at {
			delete(f.calls, at)
			for callee, n := range calls {
				f.addCall(to, callee, n)
			}
		}
	}
	for c, g := range f.inlined {
		g.gather()
		if to := (inlinedCall{c.at.ofAll(), c.callee}); to != c {
			delete(f.inlined, c)
			childOf(f.inlined, to).add(g)
		}
	}
}

// ofAll is the place of all copies.
func (at spot) ofAll() spot {
	at.copy = 0
	return at
}

// raise makes the count of a spot no less than the sum of its calls: copies of a
// call in several blocks ran one by one (FunctionSamples::updateCallsiteSamples in
// LLVM does the same).
func (f *function) raise() {
	for at, calls := range f.calls {
		sum := uint64(0)
		for _, n := range calls {
			sum += n
		}
		f.body[at] = max(f.body[at], sum)
	}
	for _, g := range f.inlined {
		g.raise()
	}
}

// add adds the counts of o to f.
func (f *function) add(o *function) {
	f.total = addCounts(f.total, o.total)
	f.head = addCounts(f.head, o.head)
	f.own = f.own || o.own
	f.parts = addCounts(f.parts, o.parts)
	f.branches += o.branches
	f.taken += o.taken
	f.guided = f.guided || o.guided
	f.insts += o.insts
	for at, n := range o.body {
		f.body[at] = addCounts(f.body[at], n)
	}
	for at, n := range o.asides {
		f.aside(at, addCounts(f.asides[at], n))
	}
	for at, calls := range o.calls {
		for callee, n := range calls {
			f.addCall(at, callee, n)
		}
	}
	for c, g := range o.inlined {
		childOf(f.inlined, c).add(g)
	}
}

// addCall adds n calls of callee at a spot.
func (f *function) addCall(at spot, callee string, n uint64) {
	if f.calls[at] == nil {
		f.calls[at] = map[string]uint64{}
	}
	f.calls[at][callee] = addCounts(f.calls[at][callee], n)
}

// childOf returns the function under a key, made if it is new.
func childOf[K comparable](m map[K]*function, k K) *function {
	if m[k] == nil {
		m[k] = newFunction()
	}
	return m[k]
}

// lines returns the spots of f that have counts, in order.
func (f *function) lines() []spot { return sortedKeys(f.body, compareSpots) }

// callees returns those of the calls at a spot, the most frequent first.
func (f *function) callees(at spot) []string {
	calls := f.calls[at]
	callees := sortedKeys(calls, cmp.Compare)
	slices.SortStableFunc(callees, func(a, b string) int { return cmp.Compare(calls[b], calls[a]) })
	return callees
}

// names adds the names that the body of f mentions to all.
func (f *function) names(all map[string]bool) {
	for _, calls := range f.calls {
		for callee := range calls {
			all[callee] = true
		}
	}
	for c, g := range f.inlined {
		all[c.callee] = true
		g.names(all)
	}
}

// counts appends the counts of f's lines and of the bodies inlined into it.
func (f *function) counts(to []uint64) []uint64 {
	for _, at := range f.lines() {
		to = append(to, f.body[at])
	}
	for _, c := range sortedKeys(f.inlined, compareCalls) {
		to = f.inlined[c].counts(to)
	}
	return to
}

// withoutCold returns the name of the procedure that a cold part was split off.
func withoutCold(name string) string {
	cut, _ := image.CutSuffix(name, ".cold")
	return cut
}

// isPart reports whether the symbol is a part of a function that is not entered by
// calls of that function.
func isPart(name string) bool {
	return isCold(name) || strings.Contains(name, ".part.")
}

// isCold reports whether the symbol is the cold part of a function, or of a part of one.
func isCold(name string) bool { return strings.Contains(name, ".cold") }

func (at spot) String() string {
	if at.disc == 0 {
		return fmt.Sprint(at.offset)
	}
	return fmt.Sprintf("%d.%d", at.offset, at.disc)
}

func compareSpots(a, b spot) int {
	return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.disc, b.disc))
}

func compareCalls(a, b inlinedCall) int {
	return cmp.Or(compareSpots(a.at, b.at), cmp.Compare(a.callee, b.callee))
}
