package layout

import (
	"cmp"
	"slices"
	"sync"

	"backfeed/infer"
	"backfeed/infer/image"
)

// An Order is the procedures of an image in the order that a linker should lay
// them out.
type Order struct {
	Symbols []image.Symbol // in order
	Before  Scores         // as the image was linked
	After   Scores         // procedures in this order, one after the other, each as it was
	Start   *StartScores   // of an order that Startup made

	Unseen  int // procedures with neither samples nor executions, left where they are
	Unnamed int // procedures that have some, and no symbol that a linker knows

	procs   []*infer.Result // that are in the order, by address
	order   []int           // indices into procs, in order
	base    image.Addr      // where ordered code begins
	image   *image.Image
	beside  []*infer.ImageProfile // all images that run with it; nil where they are not known
	linkage func() *infer.Linkage // of these; nil where they are not known
	split   struct {              // what Split returns, once it was asked for
		sync.Once
		*Placement
	}
	run struct { // what misses goes by, likewise
		sync.Once
		*trail
	}
	same map[string]int // symbols by name
}

// A procSearch finds an order of procedures in the graph of their calls.
type procSearch struct {
	name  string
	order func(*Graph) []int
}

var procSearches = []procSearch{{"CDSort", cacheDirected}, {"C3", callChains}, {"Pettis-Hansen", pettisHansenCalls}}

// Functions orders the procedures of an image by the calls between them. Of the
// results of three searches, Cache-Directed Sort, Call-Chain Clustering and that of
// Pettis and Hansen, it takes the one with the best CallScore. Procedures that take
// denseShare of the execution are ordered by themselves, and come first. Procedures that
// were seen to run, or that must have run, are in the order; the others are left out,
// and linkers put them behind.
func Functions(ip *infer.ImageProfile) *Order { return FunctionsProgress(ip, nil) }

// FunctionsProgress is Functions that calls progress as the longest of the searches goes on, with the
// procedures that have been joined to others of all; nil is not called.
func FunctionsProgress(ip *infer.ImageProfile, progress func(done, total int)) *Order {
	procs, o := candidates(ip)
	o.set(ip.Image, procs, byCalls(procs, progress))
	return o
}

// denseShare is the share of the executed instructions that the hot procedures take, the
// densest. Searches put what is called rarely beside its hot caller, and of inferred
// counts more is called rarely than ran. By true counts, pages for 99 % of execution
// are with all procedures in one, with this share, and with all in one by true counts:
//
//	SQLite 26 25 25, zstd of gcc 12 9 12, of clang 10 8 14, jsonnet 21 18 21, a Go mix 44 41 43
//
// Calls score 0.0 to 1.5 % less for it. Shares of 0.95 to 0.995 are as good within a page.
const denseShare = 0.99

// byCalls returns the indices of procs in an order by the calls between them. progress is as for
// FunctionsProgress.
func byCalls(procs []*infer.Result, progress func(done, total int)) []int {
	g := Calls(procs)
	byHeat := make([]int, len(procs))
	var all float64
	for i := range byHeat {
		byHeat[i] = i
		all += g.Nodes[i].Heat
	}
	slices.SortStableFunc(byHeat, func(i, j int) int {
		a, b := &g.Nodes[i], &g.Nodes[j]
		return cmp.Compare(b.Heat*float64(a.Size), a.Heat*float64(b.Size))
	})
	hot, sum := 0, 0.0
	for hot < len(byHeat) && sum < denseShare*all {
		sum += g.Nodes[byHeat[hot]].Heat
		hot++
	}
	var order []int
	for _, some := range [][]int{byHeat[:hot], byHeat[hot:]} {
		slices.Sort(some)
		part, done := g.among(some), len(order)
		if progress != nil {
			progress(done, len(procs))
			part.joined = func() {
				done++
				progress(done, len(procs))
			}
		}
		for _, i := range searchCalls(part) {
			order = append(order, some[i])
		}
	}
	if progress != nil {
		progress(len(procs), len(procs))
	}
	return order
}

// among returns the part of g with some of its nodes, by rising index.
func (g *Graph) among(nodes []int) *Graph {
	part := &Graph{}
	index := make([]int, len(g.Nodes)) // in part, and one more; 0 is not there
	for _, i := range nodes {
		part.Nodes = append(part.Nodes, g.Nodes[i])
		index[i] = len(part.Nodes)
	}
	for _, a := range g.Arcs {
		if from, to := index[a.From], index[a.To]; from > 0 && to > 0 {
			a.From, a.To = from-1, to-1
			part.Arcs = append(part.Arcs, a)
		}
	}
	return part
}

