package trace

import (
	"math/rand/v2"
	"slices"

	"backfeed/sample"
)

// A Step is a branch that a walk took: the operation that it is, and the one that it went on to.
type Step struct{ From, To uint32 }

// A pathOf is the branches that a walk takes, up to the first of which that was guessed, and how many
// instructions ran up to and with the last one. A step to operation 0 left the code that is known.
type pathOf struct {
	steps   []Step
	insts   uint64
	guessed bool
}

func (p *pathOf) add(b passed) {
	p.guessed = p.guessed || b.how&viaGuessed != 0
	if !p.guessed && b.how&viaTaken != 0 {
		p.steps, p.insts = append(p.steps, Step{b.op, b.to}), uint64(b.steps)
	}
}

// KeepPaths has a sample of the paths of walks kept from now on, for AddTo.
func (w *Walks) KeepPaths() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keeps = true
}

// keep keeps the branches of c that a walk took, of so many instructions, if its rank is among the smallest. What
// is longer than a sample.Path may be is several of them. A step to operation 0 went on to out, where
// that is known.
func (w *Walks) keep(c *Code, steps []Step, insts uint64, out *Left) {
	for all := len(steps); len(steps) > 0; {
		n := min(len(steps), sample.MaxPathBranches)
		part := steps[:n]
		steps = steps[n:]
		rank := rand.Uint64N(sample.MaxRank + 1)
		if !w.kept.KeepsPath(rank) {
			continue
		}
		p := sample.Path{Rank: rank, Insts: insts * uint64(n) / uint64(all)}
		for _, s := range part {
			b := sample.Branch{From: w.frame(c, s.From), To: sample.Frame{Image: sample.Unknown}}
			if s.To != 0 {
				b.To = w.frame(c, s.To)
			} else if out != nil {
				i := c.indexOf(out.ID)
				b.To = sample.Frame{Image: w.kept.Image(c.ids[i]), Off: sample.Offset(out.Addr - c.Ranges[i].Delta)}
			}
			p.Branches = append(p.Branches, b)
		}
		if w.fresh = append(w.fresh, p); len(w.fresh) == freshPaths {
			w.sortPaths()
		}
	}
}

// freshPaths are put among those that are kept at once: one by one, that took a fifth of the time of a recorder.
const freshPaths = 256

// sortPaths puts fresh paths among those that are kept, as far as they are to be kept.
func (w *Walks) sortPaths() {
	w.kept.AddPaths(w.fresh)
	w.fresh = w.fresh[:0]
}

// frame returns where an operation is, in w.kept.
func (w *Walks) frame(c *Code, op uint32) sample.Frame {
	at := &c.at[op]
	if w.keptCode != c || w.keptImages == nil {
		w.keptCode, w.keptImages = c, make([]int, len(c.ids))
	}
	image := &w.keptImages[at.image]
	if *image == 0 {
		*image = 1 + w.kept.Image(c.ids[at.image])
	}
	return sample.Frame{Image: *image - 1, Off: at.off}
}

// addPaths adds those that were kept to counts.
func (w *Walks) addPaths(counts *sample.Counts) {
	w.sortPaths()
	images := make([]int, len(w.kept.Images)) // 1 + those of counts; 0 is none yet
	place := func(f sample.Frame) sample.Frame {
		if f.Image != sample.Unknown {
			image := &images[f.Image]
			if *image == 0 {
				*image = 1 + counts.Image(w.kept.Images[f.Image].ID)
			}
			f.Image = *image - 1
		}
		return f
	}
	paths := slices.Clone(w.kept.Paths)
	for i := range paths {
		own := make([]sample.Branch, len(paths[i].Branches))
		for k, b := range paths[i].Branches {
			own[k] = sample.Branch{From: place(b.From), To: place(b.To)}
		}
		paths[i].Branches = own
	}
	counts.AddPaths(paths)
}
