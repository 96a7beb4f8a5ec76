package stale

import (
	"slices"

	"backfeed/infer/image"
)

// A twin is a procedure of an old build and what became of it.
type twin struct {
	old, new *code
	block    []int // by block of old: the block of new that it is tied to, if it is
	ties     []Tie // by block of old
	taken    []int // by block of new: a block of old that is tied to it, or -1
}

// twinOf finds the blocks that two procedures have in common. The idea, hashes of
// blocks that are compared exactly, then loosely, with what is around them, is
// that of Ayupov, Panchenko and Pupyrev, Stale Profile Matching (CC 2024); that
// ties spread along edges from blocks that are tied is not in it.
func twinOf(old, new *code) *twin {
	p := &twin{old: old, new: new, block: make([]int, len(old.insts)), ties: make([]Tie, len(old.insts)), taken: make([]int, len(new.insts))}
	for j := range p.taken {
		p.taken[j] = -1
	}
	if unchanged(old, new) {
		for i := range p.block {
			p.tie(i, i, SameProc)
		}
		return p
	}
	p.alone(old.around(old.calls), new.around(new.calls), SameCode)
	p.spread(old.calls, new.calls, SameCode)
	p.alone(old.calls, new.calls, SameCode)
	p.spread(old.calls, new.calls, SameCode)
	// From here on, blocks of the same code that are left are many of a kind.
	p.spread(old.ops, new.ops, SameOps)
	p.alone(old.around(old.ops), new.around(new.ops), SameOps)
	p.spread(old.ops, new.ops, SameOps)
	p.between(old.calls, new.calls, SameCode)
	p.between(old.ops, new.ops, SameOps)
	p.spread(old.ops, new.ops, SameOps)
	// From here on, what is left was edited, or compiled another way.
	p.byLines()
	p.inOrder()
	if p.ties[0] == NoTie {
		p.tie(0, 0, SamePart) // both are entered at the top
	}
	return p
}

// tie says that block i of old is block j of new.
func (p *twin) tie(i, j int, t Tie) {
	p.block[i], p.ties[i], p.taken[j] = j, t, i
}

// around returns by block a hash of it and of the blocks before and after it.
func (c *code) around(own []uint64) []uint64 {
	out := make([]uint64, len(own))
	for i := range own {
		var in, after uint64
		for _, e := range c.proc.Blocks[i].In {
			in += image.Hash(1, own[c.proc.Edges[e].From])
		}
		for _, e := range c.proc.Blocks[i].Out {
			after += image.Hash(2, own[c.proc.Edges[e].To])
		}
		out[i] = image.Hash(image.Hash(own[i], in), after)
	}
	return out
}

// alone ties the blocks whose hash no other block of their build has, of those
// that are not tied.
func (p *twin) alone(old, new []uint64, t Tie) {
	const several = -1
	index := func(hashes []uint64, free func(int) bool) map[uint64]int {
		m := map[uint64]int{}
		for i, h := range hashes {
			if !free(i) {
				continue
			}
			if _, ok := m[h]; ok {
				m[h] = several
			} else {
				m[h] = i
			}
		}
		return m
	}
	olds := index(old, func(i int) bool { return p.ties[i] == NoTie })
	news := index(new, func(j int) bool { return p.taken[j] < 0 })
	for h, i := range olds {
		if j, ok := news[h]; ok && i != several && j != several {
			p.tie(i, j, t)
		}
	}
}

// manyPairs is from how many pairs of edges on an index is worth its making. Both ways
// make the same ties.
const manyPairs = 64

