package layout

import (
	"cmp"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

// HugePages says which code should lie on huge pages. That is worth it where the hot
// code fills some: "Optimizing Function Placement for Large-Scale Data-Center
// Applications" (Ottoni and Maher, CGO 2017) maps the hottest functions alone, as
// huge pages are scarce in the TLB too.
type HugePages struct {
	Hot    uint64   // bytes of blocks that make up 99.9 % of the executed instructions
	Procs  uint64   // bytes of the procedures that these are in
	Linked Coverage // pages of 2 MB as linked
	Order  Coverage // in the order of Functions, from the start of a huge page on

	// Groups are what fills a huge page each, in the order of Functions. There are none if
	// the hot procedures do not fill one, nor if none of them could be moved.
	Groups []HugeGroup
	Text   image.Addr // for the start of .text, so that Groups begin on huge pages: the next multiple of 2 MB
	Runs   []HugeRun  // huge pages as linked that hold hot code, by address
}

// A HugeGroup are procedures that lie on one huge page if it begins with the first of
// them.
type HugeGroup struct {
	Symbols []image.Symbol
	Bytes   uint64
	Share   float64 // of the executed instructions
}

// A HugeRun is a run of neighbouring huge pages of an image as linked.
type HugeRun struct {
	Start, End image.Addr // multiples of 2 MB from each other; as linked, not necessarily as mapped
	Share      float64    // of the executed instructions
}

// Huge finds what should be on huge pages.
func Huge(ip *infer.ImageProfile, order *Order) *HugePages {
	h := &HugePages{}
	var all float64
	byAddr := map[image.Addr]int{}
	for i, r := range ip.Procs {
		all += instructions(r)
		byAddr[r.Proc.Addr] = i
	}
	linked := Linked(ip.Procs)
	pieces := linked.Pieces()
	hotProc := map[int]bool{}
	for _, p := range hottest(pieces, hotShare*all, func(p Piece) float64 { return ip.Procs[p.Proc].Block[p.Block].N }) {
		h.Hot += uint64(p.End - p.Start)
		hotProc[p.Proc] = true
	}
	for i := range hotProc {
		h.Procs += ip.Procs[i].Proc.Size
	}
	h.Linked = coverage(pieces, hugePageSize)
	h.Runs = hugeRuns(pieces, all)

	var parts []Part
	for _, s := range order.Symbols {
		if i, ok := byAddr[s.Addr]; ok {
			parts = append(parts, Part{Proc: i})
			if hotProc[i] {
				h.group(s, ip.Procs[i], all)
			}
		}
	}
	if len(parts) > 0 {
		h.Order = coverage(Place(ip.Procs, parts, 0, procAlign).Pieces(), hugePageSize)
	}
	if h.Procs < hugePageSize {
		h.Groups = nil
	}
	if len(h.Groups) > 0 {
		h.Text = (textStart(ip.Image, ip.Procs) + hugePageSize - 1) / hugePageSize * hugePageSize
	}
	return h
}

// group puts a procedure on the last huge page, or on a new one if it does not fit.
func (h *HugePages) group(s image.Symbol, r *infer.Result, all float64) {
	size := (max(s.Size, 1) + procAlign - 1) / procAlign * procAlign
	if n := len(h.Groups); n == 0 || h.Groups[n-1].Bytes+size > hugePageSize {
		h.Groups = append(h.Groups, HugeGroup{})
	}
	g := &h.Groups[len(h.Groups)-1]
	g.Symbols = append(g.Symbols, s)
	g.Bytes += size
	if all > 0 {
		g.Share += instructions(r) / all
	}
}

// hottest returns the pieces with the highest frequency that make up so many executed
// instructions, the most frequent first.
func hottest(pieces []Piece, want float64, frequency func(Piece) float64) []Piece {
	pieces = slices.Clone(pieces)
	slices.SortStableFunc(pieces, func(a, b Piece) int { return cmp.Compare(frequency(b), frequency(a)) })
	var sum float64
	for i, p := range pieces {
		if sum >= want || p.N <= 0 {
			return pieces[:i]
		}
		sum += p.N
	}
	return pieces
}

// hugeRuns finds the huge pages as linked that hold a thousandth of the executed
// instructions or more, neighbours together.
func hugeRuns(pieces []Piece, all float64) (runs []HugeRun) {
	heat := map[uint64]float64{}
	for _, p := range pieces {
		spread(heat, uint64(p.Start), uint64(p.End), hugePageSize, p.N)
	}
	var pages []uint64
	for page, n := range heat {
		if n >= (1-hotShare)*all {
			pages = append(pages, page)
		}
	}
	slices.Sort(pages)
	for _, page := range pages {
		start, share := image.Addr(page*hugePageSize), heat[page]/all
		if n := len(runs); n > 0 && runs[n-1].End == start {
			runs[n-1].End += hugePageSize
			runs[n-1].Share += share
		} else {
			runs = append(runs, HugeRun{start, start + hugePageSize, share})
		}
	}
	return runs
}
