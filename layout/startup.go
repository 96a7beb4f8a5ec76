package layout

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A Start says when the code of an image was first seen to run, by its address, in
// us since the process began its program. Several starts that do the same are best
// taken as one, with the least time for each address: samples see a random part of
// each. Starts that do different things are best kept apart.
type Start map[image.Addr]uint64

// NewStart returns the start in which the code of im was first seen to run at so many us.
func NewStart(im *image.Image, first map[sample.Offset]uint64) Start {
	start := Start{}
	for off, us := range first {
		if a, ok := im.AddrOf(off); ok {
			start[a] = us
		}
	}
	return start
}

// StartScores are what an order is worth to the start of a program.
type StartScores struct {
	Seen   int    `json:"seen"`   // procedures that were seen to run at the start
	Called int    `json:"called"` // and those that no sample saw, but which those must have called
	Before Faults `json:"before"` // as the image was linked
	After  Faults `json:"after"`  // in the order
	Least  Faults `json:"least"`  // no placement of blocks can have fewer
}

// Faults are the page faults that it takes to have in memory all code that is run at
// the start, if none of it is when it begins, and the file is in the page cache.
type Faults struct {
	Single int `json:"pages_4k"`    // where each fault maps one page of 4 KiB
	Around int `json:"windows_64k"` // where it maps the 64 KiB that the page lies in, as Linux does by default
}

// faultAround is fault_around_bytes of mm/memory.c, Linux 3.15 and later: code within
// as many bytes, counted from a multiple of them, is mapped by one fault.
const faultAround = 65536

// Startup orders the procedures of an image for its start: first those that ran
// within so many us, such that what ran at about the same time of the same starts
// lies together, then all others as Functions has them. Every start has windows of
// time, each with all procedures that came up until its end, which then are twice
// as many as at the end of the window before; balanced partitioning keeps those
// together that are in the same windows (TemporalProfTraceTy::createBPFunctionNodes
// of LLVM 19's InstrProf.cpp). A procedure that no sample of a start saw, but that
// must have been called, came up when its caller got there. progress is called as for
// FunctionsProgress.
func Startup(ip *infer.ImageProfile, starts []Start, within uint64, progress func(done, total int)) *Order {
	procs, o := candidates(ip)
	procs = addTouched(ip, o, procs, starts, within)
	seen := make([]bool, len(procs))
	var traces [][]int
	for _, s := range starts {
		t := newTrace(procs, s, within)
		for i := range procs {
			seen[i] = seen[i] || t.touched(i) && t.at[i] <= within
		}
		traces = append(traces, t.order())
	}
	order := orderTraces(traces, len(procs))
	first := make([]bool, len(procs))
	for _, i := range order {
		first[i] = true
	}
	for _, i := range byCalls(procs, progress) {
		if !first[i] {
			order = append(order, i)
		}
	}
	o.set(ip.Image, procs, order)

	s := &StartScores{}
	o.Start = s
	for i := range procs {
		switch {
		case seen[i]:
			s.Seen++
		case first[i]:
			s.Called++
		}
	}
	run := startBlocks(procs, first, starts, within)
	s.Before, s.After = faults(o.Linked(), run), faults(o.Whole(), run)
	s.Least = leastFaults(procs, run)
	return o
}

// addTouched adds to procs those that were touched, but have no samples of the event
// that was inferred from: page faults see more code than a timer.
func addTouched(ip *infer.ImageProfile, o *Order, procs []*infer.Result, starts []Start, within uint64) []*infer.Result {
	known := map[image.Addr]bool{}
	for _, r := range procs {
		known[r.Proc.Addr] = true
	}
	cold := map[image.Addr]*infer.Result{}
	for _, r := range ip.Procs {
		cold[r.Proc.Addr] = r
	}
	symbols := ip.Image.Symbols()
	for _, s := range starts {
		for _, a := range slices.Sorted(maps.Keys(s)) {
			i := ip.Image.Find(a)
			if s[a] > within || i < 0 || symbols[i].Source != image.FromSymtab || known[symbols[i].Addr] {
				continue
			}
			known[symbols[i].Addr] = true
			r := cold[symbols[i].Addr]
			if r == nil {
				p, err := ip.Image.Proc(i)
				if err != nil {
					continue // its bytes are not code
				}
				r = uncounted(p)
			} else {
				o.Unseen--
			}
			procs = append(procs, r)
		}
	}
	slices.SortFunc(procs, func(a, b *infer.Result) int { return cmp.Compare(a.Proc.Addr, b.Proc.Addr) })
	return procs
}

