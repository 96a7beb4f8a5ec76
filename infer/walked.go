package infer

import (
	"cmp"
	"maps"
	"slices"

	"backfeed/sample"
)

// Walks see where indirect branches go. The shares of few that were seen go for all executions of a branch, which are
// inferred; so a procedure that is reached through pointers is tied to those who call it, as far as walks met them.

// arrivals are what walks saw lead to a procedure: by branch, those of a stub by its start.
type arrivals map[target]arrival

type arrival struct {
	n        float64 // executions, as many as tell as much if each tells by itself
	variance float64 // of the logarithm of the share that they are of all of the branch
}

// see reads where walks saw indirect branches go.
func (l *links) see(counts []*sample.Counts) {
	went := map[target]map[target]float64{}
	for _, c := range counts {
		place := l.placing(c)
		for b, n := range c.Targets {
			from := place(b.From)
			if from.image == nil {
				continue
			}
			if im := from.image.Image; im.Find(from.addr) >= 0 {
				if s := &im.Symbols()[im.Find(from.addr)]; im.IsStub(s.Addr) {
					from.addr = s.Addr
				}
			}
			if went[from] == nil {
				went[from] = map[target]float64{}
			}
			went[from][place(b.To)] += float64(n) / visitClump // without rounding, in whatever order
		}
	}
	for from, to := range went {
		l.divide(from, to)
	}
}

// placing returns what places frames of c; those that are in no known image at the zero target.
func (l *links) placing(c *sample.Counts) func(sample.Frame) target {
	images := profilesOf(c, l.images)
	return func(f sample.Frame) target {
		if f.Image == sample.Unknown || images[f.Image] == nil {
			return target{}
		}
		a, ok := images[f.Image].Image.AddrOf(f.Off)
		if !ok {
			return target{}
		}
		return target{images[f.Image], a}
	}
}

// divide divides the executions of a branch among the places where it was seen to go so often. One more is thought of,
// where it was not seen to go; each has half an execution that nobody saw.
func (l *links) divide(from target, to map[target]float64) {
	all := 0.5
	for _, n := range to {
		all += n + 0.5
	}
	_, less := logGamma(all)
	for _, t := range slices.SortedFunc(maps.Keys(to), l.compare) {
		if t.image == nil {
			continue
		}
		_, variance := logGamma(to[t] + 0.5)
		l.walked[from] = append(l.walked[from], lead{target: t, share: (to[t] + 0.5) / all, branch: from})
		if l.seen[t] == nil {
			l.seen[t] = arrivals{}
		}
		l.seen[t][from] = arrival{to[t], max(variance-less, 0)}
	}
}

// compare orders targets by image and address.
func (l *links) compare(a, b target) int {
	return cmp.Or(cmp.Compare(slices.Index(l.images, a.image), slices.Index(l.images, b.image)), cmp.Compare(a.addr, b.addr))
}

// variance returns that of the logarithm of the calls by known branches.
func (a arrivals) variance(l *links, known map[target]bool) (v float64) {
	var all float64
	for _, from := range slices.SortedFunc(maps.Keys(known), l.compare) {
		n := a[from].n
		all += n
		v += n * n * a[from].variance
	}
	if all == 0 {
		return 0
	}
	return v / (all * all)
}

// unseen returns what share of the arrivals is thought to be by branches other than known ones. That of those
// which were not seen is about the share of those that were seen once: Good's estimate (The Population Frequencies of
// Species and the Estimation of Population Parameters, Biometrika 40, 1953), here of half of one more.
func (a arrivals) unseen(known map[target]bool) float64 {
	all, other := 1.0, 0.5
	for from, by := range a {
		all += by.n
		if !known[from] || by.n*visitClump <= 1 {
			other += by.n
		}
	}
	return other / all
}

// mostUnseen is the share of unseen arrivals from which on nothing is made of those that were seen.
const mostUnseen = 0.5
