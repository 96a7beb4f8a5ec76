package layout

import (
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/stale"
)

// Relinked returns the placement that procs, procedures of image old, have in image
// relinked: the same program, whose code a linker or a post-link tool moved. What could
// not be found there is Nowhere.
//
// Procedures are found as those of another build are; the parts that they are split
// into have names that begin with theirs. Blocks are found by walking through both codes at
// once from the entry on: instructions are the same, but for jumps that came, went or
// were turned round, and for padding.
func Relinked(procs []*infer.Result, old, relinked *image.Image) *Placement {
	p := &Placement{Procs: procs}
	builds := stale.NewBuilds(old, relinked)
	code := &codeReader{im: relinked, taken: map[int]bool{}, read: map[int]bool{}, at: map[image.Addr]step{}}
	for i := range old.Symbols() {
		code.taken[builds.Partner(i)] = true
	}
	for _, r := range procs {
		w := newWalk(r.Proc, old, code, builds.Partner(r.Proc.Index))
		w.run()
		p.Start, p.ends = append(p.Start, w.start), append(p.ends, w.end)
	}
	return p
}

// A step is an instruction with its shape.
type step struct {
	image.Inst
	shape uint64
}

func (s step) next() image.Addr { return s.Addr + image.Addr(s.Len) }

// steps returns the instructions of a procedure, by block.
func steps(im *image.Image, p *image.Proc) [][]step {
	all := make([][]step, len(p.Blocks))
	for i, shapes := range im.LinkedShapes(p) {
		for k, in := range im.Insts(&p.Blocks[i]) {
			if shapes[k] == 0 {
				in.Class |= image.Nop // linkers put it and padding in place of each other
			}
			all[i] = append(all[i], step{in, shapes[k]})
		}
	}
	return all
}

// A codeReader returns the instructions of an image by address.
type codeReader struct {
	im    *image.Image
	taken map[int]bool // symbols that are procedures of the old image
	read  map[int]bool // by symbol
	at    map[image.Addr]step
}

// step returns the instruction at a, which is in the code of symbol sym.
func (c *codeReader) step(sym int, a image.Addr) (step, bool) {
	if !c.read[sym] {
		c.read[sym] = true
		if p, err := c.im.Proc(sym); err == nil {
			for _, b := range steps(c.im, p) {
				for _, s := range b {
					c.at[s.Addr] = s
				}
			}
		}
	}
	s, ok := c.at[a]
	return s, ok
}

// A walk finds the blocks of one procedure.
type walk struct {
	*codeReader
	proc   *image.Proc
	insts  [][]step // by block
	symbol int      // of the procedure in the relinked image; -1 if there is none
	name   string

	start, end []image.Addr // by block: where it is; Nowhere if unknown
	queue      []arrival
	falls      [][2]int // blocks that control runs on between
}

// An arrival is a block, and an address in the relinked image where control enters it.
type arrival struct {
	block int
	at    image.Addr
}

func newWalk(p *image.Proc, old *image.Image, code *codeReader, symbol int) *walk {
	w := &walk{codeReader: code, proc: p, symbol: symbol, insts: steps(old, p)}
	for range p.Blocks {
		w.start, w.end = append(w.start, Nowhere), append(w.end, Nowhere)
	}
	if symbol >= 0 {
		w.name = code.im.Symbols()[symbol].Name
	}
	return w
}

func (w *walk) run() {
	if w.symbol < 0 {
		return
	}
	s := &w.im.Symbols()[w.symbol]
	if w.unmoved(s) {
		for i, b := range w.proc.Blocks {
			w.start[i] = s.Addr + b.Start - w.proc.Addr
			w.end[i] = s.Addr + b.End - w.proc.Addr
		}
		return
	}
	w.walk(s.Addr)
}

// walk finds blocks from the entry on, which is at an address.
func (w *walk) walk(entry image.Addr) {
	w.enter(arrival{0, entry})
	w.search()
	// From here on, no block is found any more. Padding before a block belongs to the one that runs on to it.
	for _, f := range w.falls {
		if end, start := w.end[f[0]], w.start[f[1]]; start != Nowhere && end < start && w.padding(end, start) {
			w.end[f[0]] = start
		}
	}
}

