package sample

import (
	"cmp"
	"math"
	"slices"
)

// Scale gives r with all counts multiplied by w > 0. Counts stay integers: what
// rounding takes from one place the next one gets, in the order of places, so that
// sums keep their value and rare places their chance. The same recording and weight
// give the same counts.
func (r *Recording) Scale(w float64) *Recording {
	if w == 1 {
		return r
	}
	var out Recording
	for _, c := range r.Counts {
		out.Add(c.scale(w))
	}
	return Merge(&out)
}

func (c *Counts) scale(w float64) *Counts {
	c = c.sorted()
	out := NewCounts(c.CPU, c.Event)
	samples := scaler{w: w}
	stacks := c.Stacks
	for i, ic := range c.Images {
		out.Image(ic.ID)
		for _, off := range sortedPlaces(ic.At) {
			rest := ic.At[off]
			for len(stacks) > 0 && stacks[0].Frames[0] == (Frame{i, off}) {
				n := samples.scale(stacks[0].N)
				out.AddSample(i, off, n)
				out.AddStackTop(stacks[0].Frames, stacks[0].Top, n)
				rest -= stacks[0].N
				stacks = stacks[1:]
			}
			out.AddSample(i, off, samples.scale(rest))
		}
	}
	for _, why := range sortedPlaces(c.Lost) {
		out.Lose(why, samples.scale(c.Lost[why]))
	}
	if c.Weight > 0 {
		out.Weight = uint64(min(math.Round(c.MeanPeriod()*float64(out.Delivered())), 1<<62))
	}
	out.scaleBranches(c, w)
	return out
}

// scaleBranches adds the branch records of c.
func (out *Counts) scaleBranches(c *Counts, w float64) {
	records, misses := scaler{w: w}, scaler{w: w}
	branches := make([]Branch, 0, len(c.Branches))
	for b := range c.Branches {
		branches = append(branches, b)
	}
	slices.SortFunc(branches, func(a, b Branch) int { return cmp.Or(compareFrames(a.From, b.From), compareFrames(a.To, b.To)) })
	for _, b := range branches {
		n := records.scale(c.Branches[b].N)
		out.AddBranch(b, n, min(n, misses.scale(c.Branches[b].Mispredicted)))
	}
	ranges := make([]Range, 0, len(c.Ranges))
	for r := range c.Ranges {
		ranges = append(ranges, r)
	}
	slices.SortFunc(ranges, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	straight := scaler{w: w}
	for _, r := range ranges {
		out.AddRange(r, straight.scale(c.Ranges[r]))
	}
}

// sortedPlaces gives the keys of m in order.
func sortedPlaces[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// A scaler multiplies counts by w, and hands each rounding error on.
type scaler struct{ w, owed float64 }

func (s *scaler) scale(n uint64) uint64 {
	s.owed += float64(n) * s.w
	k := min(math.Floor(s.owed+0.5), 1<<62)
	s.owed -= k
	return uint64(k)
}
