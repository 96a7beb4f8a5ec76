package feedback

import (
	"cmp"
	"math"
	"slices"
)

// A settler writes a profile in place of an old one so that it differs in few places:
// what two recordings of one workload could differ by stays as it was. Of three of
// SQLite with 23,000 samples each, any two have 15 to 19 % of the counts of an LLVM
// profile in common, and 97 to 98 % when settled; of 61,000 lines, 47,000 or more
// differ, or 2,000 and fewer. Half of the counts move by a factor of 2 or more, nearly all of them counts of
// code that is not hot. Of the calls in two Go profiles of goldmark, with 1,700 samples
// each, 9 to 11 % have the same weight, and 95 % when settled; 580 decisions differ, or 39.
// Profiles that are settled once and again do not become old: hot counts stay within a
// factor of 2 of what is counted now.
type settler struct {
	scale           float64 // new counts for an old one: recordings differ in length
	clearOld, clear uint64  // counts below which no change is clear, in the old profile and in the new one
}

// settledFactor is how far a hot count may move and be the same: infer.Medium promises
// this factor.
const settledFactor = 2

// count returns what is written for a count.
func (s *settler) count(old, now uint64) uint64 {
	scaled := s.scaled(now)
	if old < s.clearOld && now < s.clear || scaled <= old*settledFactor && old <= scaled*settledFactor {
		return old
	}
	return scaled
}

// scaled returns what an old recording would have counted.
func (s *settler) scaled(now uint64) uint64 { return whole(float64(now) / s.scale) }

// A ratio is of a new count to an old one, and how much it counts.
type ratio struct{ of, weight float64 }

// medianRatio returns the ratio that half of the weight is below; 1 if there are none.
func medianRatio(ratios []ratio) float64 {
	slices.SortFunc(ratios, func(a, b ratio) int { return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.weight, b.weight)) })
	var sum, all float64
	for _, r := range ratios {
		all += r.weight
	}
	for _, r := range ratios {
		if sum += r.weight; 2*sum >= all {
			return r.of
		}
	}
	return 1
}

func ratioOf(old, now uint64) ratio {
	return ratio{float64(now) / float64(old), math.Sqrt(float64(old)) * math.Sqrt(float64(now))}
}

// newSettler compares two sample profiles.
func newSettler(old, now map[string]*function) *settler {
	var ratios []ratio
	for _, name := range sortedKeys(now, cmp.Compare) {
		if o := old[name]; o != nil {
			ratios = appendRatios(ratios, o, now[name])
		}
	}
	return &settler{medianRatio(ratios), distributionOf(old).hot, distributionOf(now).hot}
}

func appendRatios(ratios []ratio, old, now *function) []ratio {
	for at, n := range now.body {
		if o := old.body[at]; o > 0 && n > 0 {
			ratios = append(ratios, ratioOf(o, n))
		}
	}
	for c, f := range now.inlined {
		if o := old.inlined[c]; o != nil {
			ratios = appendRatios(ratios, o, f)
		}
	}
	return ratios
}

// functions returns what is written for the functions of a profile. Old ones that have
// no counts any more stay if they are there, and were not hot.
func (s *settler) functions(old, now map[string]*function, there func(name string) bool) map[string]*function {
	out := map[string]*function{}
	for name, f := range now {
		if o := old[name]; o == nil || s.edited(o, f) {
			if f = s.anew(f); o != nil || f.most() >= s.clearOld {
				out[name] = f
			}
		} else {
			out[name] = s.function(o, f)
		}
	}
	for name, o := range old {
		if now[name] == nil && there(name) {
			out[name] = s.function(o, newFunction())
		}
	}
	return out
}

// edited reports whether hot lines are new or gone: then others have moved, too.
func (s *settler) edited(old, now *function) bool {
	for at, n := range old.body {
		if _, ok := now.body[at]; !ok && n >= s.clearOld {
			return true
		}
	}
	for at, n := range now.body {
		if _, ok := old.body[at]; !ok && n >= s.clear {
			return true
		}
	}
	return false
}

// function returns what is written for a function that has counts in both profiles.
func (s *settler) function(old, now *function) *function {
	f := newFunction()
	f.checksum = now.checksum
	f.total, f.head = s.count(old.total, now.total), s.count(old.head, now.head)
	settleCounts(s, f.body, old.body, now.body)
	for at := range f.body {
		if len(old.calls[at])+len(now.calls[at]) > 0 {
			f.calls[at] = map[string]uint64{}
			settleCounts(s, f.calls[at], old.calls[at], now.calls[at])
		}
	}
	for c, o := range old.inlined {
		if n := now.inlined[c]; n != nil {
			f.inlined[c] = s.function(o, n)
		} else if o.total < s.clearOld {
			f.inlined[c] = s.function(o, newFunction())
		}
	}
	for c, n := range now.inlined {
		if old.inlined[c] == nil {
			if g := s.function(newFunction(), n); len(g.body)+len(g.inlined) > 0 {
				f.inlined[c] = g
			}
		}
	}
	return f
}

// settleCounts puts what is written for counts into out. A count of 0 is one that
// both have, or the old one.
func settleCounts[K comparable](s *settler, out, old, now map[K]uint64) {
	for k, o := range old {
		n, both := now[k]
		if v := s.count(o, n); v > 0 || v == o || both {
			out[k] = v
		}
	}
	for k, n := range now {
		if _, both := old[k]; !both {
			if v := s.count(0, n); v > 0 {
				out[k] = v
			}
		}
	}
}

// anew returns f with all counts as an old recording would have them.
func (s *settler) anew(f *function) *function {
	g := newFunction()
	g.total, g.head, g.checksum = s.scaled(f.total), s.scaled(f.head), f.checksum
	for at, n := range f.body {
		g.body[at] = s.scaled(n)
	}
	for at, callees := range f.calls {
		for callee, n := range callees {
			g.addCall(at, callee, s.scaled(n))
		}
	}
	for c, in := range f.inlined {
		g.inlined[c] = s.anew(in)
	}
	return g
}

// most returns the largest count of f's lines.
func (f *function) most() uint64 {
	return slices.Max(append(f.counts(nil), 0))
}

// distributionOf returns the distribution of the counts of all lines.
func distributionOf(funcs map[string]*function) *distribution {
	lines := map[uint64]uint64{}
	for _, f := range funcs {
		for _, n := range f.counts(nil) {
			lines[n]++
		}
	}
	return newDistribution(lines)
}
