package feedback

import (
	"bytes"
	"slices"

	"github.com/google/pprof/profile"
)

// round quantises all weights, or settles them with those of an old profile if
// WriteGo wrote it.
func (g *goWriter) round(old []byte) {
	before, samples := goEdges(old)
	if len(before) == 0 {
		for _, w := range g.edges {
			w.n = int64(quantise(uint64(w.n)))
		}
		return
	}
	var ratios []ratio
	now := map[goEdge]uint64{}
	for e, w := range g.edges {
		now[e] = uint64(w.n)
		if o := before[e]; o > 0 && w.n > 0 {
			ratios = append(ratios, ratioOf(o, uint64(w.n)))
		}
	}
	least := max(leastClear(samples), leastClear(float64(g.Samples)))
	s := settler{medianRatio(ratios), clearWeight(before, least), clearWeight(now, least)}
	there := g.there()
	for e := range before {
		if there[e.caller.name] && there[e.callee.name] {
			g.at(e)
		}
	}
	changed := changedSites(before, now, min(samples, float64(g.Samples)))
	for e, w := range g.edges {
		n := s.count(before[e], uint64(w.n))
		if changed[e.named().site()] {
			n = s.scaled(uint64(w.n))
		}
		w.n = int64(quantise(n))
	}
}

// changedSites returns the calls about which the compiler would clearly decide otherwise
// by the quantised weights.
func changedSites(before, now map[goEdge]uint64, samples float64) map[string]bool {
	var sides [2]*Decisions
	for i, edges := range []map[goEdge]uint64{before, now} {
		weights := map[namedCall]int64{}
		for e, n := range edges {
			weights[e.named()] += int64(quantise(n))
		}
		sides[i] = &Decisions{whole: Inline, Samples: samples, made: map[Choice]decided{}}
		sides[i].decideGo(weights, nil)
	}
	changed := map[string]bool{}
	for _, c := range Diff(sides[0], sides[1]) {
		if c.Clear {
			changed[c.Site] = true
		}
	}
	return changed
}

func (e goEdge) named() namedCall {
	return namedCall{e.caller.name, e.callee.name, e.line - e.caller.start}
}

// clearWeight returns the weight from which on a call is hot and has so large a share.
func clearWeight(edges map[goEdge]uint64, share float64) uint64 {
	calls := map[uint64]uint64{} // by their weights
	for _, n := range edges {
		calls[n]++
	}
	d := newDistribution(calls)
	return max(d.hot, whole(share*float64(d.total)))
}

// there returns the names of functions that the image has, or has inlined and sampled.
func (g *goWriter) there() map[string]bool {
	names := map[string]bool{}
	for _, s := range g.code.Symbols() {
		names[s.Name] = true
	}
	for e := range g.edges {
		names[e.caller.name], names[e.callee.name] = true, true
	}
	return names
}

// goEdges returns the edges of a profile that WriteGo wrote, with their weights, and how
// many samples it was made of; no edges of other profiles, whose samples are stacks
// or whose weights are more than WriteGo writes.
func goEdges(b []byte) (map[goEdge]uint64, float64) {
	p, err := profile.Parse(bytes.NewReader(b))
	if err != nil {
		return nil, 0
	}
	edges := map[goEdge]uint64{}
	left := int64(maxWeight)
	unfit := func(l *profile.Location) bool { return len(l.Line) != 1 || l.Line[0].Function == nil }
	for _, s := range p.Sample {
		n := s.Value[0]
		if n == 0 || isCopy(s) {
			continue
		}
		if len(s.Location) != 2 || slices.ContainsFunc(s.Location, unfit) || n < 0 || n > left {
			return nil, 0
		}
		left -= n
		callee, caller := s.Location[0].Line[0], s.Location[1].Line[0]
		e := goEdge{pprofFunc(caller.Function), int(caller.Line), pprofFunc(callee.Function)}
		edges[e] += uint64(n)
	}
	return edges, samplesOf(p)
}

func pprofFunc(f *profile.Function) goFunc { return goFunc{f.Name, int(f.StartLine), f.Filename} }
