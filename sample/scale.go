package sample

import (
	"maps"
	"math"
	"slices"
)

// Scale returns r with all counts multiplied by w > 0. Counts stay integers: what
// rounding takes from one place the next one gets, in the order of places, so that
// sums keep their value and rare places their chance. The same recording and weight
// give the same counts. Of samples that count for more than one, Excess says that they do.
func (r *Recording) Scale(w float64) *Recording {
	if w == 1 {
		return r
	}
	return r.scaleEach(func(*Counts) float64 { return w }, w)
}

// scaleEach is Scale with a factor for each Counts, and one for time off the processor.
func (r *Recording) scaleEach(w func(*Counts) float64, off float64) *Recording {
	var out Recording
	for _, c := range r.Counts {
		out.Add(c.scale(w(c)))
	}
	for _, c := range r.Off {
		if c = c.scale(off); c.Total > 0 {
			out.AddOff(c)
		}
	}
	out.addRuns(r.Runs, r.Unlisted)
	return Merge(&out)
}

// Normalise scales recordings such that those with samples of an event in images have equally much of it: equal time, or as many events, where it
// is known of all what their samples stand for, and as many samples elsewhere. In all they are as many as there were, so that the sum claims
// no more samples than were taken. The result for each does not depend on their order.
func Normalise(rs []*Recording) []*Recording {
	type part struct{ samples, amount float64 } // in images
	placed := make([]map[string]part, len(rs))  // by event
	unknown := map[string]bool{}                // what samples of the event stand for
	for i, r := range rs {
		placed[i] = map[string]part{}
		for _, c := range r.Counts {
			var n uint64
			for _, ic := range c.Images {
				n = addSamples(n, ic.Samples())
			}
			p := placed[i][c.Event.Name]
			placed[i][c.Event.Name] = part{p.samples + float64(n), p.amount + float64(n)*c.MeanPeriod()}
			unknown[c.Event.Name] = unknown[c.Event.Name] || n > 0 && c.MeanPeriod() == 0
		}
	}
	all := map[string]struct{ samples, each float64 }{} // each is what there would be of all if the amounts were 1
	for _, byEvent := range placed {
		for event, p := range byEvent {
			if unknown[event] {
				p.amount = p.samples
			}
			if p.samples > 0 {
				sum := all[event]
				sum.samples += p.samples
				sum.each += p.samples / p.amount
				all[event] = sum
			}
		}
	}
	out := make([]*Recording, len(rs))
	for i, r := range rs {
		factor := func(c *Counts) float64 {
			event := c.Event.Name
			p := placed[i][event]
			if unknown[event] {
				p.amount = p.samples
			}
			if p.samples == 0 {
				return 1
			}
			return all[event].samples / all[event].each / p.amount
		}
		off := 1.0 // as time on the processor
		if c := r.clocked(); c != nil {
			off = factor(c)
		}
		out[i] = r.scaleEach(factor, off)
	}
	return out
}

func (c *Counts) scale(w float64) *Counts { return sumOf(c).scaleSum(w) }

// scaleSum is scale of what is in order. Its images have the same indexes, and so have its stacks but those that come to nothing.
func (c *Counts) scaleSum(w float64) *Counts {
	out := NewCounts(c.CPU, c.Event)
	samples, processes := scaler{w: w}, scaler{w: w}
	stacks := c.Stacks
	for i, ic := range c.Images {
		out.AddProcesses(out.Image(ic.ID), processes.scale(ic.Processes))
		for _, off := range slices.Sorted(maps.Keys(ic.At)) {
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
		for off, us := range ic.First {
			out.Touch(i, off, us)
		}
		faults := scaler{w: w}
		for _, off := range slices.Sorted(maps.Keys(ic.Faults)) {
			out.AddFaults(i, off, faults.scale(ic.Faults[off]))
		}
		out.scaleObserved(i, ic, w)
	}
	for _, why := range slices.Sorted(maps.Keys(c.Lost)) {
		out.Lose(why, samples.scale(c.Lost[why]))
	}
	out.scaleTime(c, w)
	// What becomes less is as if fewer samples had been taken: whole numbers hold no more.
	if out.Total > 0 {
		out.Excess = SquareOf(w*w*(float64(c.Total)+c.Excess.Float64()) - float64(out.Total))
	}
	out.scaleBranches(c, w)
	out.scalePaths(c, w)
	out.scaleTargets(c, w)
	return out
}

// scaleTime says of what time the samples are, which are a part or a multiple of those of c: the period and the clock are the same.
func (out *Counts) scaleTime(c *Counts, w float64) {
	if c.Weight > 0 {
		out.Weight = uint64(min(math.Round(c.MeanPeriod()*float64(out.Delivered())), 1<<62))
	}
	out.Enabled, out.Running = scaled(c.Enabled, w), scaled(c.Running, w)
	out.Returns, out.Held = c.Returns, c.Held
	if c.Clocked > 0 {
		clocked := max(1, math.Round(min(w*float64(c.Clocked), 1<<58)))
		out.Clocked, out.Cycles = uint64(clocked), max(1, uint64(math.Round(clocked*c.Clock())))
	}
}

// scaled is a number of ns times w.
func scaled(ns uint64, w float64) uint64 { return uint64(math.Round(min(w*float64(ns), 1<<58))) }

// scaleBranches adds the branch records of c.
func (out *Counts) scaleBranches(c *Counts, w float64) {
	records, misses := scaler{w: w}, scaler{w: w}
	for _, b := range slices.SortedFunc(maps.Keys(c.Branches), compareBranches) {
		n := records.scale(c.Branches[b].N)
		out.AddBranch(b, n, min(n, misses.scale(c.Branches[b].Mispredicted)))
	}
	straight := scaler{w: w}
	for _, r := range slices.SortedFunc(maps.Keys(c.Ranges), compareRanges) {
		out.AddRange(r, straight.scale(c.Ranges[r]))
	}
}

// A scaler multiplies counts by w, and hands each rounding error on.
type scaler struct{ w, owed float64 }

func (s *scaler) scale(n uint64) uint64 {
	s.owed += float64(n) * s.w
	k := min(math.Floor(s.owed+0.5), 1<<62)
	s.owed -= k
	return uint64(k)
}
