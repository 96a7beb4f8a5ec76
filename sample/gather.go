package sample

import (
	"slices"
	"sync"
)

// Gather returns the sum that Merge returns of a recording which was counted in parts: each of
// events has Counts among which the samples of one event were divided in some way. Only the
// first of them says of all samples together what Measure takes over. The parts are used up.
func Gather(events ...[]*Counts) []*Counts {
	var sums []*Counts
	for _, parts := range events {
		sums = append(sums, gather(parts))
	}
	slices.SortStableFunc(sums, compareCounts)
	for i := range sums[min(1, len(sums)):] {
		if compareCounts(sums[i], sums[i+1]) == 0 { // two events of one name
			return sumsOf(sums)
		}
	}
	return sums
}

func gather(parts []*Counts) *Counts {
	s := sumImages(parts)
	for _, c := range parts {
		s.mergeWhole(c, false, false)
	}
	// From here on, slices have their length.
	lists := make([][]Stack, len(parts))
	var wg sync.WaitGroup
	for i, c := range parts {
		index := make([]int, len(c.Images))
		for k, ic := range c.Images {
			index[k] = s.Image(ic.ID)
		}
		shorter := c.shorter(s)
		lists[i] = c.Stacks
		wg.Go(func() {
			for k := range lists[i] {
				st := &lists[i][k]
				renumber(st.Frames, index)
				st.Top = renumbered(st.Top, index)
				if shorter > 0 {
					st.When = longer(st.When, shorter)
				}
			}
			slices.SortFunc(lists[i], compareStacks)
		})
		for k, ic := range c.Images {
			s.takeImage(index[k], ic, shorter)
		}
		s.mergeRest(c, index)
	}
	wg.Wait()
	s.Stacks = joinStacks(lists)
	return s
}

// shorter is by how many powers of two the slices of c are shorter than those of s.
func (c *Counts) shorter(s *Counts) uint8 {
	if len(c.Slices) == 0 {
		return 0
	}
	return s.Step - c.Step
}

// takeImage is mergeImage of one that is used up.
func (c *Counts) takeImage(i int, ic *ImageCounts, shorter uint8) {
	if to := c.Images[i]; shorter == 0 && to.empty() {
		id := to.ID
		*to = *ic
		to.ID = id
		c.Total = addSamples(c.Total, to.Samples())
		return
	}
	c.mergeImage(i, ic, shorter)
}

func (ic *ImageCounts) empty() bool {
	return ic.Processes == 0 && len(ic.At) == 0 && len(ic.First) == 0 && len(ic.Probed) == 0 && len(ic.Replayed) == 0 && len(ic.Counted) == 0 && len(ic.When) == 0 && len(ic.Faults) == 0
}

// joinStacks returns the sum of lists of stacks, each of which is sorted. It may write over them.
func joinStacks(lists [][]Stack) []Stack {
	for len(lists) > 1 { // two by two
		var half [][]Stack
		for pair := range slices.Chunk(lists, 2) {
			half = append(half, joinTwo(pair))
		}
		lists = half
	}
	return slices.Clip(addEqual(lists[0]))
}

// joinTwo returns the stacks of one list or of two, sorted.
func joinTwo(lists [][]Stack) []Stack {
	if len(lists) == 1 || len(lists[1]) == 0 {
		return lists[0]
	}
	a, b := lists[0], lists[1]
	out := make([]Stack, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if b[0].compare(&a[0]) < 0 {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	return append(append(out, a...), b...)
}

// addEqual makes one of stacks that are equal, in a sorted list, in place.
func addEqual(all []Stack) []Stack {
	n := 0
	for i := range all {
		if n == 0 || all[n-1].compare(&all[i]) != 0 {
			all[n] = all[i]
			n++
			continue
		}
		to := &all[n-1]
		to.N = addSamples(to.N, all[i].N)
		for _, m := range all[i].When {
			to.When = addMoment(to.When, m.Slice, m.N)
		}
	}
	clear(all[n:])
	return all[:n]
}
