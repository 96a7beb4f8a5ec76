package layout

import (
	"cmp"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

// A Placement says at which addresses the blocks of some procedures lie, or would
// lie. It knows nothing of how that came about: of the image as it was linked, of an
// Order, of an image that was linked anew.
type Placement struct {
	Procs []*infer.Result
	Start [][]image.Addr // of each block, by procedure, then as its Proc.Blocks; Nowhere if it has no place

	ends [][]image.Addr // as Start; nil where blocks have the sizes they have in Procs
}

// Nowhere is the Start of a block that a Placement lacks.
const Nowhere = ^image.Addr(0)

// End returns where block b of procedure i ends, which has a place.
func (p *Placement) End(i, b int) image.Addr {
	if p.ends != nil {
		return p.ends[i][b]
	}
	block := &p.Procs[i].Proc.Blocks[b]
	return p.Start[i][b] + block.End - block.Start
}

// Linked is the placement that procs have in their image.
func Linked(procs []*infer.Result) *Placement {
	p := &Placement{Procs: procs}
	for _, r := range procs {
		start := make([]image.Addr, len(r.Proc.Blocks))
		for i, b := range r.Proc.Blocks {
			start[i] = b.Start
		}
		p.Start = append(p.Start, start)
	}
	return p
}

// A Part is a run of blocks of one procedure that are laid out without a gap, or the
// whole procedure as it was linked, gaps and all.
type Part struct {
	Proc   int   // index into Placement.Procs
	Blocks []int // indices into Proc.Blocks, in order; nil is the whole procedure
}

// Place lays out parts of procs one after the other from base on, each aligned to
// align bytes; blocks in none of them follow, in the order of the image. Blocks keep
// their sizes: the jumps that a new order adds, takes away or turns round change them
// by a few bytes, which nobody but the linker knows.
func Place(procs []*infer.Result, parts []Part, base image.Addr, align uint64) *Placement {
	p := &Placement{Procs: procs}
	placed := make([][]bool, len(procs))
	for i, r := range procs {
		p.Start = append(p.Start, make([]image.Addr, len(r.Proc.Blocks)))
		placed[i] = make([]bool, len(r.Proc.Blocks))
	}
	at := uint64(base)
	put := func(proc, b int, to uint64) {
		block := &procs[proc].Proc.Blocks[b]
		p.Start[proc][b], placed[proc][b] = image.Addr(to), true
		at = max(at, to+uint64(block.End-block.Start))
	}
	lay := func(part Part) {
		at = (at + align - 1) / align * align
		for _, b := range part.Blocks {
			if !placed[part.Proc][b] {
				put(part.Proc, b, at)
			}
		}
		if part.Blocks == nil && !slices.Contains(placed[part.Proc], true) {
			start := at
			for b, block := range procs[part.Proc].Proc.Blocks {
				put(part.Proc, b, start+uint64(block.Start-procs[part.Proc].Proc.Blocks[0].Start))
			}
		}
	}
	for _, part := range parts {
		lay(part)
	}
	for i := range procs {
		rest := Part{Proc: i}
		for b, done := range placed[i] {
			if !done {
				rest.Blocks = append(rest.Blocks, b)
			}
		}
		if len(rest.Blocks) == len(placed[i]) {
			rest.Blocks = nil
		}
		if slices.Contains(placed[i], false) {
			lay(rest)
		}
	}
	return p
}

// With is the same placement with the counts of others, which are procedures of the
// same image, by address. What p lacks of them follows the rest, as far apart as
// it was linked.
func (p *Placement) With(others []*infer.Result) *Placement {
	q := &Placement{Procs: others, Start: make([][]image.Addr, len(others))}
	if p.ends != nil {
		q.ends = make([][]image.Addr, len(others))
	}
	of := map[image.Addr]int{}
	var behind image.Addr
	for i, r := range p.Procs {
		of[r.Proc.Addr] = i
		for b := range r.Proc.Blocks {
			if p.Start[i][b] != Nowhere {
				behind = max(behind, p.End(i, b))
			}
		}
	}
	behind = (behind + pageSize - 1) / pageSize * pageSize
	for i, r := range others {
		j, ok := of[r.Proc.Addr]
		if ok && len(p.Start[j]) == len(r.Proc.Blocks) {
			q.Start[i] = p.Start[j]
			if p.ends != nil {
				q.ends[i] = p.ends[j]
			}
			continue
		}
		for _, b := range r.Proc.Blocks {
			from := behind + b.Start - others[0].Proc.Addr
			q.Start[i] = append(q.Start[i], from)
			if p.ends != nil {
				q.ends[i] = append(q.ends[i], from+b.End-b.Start)
			}
		}
	}
	return q
}

// A Piece is a block at its place, with the executions of its instructions.
type Piece struct {
	Proc, Block int // indices into Placement.Procs and its Proc.Blocks
	Start, End  image.Addr
	N           float64 // executions of the block, times its instructions
}

// Pieces returns the blocks that have a place by their address.
func (p *Placement) Pieces() []Piece {
	var pieces []Piece
	for i, r := range p.Procs {
		for j, b := range r.Proc.Blocks {
			if at := p.Start[i][j]; at != Nowhere {
				pieces = append(pieces, Piece{i, j, at, p.End(i, j), r.Block[j].N * float64(b.Insts)})
			}
		}
	}
	slices.SortStableFunc(pieces, func(a, b Piece) int { return cmp.Compare(a.Start, b.Start) })
	return pieces
}