// searchCalls returns the order of g's nodes with the best CallScore that a search finds.
func searchCalls(g *Graph) []int {
	best, after := []int(nil), -1.0
	for _, search := range procSearches {
		order := search.order(g)
		if s := CallScore(g, addresses(g, order, procAlign)); s > after {
			best, after = order, s
		}
	}
	return best
}

// set makes o the order of procs that the indices give.
func (o *Order) set(im *image.Image, procs []*infer.Result, order []int) {
	o.procs, o.base, o.image = procs, textStart(im, procs), im
	o.Before = o.Linked().Scores()
	o.arrange(order)
}

// arrange makes the order another of its procedures.
func (o *Order) arrange(order []int) {
	o.order, o.Symbols = order, nil
	for _, i := range order {
		o.Symbols = append(o.Symbols, o.procs[i].Proc.Symbol)
	}
	o.After = o.Whole().Scores()
}

// Beside tells o of the images of a program, its own among them. What runs of the others takes room in the instruction
// cache and stays where it is: what Settle, Gain and Judged say then counts on it.
func (o *Order) Beside(images []*infer.ImageProfile) {
	o.beside = images
	o.linkage = sync.OnceValue(func() *infer.Linkage { return infer.NewLinkage(images) })
}

// trail draws a run of the procedures of o and of what runs beside them.
func (o *Order) trail(seed uint64, n int) *trail {
	if o.linkage == nil {
		return newTrail(o.procs, seed, n)
	}
	return newTrailBeside(o.procs, o.image, o.beside, o.linkage(), seed, n)
}

// fitting reports whether nothing need be missing, wherever the code of the image lies as in p.
func (o *Order) fitting(p *Placement) bool { return len(o.beside) < 2 && fits(p, firstLevel) }

// misses returns, for each leg of a run that no order was tried on, what a placement of the procedures of o misses.
func (o *Order) misses(p *Placement) []float64 {
	if o.fitting(p) {
		return make([]float64, legs)
	}
	o.run.Do(func() { o.run.trail = o.trail(2, legs) })
	return o.run.trail.misses(p, firstLevel)
}

// Procs returns the procedures that are in o, by address.
func (o *Order) Procs() []*infer.Result { return o.procs }

// Linked is where the procedures of o lie in their image.
func (o *Order) Linked() *Placement { return Linked(o.procs) }

// Whole lays out the procedures of o in order, their blocks as they are: what ld.lld,
// gold and GNU ld can do.
func (o *Order) Whole() *Placement { return o.whole(o.order) }

// whole is Whole of another order of the procedures of o.
func (o *Order) whole(order []int) *Placement {
	var parts []Part
	for _, i := range order {
		parts = append(parts, Part{Proc: i})
	}
	return Place(o.procs, parts, o.base, procAlign)
}

// Split lays out the hot blocks of the procedures of o in order, those of each as
// Chains has them, and then all cold blocks: what BOLT and Propeller can do.
func (o *Order) Split() *Placement { return o.splitBy(nil) }

// splitBy is Split that does a step for each procedure, unless it was asked for before.
func (o *Order) splitBy(p *progress) *Placement {
	o.split.Do(func() { // ordering all blocks takes seconds on large images
		var hot, cold []Part
		for _, i := range o.order {
			h, c := Chains(o.procs[i])
			p.step()
			hot = append(hot, Part{i, h})
			if len(c) > 0 {
				cold = append(cold, Part{i, c})
			}
		}
		o.split.Placement = Place(o.procs, slices.Concat(hot, cold), o.base, procAlign)
	})
	return o.split.Placement
}

// UpperBound returns scores that no placement of the procedures of o can beat.
func (o *Order) UpperBound() Scores { return UpperBound(o.procs) }

// textStart returns where the section begins that holds the first of procs.
func textStart(im *image.Image, procs []*infer.Result) image.Addr {
	if len(procs) == 0 {
		return 0
	}
	first := procs[0].Proc.Symbol
	for _, s := range im.Symbols() { // by address
		if s.Section == first.Section {
			return min(s.Addr, first.Addr)
		}
	}
	return first.Addr
}

// candidates returns the procedures that can be ordered.
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

// Calls returns the graph of the direct calls and tail calls among procs.
func Calls(procs []*infer.Result) *Graph {
	g := &Graph{}
	for _, r := range procs {
		n := Node{Size: max(r.Proc.Size, 1), N: r.Entries.N}
		for i, b := range r.Proc.Blocks {
			n.Heat += r.Block[i].N * float64(b.Insts)
		}
		g.Nodes = append(g.Nodes, n)
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

// holder returns the index of the procedure that holds a, or -1.
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
