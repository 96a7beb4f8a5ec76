package feedback

import (
	"cmp"
	"math/bits"
	"slices"
)

// What LLVM takes for hot and cold, in millionths of the sum of all counts
// (-profile-summary-cutoff-hot and -cold in ProfileSummaryBuilder.cpp).
const (
	llvmHotCutoff  = 990000
	llvmColdCutoff = 999999
)

// cutoffs are those of ProfileSummaryBuilder::DefaultCutoffs, in 1e-6.
var cutoffs = [...]uint64{10000, 100000, 200000, 300000, 400000, 500000, 600000, 700000, 800000,
	900000, 950000, 990000, 999000, 999900, 999990, 999999}

// A distribution is LLVM's ProfileSummary: the counts of all lines, by falling count.
type distribution struct {
	total     uint64
	counts    []uint64
	before    []uint64 // sum of the counts that are larger
	lines     []uint64 // number of lines whose count is as large, or larger
	hot, cold uint64   // counts of at least hot are hot, those of at most cold are cold
}

// newDistribution takes the number of lines by their count.
func newDistribution(lines map[uint64]uint64) *distribution {
	s := &distribution{counts: sortedKeys(lines, func(a, b uint64) int { return cmp.Compare(b, a) })}
	n := uint64(0)
	for _, count := range s.counts {
		n += lines[count]
		s.lines = append(s.lines, n)
		s.before = append(s.before, s.total)
		hi, sum := bits.Mul64(count, lines[count])
		if hi > 0 {
			sum = 1<<64 - 1
		}
		s.total = addCounts(s.total, sum)
	}
	s.hot, _ = s.atCutoff(llvmHotCutoff)
	s.cold, _ = s.atCutoff(llvmColdCutoff)
	return s
}

// atCutoff returns the least of the largest counts whose sum reaches a part of the
// total, and how many lines have them (ProfileSummaryBuilder::computeDetailedSummary).
func (s *distribution) atCutoff(millionths uint64) (least, lines uint64) {
	hi, lo := bits.Mul64(s.total, millionths)
	want, _ := bits.Div64(hi, lo, 1e6)
	i, _ := slices.BinarySearch(s.before, want)
	if i == 0 {
		return 0, 0
	}
	return s.counts[i-1], s.lines[i-1]
}

// decide classifies a count as ProfileSummaryInfo does.
func (s *distribution) decide(n uint64) decided {
	i, _ := slices.BinarySearchFunc(s.counts, n, func(have, n uint64) int { return cmp.Compare(n, have) })
	made := decided{share: s.share(n)}
	if i < len(s.before) {
		made.depth = s.share(s.before[i])
	} else {
		made.depth = 1
	}
	switch {
	case n >= s.hot && n > 0:
		made.what, made.hot = Hot, true
	case n <= s.cold:
		made.what = Cold
	}
	return made
}

func (s *distribution) share(n uint64) float64 {
	if s.total == 0 {
		return 0
	}
	return float64(n) / float64(s.total)
}

// summarize returns the sum of the counts of all lines, those of inlined bodies
// included, the largest, the most entries, the numbers of counts, functions and
// cutoffs; and of each cutoff itself, the least of the hottest counts that have
// that share of the sum, and how many there are of them
// (SampleProfileSummaryBuilder; autofdo's ProfileSummaryComputer does the same).
func summarize(funcs map[string]*function, names []string) (total [6]uint64, cuts []uint64) {
	var counts []uint64
	var head uint64
	for _, name := range names {
		head = max(head, funcs[name].head)
		counts = funcs[name].counts(counts)
	}
	lines := map[uint64]uint64{}
	most := uint64(0)
	for _, n := range counts {
		lines[n]++
		most = max(most, n)
	}
	s := newDistribution(lines)
	for _, cutoff := range cutoffs {
		least, n := s.atCutoff(cutoff)
		cuts = append(cuts, cutoff, least, n)
	}
	return [6]uint64{s.total, most, head, uint64(len(counts)), uint64(len(names)), uint64(len(cutoffs))}, cuts
}

// addCounts is a sum that does not overflow: it stays at the largest number.
func addCounts(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return 1<<64 - 1
	}
	return sum
}
