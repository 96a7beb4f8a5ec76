package feedback

import (
	"cmp"
	"path/filepath"
	"slices"

	"backfeed/feedback/gcov"
	"backfeed/infer"
	"backfeed/infer/image"
)

// assignments is how often blocks that share lines are assigned anew. sharedWeight is what such a one weighs.
const assignments, sharedWeight = 4, 0.8

// A testimony is what lines say of one copy of a function.
type testimony struct {
	of     *copyOf
	blocks map[position][]int     // of the graph, by place
	seen   map[int][]float64      // by block: what lines say that it has alone
	counts map[position][]float64 // of lines that blocks share
	discs  map[position][]uint32  // discriminators of those counts, if they have such
	most   float64                // that is said of any
}

// testimony returns what lines say of a copy.
func (c *chart) testimony(of *copyOf, from map[image.Addr][]inflow) *testimony {
	w := &testimony{seen: map[int][]float64{}, counts: map[position][]float64{}, discs: map[position][]uint32{}}
	w.of, w.blocks = c.placed(of)
	of = w.of
	discerns := of.discerns()
	for _, at := range sortedKeys(of.at, comparePositions) {
		bs := w.blocks[at]
		if len(bs) == 1 && of.replaced(at) {
			continue
		}
		if of.enters >= 0 && c.opens(at, bs) {
			w.sees(bs[0], of.enters)
			w.most = max(w.most, of.enters)
			continue
		}
		var some []image.Addr
		var counts []float64
		for _, k := range sortedKeys(of.at[at], cmp.Compare) {
			w.most = max(w.most, of.at[at][k])
			if c.tells(w, at, k) {
				some, counts = append(some, k), append(counts, of.at[at][k])
			}
		}
		if len(some) > 0 {
			leads := c.leadTo(bs)
			for i, k := range some {
				counts[i] = max(0, counts[i]-of.foreign(w.blocks, from, leads, k))
			}
		}
		if len(bs) > 1 && discerns {
			counts, w.discs[at] = of.byDiscriminator(at, some, counts)
			bs = slices.Clone(bs)
			slices.SortStableFunc(bs, func(a, b int) int { return cmp.Compare(c.discs[a], c.discs[b]) })
			w.blocks[at] = bs
		}
		if w.counts[at] = counts; len(bs) == 1 && len(counts) > 0 {
			w.sees(bs[0], slices.Max(counts))
		}
	}
	for _, at := range sortedKeys(of.calls, comparePositions) {
		calls := slices.DeleteFunc(slices.Clone(c.calls[at.line]), func(b int) bool { return !slices.Contains(w.blocks[at], b) })
		if len(calls) == 0 { // what is called does not end the program
			calls = w.blocks[at]
		}
		if n := of.callsOf(at); len(calls) == 1 {
			w.sees(calls[0], n)
			w.most = max(w.most, n)
		}
	}
	return w
}

// sees adds that lines say that a block ran n times.
func (w *testimony) sees(block int, n float64) { w.seen[block] = append(w.seen[block], n) }

// tells reports whether how often a block of code ran tells how often its line at a place did.
func (c *chart) tells(w *testimony, at position, block image.Addr) bool {
	of, bs := w.of, w.blocks[at]
	alone := len(bs) == 1
	if !of.acts[at][block] && (len(of.holds[block]) > 1 || alone && c.branches(bs[0])) {
		return false
	}
	if !alone {
		return true
	}
	_, chosen := of.chosen[at][block]
	fetched := len(of.does[at]) > 0 && !of.does[at][block]
	return !chosen && !fetched && (len(of.stays[at]) == 0 || of.stays[at][block] || !c.before(of, w.blocks, at, block))
}

// shared returns the places whose counts are of several blocks, not all of which have one alone.
func (w *testimony) shared() (some []position) {
	for _, at := range sortedKeys(w.of.at, comparePositions) {
		if len(w.counts[at]) > 0 && slices.ContainsFunc(w.blocks[at], func(b int) bool { return w.seen[b] == nil }) {
			some = append(some, at)
		}
	}
	return some
}

// assign returns what blocks have of the counts of places that they share, by what they have in flow n.
func (c *chart) assign(w *testimony, shared []position, n []float64) map[int][]float64 {
	told, left := map[int][]float64{}, mostCosts
	for _, at := range shared {
		bs, counts, how := w.blocks[at], w.counts[at], nearest
		if costs := len(bs) * len(counts); costs <= left {
			left, how = left-costs, c.assignBy(w.discs[at])
		}
		for i, k := range how(bs, n, counts, w.most/1000) {
			if k >= 0 && (counts[k] >= w.of.choices(at) || c.branches(bs[i])) {
				told[bs[i]] = append(told[bs[i]], counts[k])
			}
		}
	}
	return told
}

// fit returns the executions of all arcs by one copy, nil if it did not run, and how often it was entered, if lines say so.
func (c *chart) fit(g *infer.Graph, of *copyOf, from map[image.Addr][]inflow, cold float64) (arcs []float64, entered float64, ok bool) {
	w := c.testimony(of, from)
	if w.most == 0 {
		return nil, 0, true
	}
	if b := c.begins(func(b int) bool { return w.seen[b] != nil }); b >= 0 {
		entered, ok = median(w.seen[b]), true
	}
	var sure []infer.Seen
	for _, b := range sortedKeys(w.seen, cmp.Compare) {
		sure = append(sure, infer.Seen{Block: b, N: median(w.seen[b]), Weight: 1})
	}
	f := g.Start()
	f.Search(sure)
	known := sure
	if shared := w.shared(); len(shared) > 0 {
		for range assignments {
			told := c.assign(w, shared, f.Blocks())
			known = slices.Clone(sure)
			for _, b := range sortedKeys(told, cmp.Compare) {
				if w.seen[b] == nil {
					known = append(known, infer.Seen{Block: b, N: median(told[b]), Weight: sharedWeight})
				}
			}
			f.Search(known)
		}
	}
	f.Refine(known)
	if c.computed() {
		f.Never(known, cold)
	}
	return f.Edges(), entered, ok
}

