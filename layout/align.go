package layout

import (
	"cmp"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

// Alignment is what it would be worth to align code. A processor fetches instructions
// by aligned windows: a loop of 40 bytes lies in two windows of 32 bytes, or in
// three. What is counted are fetches of windows, by true arithmetic on the addresses
// and the inferred counts; a fetch need not cost time, as other work may hide it.
type Alignment struct {
	Fetches Windows // of all code as linked
	Items   []AlignItem
	Saved   Windows // fetches, if all of Items were aligned
	Padding uint64  // bytes for that
	All     [kinds]AlignAll
}

// AlignAll is what it would be to align all code of a kind in the procedures that ran,
// hot or not, as an option of a compiler does. What is in one line now may be in two
// then, so it may save less than Items do.
type AlignAll struct {
	N      int    // places
	By     uint64 // the alignment that saves more, 32 or 64 bytes; 0 if neither saves anything
	Saved  Windows
	Pad    uint64 // bytes of padding, by By
	by     [2]Windows
	padded [2]uint64
}

// Windows are numbers of windows by their size.
type Windows struct {
	Of32 float64 // 32 bytes: the decoded cache of Intel's cores from Sandy Bridge on (Optimization Reference Manual, "Decoded ICache"), fetches of AMD's Zen
	Of64 float64 // 64 bytes: cache lines, and the op cache of AMD's Zen (Software Optimization Guide for family 19h)
}

func (w Windows) minus(v Windows) Windows { return Windows{w.Of32 - v.Of32, w.Of64 - v.Of64} }
func (w Windows) plus(v Windows) Windows  { return Windows{w.Of32 + v.Of32, w.Of64 + v.Of64} }
func (w Windows) sum() float64            { return w.Of32 + w.Of64 }

// An AlignItem is code that would take fewer fetches if it were aligned.
type AlignItem struct {
	Symbol     image.Symbol
	Kind       AlignKind
	Start, End image.Addr // what would be aligned: of a loop all of its blocks
	N          float64    // executions of what is at Start
	Align      uint64     // bytes: 32 or 64
	Pad        uint64     // bytes before Start
	Now, Then  Windows    // fetches per execution
}

// Saved is the number of fetches that aligning the item saves.
func (i *AlignItem) Saved() Windows {
	d := i.Now.minus(i.Then)
	return Windows{d.Of32 * i.N, d.Of64 * i.N}
}

// An AlignKind is what compilers tell apart when they align code.
type AlignKind uint8

const (
	LoopHead   AlignKind = iota // -falign-loops
	JumpTarget                  // only jumped to: -falign-jumps
	ProcEntry                   // -falign-functions

	kinds = 3
)

func (k AlignKind) String() string { return [...]string{"loop", "target", "entry"}[k] }

// worthAligning is the share of all fetches that an item must save. The number is ours: it
// keeps lists short, and what is below is lost in the uncertainty of the counts.
const worthAligning = 1e-4

// Align finds the innermost loops, the targets of jumps and the procedures of ip that
// would take clearly fewer fetches if they were aligned, the most saved first. Each is
// judged as if it alone moved, and what is in front of it stayed.
func Align(ip *infer.ImageProfile) *Alignment {
	a := &Alignment{}
	var items []AlignItem
	for _, r := range ip.Procs {
		f := &fetcher{r: r}
		all := make([]int, len(r.Proc.Blocks))
		for i := range all {
			all[i] = i
		}
		a.Fetches = a.Fetches.plus(f.fetches(all, 0, 0))
		for _, c := range f.candidates() {
			a.All[c.kind].add(f, &c)
			if item, ok := f.item(c); ok {
				items = append(items, item)
			}
		}
	}
	for _, item := range items {
		if saved := item.Saved(); saved.sum() >= worthAligning*a.Fetches.sum() {
			a.Items = append(a.Items, item)
			a.Saved = a.Saved.plus(saved)
			a.Padding += item.Pad
		}
	}
	for k := range a.All {
		a.All[k].choose()
	}
	slices.SortStableFunc(a.Items, func(x, y AlignItem) int {
		return cmp.Or(cmp.Compare(y.Saved().sum(), x.Saved().sum()), cmp.Compare(x.Start, y.Start))
	})
	return a
}

// alignments are those that are tried, in bytes.
var alignments = [2]uint64{32, 64}

// add adds a candidate.
func (all *AlignAll) add(f *fetcher, c *candidate) {
	all.N++
	start := c.at(f.r)
	now := f.fetches(c.blocks, start, 0)
	for i, align := range alignments {
		pad := padding(start, align)
		all.padded[i] += pad
		all.by[i] = all.by[i].plus(now.minus(f.fetches(c.blocks, start, pad)))
	}
}

// choose takes the alignment that saves more, the smaller of equal ones.
func (all *AlignAll) choose() {
	for i, align := range alignments {
		if saved := all.by[i].sum(); saved > 0 && saved > all.Saved.sum() {
			all.By, all.Saved, all.Pad = align, all.by[i], all.padded[i]
		}
	}
}

// padding is the number of bytes from at to the next multiple of align.
func padding(at image.Addr, align uint64) uint64 { return (align - uint64(at)%align) % align }

// A candidate is code that may be aligned: block head, and those that are judged with it.
type candidate struct {
	kind   AlignKind
	head   int
	blocks []int // by address
}

func (c *candidate) at(r *infer.Result) image.Addr { return r.Proc.Blocks[c.head].Start }

// A fetcher counts the fetches of a procedure.
type fetcher struct{ r *infer.Result }

// candidates returns the innermost loops, the blocks that are only jumped to and the entry.
// A block is in the first of these that it fits.
func (f *fetcher) candidates() []candidate {
	p := f.r.Proc
	var cs []candidate
	inLoop := make([]bool, len(p.Blocks))
	for _, l := range innermostLoops(p) {
		cs = append(cs, candidate{LoopHead, l[0], slices.Sorted(slices.Values(l))})
		for _, b := range l {
			inLoop[b] = true
		}
	}
	for b := range p.Blocks {
		switch {
		case inLoop[b] || f.r.Block[b].N == 0:
		case b == 0:
			cs = append(cs, candidate{ProcEntry, b, f.straight(b)})
		case !f.fallsInto(b):
			cs = append(cs, candidate{JumpTarget, b, f.straight(b)})
		}
	}
	return cs
}

// fallsInto reports whether control can run on into block b.
func (f *fetcher) fallsInto(b int) bool {
	for _, e := range f.r.Proc.Blocks[b].In {
		if f.r.Proc.Edges[e].Kind == image.FallThrough {
			return true
		}
	}
	return false
}

// straight returns b and the blocks that control mostly runs on into from there, within
// the largest window.
func (f *fetcher) straight(b int) []int {
	p, blocks := f.r.Proc, []int{b}
	for p.Blocks[b].End-p.Blocks[blocks[0]].Start < lineSize {
		next := -1
		for _, e := range p.Blocks[b].Out {
			if p.Edges[e].Kind == image.FallThrough && f.r.Edge[e].N > 0.5*f.r.Block[b].N {
				next = p.Edges[e].To
			}
		}
		if next < 0 || f.r.Block[next].N > 2*f.r.Block[blocks[0]].N {
			break // what follows is a loop, or another matter
		}
		b = next
		blocks = append(blocks, b)
	}
	return blocks
}

// item judges a candidate at both alignments and takes the smaller unless the larger
// saves more.
func (f *fetcher) item(c candidate) (best AlignItem, ok bool) {
	r := f.r
	n, start := r.Block[c.head].N, c.at(r)
	if n <= 0 {
		return best, false
	}
	per := func(w Windows) Windows { return Windows{w.Of32 / n, w.Of64 / n} }
	now := per(f.fetches(c.blocks, start, 0))
	for _, align := range alignments {
		pad := padding(start, align)
		item := AlignItem{
			Symbol: r.Proc.Symbol, Kind: c.kind, Start: start, N: n, Align: align, Pad: pad, Now: now,
			Then: per(f.fetches(c.blocks, start, pad)),
		}
		for _, b := range c.blocks {
			item.End = max(item.End, r.Proc.Blocks[b].End)
		}
		if pad > 0 && item.Saved().sum() > best.Saved().sum() {
			best, ok = item, true
		}
	}
	return best, ok
}

// fetches counts the fetches of some blocks if all from address from on lay pad bytes
// further. A window that control runs on in is fetched once; one that it jumps into is
// fetched for each jump. Where control runs on through the padding, that is fetched too.
func (f *fetcher) fetches(blocks []int, from image.Addr, pad uint64) Windows {
	return Windows{f.fetchesOf(32, blocks, from, pad), f.fetchesOf(64, blocks, from, pad)}
}

func (f *fetcher) fetchesOf(size image.Addr, blocks []int, from image.Addr, pad uint64) float64 {
	p := f.r.Proc
	moved := func(b int) (start, last image.Addr) {
		blk := &p.Blocks[b]
		start, last = blk.Start, max(blk.End, blk.Start+1)-1
		if start >= from {
			start, last = start+image.Addr(pad), last+image.Addr(pad)
		}
		return start / size, last / size
	}
	var sum float64
	for _, b := range blocks {
		start, last := moved(b)
		sum += float64(last-start+1) * f.r.Block[b].N
		for _, e := range p.Blocks[b].In {
			edge := &p.Edges[e]
			if edge.Kind != image.FallThrough {
				continue
			}
			// From the window of the last byte before to that of the first one here, padding
			// between, one is fetched for each step, and the last is counted above.
			if _, before := moved(edge.From); before <= start {
				sum += f.r.Edge[e].N * (float64(start-before) - 1)
			}
		}
	}
	return sum
}

// innermostLoops returns the natural loops of p that hold no other, each with its head
// first: a block that dominates another which leads back to it.
func innermostLoops(p *image.Proc) [][]int {
	dom := image.Dominators(p.Successors(), p.Entries)
	member := make([]int, len(p.Blocks)) // number of the loop that last took the block, from 1
	var loops [][]int
	heads := make([]bool, len(p.Blocks))
	for _, h := range dom.Order {
		number := len(loops) + 1
		loop := []int{h}
		for _, e := range p.Blocks[h].In {
			if u := p.Edges[e].From; dom.Dominates(h, u) {
				heads[h] = true
				if member[h] != number {
					member[h] = number
				}
				if member[u] != number {
					member[u] = number
					loop = append(loop, u)
				}
			}
		}
		if !heads[h] {
			continue
		}
		for i := 1; i < len(loop); i++ {
			for _, e := range p.Blocks[loop[i]].In {
				if u := p.Edges[e].From; member[u] != number && dom.Idom[u] >= 0 {
					member[u] = number
					loop = append(loop, u)
				}
			}
		}
		loops = append(loops, loop)
	}
	return slices.DeleteFunc(loops, func(l []int) bool {
		return slices.ContainsFunc(l[1:], func(b int) bool { return heads[b] })
	})
}
