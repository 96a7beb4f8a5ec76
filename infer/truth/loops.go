package truth

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"backfeed/infer/document"
	"backfeed/infer/image"
)

// FactorErrors are the factors that estimates are off by, up or down: 1 is none. They are at most
// WorstFactor, which stands for estimates of 0, too.
type FactorErrors struct {
	N        int     // estimates of what ran
	Median   float64 // half of the weight is off by at most that; 0 if there is none
	Mean     float64 // the geometric mean by weight
	Each     float64 // half of the estimates are off by at most that, each weighing the same
	Within2x float64 // share of the weight that is off by at most a factor 2
}

// WorstFactor is the largest factor that an estimate is said to be off by.
const WorstFactor = 1e6

// EntriesOf is Entries as they are, not after Scale, where so many times as many runs were recorded as were counted.
func (a *Accuracy) EntriesOf(runs float64) FactorErrors { return newFactorErrors(a.entries, 1/runs) }

// newFactorErrors compares what ran of ps, of which the estimates are to be multiplied by scale.
// Without samples of any, all of them weigh the same.
func newFactorErrors(ps []pairing, scale float64) (e FactorErrors) {
	type off struct{ factor, weight float64 }
	var all []off
	var weight float64
	for _, p := range ps {
		if p.truth > 0 {
			f := min(math.Exp(math.Abs(math.Log(p.est*scale/p.truth))), WorstFactor)
			all = append(all, off{f, p.samples})
			weight += p.samples
		}
	}
	slices.SortStableFunc(all, func(a, b off) int { return cmp.Compare(a.factor, b.factor) })
	if e.N = len(all); e.N == 0 {
		return e
	}
	e.Each = all[(e.N-1)/2].factor
	var sum, logs float64
	for _, o := range all {
		w := 1 / float64(e.N)
		if weight > 0 {
			w = o.weight / weight
		}
		logs += w * math.Log(o.factor)
		if o.factor <= 2 {
			e.Within2x += w
		}
		if sum += w; e.Median == 0 && sum >= 0.5-1e-9 {
			e.Median = o.factor
		}
	}
	e.Mean = math.Exp(logs)
	return e
}

// addEntries pairs the entries of procedures with samples: executions of the first block without
// those that come of jumps within the procedure. samples are those of procedures.
func (c *comparison) addEntries(code *documentCode, truth *Image, samples map[*document.Proc]float64) {
	back := map[*document.Proc]uint64{}
	for j, n := range truth.Jumps {
		b := code.find(j.From)
		if b != nil && image.Addr(b.proc.Addr) == j.To {
			back[b.proc] += n
		}
	}
	for _, p := range code.procs {
		entries := pairing{
			est: float64(p.Entries), samples: samples[p], proc: p,
			truth: max(0, float64(truth.Insts[image.Addr(p.Addr)])-float64(back[p])),
		}
		if entries.samples > 0 {
			c.entries = append(c.entries, entries)
		}
		if p.EntriesFactor > 0 && entries.est > 0 && entries.truth > 0 {
			c.factored = append(c.factored, entries)
		}
	}
}

// addTrips pairs how often the blocks that loops begin with ran for each time that they were entered.
func (c *comparison) addTrips(code *documentCode) {
	falls := map[*document.Proc][]*fallThrough{}
	for i := range code.falls {
		falls[code.falls[i].proc] = append(falls[code.falls[i].proc], &code.falls[i])
	}
	for _, p := range code.procs {
		g := newGraph(p)
		for _, t := range slices.SortedFunc(maps.Keys(g.jumps), Transfer.Compare) {
			if pair := code.branches[t]; pair != nil {
				g.link(t.From, t.To, pair.est, pair.truth)
			}
		}
		for _, f := range falls[p] {
			g.link(image.Addr(f.From), image.Addr(f.To), float64(f.Count), f.truth)
		}
		c.trips = append(c.trips, g.trips(code)...)
	}
}

// A graph is the flow graph of a procedure of a document.
type graph struct {
	p     *document.Proc
	at    map[image.Addr]int
	jumps map[Transfer]bool
	edges []graphEdge
	out   [][]int // by block: edges
	in    [][]int
}

type graphEdge struct {
	from, to   int
	est, truth float64 // executions
}

func newGraph(p *document.Proc) *graph {
	g := &graph{p: p, at: map[image.Addr]int{}, jumps: map[Transfer]bool{}, out: make([][]int, len(p.Blocks)), in: make([][]int, len(p.Blocks))}
	for i, b := range p.Blocks {
		g.at[image.Addr(b.Addr)] = i
	}
	for _, e := range p.Edges {
		if e.Kind != image.FallThrough.String() {
			g.jumps[Transfer{image.Addr(e.From), image.Addr(e.To)}] = true
		}
	}
	return g
}

func (g *graph) link(from, to image.Addr, est, truth float64) {
	i, ok := g.at[from]
	j, in := g.at[to]
	if !ok || !in {
		return
	}
	g.out[i], g.in[j] = append(g.out[i], len(g.edges)), append(g.in[j], len(g.edges))
	g.edges = append(g.edges, graphEdge{i, j, est, truth})
}

// trips pairs the natural loops that ran: those of blocks that dominate others which lead back to
// them. Loops of one first block are one.
func (g *graph) trips(code *documentCode) (all []pairing) {
	dom := g.dominators()
	type loop struct {
		pair pairing
		body []bool
		size int
	}
	var loops []loop
	for h, b := range g.p.Blocks {
		// A block of several images is that of the last, as everywhere.
		block := code.find(image.Addr(b.Addr))
		if block == nil || block.proc != g.p || block.pair.truth == 0 {
			continue
		}
		l := loop{body: make([]bool, len(g.p.Blocks))}
		var estBack, truthBack float64
		var work []int
		for _, e := range g.in[h] {
			if edge := &g.edges[e]; dom.Dominates(h, edge.from) {
				estBack, truthBack = estBack+edge.est, truthBack+edge.truth
				work = append(work, edge.from)
			}
		}
		entered := block.pair.truth - truthBack
		if len(work) == 0 || entered <= 0 {
			continue
		}
		l.body[h], l.size = true, 1
		for len(work) > 0 {
			v := work[len(work)-1]
			if work = work[:len(work)-1]; !l.body[v] {
				l.body[v], l.size = true, l.size+1
				for _, e := range g.in[v] {
					work = append(work, g.edges[e].from)
				}
			}
		}
		// Whole executions: less than one is none, and the loop may have been entered once all the same.
		l.pair = pairing{est: float64(b.Count) / max(1, float64(b.Count)-estBack), truth: block.pair.truth / entered}
		loops = append(loops, l)
	}
	slices.SortStableFunc(loops, func(a, b loop) int { return cmp.Compare(a.size, b.size) })
	for v, b := range g.p.Blocks {
		for i := range loops {
			if loops[i].body[v] {
				if block := code.find(image.Addr(b.Addr)); block != nil {
					loops[i].pair.samples += block.pair.samples
				}
				break
			}
		}
	}
	for i := range loops {
		all = append(all, loops[i].pair)
	}
	return all
}

// dominators returns the dominators of blocks. Blocks that no other leads
// to are entered from outside.
func (g *graph) dominators() *image.DomTree {
	next := make([][]int, len(g.p.Blocks))
	var entries []int
	for v := range next {
		for _, e := range g.out[v] {
			next[v] = append(next[v], g.edges[e].to)
		}
		if v == 0 || len(g.in[v]) == 0 {
			entries = append(entries, v)
		}
	}
	return image.Dominators(next, entries)
}