// unmoved reports whether the procedure is in one piece as it was.
func (w *walk) unmoved(s *image.Symbol) bool {
	if s.Size != w.proc.Size {
		return false
	}
	for i, b := range w.proc.Blocks {
		for _, in := range w.insts[i] {
			got, ok := w.own(s.Addr + in.Addr - w.proc.Addr)
			if !ok || got.shape != in.shape || got.Len != in.Len || b.End < in.Addr {
				return false
			}
			if in.Class&(image.Jump|image.CondJump) != 0 && got.Target-got.Addr != in.Target-in.Addr && in.Target-w.proc.Addr < image.Addr(w.proc.Size) {
				return false
			}
		}
	}
	return true
}

// own returns the instruction at a if that is in a part of the procedure.
func (w *walk) own(a image.Addr) (step, bool) {
	i := w.im.Find(a)
	if i < 0 || !w.isOwn(i) {
		return step{}, false
	}
	return w.step(i, a)
}

// isOwn reports whether symbol i is the procedure, or a part that is new.
func (w *walk) isOwn(i int) bool {
	return i == w.symbol || !w.taken[i] && isPart(w.im.Symbols()[i].Name, w.name)
}

// isPart reports whether name is of a part that clang's Propeller or llvm-bolt split off
// procedure of: of.cold, of.__part.1, of.cold.0, of.cold.1.
func isPart(name, of string) bool {
	rest, ok := strings.CutPrefix(name, of)
	return ok && (rest == ".cold" || strings.HasPrefix(rest, ".cold.") || strings.HasPrefix(rest, ".__part."))
}

const (
	maxHops = 4  // jumps to jumps that are followed
	maxPad  = 64 // bytes between blocks: the greatest alignment that compilers ask for within code
)

// skip passes over padding from a on, and over direct jumps if follow is set. It returns
// where it came to, and whether it jumped.
func (w *walk) skip(a image.Addr, follow bool) (to image.Addr, jumped bool) {
	for hops := 0; ; {
		s, ok := w.own(a)
		switch {
		case ok && s.Class&image.Nop != 0:
			a = s.next()
		case ok && s.Class&image.Jump != 0 && follow && hops < maxHops:
			a, jumped = s.Target, true
			hops++
		default:
			return a, jumped
		}
	}
}

// padding reports whether nothing but padding is in [lo, hi).
func (w *walk) padding(lo, hi image.Addr) bool {
	if hi-lo > maxPad {
		return false
	}
	for lo < hi {
		s, ok := w.own(lo)
		if !ok || s.Class&image.Nop == 0 {
			return false
		}
		lo = s.next()
	}
	return lo == hi
}

// A found block is one that was compared with the code from an address on.
type found struct {
	start, end image.Addr
	insts      int       // that are the same
	next       []arrival // where control goes on to
	runsOn     int       // block of next that control runs on to, without a jump; -1 if there is none
	table      bool      // it ends in a jump through a table
}

// match compares a block with the code at an address.
func (w *walk) match(x arrival) (f found, ok bool) {
	insts := w.insts[x.block]
	if len(insts) == 0 {
		return f, false
	}
	at, start := x.at, Nowhere
	turned := false
	var got step
	for k, in := range insts {
		if in.Class&(image.Nop|image.Jump) != 0 {
			continue
		}
		from, jumped := w.skip(at, true)
		if got, ok = w.own(from); !ok {
			return found{}, false
		}
		if got.shape != in.shape {
			if k < len(insts)-1 || got.Class&in.Class&image.CondJump == 0 {
				return found{}, false
			}
			turned = true
		}
		if start == Nowhere {
			if start = at; jumped {
				start = from
			}
		}
		at = got.next()
		f.insts++
	}
	if start == Nowhere {
		start = at
	}
	f.start, f.end, f.runsOn = start, at, -1
	w.leave(&f, x.block, insts[len(insts)-1], got, turned)
	return f, true
}

