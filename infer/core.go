package infer

import (
	"math"
	"slices"
)

// A core is a problem without the regions where hardly anything ran: there is nothing
// in them to learn, and three blocks in four of the procedures of gcc's cc1 with samples
// are there. The probabilities of their out-edges stay as they are. A block that control
// enters such a region by stays in the core, and stands for all that runs from there: it has
// out-edges that lead to where the region is left, and the cost of what lies between. So
// live blocks, which are all others in the core, run as often as in the whole
// problem, and as many samples are expected.
type core struct {
	*problem         // p is that of the whole problem, but blocks are numbered by themselves
	block    []int32 // by block: that of the whole problem
	out      []int32 // by out-edge: that of the whole problem, -1 for those that cross a region
	unknown  []int32 // by unknown: that of the whole problem
	at       []int32 // by block of the whole problem: that of the core, or -1
}

// hardlyRuns is how many samples a block is expected to have at most for a core to do without
// it. Over twelve programs the mean block overlap is 0.721 with 0.05, 0.1 and 0.2.
const hardlyRuns = 0.1

// mainSite is the share of the calls of a procedure that makes a call site one that a
// core must not do without.
const mainSite = 0.1

// contract returns all busy problems their cores. The state of the problems is that of a
// search of each by itself.
func (pr *program) contract(whole bool) {
	pr.each(func(i int) {
		if q := pr.probs[i]; q.busy() {
			q.live = make([]bool, len(q.n))
			for b, n := range q.n {
				q.live[b] = whole || len(q.known) > 0 || len(q.visits) > 0 || q.samples[b] > 0 || q.brings(b, n) > hardlyRuns
			}
			for _, d := range q.dispatches {
				q.live[d.block] = true // what it leads to is searched for
			}
		}
	})
	// A procedure with samples was called: a search of its callers by themselves did
	// not know that.
	for _, t := range pr.ties {
		if pr.probs[t.callee].live == nil {
			continue
		}
		sum := t.calls()
		for _, s := range t.sites {
			if s.q.live != nil && s.calls() >= mainSite*sum {
				s.q.live[s.block] = true
			}
		}
	}
	pr.each(func(i int) {
		if q := pr.probs[i]; q.live != nil {
			if q.core = q.contract(); q.core == nil {
				for b := range q.live {
					q.live[b] = true
				}
				q.core = q.contract()
			}
			q.live = nil
		}
	})
}

// contract returns the core of the live blocks, or nil if the elimination of the others, or
// of it, would fill up.
func (q *problem) contract() *core {
	f := q.flow
	c := &core{problem: problems.one(), at: make([]int32, f.blocks)}
	c.p, c.par, c.flow = q.p, q.par, flows.one()
	c.choose(q)
	cross := q.cross()
	if cross == nil {
		return nil
	}
	g := c.flow
	g.blocks, g.first = len(c.block), indexes.take(len(c.block) + 1)[:1]
	arcs := 0
	for _, b := range c.block {
		if q.live[b] {
			arcs += int(f.first[b+1] - f.first[b])
		} else {
			arcs += len(cross.ends[b])
		}
	}
	g.outs, c.out = outEdges.take(arcs)[:0], indexes.take(arcs)[:0]
	lead := func(to, w int32) {
		if to != leave {
			to = c.at[to]
		}
		g.outs, c.out = append(g.outs, outEdge{to, -1}), append(c.out, w)
	}
	for _, b := range c.block {
		if q.live[b] {
			for w := f.first[b]; w < f.first[b+1]; w++ {
				lead(f.outs[w].to, w)
			}
		} else {
			for _, e := range cross.ends[b] {
				lead(e.to, -1)
			}
		}
		g.first = append(g.first, int32(len(g.outs)))
	}
	for i, b := range f.entries {
		g.entries, c.unknown = append(g.entries, c.at[b]), append(c.unknown, int32(i))
	}
	at := int32(len(f.entries))
	for _, b := range q.branch {
		n := int32(f.logits(b))
		if q.live[b] {
			c.branch = append(c.branch, c.at[b])
			for u := range n {
				c.unknown = append(c.unknown, at+u)
			}
		}
		at += n
	}
	c.unknown = append(c.unknown, at)
	if !g.eliminate() {
		return nil
	}
	c.allocate()
	if q.system != nil {
		c.system, c.beside = make([]float64, len(c.cost)), make([]float64, len(c.cost))
	}
	for i, b := range c.block {
		if q.system != nil {
			c.system[i], c.beside[i] = q.system[b], q.beside[b]
		}
		c.samples[i], c.cost[i], c.fetch[i] = q.samples[b], cross.cost[b], cross.fetch[b]
		c.insts[i], c.invVar[i] = q.insts[b], q.invVar[b]
		if !q.live[b] {
			for k, e := range cross.ends[b] {
				c.prob[int(g.first[i])+k] = e.part
			}
		}
	}
	c.expect(nil)
	c.mayMiss(q.mispredict)
	if q.risk != nil {
		c.risk = make([]float64, len(c.block))
		for i, b := range c.block {
			c.risk[i] = q.risk[b]
		}
	}
	c.center, c.sure, c.diag = c.gather(q.center), c.gather(q.sure), c.gather(q.diag)
	c.commonSD = q.commonSD
	c.visits, c.level, c.sureLevel = q.visits, q.level, q.sureLevel
	c.multiways = q.multiways
	for _, b := range q.arms {
		if c.at[b] >= 0 {
			c.arms = append(c.arms, c.at[b])
		}
	}
	c.known = q.known // if there are any, or visits, all blocks are live
	return c
}

