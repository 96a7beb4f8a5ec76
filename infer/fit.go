package infer

import (
	"math"
	"slices"

	"backfeed/infer/image"
)

// A Graph is the flow graph of a function as somebody else has it, a compiler say: what ran is known of some of its blocks, and
// is to be told of all its edges. Control enters at block 0, and leaves at blocks without an edge.
type Graph struct {
	edges []GraphEdge
	flow  *flow
	fac   *factor
	out   []int32 // by edge: its index in flow.outs

	prob, visits, worth []float64 // of what was evaluated last: by out-edge, by block, and what an execution of a block brings
	pull                []float64 // by out-edge: what an execution of it brings by itself
	even                []float64 // by out-edge: its share of those of its block that are likely; 0 of others
	odds                []float64 // by out-edge: the logarithm of what it has for each execution of one without a Share
}

// A GraphEdge leads from a block to another one.
type GraphEdge struct {
	From, To int
	Unlikely bool    // taken by what hardly ever happens, as when a call does not return
	Share    float64 // where nothing was seen, how often it is taken for each time that another of its block is; 0 is 1
}

func (e GraphEdge) share() float64 {
	if e.Share == 0 {
		return 1
	}
	return e.Share
}

// NewGraph returns a graph of so many blocks; nil if it has none, or is one that no compiler makes, and too expensive.
func NewGraph(blocks int, edges []GraphEdge) *Graph {
	if blocks < 1 {
		return nil
	}
	p := &image.Proc{Blocks: make([]image.Block, blocks), Edges: make([]image.Edge, len(edges))}
	for i, e := range edges {
		p.Edges[i].From, p.Edges[i].To = e.From, e.To
		p.Blocks[e.From].Out = append(p.Blocks[e.From].Out, i)
	}
	g := &Graph{edges: edges, flow: newFlow(p, 0), out: make([]int32, len(edges))}
	if g.flow == nil {
		return nil
	}
	n := len(g.flow.outs)
	g.fac = g.flow.newFactor()
	g.prob, g.pull, g.even, g.odds = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	g.visits, g.worth = make([]float64, blocks), make([]float64, blocks)
	for b := range blocks {
		likely, shares := 0, 0.0
		for w, o := range g.flow.outsOf(b) {
			if at := g.flow.first[b] + int32(w); o.edge >= 0 {
				g.out[o.edge] = at
				if e := edges[o.edge]; !e.Unlikely {
					likely++
					shares += e.share()
					g.odds[at] = math.Log(e.share())
				}
			}
		}
		if likely < 2 {
			continue
		}
		for w, o := range g.flow.outsOf(b) {
			if o.edge >= 0 && !edges[o.edge].Unlikely {
				g.even[g.flow.first[b]+int32(w)] = edges[o.edge].share() / shares
			}
		}
	}
	return g
}

// A Seen is what is known of a block of a Graph.
type Seen struct {
	Block  int
	N      float64 // executions
	Weight float64 // 1 is usual
}

// What a search weighs, in units of the largest number that was seen. A block that ran less often than was seen errs more than one that
// ran more often: what is seen is of code that was made for the block, and some of that may have become part of other code, or
// none. Errors count as such and not by their squares, but for small ones: most of what is seen is right, and some is not at
// all. Chosen with gcc's own counters of tcc: of counts by callgrind carried to gcc's graphs, edges overlap with these by 0.890, and of xz,
// which nothing was chosen by, by 0.920. With weights without a root, or by no size at all, and other fitEven, fitRare and fitShy it
// was 0.873 to 0.889 and 0.916 to 0.920.
const (
	fitMore  = 0.3  // of blocks that run more often than seen
	fitSmall = 0.1  // errors weigh by the root of 1/(seen + fitSmall)
	fitSharp = 0.03 // an error is small below so much of what was seen + fitLeast
	fitLeast = 0.01
	fitEven  = 0.01 // of the squares of what control divides by otherwise than by shares, evenly where there are none
	fitNever = 9    // of the squares of executions of unlikely edges
	fitRare  = 0.9  // of these executions
	fitShy   = 1e-4 // of the squares of logarithms of odds over those of shares

	// When few executions count, those of less than fitFew err by the logarithm too, and unlikely edges have odds of fitLittle: errors as such
	// hardly tell them from none, and odds would rather be a thousand than a million.
	fitFew       = 0.01
	fitFewWeight = 0.02
)

// A search by which few executions count keeps to what many tell: it may miss as much more of all that was seen than before. Where it is
// more, as in an interpreter of which many operations never ran and have their lines in common with those that did, few count fitLess
// times as much; after fitTries of that not at all.
const fitWorse, fitLess, fitTries = 0.2, 0.5, 6

// fitGrown is how many times the largest number that was seen before makes a search begin anew.
const fitGrown = 4

// How many evaluations a search takes, which gets fewer where there are more than so many out-edges, when it ends before, and what the
// logarithm of executions is at most.
const fitEvals, fitEdges, fitTol, fitLargest = 300, 20000, 1e-7, 30

