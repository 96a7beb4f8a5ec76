package compare

import (
	"cmp"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/stale"
)

// A ProcPair is one procedure in two profiles. Old or New is nil where a profile
// knows nothing of it, never both.
type ProcPair struct {
	Old, New *infer.Result
	Both     bool // both builds have the procedure, as far as is known, whether or not it was seen
}

// PairProcs finds the procedures that the profiles of two builds of an image have in
// common: new ones by address, then those of old that have no partner. Of the same
// build b is nil.
func PairProcs(old, new *infer.ImageProfile, b *stale.Builds) []ProcPair {
	var pairs []ProcPair
	at := map[int]int{} // by symbol of the new build: index into pairs
	same := b == nil
	var kept map[int]bool // symbols of the new build that the old one has, too
	if b != nil {
		kept = b.Kept()
	}
	if new != nil {
		for _, r := range new.Procs {
			at[r.Proc.Index] = len(pairs)
			pairs = append(pairs, ProcPair{New: r, Both: same || kept[r.Proc.Index]})
		}
	}
	if old == nil {
		return pairs
	}
	for _, r := range old.Procs {
		partner := r.Proc.Index
		if b != nil {
			partner = b.Partner(partner)
		}
		if i, ok := at[partner]; ok && new != nil && pairs[i].Old == nil {
			pairs[i].Old = r
			continue
		}
		pairs = append(pairs, ProcPair{Old: r, Both: same || b != nil && partner >= 0})
	}
	return pairs
}

// A BlockPair is one basic block in two builds of a procedure: indices into the
// Blocks of each, -1 where it is not there.
type BlockPair struct {
	Old, New int
	Tie      stale.Tie
}

// PairBlocks finds the blocks that two builds of a procedure have in common: in the
// order of the new one, then those of old that are gone. Of the same build b is nil.
// Several blocks of old may be one of new, which then comes several times.
func (p ProcPair) PairBlocks(b *stale.Builds) []BlockPair {
	var pairs []BlockPair
	switch {
	case p.New == nil:
		for i := range p.Old.Proc.Blocks {
			pairs = append(pairs, BlockPair{i, -1, stale.NoTie})
		}
		return pairs
	case p.Old == nil:
		for i := range p.New.Proc.Blocks {
			pairs = append(pairs, BlockPair{-1, i, stale.NoTie})
		}
		return pairs
	case b == nil:
		for i := range p.New.Proc.Blocks {
			pairs = append(pairs, BlockPair{i, i, stale.SameProc})
		}
		return pairs
	}
	matches := b.Blocks(p.Old.Proc.Index)
	found := make([]bool, len(p.New.Proc.Blocks))
	for i := range p.Old.Proc.Blocks {
		pair := BlockPair{i, -1, stale.NoTie}
		if i < len(matches) && matches[i].Tie != stale.NoTie && matches[i].Block < len(found) {
			pair.New, pair.Tie = matches[i].Block, matches[i].Tie
			found[pair.New] = true
		}
		pairs = append(pairs, pair)
	}
	for i, ok := range found {
		if !ok {
			pairs = append(pairs, BlockPair{-1, i, stale.NoTie})
		}
	}
	last := len(found)
	place := func(p BlockPair) int {
		if p.New < 0 {
			return last
		}
		return p.New
	}
	slices.SortStableFunc(pairs, func(a, b BlockPair) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Old, b.Old))
	})
	return pairs
}

// SamePlace reports whether block i of p starts as far from the top of the procedure
// as block j of q.
func SamePlace(p *image.Proc, i int, q *image.Proc, j int) bool {
	return p.Blocks[i].Start-p.Addr == q.Blocks[j].Start-q.Addr
}
