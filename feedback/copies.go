package feedback

import (
	"cmp"
	"slices"
)

// Go's compiler looks a call up by the function that it compiles and the call's line, counted from that
// function's first (CallSiteInfo in cmd/compile/internal/inline). When it has inlined B into A, it looks calls
// of B's copy up again, as calls of A, at B's lines counted from the first of A: the weight that they have in B does
// not count. Of two hot calls, A to B and B to C, C is then a call in A's copy of B, where without a profile it may
// not have been inlined either, but C's part of the gain is lost; of a loop in B, that is most of it. So a
// profile has to say of C that it is hot in A as well, under the name that the compiler has for it.
//
// And what is inlined into B counts for the cost of B (hairyVisitor.doNode). A small B, which is inlined without a
// profile, may cost too much with C in it, and is then inlined only where calls of it are hot: a slow path
// that becomes hot takes what is fast out of line everywhere else.

// copyDepth is how many functions deep, each inlined into the one before, calls are looked for.
const copyDepth = 3

// addCopies adds the calls that are hot and will be in a copy of what calls them, if the
// compiler inlines what is hot. Each has the executions that its share of the calls of the function copied
// brings to it, if those make it hot by themselves, quantised if round is true.
func (g *goWriter) addCopies(round bool) {
	hot := g.hot()
	if len(hot) == 0 {
		return
	}
	least := float64(g.edges[hot[len(hot)-1]].n)
	from := map[goFunc][]goEdge{}
	for _, e := range hot {
		from[e.caller] = append(from[e.caller], e)
	}
	into := map[goFunc]float64{}
	for e, w := range g.edges {
		into[e.callee] += float64(w.n)
	}
	copies := map[goEdge]float64{}
	// copied are the functions that are inlined into the first of them, each into the one before;
	// share is the part of the executions of the last that is in that copy.
	var add func(copied []goFunc, share float64)
	add = func(copied []goFunc, share float64) {
		for _, e := range from[copied[len(copied)-1]] {
			n := float64(g.edges[e].n) * share
			if n < least || slices.Contains(copied, e.callee) { // what calls itself is not inlined into itself
				continue
			}
			caller := copied[0]
			caller.file = e.caller.file // that people see the line in
			copies[goEdge{caller, e.line, e.callee}] += n
			if len(copied) <= copyDepth {
				add(append(copied, e.callee), n/into[e.callee])
			}
		}
	}
	for _, e := range hot {
		if e.caller != e.callee {
			add([]goFunc{e.caller, e.callee}, float64(g.edges[e].n)/into[e.callee])
		}
	}
	for e, n := range copies {
		if g.edges[e] != nil {
			continue
		}
		w := &goWeight{copied: true, n: int64(n)}
		if round {
			w.n = int64(quantise(uint64(n)))
		}
		g.edges[e] = w
	}
}

// hot returns the calls that the compiler takes for hot, the hottest first.
func (g *goWriter) hot() []goEdge {
	var total, sum uint64
	keys := g.keys()
	for _, e := range keys {
		total += uint64(g.edges[e].n)
	}
	slices.SortStableFunc(keys, func(a, b goEdge) int { return cmp.Compare(g.edges[b].n, g.edges[a].n) })
	for i, e := range keys {
		if g.edges[e].n == 0 || !goHot(float64(sum)/float64(total)) {
			return keys[:i]
		}
		sum += uint64(g.edges[e].n)
	}
	return keys
}

// dropSlow takes away the weight of calls that cost more than they bring: those of a function that is inlined
// where it is not hot, more often than it makes the call.
func (g *goWriter) dropSlow() {
	cold := map[goFunc]float64{} // executions of copies of a function where calls of it are not hot
	for e, w := range g.edges {
		if w.inlined {
			cold[e.callee] += float64(w.n)
		}
	}
	hot := g.hot()
	for _, e := range hot {
		if w := g.edges[e]; w.inlined {
			cold[e.callee] -= float64(w.n)
		}
	}
	for _, e := range hot {
		if w := g.edges[e]; !w.inlined && cold[e.caller] > float64(w.n) {
			g.skip(SkipSlow, float64(w.n)*g.stats.Scale)
			w.n = 0
		}
	}
}