// uncounted is the result for a procedure of which nothing was inferred.
func uncounted(p *image.Proc) *infer.Result {
	return &infer.Result{
		Proc: p, Block: make([]infer.Freq, len(p.Blocks)), Cold: make([]bool, len(p.Blocks)),
		BlockSamples: make([]uint64, len(p.Blocks)), Edge: make([]infer.Freq, len(p.Edges)), Call: make([]infer.Freq, len(p.Calls)),
	}
}

// A trace is when procedures came up in one start.
type trace struct {
	procs  []*infer.Result
	within uint64
	at     []uint64 // in us, by procedure; never if it did not
	places [][]touch
}

type touch struct {
	addr image.Addr
	us   uint64 // the largest of all touches of the procedure up to addr
}

const never = ^uint64(0)

func newTrace(procs []*infer.Result, s Start, within uint64) *trace {
	t := &trace{procs: procs, within: within, at: make([]uint64, len(procs)), places: make([][]touch, len(procs))}
	for i := range t.at {
		t.at[i] = never
	}
	for _, a := range slices.Sorted(maps.Keys(s)) {
		i := holder(procs, a)
		if i < 0 {
			continue
		}
		us := s[a]
		t.at[i] = min(t.at[i], us)
		if n := len(t.places[i]); n > 0 {
			us = max(us, t.places[i][n-1].us)
		}
		t.places[i] = append(t.places[i], touch{a, us})
	}
	return t
}

// touched reports whether a sample saw the procedure.
func (t *trace) touched(proc int) bool { return len(t.places[proc]) > 0 }

// reaches is when a procedure got to a place: code is mostly run from top to bottom
// at a start, so it was not before the touches above.
func (t *trace) reaches(proc int, a image.Addr) uint64 {
	places := t.places[proc]
	n, _ := slices.BinarySearchFunc(places, a+1, func(p touch, a image.Addr) int { return cmp.Compare(p.addr, a) })
	if n == 0 {
		return t.at[proc]
	}
	return places[n-1].us
}

// order returns the procedures that came up in time, in the order of their times.
// Those that no sample saw get the least time at which a caller reached its call, if
// it must have called them, and come after that caller.
func (t *trace) order() []int {
	var order []int
	h := &timeHeap{}
	for i, us := range t.at {
		if us <= t.within {
			heap.Push(h, timed{us, i})
		}
	}
	for h.Len() > 0 {
		next := heap.Pop(h).(timed)
		if next.us > t.at[next.proc] {
			continue // an earlier caller has been found meanwhile
		}
		order = append(order, next.proc)
		r := t.procs[next.proc]
		for i, c := range r.Proc.Calls {
			to := holder(t.procs, c.To)
			if to < 0 || t.touched(to) || !mustCall(r, i) {
				continue
			}
			if us := t.reaches(next.proc, c.Site); us < t.at[to] && us <= t.within {
				t.at[to] = us
				heap.Push(h, timed{us, to})
			}
		}
	}
	return order
}

// oftenCalled is how many executions of a call, for each of its procedure, are enough
// to believe that a start makes it. Of 477 functions that SQLite's start executes, 100
// recorded starts saw 326 (and 2 others). With all calls that may have happened 123
// more were found beside 408 that do not run; with those of 0.01 it was 98 beside 205,
// of 0.1 65 beside 58, of 0.3 42 beside 24.
const oftenCalled = 0.1

// mustCall reports whether a call is so often made that a start is believed to make it.
func mustCall(r *infer.Result, call int) bool {
	return r.Call[call].N >= max(0.5, oftenCalled*r.Entries.N)
}

type timed struct {
	us   uint64
	proc int
}

// A timeHeap has the earliest procedure first, of equal times the lowest.
type timeHeap []timed

