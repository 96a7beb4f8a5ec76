package sample

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// When samples were taken is known by slices of time: stretches of equal length that begin at whole multiples of it
// since 1970. A recording has at most MaxSlices with samples in them, so that its size stays within a small factor; where there would be
// more, two neighbours become one. The length is then the least at which they fit, which is the same in
// whatever order and grouping recordings merge.
//
// A recorder that does not know the date counts from 0.

// EarliestDate is 2000-01-01 in ns since 1970: a slice that is earlier counts from the beginning of a recording whose date is not known.
const EarliestDate = 946_684_800_000_000_000

// LeastSlice is the shortest length of a slice: so long that at 1000 Hz it has a hundred samples, less than which tells little.
const LeastSlice = 125 * time.Millisecond

// MaxSlices bounds the slices of a Counts.
const MaxSlices = 64

// maxStep is the largest Step: twice as long a slice has more than an int64 of nanoseconds.
const maxStep = 36

// A Moment is so many samples in a slice, by its number: its beginning divided by SliceLength.
type Moment struct{ Slice, N uint64 }

// SliceLength is how long a slice of c is.
func (c *Counts) SliceLength() time.Duration { return LeastSlice << c.Step }

// SliceAt returns the number of the slice that a time is in, in ns since 1970, and makes it one of c's. It may make
// slices longer: the number is good until the next call.
func (c *Counts) SliceAt(ns uint64) uint64 {
	if c.Slices == nil {
		c.Slices = map[uint64]map[Loss]uint64{}
	}
	ns = min(ns, math.MaxInt64)
	s := ns / uint64(c.SliceLength())
	if _, ok := c.Slices[s]; ok {
		return s
	}
	c.Slices[s] = nil
	c.fit(0)
	return ns / uint64(c.SliceLength())
}

// AddMoment says that n samples of a place, which AddSample was told of and no stack has, were taken in a slice of c.
func (c *Counts) AddMoment(image int, off Offset, slice, n uint64) {
	ic := c.Images[image]
	if ic.When == nil {
		ic.When = map[Offset][]Moment{}
	}
	ic.When[off] = addMoment(ic.When[off], slice, n)
}

// LoseAt says that n samples, which Lose was told of, were taken in a slice of c.
func (c *Counts) LoseAt(slice uint64, why Loss, n uint64) {
	lost := c.Slices[slice]
	if lost == nil {
		lost = map[Loss]uint64{}
		c.Slices[slice] = lost
	}
	lost[why] = addSamples(lost[why], n)
}

// addMoment adds to moments, which are sorted.
func addMoment(ms []Moment, slice, n uint64) []Moment {
	i, ok := slices.BinarySearchFunc(ms, slice, func(m Moment, s uint64) int { return cmp.Compare(m.Slice, s) })
	if !ok {
		ms = slices.Insert(ms, i, Moment{Slice: slice})
	}
	ms[i].N = addSamples(ms[i].N, n)
	return ms
}

// longer returns moments in slices that are 2^by times as long. It may write over them.
func longer(ms []Moment, by uint8) []Moment {
	out := ms[:0]
	for _, m := range ms {
		out = addMoment(out, m.Slice>>by, m.N) // behind what is read
	}
	return out
}

// fit makes slices 2^by times as long, and longer still until they are few enough.
func (c *Counts) fit(by uint8) {
	for few := c.few(by); !few; few = c.few(by) {
		by++
	}
	if by == 0 {
		return
	}
	c.Step += by
	old := c.Slices
	c.Slices = make(map[uint64]map[Loss]uint64, len(old))
	for s, lost := range old {
		if _, ok := c.Slices[s>>by]; !ok {
			c.Slices[s>>by] = nil
		}
		for why, n := range lost {
			c.LoseAt(s>>by, why, n)
		}
	}
	for _, ic := range c.Images {
		for off, ms := range ic.When {
			ic.When[off] = longer(ms, by)
		}
	}
	for i := range c.Stacks {
		c.Stacks[i].When = longer(c.Stacks[i].When, by)
	}
}

// few reports whether slices 2^by times as long are no more than MaxSlices.
func (c *Counts) few(by uint8) bool {
	if len(c.Slices) <= MaxSlices {
		return true
	}
	n := map[uint64]bool{}
	for s := range c.Slices {
		n[s>>by] = true
	}
	return len(n) <= MaxSlices
}

// mergeSlices makes the slices of c those of o, too, and returns by how much shorter o's are.
func (c *Counts) mergeSlices(o *Counts) (by uint8) {
	if len(o.Slices) == 0 {
		return 0
	}
	if c.Slices == nil {
		c.Slices = map[uint64]map[Loss]uint64{}
	}
	if len(c.Slices) == 0 {
		c.Step = o.Step
	} else if c.Step < o.Step {
		c.fit(o.Step - c.Step)
	}
	by = c.Step - o.Step
	for s := range o.Slices {
		if _, ok := c.Slices[s>>by]; !ok {
			c.Slices[s>>by] = nil
		}
	}
	c.fit(0)
	by = c.Step - o.Step
	for s, lost := range o.Slices {
		for why, n := range lost {
			c.LoseAt(s>>by, why, n)
		}
	}
	return by
}

