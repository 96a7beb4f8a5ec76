package sample

import (
	"math"
	"slices"
)

// Span returns when the first slice that has samples begins and when the last one ends, in ns since 1970. ok is whether there are slices.
func (r *Recording) Span() (from, to uint64, ok bool) {
	from = math.MaxUint64
	for _, c := range r.Counts {
		length := uint64(c.SliceLength())
		for s := range c.Slices {
			from, to, ok = min(from, s*length), max(to, (s+1)*length), true
		}
	}
	return from, to, ok
}

// Between returns the samples of r in slices of time that have a part in what lies from one moment to another, in ns since 1970,
// and of its time off the processor the waits that ended in them.
// What else r has is of all of its time, and left out: what was counted, branch records, first touches, who ran and on which
// processor, how many processes began, and what runs used. Samples whose time is not known are left out, too.
func (r *Recording) Between(from, to uint64) *Recording {
	var out Recording
	for _, c := range r.Counts {
		out.Add(c.between(from, to))
	}
	for _, c := range r.Off {
		if c = c.between(from, to); c.Total > 0 {
			c.Weight = c.Delivered() * OffPeriod
			out.AddOff(c)
		}
	}
	for _, run := range r.Runs {
		run.Usage = Usage{}
		out.AddRun(run)
	}
	out.addRuns(nil, r.Unlisted)
	return Merge(&out)
}

func (c *Counts) between(from, to uint64) *Counts {
	out := NewCounts(c.CPU, c.Event)
	length := uint64(c.SliceLength())
	for s, lost := range c.Slices {
		if s*length >= to || (s+1)*length <= from {
			continue
		}
		if out.Slices == nil {
			out.Step, out.Slices = c.Step, map[uint64]map[Loss]uint64{}
		}
		out.Slices[s] = nil
		for why, n := range lost {
			out.Lose(why, n)
			out.LoseAt(s, why, n)
		}
	}
	inside := func(all []Moment) []Moment {
		return slices.DeleteFunc(slices.Clone(all), func(m Moment) bool { _, ok := out.Slices[m.Slice]; return !ok })
	}
	renumber := func(f Frame) Frame {
		if f.Image != Unknown {
			f.Image = out.Image(c.Images[f.Image].ID)
		}
		return f
	}
	for _, ic := range c.Images {
		for off, when := range ic.When {
			for _, m := range inside(when) {
				image := out.Image(ic.ID)
				out.AddSample(image, off, m.N)
				out.AddMoment(image, off, m.Slice, m.N)
			}
		}
	}
	for _, s := range c.Stacks {
		when := inside(s.When)
		if len(when) == 0 {
			continue
		}
		frames := make([]Frame, len(s.Frames))
		for i, f := range s.Frames {
			frames[i] = renumber(f)
		}
		top := renumber(s.Top)
		for _, m := range when {
			out.AddSample(frames[0].Image, frames[0].Off, m.N)
			out.AddStackAt(frames, top, m.Slice, m.N)
		}
	}
	if n := out.Delivered(); n > 0 {
		out.scaleTime(c, float64(n)/float64(c.Delivered()))
	}
	out.Excess = c.ExcessOf(out.Total)
	return out
}