func (h timeHeap) Len() int { return len(h) }
func (h timeHeap) Less(i, j int) bool {
	return h[i].us < h[j].us || h[i].us == h[j].us && h[i].proc < h[j].proc
}
func (h timeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timeHeap) Push(x any)   { *h = append(*h, x.(timed)) }
func (h *timeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// orderTraces orders all procedures that come up in traces, which are lists of
// procedures of which there are n in all.
func orderTraces(traces [][]int, n int) []int {
	rank := make([]int, n) // the least one in any trace
	for i := range rank {
		rank[i] = n
	}
	var nodes []int
	for _, trace := range traces {
		for k, i := range trace {
			if rank[i] == n {
				nodes = append(nodes, i)
			}
			rank[i] = min(rank[i], k)
		}
	}
	// The order that partitioning begins with matters: by time, then by address.
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b)) })
	all := windows(traces, n)
	groups := make([][]int, len(nodes))
	for k, i := range nodes {
		groups[k] = all[i]
	}
	dropOutliers(groups)
	order := partition(groups)
	for k, node := range order {
		order[k] = nodes[node]
	}
	return order
}

// windows returns the windows that each of n procedures is in.
func windows(traces [][]int, n int) [][]int {
	in := make([][]int, n)
	number := 0
	for _, trace := range traces {
		ends := []int{} // of the windows of this trace, in ranks
		for k := range trace {
			if k == 0 || k == ends[len(ends)-1] {
				ends = append(ends, max(1, 2*k))
			}
		}
		for k, i := range trace {
			for w, end := range ends {
				if k < end {
					in[i] = append(in[i], number+w)
				}
			}
		}
		number += len(ends)
	}
	return in
}

// dropOutliers takes out of groups those with a single node, or more than half of
// them, as the same function of LLVM does: they hardly tell nodes apart.
func dropOutliers(groups [][]int) {
	size := map[int]int{}
	for _, gs := range groups {
		for _, g := range gs {
			size[g]++
		}
	}
	for i, gs := range groups {
		groups[i] = slices.DeleteFunc(gs, func(g int) bool { return size[g] <= 1 || 2*size[g] > len(groups) })
	}
}

// startBlocks reports which blocks of procs are run at the start, as far as is known:
// of the procedures that are, those that must have run, where control enters, and
// where a sample was taken in time.
func startBlocks(procs []*infer.Result, first []bool, starts []Start, within uint64) [][]bool {
	run := make([][]bool, len(procs))
	for i, r := range procs {
		run[i] = make([]bool, len(r.Block))
		for b := range r.Block {
			run[i][b] = first[i] && (b == 0 || r.Block[b].N >= 0.5)
		}
	}
	for _, s := range starts {
		for a, us := range s {
			i := holder(procs, a)
			if i < 0 || us > within {
				continue
			}
			blocks := procs[i].Proc.Blocks
			b, found := slices.BinarySearchFunc(blocks, a, func(b image.Block, a image.Addr) int { return cmp.Compare(b.Start, a) })
			if !found {
				b--
			}
			if b >= 0 && a < blocks[b].End {
				run[i][b] = true
			}
		}
	}
	return run
}

// faults counts the pieces of memory that the blocks lie in which are run.
func faults(p *Placement, run [][]bool) Faults {
	single, around := map[image.Addr]bool{}, map[image.Addr]bool{}
	for _, piece := range p.Pieces() {
		if !run[piece.Proc][piece.Block] || piece.End <= piece.Start {
			continue
		}
		for a := piece.Start / pageSize; a <= (piece.End-1)/pageSize; a++ {
			single[a] = true
			around[a*pageSize/faultAround] = true
		}
	}
	return Faults{len(single), len(around)}
}

// leastFaults counts the pieces that the blocks which are run would fill without a gap.
func leastFaults(procs []*infer.Result, run [][]bool) Faults {
	var bytes image.Addr
	for i, r := range procs {
		for b, block := range r.Proc.Blocks {
			if run[i][b] {
				bytes += block.End - block.Start
			}
		}
	}
	return Faults{int((bytes + pageSize - 1) / pageSize), int((bytes + faultAround - 1) / faultAround)}
}