// spread ties blocks of equal hashes that stand alike to two blocks that are tied:
// after them or before them along an edge, or next to them.
func (p *twin) spread(old, new []uint64, t Tie) {
	var work []int
	for i := range p.ties {
		if p.ties[i] != NoTie {
			work = append(work, i)
		}
	}
	try := func(i, j int) bool {
		if i >= len(old) || j >= len(new) || p.ties[i] != NoTie || p.taken[j] >= 0 || old[i] != new[j] {
			return false
		}
		p.tie(i, j, t)
		work = append(work, i)
		return true
	}
	// tryAll pairs each block with the first that is left of its hash, and of the kind of its edge.
	tryAll := func(edges, others []int, end func(c *code, e int) int, sameKind bool) {
		type ends struct {
			hash uint64
			kind int
		}
		key := func(c *code, hash uint64, e int) ends {
			if sameKind {
				return ends{hash, int(c.proc.Edges[e].Kind)}
			}
			return ends{hash: hash}
		}
		left := map[ends][]int{} // blocks of new, but for those that are known to be taken
		for _, f := range others {
			j := end(p.new, f)
			k := key(p.new, new[j], f)
			left[k] = append(left[k], j)
		}
		for _, e := range edges {
			i := end(p.old, e)
			k := key(p.old, old[i], e)
			for p.ties[i] == NoTie && len(left[k]) > 0 {
				try(i, left[k][0])
				left[k] = left[k][1:]
			}
		}
	}
	along := func(edges, others []int, end func(c *code, e int) int) {
		for _, sameKind := range []bool{true, false} {
			if len(edges)*len(others) > manyPairs {
				tryAll(edges, others, end, sameKind)
				continue
			}
			for _, e := range edges {
				for _, f := range others {
					if sameKind && p.old.proc.Edges[e].Kind != p.new.proc.Edges[f].Kind {
						continue
					}
					if try(end(p.old, e), end(p.new, f)) {
						break
					}
				}
			}
		}
	}
	for len(work) > 0 {
		i := work[0]
		work = work[1:]
		a, b := &p.old.proc.Blocks[i], &p.new.proc.Blocks[p.block[i]]
		along(a.Out, b.Out, func(c *code, e int) int { return c.proc.Edges[e].To })
		along(a.In, b.In, func(c *code, e int) int { return c.proc.Edges[e].From })
		try(i+1, p.block[i]+1)
	}
}

// gaps calls f with the blocks of old and of new that are not tied, between two
// that follow each other in old and are tied to later and later blocks of new. Where these come in another order, gaps
// overlap, and each looks at many blocks: the last gaps of a large procedure may be left out.
func (p *twin) gaps(f func(olds, news []int)) {
	last := -1 // tied block of new before the gap
	left := max(gapSteps, 64*len(p.taken))
	var olds []int
	flush := func(end int) {
		if len(olds) > 0 && last < end && left > 0 {
			left -= end - last
			var news []int
			for j := last + 1; j < end; j++ {
				if p.taken[j] < 0 {
					news = append(news, j)
				}
			}
			f(olds, news)
		}
		olds = nil
	}
	for i := range p.ties {
		if p.ties[i] == NoTie {
			olds = append(olds, i)
			continue
		}
		flush(p.block[i])
		last = p.block[i]
	}
	flush(len(p.taken))
}

// gapSteps bounds the blocks that gaps look at. It takes 11,000 blocks in the worst order to come to it.
const gapSteps = 1 << 26

// maxGap bounds the blocks in a gap that are compared with each other.
const maxGap = 1000

// between ties the longest common subsequence of hashes in each gap.
func (p *twin) between(old, new []uint64, t Tie) {
	p.gaps(func(olds, news []int) {
		if len(olds) > maxGap || len(news) > maxGap {
			return
		}
		// longest[x][y] is that of olds[x:] and news[y:].
		longest := make([][]int, len(olds)+1)
		for x := range longest {
			longest[x] = make([]int, len(news)+1)
		}
		for x := len(olds) - 1; x >= 0; x-- {
			for y := len(news) - 1; y >= 0; y-- {
				if old[olds[x]] == new[news[y]] {
					longest[x][y] = longest[x+1][y+1] + 1
				} else {
					longest[x][y] = max(longest[x+1][y], longest[x][y+1])
				}
			}
		}
		for x, y := 0, 0; x < len(olds) && y < len(news); {
			switch {
			case old[olds[x]] == new[news[y]]:
				p.tie(olds[x], news[y], t)
				x, y = x+1, y+1
			case longest[x+1][y] >= longest[x][y+1]:
				x++
			default:
				y++
			}
		}
	})
}

