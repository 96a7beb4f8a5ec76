package layout

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

// An Order is the procedures of an image in the order that a linker should lay
// them out.
type Order struct {
	Symbols []image.Symbol // in order
	Before  Locality       // as the image was linked
	After   Locality       // in this order, one after the other

	Unseen  int // procedures with neither samples nor executions, left where they are
	Unnamed int // procedures that have some, and no symbol that a linker knows

	same map[string]int // symbols by name
}

// Locality says how well a placement of procedures keeps together what runs
// together.
type Locality struct {
	Score    float64  // CallScore
	Distance float64  // mean bytes from a call to its target
	Lines    Coverage // cache lines
	Pages    Coverage
}

// Coverage is the fewest pieces of memory that hold a share of the executed
// instructions.
type Coverage struct{ For90, For99 int }

const (
	lineSize = 64
	pageSize = 4096

	procAlign = 16 // what gcc, clang and Go align procedures to on x86-64 and AArch64
)

// Functions orders the procedures of an image by the calls between them. Of the
// two usual searches, Call-Chain Clustering and Cache-Directed Sort, it takes
// the result with the better CallScore. Procedures that were seen to run, or that
// must have run, are in the order; the others are left out, and linkers put them
// behind.
func Functions(ip *infer.ImageProfile) *Order {
	procs, o := candidates(ip)
	g := Calls(procs)
	best, after := []int(nil), -1.0
	for _, search := range []func(*Graph) []int{cacheDirected, callChains} {
		order := search(g)
		if s := CallScore(g, addresses(g, order, procAlign)); s > after {
			best, after = order, s
		}
	}
	for _, i := range best {
		o.Symbols = append(o.Symbols, procs[i].Proc.Symbol)
	}
	linked := make([]uint64, len(procs))
	for i, r := range procs {
		linked[i] = uint64(r.Proc.Addr)
	}
	o.Before = locality(g, procs, linked)
	o.After = locality(g, procs, addresses(g, best, procAlign))
	return o
}

// candidates gives the procedures that can be ordered.
func candidates(ip *infer.ImageProfile) ([]*infer.Result, *Order) {
	o := &Order{same: map[string]int{}}
	for _, s := range ip.Image.Symbols() {
		o.same[s.Name]++
	}
	var procs []*infer.Result
	for _, r := range ip.Procs {
		switch {
		case r.Samples == 0 && r.Entries.N < 0.5:
			o.Unseen++
		case r.Proc.Source != image.FromSymtab:
			o.Unnamed++ // stubs, and procedures of stripped images
		default:
			procs = append(procs, r)
		}
	}
	return procs, o
}

// Calls gives the graph of the direct calls and tail calls among procs.
func Calls(procs []*infer.Result) *Graph {
	g := &Graph{}
	for _, r := range procs {
		g.Nodes = append(g.Nodes, Node{Size: max(r.Proc.Size, 1), N: r.Entries.N})
	}
	in := make([]float64, len(procs))
	for from, r := range procs {
		for i, c := range r.Proc.Calls {
			to := holder(procs, c.To)
			if to < 0 || !(r.Call[i].N > 0) {
				continue
			}
			g.Arcs = append(g.Arcs, Arc{From: from, To: to, Offset: uint64(c.Site - r.Proc.Addr), N: r.Call[i].N})
			in[to] += r.Call[i].N
		}
	}
	for i := range g.Nodes {
		g.Nodes[i].N = max(g.Nodes[i].N, in[i]) // calls may be known of a procedure that is not
	}
	return g
}

// holder gives the index of the procedure that holds a, or -1.
func holder(procs []*infer.Result, a image.Addr) int {
	i, found := slices.BinarySearchFunc(procs, a, func(r *infer.Result, a image.Addr) int {
		return cmp.Compare(r.Proc.Addr, a)
	})
	if !found {
		i--
	}
	if i < 0 || a-procs[i].Proc.Addr >= image.Addr(max(procs[i].Proc.Size, 1)) {
		return -1
	}
	return i
}

// locality judges a placement of procs, which are the nodes of g.
func locality(g *Graph, procs []*infer.Result, start []uint64) Locality {
	l := Locality{Score: CallScore(g, start)}
	var calls float64
	for _, a := range g.Arcs {
		if a.From != a.To {
			l.Distance += a.N * distance(start[a.From]+a.Offset, start[a.To])
			calls += a.N
		}
	}
	if calls > 0 {
		l.Distance /= calls
	}
	l.Lines = coverage(procs, start, lineSize)
	l.Pages = coverage(procs, start, pageSize)
	return l
}

// coverage counts the pieces of memory that it takes to hold the hottest code.
func coverage(procs []*infer.Result, start []uint64, size uint64) Coverage {
	heat := map[uint64]float64{} // executed instructions, by piece
	var total float64
	for i, r := range procs {
		for j, b := range r.Proc.Blocks {
			n := r.Block[j].N * float64(b.Insts)
			from := start[i] + uint64(b.Start-r.Proc.Addr)
			spread(heat, from, from+uint64(b.End-b.Start), size, n)
			total += n
		}
	}
	pieces := make([]float64, 0, len(heat))
	for _, n := range heat {
		pieces = append(pieces, n)
	}
	slices.SortFunc(pieces, func(a, b float64) int { return cmp.Compare(b, a) })
	return Coverage{For90: needed(pieces, 0.90*total), For99: needed(pieces, 0.99*total)}
}

// spread adds n to the pieces that [from, to) lies in, by the bytes in each.
func spread(heat map[uint64]float64, from, to, size uint64, n float64) {
	length := float64(to - from)
	for from < to && n > 0 {
		end := min(to, (from/size+1)*size)
		heat[from/size] += n * float64(end-from) / length
		from = end
	}
}

// needed counts the first pieces that add up to want.
func needed(pieces []float64, want float64) int {
	var sum float64
	for i, n := range pieces {
		if sum >= want {
			return i
		}
		sum += n
	}
	return len(pieces)
}

// WriteSymbols writes the order as lld's --symbol-ordering-file takes it: a
// symbol per line. The image must have been compiled with -ffunction-sections.
// lld moves all local symbols of one name, so a name that is not unique is marked
// by a comment.
func (o *Order) WriteSymbols(w io.Writer) error {
	bw := bufio.NewWriter(w)
	written := map[string]bool{}
	for _, s := range o.Symbols {
		if written[s.Name] {
			continue
		}
		written[s.Name] = true
		if s.Local && o.same[s.Name] > 1 {
			fmt.Fprintf(bw, "# %d local symbols of this name, which all move\n", o.same[s.Name])
		}
		fmt.Fprintln(bw, s.Name)
	}
	return bw.Flush()
}

// WriteBOLT writes the order as llvm-bolt's --function-order takes it, for
// --reorder-functions=user: a symbol per line, local ones with their number.
func (o *Order) WriteBOLT(w io.Writer) error {
	bw := bufio.NewWriter(w)
	for _, s := range o.Symbols {
		switch {
		case !s.Local:
			fmt.Fprintln(bw, s.Name)
		case s.Ordinal > 0:
			fmt.Fprintf(bw, "%s/%d\n", s.Name, s.Ordinal)
		}
	}
	return bw.Flush()
}