// fitLittle is what a block is guessed to have at least, of the largest number. fitReach is how many edges away from what was seen one is
// guessed by it.
const fitLittle, fitReach = 1e-7, 100

// A Fit is a place in the search for executions of a Graph.
type Fit struct {
	g *Graph
	x []float64 // the logarithm of executions of block 0 over most, then what odds of out-edges are the exponential of

	most  float64
	begun bool
}

// Start returns a Fit of which nothing is known.
func (g *Graph) Start() *Fit { return &Fit{g: g, x: make([]float64, 1+len(g.flow.outs))} }

// starts returns where the first search begins: control divides by shares, or it goes where more was seen, by as many executions as block 0
// seems to have or as all that was seen.
func (f *Fit) starts(seen []Seen) [][]float64 {
	even, guess := slices.Clone(f.x), f.guess(seen)
	copy(even[1:], f.g.odds)
	scaled := slices.Clone(guess)
	f.g.run(guess)
	said, come := 0.0, 0.0
	for _, s := range seen {
		said, come = said+s.N/f.most, come+f.g.visits[s.Block]
	}
	if come > 0 {
		scaled[0] += math.Log(said / come)
	}
	return [][]float64{even, guess, scaled}
}

// guess has control go where more was seen, so that a search begins next to its end: where hardly any flow comes, it learns nothing, and a
// loop of a million turns has to be one from the start. Blocks of which nothing was seen take after their neighbours.
func (f *Fit) guess(seen []Seen) (x []float64) {
	g := f.g
	x = make([]float64, len(f.x))
	n := make([]float64, len(g.visits)) // logarithms of executions over most
	known := make([]bool, len(n))
	for _, s := range seen {
		if v := math.Log(s.N/f.most + fitLittle); !known[s.Block] || v > n[s.Block] {
			n[s.Block], known[s.Block] = v, true
		}
	}
	for range fitReach {
		sum, of := make([]float64, len(n)), make([]float64, len(n))
		for _, e := range g.edges {
			if e.Unlikely {
				continue
			}
			if known[e.From] && !known[e.To] {
				sum[e.To], of[e.To] = sum[e.To]+n[e.From], of[e.To]+1
			}
			if known[e.To] && !known[e.From] {
				sum[e.From], of[e.From] = sum[e.From]+n[e.To], of[e.From]+1
			}
		}
		more := false
		for b := range n {
			if of[b] > 0 {
				n[b], known[b], more = sum[b]/of[b], true, true
			}
		}
		if !more {
			break
		}
	}
	for b := range n {
		if !known[b] {
			n[b] = math.Log(fitLittle)
		}
	}
	x[0] = n[0]
	for i, e := range g.edges {
		if x[1+g.out[i]] = n[e.To]; e.Unlikely {
			x[1+g.out[i]] = math.Log(fitLittle)
		}
	}
	for b := range n { // only differences matter
		odds := x[1+g.flow.first[b] : 1+g.flow.first[b+1]]
		most := slices.Max(odds)
		for w := range odds {
			odds[w] -= most
		}
	}
	return x
}

// Search goes on to the executions that agree best with what is seen. Where that says nothing, control divides by the edges' shares.
func (f *Fit) Search(seen []Seen) { f.search(seen, 0) }

// Refine is Search for which what ran seldom counts too: as few executions as were seen, to their order of magnitude.
func (f *Fit) Refine(seen []Seen) {
	if !f.begun || largest(seen) != f.most {
		f.Search(seen)
	}
	if !f.begun {
		return
	}
	all := 0.0
	for _, s := range seen {
		miss, _ := s.miss(0, f.most)
		all += miss
	}
	x, most := slices.Clone(f.x), f.misses(seen)+fitWorse*all
	few := 1.0
	for range fitTries {
		f.search(seen, few)
		if f.misses(seen) <= most {
			return
		}
		copy(f.x, x)
		few *= fitLess
	}
}

// largest returns the largest number that was seen, 0 of none.
func largest(seen []Seen) (most float64) {
	for _, s := range seen {
		most = max(most, s.N)
	}
	return most
}

// search is Search for which few executions count so much, 1 is usual.
func (f *Fit) search(seen []Seen, few float64) {
	before := f.most
	if f.most = largest(seen); f.most == 0 {
		return
	}
	objective := func(x, grad []float64) float64 { return f.g.objective(x, grad, seen, f.most, few) }
	evals := max(20, min(fitEvals, fitEvals*fitEdges/len(f.x)))
	if f.begun && f.most < fitGrown*before {
		f.x[0] += math.Log(before / f.most) // executions stay as they were
		minimize(objective, f.x, evals, fitTol)
	} else { // where next to nothing was seen to run before, a search from there would not find what does
		least, grad := math.Inf(1), make([]float64, len(f.x))
		for _, x := range f.starts(seen) {
			minimize(objective, x, evals, fitTol)
			if v := objective(x, grad); v < least {
				least, f.x = v, x
			}
		}
		f.begun = true
	}
}

