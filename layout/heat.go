package layout

import (
	"cmp"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

// LineBytes and PageBytes are the pieces of memory that a Heat tells apart: a cache
// line of x86-64 and of most AArch64 processors, and the page that both have.
const (
	LineBytes = lineSize
	PageBytes = pageSize
)

// A Heat says where the instructions lie that a placement's procedures executed.
type Heat struct {
	Code  []Extent // all code, whether it ran or not, by address; none touch
	Lines []Spot   // cache lines with code that ran, by address
	Pages []Spot   // pages with code that ran, by address

	procs   []*infer.Result
	pieces  []Piece // that ran, by address
	longest uint64  // bytes of the longest of pieces
}

// An Extent is a range of addresses.
type Extent struct{ Start, End image.Addr }

// A Spot is a piece of memory and how hot it is.
type Spot struct {
	Addr image.Addr // of its first byte
	N    float64    // executed instructions; a block's are spread over its bytes
}

// LinkedHeat is the heat of an image as it was linked.
func LinkedHeat(ip *infer.ImageProfile) *Heat {
	var code []Extent
	for _, s := range ip.Image.Symbols() {
		code = append(code, Extent{s.Addr, s.Addr + image.Addr(s.Size)})
	}
	return newHeat(ip.Procs, Linked(ip.Procs).Pieces(), code)
}

// PlacedHeat is the heat of an image whose code lies as p says. Procedures that p
// lacks follow, where a linker puts what is not in its order: first those of ip,
// then those of which nothing is known.
func PlacedHeat(ip *infer.ImageProfile, p *Placement) *Heat {
	placed := map[int]bool{}
	for _, r := range p.Procs {
		placed[r.Proc.Index] = true
	}
	procs, pieces := slices.Clone(p.Procs), p.Pieces()
	var end uint64
	for _, piece := range pieces {
		end = max(end, uint64(piece.End))
	}
	for _, r := range ip.Procs {
		if placed[r.Proc.Index] {
			continue
		}
		placed[r.Proc.Index] = true
		end = (end + procAlign - 1) / procAlign * procAlign
		for _, piece := range Linked([]*infer.Result{r}).Pieces() {
			piece.Proc = len(procs)
			piece.Start += image.Addr(end) - r.Proc.Addr
			piece.End += image.Addr(end) - r.Proc.Addr
			pieces = append(pieces, piece)
		}
		procs = append(procs, r)
		end += r.Proc.Size
	}
	var unknown []Extent
	for i, s := range ip.Image.Symbols() {
		if !placed[i] {
			unknown = append(unknown, Extent{s.Addr, s.Addr + image.Addr(s.Size)})
		}
	}
	behind := Extent{image.Addr(end), image.Addr(end)}
	for _, e := range joined(unknown) { // a byte that two symbols claim is there once
		behind.End += e.End - e.Start
	}
	return newHeat(procs, pieces, []Extent{behind})
}

// newHeat spreads the executions of pieces, which hold blocks of procs, over memory;
// code is where more code lies.
func newHeat(procs []*infer.Result, pieces []Piece, code []Extent) *Heat {
	h := &Heat{procs: procs}
	slices.SortStableFunc(pieces, func(a, b Piece) int { return cmp.Compare(a.Start, b.Start) })
	for _, p := range pieces {
		code = append(code, Extent{p.Start, p.End})
		if p.Start < p.End && p.N > 0 {
			h.pieces = append(h.pieces, p)
			h.longest = max(h.longest, uint64(p.End-p.Start))
		}
	}
	h.Code = joined(code)
	h.Lines, h.Pages = spots(h.pieces, LineBytes), spots(h.pieces, PageBytes)
	return h
}

// spots spreads the executions of pieces, which are by address, over the pieces of
// memory of a size that they lie in.
func spots(pieces []Piece, size image.Addr) []Spot {
	var all []Spot
	for _, p := range pieces {
		bytes := float64(p.End - p.Start)
		for from := p.Start; from < p.End; {
			at := from / size * size
			n := min(p.End-from, size-(from-at))
			all = append(all, Spot{at, p.N * float64(n) / bytes})
			from += n
		}
	}
	slices.SortStableFunc(all, func(a, b Spot) int { return cmp.Compare(a.Addr, b.Addr) }) // blocks may overlap
	var sums []Spot
	for _, s := range all {
		if last := len(sums) - 1; last >= 0 && sums[last].Addr == s.Addr {
			sums[last].N += s.N
			continue
		}
		sums = append(sums, s)
	}
	return sums
}

// joined sorts extents and joins those that touch or overlap, and those that only
// the padding between two procedures parts.
func joined(code []Extent) []Extent {
	code = slices.DeleteFunc(code, func(e Extent) bool { return e.Start >= e.End })
	slices.SortFunc(code, func(a, b Extent) int { return cmp.Compare(a.Start, b.Start) })
	var all []Extent
	for _, e := range code {
		if last := len(all) - 1; last >= 0 && (e.Start <= all[last].End || e.Start-all[last].End < LineBytes) {
			all[last].End = max(all[last].End, e.End)
			continue
		}
		all = append(all, e)
	}
	return all
}

// A Tenant is a procedure with code in a piece of memory.
type Tenant struct {
	Proc *infer.Result
	N    float64 // its executed instructions there
}

// Tenants returns the procedures that ran in [from, to), by falling executions, those
// with equally many by address.
func (h *Heat) Tenants(from, to image.Addr) []Tenant {
	first := image.Addr(0)
	if uint64(from) > h.longest {
		first = from - image.Addr(h.longest)
	}
	i, _ := slices.BinarySearchFunc(h.pieces, first, func(p Piece, a image.Addr) int { return cmp.Compare(p.Start, a) })
	n := map[int]float64{}
	for ; i < len(h.pieces) && h.pieces[i].Start < to; i++ {
		p := &h.pieces[i]
		if lo, hi := max(p.Start, from), min(p.End, to); lo < hi {
			n[p.Proc] += p.N * float64(hi-lo) / float64(p.End-p.Start)
		}
	}
	all := make([]Tenant, 0, len(n))
	for proc, n := range n {
		all = append(all, Tenant{h.procs[proc], n})
	}
	slices.SortFunc(all, func(a, b Tenant) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Proc.Proc.Addr, b.Proc.Proc.Addr))
	})
	return all
}
