package sample

// Without returns r where samples of event, or of all events for "", that lie in some images or were lost for some reason are not: as if they
// had not been taken, or, if as is not "", as if they had been lost for that reason. Who ran where, and when, is not known of the rest alone, and is left out.
func (r *Recording) Without(event string, image func(ImageID) bool, lost, as Loss) *Recording {
	out := Recording{Off: r.Off}
	for _, c := range r.Counts {
		if event != "" && c.Event.Name != event {
			out.Add(c)
			continue
		}
		if less := c.without(image, lost, as); less.Total > 0 {
			out.Add(less)
		}
	}
	out.addRuns(r.Runs, r.Unlisted)
	return Merge(&out)
}

func (c *Counts) without(image func(ImageID) bool, lost, as Loss) *Counts {
	out := NewCounts(c.CPU, c.Event)
	index, taken := make([]int, len(c.Images)), uint64(0)
	for i, ic := range c.Images {
		if image(ic.ID) {
			index[i] = Unknown
			taken = addSamples(taken, ic.Samples())
			continue
		}
		index[i] = out.Image(ic.ID)
		out.mergeImage(index[i], ic, 0)
		out.Images[index[i]].When = nil
	}
	for why, n := range c.Lost {
		if why == lost && as == "" {
			taken = addSamples(taken, n)
		} else if why != LostDropped {
			out.Lose(why, n)
		}
	}
	stays := 1.0 // of what was delivered
	if as != "" {
		out.Lose(as, taken)
	} else if n := c.Delivered(); n > 0 {
		stays = 1 - float64(taken)/float64(n)
	}
	out.Lose(LostDropped, uint64(stays*float64(c.Lost[LostDropped]))) // of which nothing is known
	moved := func(f Frame) Frame {
		if f = renumbered(f, index); f.Image == Unknown {
			return Frame{Image: Unknown}
		}
		return f
	}
	for _, s := range c.Stacks {
		if index[s.Frames[0].Image] == Unknown {
			continue
		}
		frames := make([]Frame, len(s.Frames))
		for i, f := range s.Frames {
			frames[i] = moved(f)
		}
		out.AddStackTop(frames, moved(s.Top), s.N)
	}
	for b, n := range c.Branches {
		if b = (Branch{moved(b.From), moved(b.To)}); b.From.Image != Unknown || b.To.Image != Unknown {
			out.AddBranch(b, n.N, n.Mispredicted)
		}
	}
	for r, n := range c.Ranges {
		if k := index[r.Image]; k != Unknown {
			out.AddRange(Range{k, r.First, r.Last}, n)
		}
	}
	for b, n := range c.Targets {
		if b = (Branch{moved(b.From), moved(b.To)}); b.From.Image != Unknown && b.To.Image != Unknown {
			out.AddTarget(b, n)
		}
	}
	out.mergePaths(c.Paths, moved)
	out.Measure(c)
	if as == "" {
		out.Weight = uint64(c.MeanPeriod() * float64(out.Delivered()))
		out.Excess = c.ExcessOf(out.Total)
		if c.Weight == 0 {
			out.Weight = 0
		}
	}
	return out
}