// choose numbers the blocks of the core: those that are live, and those that control enters
// the others by.
func (c *core) choose(q *problem) {
	in := slices.Clone(q.live)
	for _, b := range q.flow.entries {
		in[b] = true
	}
	for b, l := range q.live {
		if l {
			for _, w := range q.flow.outsOf(b) {
				if w.to != leave {
					in[w.to] = true
				}
			}
		}
	}
	for b := range in {
		c.at[b] = -1
		if in[b] {
			c.at[b] = int32(len(c.block))
			c.block = append(c.block, int32(b))
		}
	}
}

// A crossing tells of each block that is not live where control that enters there goes
// on, and what it costs until then.
type crossing struct {
	live  []bool
	ends  [][]end   // by block
	cost  []float64 // by block: samples; of live ones, those of the block itself
	fetch []float64 // likewise, divided by the square root of the executions
	room  int       // for so many more ends

	to  []int32   // where the present block leads
	sum []float64 // by to+1: the probability
}

// An end is a block that control goes on at, or leave, with its part of all that
// does.
type end struct {
	to   int32
	part float64
}

// cross eliminates the blocks that are not live, from the last to the first. Jumps back
// then still lead to such blocks, and are followed from the first to the last. It returns
// nil if the ends become too many; gcc's cc1 has six for each block at most.
func (q *problem) cross() *crossing {
	f := q.flow
	c := &crossing{live: q.live, ends: make([][]end, f.blocks), cost: slices.Clone(q.cost), fetch: slices.Clone(q.fetch), sum: make([]float64, f.blocks+1)}
	c.room = maxFill * (f.blocks + 16)
	for b := int32(f.blocks) - 1; b >= 0 && c.room >= 0; b-- {
		if !c.live[b] {
			for w := f.first[b]; w < f.first[b+1]; w++ {
				c.add(f.outs[w].to, q.prob[w])
			}
			c.settle(b, b)
		}
	}
	for b := int32(0); b < int32(f.blocks) && c.room >= 0; b++ {
		if !c.live[b] {
			for _, e := range c.ends[b] {
				c.add(e.to, e.part)
			}
			c.settle(b, leave)
		}
	}
	if c.room < 0 {
		return nil
	}
	return c
}

// add lets the present block lead to another one.
func (c *crossing) add(to int32, p float64) {
	if p > 0 {
		if c.sum[to+1] == 0 {
			c.to = append(c.to, to)
		}
		c.sum[to+1] += p
	}
}

// settle replaces where b leads by where control goes on from there, if that is a block
// above the one given that is not live.
func (c *crossing) settle(b, above int32) {
	for {
		last := above
		for _, to := range c.to {
			if to > last && !c.live[to] && c.sum[to+1] > 0 {
				last = to
			}
		}
		if last == above {
			break
		}
		p := c.sum[last+1]
		c.sum[last+1] = 0
		c.cost[b] += p * c.cost[last]
		c.fetch[b] += math.Sqrt(p) * c.fetch[last]
		for _, e := range c.ends[last] {
			c.add(e.to, p*e.part)
		}
	}
	c.sum[b+1] = 0 // comes back at once
	var all float64
	for _, to := range c.to {
		all += c.sum[to+1]
	}
	all = max(all, 1e-300)
	c.cost[b] /= all
	c.fetch[b] /= math.Sqrt(all)
	c.room += len(c.ends[b])
	ends := c.ends[b][:0]
	for _, to := range c.to {
		if p := c.sum[to+1]; p > 0 {
			ends = append(ends, end{to, p / all})
		}
		c.sum[to+1] = 0
	}
	if len(ends) == 0 { // all out-edges have underflown
		ends = []end{{leave, 1}}
	}
	c.room -= len(ends)
	c.ends[b], c.to = ends, c.to[:0]
}

// gather returns the unknowns of the core among x, by the unknowns of the whole problem.
func (c *core) gather(x []float64) []float64 {
	if x == nil {
		return nil
	}
	y := make([]float64, len(c.unknown))
	for i, u := range c.unknown {
		y[i] = x[u]
	}
	return y
}

// scatter puts y, the unknowns of the core, into x.
func (c *core) scatter(y, x []float64) {
	for i, u := range c.unknown {
		x[u] = y[i]
	}
}

// core returns s in the core of its procedure, if its block is live. Others call as often as
// they do.
func (s site) core() site {
	c := s.q.core
	if c == nil || c.at[s.block] < 0 {
		return s
	}
	in := site{c.problem, c.at[s.block], -1, s.share}
	first := c.flow.first[in.block]
	if c.out[first] < 0 {
		return s
	}
	if s.out >= 0 {
		in.out = first + s.out - s.q.flow.first[s.block]
	}
	return in
}

// spread returns s, a spread of the core, as one of q, the whole problem. Blocks that are
// not in the core are as uncertain as one branch is: over twelve programs a few more of
// those that never ran are called cold than by disturbed searches of the whole, with less of
// the executions.
func (c *core) spread(q *problem, s spread) spread {
	t := spread{level: s.level, block: make([]float64, len(q.n)), out: make([]float64, len(q.prob)), drawn: s.drawn, drawnOut: s.drawnOut}
	fillWith(t.block, q.par.outSD)
	fillWith(t.out, q.par.outSD)
	for i, b := range c.block {
		t.block[b] = s.block[i]
	}
	if s.ask != nil {
		t.ask = make([]float64, len(q.n))
		fillWith(t.ask, 1)
		for i, b := range c.block {
			t.ask[b] = s.ask[i]
		}
	}
	if s.askOut != nil {
		t.askOut = make([]float64, len(q.prob))
		fillWith(t.askOut, 1)
		for i, w := range c.out {
			if w >= 0 {
				t.askOut[w] = s.askOut[i]
			}
		}
	}
	for i, w := range c.out {
		if w >= 0 {
			t.out[w] = s.out[i]
		}
	}
	return t
}
