package sample

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Path is the branches that one thread took, one after the other: from the target of
// each to the source of the next, the code ran straight through. A branch record of hardware
// is one of 16 or 32 branches; a walk makes longer ones.
//
// Counts keep a sample of paths: those with the smallest ranks, which are drawn at random. Whatever
// order they are added in, the same are kept, and all had the same chance.
type Path struct {
	Rank     uint64 // of 0 to MaxRank
	Insts    uint64 // instructions that ran, from the first that was seen to the source of the last branch
	Branches []Branch
}

// Bounds of the paths of Counts. A path beyond the first MaxPaths is not kept, nor one after
// MostBranches branches of those before it; so these come to MostBranches + MaxPathBranches at most. 2,000
// walks of 512 instructions take about 70 branches each, at 3 bytes a branch: 0.4 MB in a file.
// perf's own limit of records in a sample is 2,700, by the size of its records.
const (
	MaxPaths        = 2000
	MostBranches    = 1 << 17
	MaxPathBranches = 1024
	MaxRank         = 1<<48 - 1
)

// AddPaths adds paths, each of 1 to MaxPathBranches branches. It keeps no reference to them.
func (c *Counts) AddPaths(paths []Path) {
	own := slices.Clone(paths)
	for i := range own {
		own[i].Branches = slices.Clone(own[i].Branches)
	}
	c.addPaths(own)
}

// addPaths is AddPaths, and keeps the branches that it is told.
func (c *Counts) addPaths(paths []Path) {
	if len(paths) == 0 {
		return
	}
	added := slices.Clone(c.Paths)
	for _, p := range paths {
		if c.KeepsPath(p.Rank) {
			added = append(added, p)
		}
	}
	slices.SortFunc(added, c.comparePaths)
	c.Paths = added[:keptPaths(added)]
}

// KeepsPath reports whether a path of that rank is kept beside those that there are, unless there are
// others of the same.
func (c *Counts) KeepsPath(rank uint64) bool {
	n := len(c.Paths)
	return !full(c.Paths) || rank <= c.Paths[n-1].Rank
}

// full reports whether no path is kept that comes after so many.
func full(paths []Path) bool {
	n := 0
	for i := range paths {
		n += len(paths[i].Branches)
	}
	return len(paths) >= MaxPaths || n >= MostBranches
}

// keptPaths returns how many of sorted paths are kept. One is if those before it are within the bounds:
// it may be the one that passes them. Which these are then depends on no path after it, and
// what is kept of a part leaves out nothing that is kept of the whole.
func keptPaths(paths []Path) int {
	n := 0
	for i := range paths {
		if i == MaxPaths || n >= MostBranches {
			return i
		}
		n += len(paths[i].Branches)
	}
	return len(paths)
}

// comparePaths orders paths by rank. Equal ranks say nothing of which is kept, so content decides, by
// the keys of images: their numbers may yet change.
func (c *Counts) comparePaths(a, b Path) int {
	if d := cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Insts, b.Insts)); d != 0 {
		return d
	}
	return slices.CompareFunc(a.Branches, b.Branches, func(a, b Branch) int {
		return cmp.Or(c.comparePlaces(a.From, b.From), c.comparePlaces(a.To, b.To))
	})
}

// comparePlaces orders frames as compareFrames does once images are sorted.
func (c *Counts) comparePlaces(a, b Frame) int {
	if a.Image == b.Image || a.Image == Unknown || b.Image == Unknown {
		return compareFrames(a, b)
	}
	return c.Images[a.Image].ID.Key().Compare(c.Images[b.Image].ID.Key())
}

// mergePaths adds paths with other numbers of images.
func (c *Counts) mergePaths(paths []Path, renumber func(Frame) Frame) {
	own := make([]Path, len(paths))
	for i, p := range paths {
		own[i] = p
		own[i].Branches = make([]Branch, len(p.Branches))
		for k, b := range p.Branches {
			own[i].Branches[k] = Branch{renumber(b.From), renumber(b.To)}
		}
	}
	c.addPaths(own)
}

// scalePaths adds the paths of c, which are the earlier kept beside others the more they count.
func (out *Counts) scalePaths(c *Counts, w float64) {
	scaled := slices.Clone(c.Paths)
	for i := range scaled {
		scaled[i].Rank = uint64(math.Round(min(float64(scaled[i].Rank)/w, MaxRank)))
	}
	out.addPaths(scaled)
}

func (c *Counts) checkPaths() error {
	for i, p := range c.Paths {
		if len(p.Branches) == 0 || len(p.Branches) > MaxPathBranches || p.Rank > MaxRank {
			return fmt.Errorf("path %d: %d branches, rank %#x", i, len(p.Branches), p.Rank)
		}
		for _, b := range p.Branches {
			if err := cmp.Or(c.checkFrame(b.From), c.checkFrame(b.To)); err != nil {
				return fmt.Errorf("path %d: %w", i, err)
			}
		}
		if i > 0 && c.comparePaths(c.Paths[i-1], p) > 0 {
			return fmt.Errorf("path %d: out of order", i)
		}
	}
	if kept := keptPaths(c.Paths); kept < len(c.Paths) {
		return fmt.Errorf("%d paths, of which %d are kept", len(c.Paths), kept)
	}
	return nil
}