// Blocks returns executions of blocks.
func (f *Fit) Blocks() []float64 {
	n := make([]float64, len(f.g.visits))
	f.g.run(f.x)
	for b, v := range f.g.visits {
		n[b] = v * f.most
	}
	return n
}

// Edges returns executions of edges.
func (f *Fit) Edges() []float64 {
	n := make([]float64, len(f.g.edges))
	f.g.run(f.x)
	for i, e := range f.g.edges {
		n[i] = f.g.visits[e.From] * f.g.prob[f.g.out[i]] * f.most
	}
	return n
}

// run sets prob and visits.
func (g *Graph) run(x []float64) {
	f := g.flow
	for b := range f.blocks {
		lo, hi := f.first[b], f.first[b+1]
		if hi-lo == 1 {
			g.prob[lo] = 1
			continue
		}
		most, sum := slices.Max(x[1+lo:1+hi]), 0.0
		for w := lo; w < hi; w++ {
			g.prob[w] = math.Exp(max(x[1+w]-most, -fitLargest))
			if math.IsInf(x[1+w], -1) { // see Never
				g.prob[w] = 0
			}
			sum += g.prob[w]
		}
		for w := lo; w < hi; w++ {
			g.prob[w] /= sum
		}
	}
	g.fac.set(g.prob)
	clear(g.visits)
	g.visits[0] = g.enter(x)
	g.fac.visits(g.visits)
}

// enter returns executions of block 0.
func (g *Graph) enter(x []float64) float64 { return math.Exp(clamp(x[0], -fitLargest, fitLargest)) }

// miss returns how much so many executions, in units of most, disagree with what was seen, and the derivative of that.
func (s Seen) miss(n, most float64) (v, d float64) {
	t := s.N / most
	w := s.Weight * s.Weight / math.Sqrt(t+fitSmall)
	r := n - t
	if r > 0 {
		w *= fitMore
	}
	small, size := fitSharp*(t+fitLeast), math.Abs(r)
	return w * (size - small*math.Log1p(size/small)), w * r / (size + small)
}

// misses returns how much executions disagree with what is seen.
func (f *Fit) misses(seen []Seen) (v float64) {
	f.g.run(f.x)
	for _, s := range seen {
		miss, _ := s.miss(f.g.visits[s.Block], f.most)
		v += miss
	}
	return v
}

// objective returns how much executions by x, in units of most, disagree with what is seen, where few count so much, and its gradient.
func (g *Graph) objective(x, grad []float64, seen []Seen, most, few float64) (v float64) {
	g.run(x)
	clear(g.worth)
	clear(g.pull)
	for _, s := range seen {
		miss, worth := s.miss(g.visits[s.Block], most)
		v += miss
		g.worth[s.Block] += worth
		t := s.N / most
		if least := 0.5 / most; few > 0 && t < fitFew {
			off := math.Log((g.visits[s.Block] + least) / (t + least))
			far := math.Sqrt(1 + off*off)
			v += few * s.Weight * s.Weight * fitFewWeight * (far - 1)
			g.worth[s.Block] += few * s.Weight * s.Weight * fitFewWeight * off / far / (g.visits[s.Block] + least)
		}
	}
	f, unlikely := g.flow, math.Log(fitLittle)
	for b := range f.blocks {
		lo, hi := f.first[b], f.first[b+1]
		if hi-lo == 1 {
			continue
		}
		for w := lo; w < hi; w++ {
			n, even := g.visits[b]*g.prob[w], g.even[w]
			if even > 0 {
				r := n - even*g.visits[b]
				v += fitEven * r * r
				g.pull[w] += 2 * fitEven * r
				g.worth[b] -= 2 * fitEven * r * even
			}
			if e := f.outs[w].edge; e >= 0 && g.edges[e].Unlikely {
				v += fitNever*n*n + fitRare*n
				g.pull[w] += 2*fitNever*n + fitRare
			}
		}
	}
	for b := range f.blocks {
		for w := f.first[b]; w < f.first[b+1]; w++ {
			g.worth[b] += g.prob[w] * g.pull[w]
		}
	}
	g.fac.values(g.worth)
	grad[0] = g.enter(x) * g.worth[0]
	for b := range f.blocks {
		lo, hi := f.first[b], f.first[b+1]
		if hi-lo == 1 {
			grad[1+lo] = 0
			continue
		}
		mean := 0.0
		for w := lo; w < hi; w++ {
			mean += g.prob[w] * g.brings(w)
		}
		for w := lo; w < hi; w++ {
			shy := x[1+w] - g.odds[w]
			if e := f.outs[w].edge; few > 0 && e >= 0 && g.edges[e].Unlikely {
				shy -= unlikely
			}
			grad[1+w] = g.visits[b]*g.prob[w]*(g.brings(w)-mean) + 2*fitShy*shy
			v += fitShy * shy * shy
		}
	}
	return v
}

// brings is what one more execution of an out-edge brings.
func (g *Graph) brings(w int32) float64 {
	to := g.flow.outs[w].to
	if to == leave {
		return g.pull[w]
	}
	return g.pull[w] + g.worth[to]
}
