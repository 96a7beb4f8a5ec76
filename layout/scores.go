package layout

import (
	"cmp"
	"math"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

// Scores says what a placement of code is worth, by the counts of its procedures.
// It looks at addresses alone and knows nothing of how they came about.
type Scores struct {
	ExtTSP    float64  `json:"ext_tsp"`                 // as Score, of the blocks of all procedures: executions, weighted
	Transfers float64  `json:"transfers"`               // executions of edges between blocks
	Taken     float64  `json:"taken"`                   // those of them that jump: all but fall-throughs
	CallScore float64  `json:"call_score"`              // as CallScore: mean worth of a call
	Distance  float64  `json:"call_distance"`           // mean bytes from a call to its target
	Bytes     Coverage `json:"bytes"`                   // the hottest ones
	Lines     Coverage `json:"cache_lines_64"`          // cache lines
	Pages     Coverage `json:"pages_4k"`                // pages
	HugePages Coverage `json:"pages_2m"`                // huge pages
	Misses    *float64 `json:"icache_misses,omitempty"` // lines missed in an instruction cache of 32 KB and 8 ways, of 1000 instructions of a run drawn from the counts; nil where none was drawn
	Placed    float64  `json:"share_of_executed"`       // of all instructions executed in Procs, the share in blocks that have a place
}

// Coverage is the fewest pieces of memory that hold a share of the executed
// instructions, in percent.
type Coverage struct {
	For90  int `json:"for_90"`
	For99  int `json:"for_99"`
	For999 int `json:"for_99_9"`
}

const (
	lineSize     = 64
	pageSize     = 4096
	hugePageSize = 2 << 20

	procAlign = 16 // what gcc, clang and Go align procedures to on x86-64 and AArch64
)

// Scores judges p. What has no place counts for nothing, in transfers too.
func (p *Placement) Scores() Scores {
	var s Scores
	for i, r := range p.Procs {
		p.scoreEdges(&s, i, r)
	}
	p.scoreCalls(&s)
	var executed, placed float64
	for _, r := range p.Procs {
		executed += instructions(r)
	}
	pieces := p.Pieces()
	for _, c := range pieces {
		placed += c.N
	}
	if executed > 0 {
		s.Placed = min(1, placed/executed)
	}
	s.Bytes = hottestBytes(pieces)
	s.Lines = coverage(pieces, lineSize)
	s.Pages = coverage(pieces, pageSize)
	s.HugePages = coverage(pieces, hugePageSize)
	return s
}

// instructions counts the instructions of r that were executed.
func instructions(r *infer.Result) float64 {
	var n float64
	for i, b := range r.Proc.Blocks {
		n += r.Block[i].N * float64(b.Insts)
	}
	return n
}

// scoreEdges adds the edges of procedure i.
func (p *Placement) scoreEdges(s *Scores, i int, r *infer.Result) {
	for k, e := range r.Proc.Edges {
		n := r.Edge[k].N
		from, to := p.End(i, e.From), p.Start[i][e.To]
		if !(n > 0) || p.Start[i][e.From] == Nowhere || to == Nowhere {
			continue
		}
		s.Transfers += n
		if from != to || e.Kind == image.Indirect { // a jump through a table jumps wherever it leads
			s.Taken += n
		}
		if e.From != e.To { // as in Score
			s.ExtTSP += n * jumpWorth(uint64(from), uint64(to), len(r.Proc.Blocks[e.From].Out))
		}
	}
}

// scoreCalls adds the calls and tail calls between procedures.
func (p *Placement) scoreCalls(s *Scores) {
	var calls float64
	for _, c := range callsAmong(p.Procs) {
		site, to := p.Start[c.from][c.fromBlock], p.Start[c.to][c.toBlock]
		if site == Nowhere || to == Nowhere {
			continue
		}
		site += image.Addr(c.offset)
		s.CallScore += c.n * callWorth(uint64(site), uint64(to))
		s.Distance += c.n * distance(uint64(site), uint64(to))
		calls += c.n
	}
	if calls > 0 {
		s.CallScore /= calls
		s.Distance /= calls
	}
}

// A blockCall is a direct call from a block of one procedure to one of another.
type blockCall struct {
	from, fromBlock int
	to, toBlock     int
	offset          uint64 // of the call from the start of its block, in bytes
	n               float64
}

// callsAmong returns the calls that ran between different ones of procs.
func callsAmong(procs []*infer.Result) []blockCall {
	var calls []blockCall
	for i, r := range procs {
		for k, c := range r.Proc.Calls {
			j := holder(procs, c.To)
			if j < 0 || j == i || !(r.Call[k].N > 0) {
				continue
			}
			b := procs[j].Proc.BlockAt(c.To)
			if b < 0 {
				continue
			}
			offset := uint64(c.Site - r.Proc.Blocks[c.Block].Start)
			calls = append(calls, blockCall{i, c.Block, j, b, offset, r.Call[k].N})
		}
	}
	return calls
}

// coverage counts the pieces of memory of a size that it takes to hold the hottest code.
func coverage(pieces []Piece, size uint64) Coverage {
	heat := map[uint64]float64{} // executed instructions, by piece
	var total float64
	for _, p := range pieces {
		spread(heat, uint64(p.Start), uint64(p.End), size, p.N)
		total += p.N
	}
	hot := make([]float64, 0, len(heat))
	for _, n := range heat {
		hot = append(hot, n)
	}
	slices.SortFunc(hot, func(a, b float64) int { return cmp.Compare(b, a) })
	return Coverage{needed(hot, 0.90*total), needed(hot, 0.99*total), needed(hot, 0.999*total)}
}

// spread adds n to the pieces that [from, to) lies in, by the bytes in each.
func spread(heat map[uint64]float64, from, to, size uint64, n float64) {
	length := float64(to - from)
	for from < to && n > 0 {
		end := min(to-1, from/size*size+size-1) + 1 // the last piece of all ends at 0
		heat[from/size] += n * float64(end-from) / length
		from = end
	}
}

// needed counts the first pieces that add up to want.
func needed(pieces []float64, want float64) int {
	var sum float64
	for i, n := range pieces {
		if sum >= want {
			return i
		}
		sum += n
	}
	return len(pieces)
}

// hottestBytes counts the bytes that it takes, as coverage does: the executions of
// a block are spread over its bytes.
func hottestBytes(pieces []Piece) Coverage {
	pieces = slices.DeleteFunc(slices.Clone(pieces), func(p Piece) bool { return p.Start == p.End || !(p.N > 0) })
	density := func(p Piece) float64 { return p.N / float64(p.End-p.Start) }
	slices.SortStableFunc(pieces, func(a, b Piece) int { return cmp.Compare(density(b), density(a)) })
	var total float64
	for _, p := range pieces {
		total += p.N
	}
	need := func(want float64) int {
		var sum float64
		bytes := 0
		for _, p := range pieces {
			if sum+p.N >= want {
				return bytes + int(math.Ceil((want-sum)/density(p)))
			}
			sum += p.N
			bytes += int(p.End - p.Start)
		}
		return bytes
	}
	return Coverage{need(0.90 * total), need(0.99 * total), need(0.999 * total)}
}

// UpperBound returns scores that no placement of procs can beat, whatever it moves.
// Not all of them need be within reach, let alone together.
//
// Blocks of a procedure are bounded by bound and leastJumps. A call spans at least what lies between it
// and the end of its block, or the beginning of its block and the block that it
// leads to. Some pieces of memory hold no more bytes than their size, and so no more
// executions than as many of the hottest bytes.
func UpperBound(procs []*infer.Result) Scores { return upperBound(procs, nil) }

// upperBound is UpperBound that does a step for each procedure.
func upperBound(procs []*infer.Result, p *progress) Scores {
	linked := Linked(procs)
	s := Scores{Placed: 1, Bytes: hottestBytes(linked.Pieces())}
	for _, r := range procs {
		for _, e := range r.Edge {
			s.Transfers += e.N
		}
		s.ExtTSP += bound(Blocks(r))
		s.Taken += leastJumps(r)
		p.step()
	}
	var calls float64
	for _, c := range callsAmong(procs) {
		from, to := &procs[c.from].Proc.Blocks[c.fromBlock], &procs[c.to].Proc.Blocks[c.toBlock]
		d := min(uint64(from.End-from.Start)-c.offset, c.offset+uint64(to.End-to.Start))
		s.CallScore += c.n * callWorth(0, d)
		s.Distance += c.n * float64(d)
		calls += c.n
	}
	if calls > 0 {
		s.CallScore /= calls
		s.Distance /= calls
	}
	s.Lines, s.Pages, s.HugePages = s.Bytes.in(lineSize), s.Bytes.in(pageSize), s.Bytes.in(hugePageSize)
	return s
}

// in returns the pieces of a size that so many bytes fill.
func (c Coverage) in(size int) Coverage {
	up := func(n int) int { return (n + size - 1) / size }
	return Coverage{up(c.For90), up(c.For99), up(c.For999)}
}