// foreign returns how often control came to a block of code from what is of blocks of the graph that do not lead to where its line is: compilers
// join equal code of several lines, by the line of one of them. Without leads, it is not known what does.
func (of *copyOf) foreign(blocks map[position][]int, from map[image.Addr][]inflow, leads []bool, at image.Addr) (n float64) {
	if leads == nil {
		return 0
	}
	for _, in := range from[at] {
		if in.block == at || len(of.holds[in.block]) == 0 {
			continue
		}
		own := false
		for p := range of.holds[in.block] {
			own = own || len(blocks[p]) == 0 || slices.ContainsFunc(blocks[p], func(b int) bool { return leads[b] })
		}
		if !own {
			n += in.n
		}
	}
	return n
}

// leadTo returns which blocks control may come from to any of some, with these; nil of graphs too large for that.
func (c *chart) leadTo(some []int) []bool {
	if c.fn.Blocks > mostBlocks { // it is asked for each line
		return nil
	}
	if c.ins == nil {
		c.ins = c.inflows()
	}
	leads := make([]bool, c.fn.Blocks)
	next := slices.Clone(some)
	for len(next) > 0 {
		b := next[len(next)-1]
		if next = next[:len(next)-1]; leads[b] {
			continue
		}
		leads[b] = true
		next = append(next, c.ins[b]...)
	}
	return leads
}

// before reports whether a block of code is of what is before a side of a branch, which is the only block of a place: it has lines of
// the block that control comes to that from.
func (c *chart) before(of *copyOf, blocks map[position][]int, at position, block image.Addr) bool {
	if c.ins == nil {
		c.ins = c.inflows()
	}
	for _, b := range c.ins[blocks[at][0]] {
		if !c.branches(b) {
			continue
		}
		for p := range of.holds[block] {
			if p != at && len(blocks[p]) == 1 && blocks[p][0] == b {
				return true
			}
		}
	}
	return false
}

// inflows returns by block what control comes to it from.
func (c *chart) inflows() [][]int {
	ins := make([][]int, c.fn.Blocks)
	for _, a := range c.fn.Arcs {
		if a.Flags&gcov.Fake == 0 {
			ins[a.To] = append(ins[a.To], a.From)
		}
	}
	return ins
}

// branches reports whether a block has several sides. What was decided on the way to it, gcc does not test again there: it has that path go
// round it, and the line may be left with what jumps there, where it was not decided, or is again.
func (c *chart) branches(block int) bool {
	sides := 0
	for _, a := range c.fn.Arcs {
		if a.From == block && a.Flags&gcov.Fake == 0 {
			sides++
		}
	}
	return sides > 1
}

// computed reports whether control comes to blocks by computed gotos, as in an interpreter. There, what never ran has to be told from what
// hardly did: gcc has only code of no execution at all for cold (probably_never_executed in predict.cc), moves that away, and does not
// join the ends of blocks across (try_crossjump_bb in cfgcleanup.cc). With a little in each handler, it joined their jumps. In
// others, rare code is better off with its few executions: of zstd, samples took off 42 instead of 49 % of what counters do without.
func (c *chart) computed() bool {
	return slices.ContainsFunc(c.fn.Arcs, func(a gcov.Arc) bool { return a.From == gcov.Entry && a.Flags&gcov.Fake != 0 })
}

// opens reports whether a line is that on which the function begins, and of its first block alone. Instructions of it save registers, which is where these are
// needed, and may never run.
func (c *chart) opens(at position, blocks []int) bool {
	return at.within == "" && len(blocks) == 1 && at.line == (sourceLine{filepath.Base(c.fn.Source), c.fn.StartLine}) &&
		c.begins(func(b int) bool { return b == blocks[0] }) >= 0
}

// begins returns the first block which runs each time that the function is entered, and no other time, and is asked for; -1 if there is none.
func (c *chart) begins(asked func(block int) bool) int {
	outs, ins := make([][]int, c.fn.Blocks), make([]int, c.fn.Blocks)
	for _, a := range c.fn.Arcs {
		if a.Flags&gcov.Fake == 0 {
			outs[a.From] = append(outs[a.From], a.To)
			ins[a.To]++
		}
	}
	b := gcov.Entry
	for len(outs[b]) == 1 && ins[outs[b][0]] == 1 {
		if b = outs[b][0]; asked(b) {
			return b
		}
	}
	return -1
}

func compareLines(a, b sourceLine) int {
	return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
}

func comparePositions(a, b position) int {
	return cmp.Or(compareLines(a.line, b.line), cmp.Compare(a.within, b.within))
}

// median sorts n, and returns the middle one, of two the smaller: where compilers join code of several lines, or compute values early, one line has
// executions of others.
func median(n []float64) float64 {
	slices.Sort(n)
	return n[(len(n)-1)/2]
}