// leave finds where control goes on to from the end of a block, whose last instruction
// is in, and got in the relinked image.
func (w *walk) leave(f *found, block int, in, got step, turned bool) {
	next, runs := f.end, true // behind the block
	if in.Class&(image.Ret|image.IndJump|image.Trap) == 0 && !w.onlyJumps(block) {
		if to, _ := w.skip(f.end, false); to-f.end <= maxPad {
			if j, ok := w.own(to); ok && j.Class&image.Jump != 0 {
				f.end, next, runs = j.next(), j.Target, false
			}
		}
	}
	for _, e := range w.proc.Blocks[block].Out {
		edge := &w.proc.Edges[e]
		to := next
		switch {
		case edge.Kind == image.Indirect:
			f.table = true
			continue
		case in.Class&image.CondJump != 0 && (edge.Kind == image.Taken) != turned:
			to = got.Target
		case runs:
			f.runsOn = edge.To
		}
		f.next = append(f.next, arrival{edge.To, to})
	}
}

// onlyJumps reports whether a block runs on to one that is but a jump: then a jump behind
// it is that one.
func (w *walk) onlyJumps(block int) bool {
	for _, e := range w.proc.Blocks[block].Out {
		if edge := &w.proc.Edges[e]; edge.Kind == image.FallThrough && firstShape(w.insts[edge.To]) == 0 {
			return true
		}
	}
	return false
}

// enter notes that control enters a block at an address, and goes on from there.
func (w *walk) enter(x arrival) {
	for w.queue = append(w.queue, x); len(w.queue) > 0; {
		x, w.queue = w.queue[len(w.queue)-1], w.queue[:len(w.queue)-1]
		if at := w.start[x.block]; at != Nowhere {
			if at < x.at && w.padding(at, x.at) {
				w.start[x.block] = x.at // jumped to behind the padding
			}
			continue
		}
		f, ok := w.match(x)
		if !ok {
			continue
		}
		w.start[x.block], w.end[x.block] = f.start, f.end
		w.queue = append(w.queue, f.next...)
		if f.runsOn >= 0 {
			w.falls = append(w.falls, [2]int{x.block, f.runsOn})
		}
	}
}

// maxAlike bounds the instructions that two codes are compared for, when that has to tell
// which of several places a block is at, and maxPlaces those places.
const (
	maxAlike  = 100
	maxPlaces = 1000
)

// search finds blocks that no direct jump leads to: cases of switches, landing pads.
// They are at the start of a block of the relinked image that no other is at, at the
// place whose code is alike for longest.
func (w *walk) search() {
	used := map[image.Addr]bool{}
	note := func() {
		for _, a := range w.start {
			used[a] = true
		}
	}
	note()
	var places map[uint64][]image.Addr
	for b, insts := range w.insts {
		if w.start[b] != Nowhere {
			continue
		}
		if places == nil {
			places = w.places()
		}
		best, most, several := Nowhere, 0, false
		for _, a := range places[firstShape(insts)] {
			if used[a] {
				continue
			}
			switch n := w.alike(arrival{b, a}); {
			case n > most:
				best, most, several = a, n, false
			case n == most:
				several = true
			}
		}
		if best != Nowhere && (!several || most >= maxAlike) {
			w.enter(arrival{b, best})
			note()
		}
	}
}

// places returns where blocks of the procedure's parts start, by the shape of their first
// instruction.
func (w *walk) places() map[uint64][]image.Addr {
	places := map[uint64][]image.Addr{}
	for i := range w.im.Symbols() {
		if !w.isOwn(i) {
			continue
		}
		p, err := w.im.Proc(i)
		if err != nil {
			continue
		}
		for _, b := range p.Blocks {
			to, _ := w.skip(b.Start, true)
			if s, ok := w.own(to); ok && len(places[s.shape]) < maxPlaces {
				places[s.shape] = append(places[s.shape], b.Start)
			}
		}
	}
	return places
}

// firstShape returns the shape of the first instruction that is neither padding nor a
// jump; 0 if there is none.
func firstShape(insts []step) uint64 {
	for _, in := range insts {
		if in.Class&(image.Nop|image.Jump) == 0 {
			return in.shape
		}
	}
	return 0
}

// alike counts instructions that are the same from an address on, on all paths, up to
// blocks that are not.
func (w *walk) alike(x arrival) int {
	seen := map[int]bool{x.block: true}
	count := 0
	for queue := []arrival{x}; len(queue) > 0 && count < maxAlike; queue = queue[1:] {
		f, _ := w.match(queue[0])
		count += f.insts
		for _, n := range f.next {
			if !seen[n.block] {
				seen[n.block] = true
				queue = append(queue, n)
			}
		}
	}
	return min(count, maxAlike)
}