// inOrder ties what is left of each gap by order: such blocks are of the same loops
// at least. Between ZSTD 1.5.5 and 1.5.7, by gcc 12 -O2, the counts inferred from what
// is carried over have a block overlap of 0.78 with those of a recording of the
// newer build, and 0.74 where only gaps of as many blocks in both builds are tied.
func (p *twin) inOrder() {
	p.gaps(func(olds, news []int) {
		if len(news) == 0 {
			return
		}
		for x := range olds {
			p.tie(olds[x], news[x*len(news)/len(olds)], SamePart)
		}
	})
}

// A lineOf is a source line, counted from the first of its function, as it stays
// when something before the function changes.
type lineOf struct {
	function string
	line     int
}

// linesOf returns the lines of the instructions of block i of which one is known.
func (c *code) linesOf(i int) []lineOf {
	var out []lineOf
	for _, in := range c.insts[i] {
		if fs := c.frames(in.Addr); counts(in) && len(fs) > 0 && fs[0].Line > 0 {
			out = append(out, lineOf{image.SourceName(fs[0].Func), fs[0].Line - fs[0].StartLine})
		}
	}
	return out
}

// byLines ties each block that is left to the block with most of its lines, and
// with half of them at least: rather one that nothing is tied to, rather one where
// its neighbours are. Copies of a block that the new build lacks join one that it has.
func (p *twin) byLines() {
	if p.old.frames == nil || p.new.frames == nil {
		return
	}
	var blocks map[lineOf][]int            // of new, in order
	votes := make([]int, len(p.new.insts)) // for each of them: 0 but for those of block i
	tied := -1                             // the block before i that is tied
	for i := range p.ties {
		if p.ties[i] != NoTie {
			tied = i
			continue
		}
		if blocks == nil {
			blocks = map[lineOf][]int{}
			for j := range p.new.insts {
				for _, l := range p.new.linesOf(j) {
					if js := blocks[l]; len(js) == 0 || js[len(js)-1] != j {
						blocks[l] = append(js, j)
					}
				}
			}
		}
		near := i // where block i would be in new by the tied block before it
		if tied >= 0 {
			near = p.block[tied] + i - tied
		}
		lines := p.old.linesOf(i)
		var voted []int
		times := map[lineOf]int{}
		for _, l := range lines {
			times[l]++
		}
		for l, n := range times {
			for _, j := range nearest(blocks[l], near) {
				if votes[j] == 0 {
					voted = append(voted, j)
				}
				votes[j] += n
			}
		}
		best := -1
		better := func(j int) bool {
			switch {
			case best < 0 || votes[j] != votes[best]:
				return best < 0 || votes[j] > votes[best]
			case p.taken[j] < 0 != (p.taken[best] < 0):
				return p.taken[j] < 0
			case distance(j, near) != distance(best, near):
				return distance(j, near) < distance(best, near)
			}
			return j < best
		}
		for _, j := range voted {
			if better(j) {
				best = j
			}
		}
		if best >= 0 && 2*votes[best] >= len(lines) {
			p.tie(i, best, SamePart)
			tied = i
		}
		for _, j := range voted {
			votes[j] = 0
		}
	}
}

// maxOfLine bounds the blocks of one line that are weighed for one block: those of a macro,
// or of a function that is inlined everywhere, are many, and the nearest is taken.
const maxOfLine = 256

// nearest returns the blocks of a sorted list around a place.
func nearest(blocks []int, near int) []int {
	if len(blocks) <= maxOfLine {
		return blocks
	}
	at, _ := slices.BinarySearch(blocks, near)
	from := min(max(0, at-maxOfLine/2), len(blocks)-maxOfLine)
	return blocks[from : from+maxOfLine]
}

func distance(a, b int) int { return max(a-b, b-a) }