// scaleSlices says when samples of out were taken, which are w times those of c.
func (c *Counts) scaleSlices(out *Counts, w float64) {
	if len(c.Slices) == 0 {
		return
	}
	out.Step, out.Slices = c.Step, map[uint64]map[Loss]uint64{}
	// Rounding leaves n of them at most.
	scale := func(ms []Moment, n uint64) (scaled []Moment) {
		for _, m := range ms {
			m.N = min(uint64(w*float64(m.N)), n)
			if n -= m.N; m.N > 0 {
				scaled = append(scaled, m)
				if _, ok := out.Slices[m.Slice]; !ok {
					out.Slices[m.Slice] = nil
				}
			}
		}
		return scaled
	}
	stacks := out.Stacks
	for _, s := range c.Stacks {
		if len(stacks) > 0 && stacks[0].Top == s.Top && slices.Equal(stacks[0].Frames, s.Frames) {
			stacks[0].When = scale(s.When, stacks[0].N)
			stacks = stacks[1:]
		}
	}
	for i, ic := range c.Images {
		for off, ms := range ic.When {
			if ms = scale(ms, out.Images[i].At[off]); len(ms) == 0 {
				continue
			}
			if out.Images[i].When == nil {
				out.Images[i].When = map[Offset][]Moment{}
			}
			out.Images[i].When[off] = ms
		}
	}
	rest := maps.Clone(out.Lost)
	for _, s := range slices.Sorted(maps.Keys(c.Slices)) {
		for why, n := range c.Slices[s] {
			if n = min(uint64(w*float64(n)), rest[why]); n > 0 {
				rest[why] -= n
				out.LoseAt(s, why, n)
			}
		}
	}
}

// BySlice returns how many samples were taken in each slice of c.
func (c *Counts) BySlice() map[uint64]uint64 { return c.bySlice(c.eachMoment) }

func (c *Counts) bySlice(moments func(yield func(Moment))) map[uint64]uint64 {
	n := make(map[uint64]uint64, len(c.Slices))
	for s, lost := range c.Slices {
		for _, k := range lost {
			n[s] = addSamples(n[s], k)
		}
	}
	moments(func(m Moment) { n[m.Slice] = addSamples(n[m.Slice], m.N) })
	return n
}

func (c *Counts) eachMoment(f func(Moment)) {
	for _, ic := range c.Images {
		for _, ms := range ic.When {
			for _, m := range ms {
				f(m)
			}
		}
	}
	for i := range c.Stacks {
		for _, m := range c.Stacks[i].When {
			f(m)
		}
	}
}

func (c *Counts) checkSlices() error {
	if err := c.checkSliceLosses(); err != nil {
		return err
	}
	for _, ic := range c.Images {
		for off, ms := range ic.When {
			if err := c.checkWhen(ic, off, ms, ic.At[off]); err != nil {
				return err
			}
		}
	}
	return cmp.Or(c.checkStackMoments(), c.checkUsed(c.eachMoment))
}

// checkSliceLosses reports what is wrong with slices, and with what was lost in them.
func (c *Counts) checkSliceLosses() error {
	switch {
	case len(c.Slices) == 0 && c.Step != 0:
		return errors.New("length of no slices")
	case c.Step > maxStep:
		return fmt.Errorf("slices of 2^%d times %v", c.Step, LeastSlice)
	case len(c.Slices) > MaxSlices:
		return fmt.Errorf("%d slices, more than %d", len(c.Slices), MaxSlices)
	}
	lost := map[Loss]uint64{}
	for s, by := range c.Slices {
		if s > math.MaxInt64/uint64(c.SliceLength()) {
			return fmt.Errorf("slice %d: too late", s)
		}
		for why, n := range by {
			if n == 0 {
				return fmt.Errorf("slice %d: lost by reason %q: 0 samples", s, why)
			}
			lost[why] = addSamples(lost[why], n)
		}
	}
	for why, n := range lost {
		if n > c.Lost[why] {
			return fmt.Errorf("lost by reason %q: %d samples, but %d in slices", why, c.Lost[why], n)
		}
	}
	return nil
}

// checkWhen reports what is wrong with the moments of a place with so many samples.
func (c *Counts) checkWhen(ic *ImageCounts, off Offset, ms []Moment, of uint64) error {
	if err := c.checkMoments(ms, of); err != nil || len(ms) == 0 {
		return fmt.Errorf("image %s: offset %#x: %w", ic.ID, uint64(off), cmp.Or(err, errNoMoments))
	}
	return nil
}

// checkUsed reports a slice that no sample is in. Moments are those of samples with a place.
func (c *Counts) checkUsed(moments func(yield func(Moment))) error {
	n := c.bySlice(moments)
	for s := range c.Slices {
		if n[s] == 0 {
			return fmt.Errorf("slice %d: 0 samples", s)
		}
	}
	return nil
}

func (c *Counts) checkStackMoments() error {
	for i := range c.Stacks {
		if err := c.checkMoments(c.Stacks[i].When, c.Stacks[i].N); err != nil {
			return fmt.Errorf("stack %d: %w", i, err)
		}
	}
	return nil
}

var errNoMoments = errors.New("in no slice")

// checkMoments reports what is wrong with the moments of so many samples.
func (c *Counts) checkMoments(ms []Moment, of uint64) error {
	var n uint64
	for i, m := range ms {
		if _, ok := c.Slices[m.Slice]; !ok || m.N == 0 || i > 0 && ms[i-1].Slice >= m.Slice {
			return fmt.Errorf("%d samples in slice %d", m.N, m.Slice)
		}
		n = addSamples(n, m.N)
	}
	if n > of {
		return fmt.Errorf("%d samples, but %d in slices", of, n)
	}
	return nil
}
