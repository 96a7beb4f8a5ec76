package layout

import (
	"math/rand/v2"
	"slices"
	"sort"

	"backfeed/infer"
	"backfeed/infer/image"
)

// A trail is a run of some procedures, drawn from their counts: legs through their blocks that begin
// in proportion to the instructions executed there, below callers drawn by how often they call, and that turn
// at each block by its edges. It is the same wherever the code lies, so that placements are compared by what
// each makes of one trail. It goes through the procedures of other images, too, which take room in the cache:
// these stay where they are.
//
// Each turn is drawn by itself: a branch knows nothing of the one before. Indirect calls lead to what is
// entered more often than direct calls say, wherever they are in the image; calls into another image of which no
// name says where they lead, to such procedures of other images.
type trail struct {
	procs    []*infer.Result // of the image whose code is ordered, by address; then those of others
	homes    []home          // that image, and the others
	segments []segment
	legs     []leg
}

// A home is an image: its procedures are those from first to end.
type home struct {
	image      *image.Image
	first, end int32
	lines      uint32 // to add to the lines of its addresses, so that no two images share one; in whole sets
}

// A segment is what runs without a transfer: of a block, what lies between two of its calls.
type segment struct {
	proc, block int32
	from, to    uint32 // bytes from the start of the block
	insts       float32
}

// A leg is the segments that it goes through, as indices, without those that ran again while they were
// among the last few: up to recentSegments of them never miss, wherever they lie.
type leg struct {
	steps []int32
	insts float64 // that it executes after its first warmSteps
}

const (
	legs           = 24
	legSteps       = 100_000
	warmSteps      = 16_000 // fill the cache, and are not counted
	legDrawn       = 6      // segments drawn for each that is kept, at most: some loops stay in a few
	recentSegments = 4      // of 4 KB at most, they put no more than two lines each into a set of eight
	legFrames      = 128    // callers that are drawn, and that a leg keeps
)

// newTrail draws a trail of procs, which are by address, alone. The same counts and seed give the same one.
func newTrail(procs []*infer.Result, seed uint64, n int) *trail {
	return newTrailBeside(procs, nil, nil, nil, seed, n)
}

// newTrailBeside draws one of procs of im and the code of a program's other images, whose calls lead where linkage says.
func newTrailBeside(procs []*infer.Result, im *image.Image, program []*infer.ImageProfile, linkage *infer.Linkage, seed uint64, n int) *trail {
	t := &trail{procs: slices.Clip(procs)}
	homes := t.settle(im, program)
	procs = t.procs
	d := &drawer{trail: t, flows: make([][]blockFlow, len(procs)), callers: make([]weighted, len(procs)),
		targets: make([]weighted, len(t.homes)), indirect: make([]weighted, len(t.homes)),
		linkage: linkage, homeOfImage: homes, rng: rand.New(rand.NewPCG(seed, 1))}
	explained := make([]float64, len(procs)) // entries, by direct calls
	for i := range procs {
		d.take(int32(i), explained)
	}
	for i, r := range procs {
		if n := r.Entries.N - explained[i]; n > 0 {
			at, h := partRef{int32(i), 0, 0}, t.homeOf(int32(i))
			d.targets[h].add(n, at)
			if h > 0 {
				d.foreign.add(n, at)
			}
		}
	}
	if d.starts.total() > 0 {
		for range n {
			d.legs = append(d.legs, d.leg())
		}
	}
	return d.trail
}

// A drawer draws a trail.
type drawer struct {
	*trail
	flows       [][]blockFlow // by procedure, then as its blocks
	callers     []weighted    // of each procedure: what its direct calls return to, by calls
	starts      weighted      // blocks, by the instructions executed in them
	targets     []weighted    // by home: entries, by what no direct call explains
	foreign     weighted      // those of all homes but the first
	indirect    []weighted    // by home: what indirect calls return to, by calls
	imported    weighted      // what calls return to that lead to other images, nobody knows where
	linkage     *infer.Linkage
	homeOfImage map[*infer.ImageProfile]int
	rng         *rand.Rand
}

// A partRef names a part of a block.
type partRef struct{ proc, block, part int32 }

// A blockFlow is how a block goes on.
type blockFlow struct {
	parts []part
	out   weighted // blocks, by edges
	n     float64  // how often it is left: by edges, or out of the procedure
}

// A part of a block ends in a call, but for the last.
type part struct {
	segment int32   // -1 has no bytes
	call    float64 // of the executions of the block, those in which it calls; 0 where nothing is called
	to      partRef // proc is anywhere of an indirect call, abroad of one that leads to another image
	tail    bool
}

// Where calls lead of which no more is known: in the image, or in another one.
const anywhere, abroad = -1, -2

// weighted draws places by weights.
type weighted struct {
	places []partRef
	sums   []float64 // of the weights so far
}

func (w *weighted) total() float64 {
	if len(w.sums) == 0 {
		return 0
	}
	return w.sums[len(w.sums)-1]
}

func (w *weighted) add(n float64, p partRef) {
	w.sums = append(w.sums, w.total()+n)
	w.places = append(w.places, p)
}

// at returns the place that x falls to, which is less than the total.
func (w *weighted) at(x float64) partRef {
	i := sort.Search(len(w.sums), func(i int) bool { return w.sums[i] > x })
	return w.places[min(i, len(w.places)-1)]
}

func (w *weighted) draw(rng *rand.Rand) partRef { return w.at(rng.Float64() * w.total()) }

// take takes in procedure i.
func (d *drawer) take(i int32, explained []float64) {
	r := d.procs[i]
	d.flows[i] = make([]blockFlow, len(r.Proc.Blocks))
	for b := range r.Proc.Blocks {
		block, f := &r.Proc.Blocks[b], &d.flows[i][b]
		if n := r.Block[b].N * float64(block.Insts); n > 0 {
			d.starts.add(n, partRef{i, int32(b), 0})
		}
		d.takeCalls(i, b, f, explained)
		for _, e := range block.Out {
			if n := r.Edge[e].N; n > 0 {
				f.out.add(n, partRef{i, int32(r.Proc.Edges[e].To), 0})
			}
		}
		f.n = f.out.total()
		if block.Exit != image.NoExit || f.n == 0 {
			f.n = max(f.n, r.Block[b].N)
		}
	}
}

// takeCalls divides block b of procedure i into parts.
func (d *drawer) takeCalls(i int32, b int, f *blockFlow, explained []float64) {
	r, home := d.procs[i], d.homeOf(i)
	block, from := &r.Proc.Blocks[b], r.Proc.Blocks[b].Start
	for _, c := range block.Calls { // by address, as Proc.Calls
		call, n := &r.Proc.Calls[c], r.Call[c].N
		if !(n > 0) || call.Return <= from || call.Return > block.End {
			continue
		}
		to, ok := d.callee(home, call)
		if !ok {
			continue
		}
		p := part{to: to, tail: call.Tail, call: n / max(r.Block[b].N, n), segment: d.segment(i, b, from, call.Return)}
		f.parts = append(f.parts, p)
		back := partRef{i, int32(b), int32(len(f.parts))}
		switch to.proc {
		case anywhere:
			d.indirect[home].add(n, back)
		case abroad:
			d.imported.add(n, back)
		default:
			explained[to.proc] += n
			d.callers[to.proc].add(n, back)
		}
		from = call.Return
	}
	f.parts = append(f.parts, part{segment: d.segment(i, b, from, block.End)})
}

// callee returns where a call of a home leads. It is not ok of calls that lead to no code that is in the trail.
func (d *drawer) callee(home int, call *image.Call) (to partRef, ok bool) {
	addr := call.To
	if d.linkage != nil {
		if ip, at, imported := d.linkage.Callee(d.homes[home].image, call); imported {
			h, known := d.homeOfImage[ip]
			if !known {
				return partRef{proc: abroad}, true
			}
			home, addr = h, at
		}
	}
	if addr == 0 {
		return partRef{proc: anywhere}, true
	}
	h := &d.homes[home]
	i := holder(d.procs[h.first:h.end], addr)
	if i < 0 {
		return partRef{}, false // of another image, or a stub
	}
	i += int(h.first)
	entry := d.procs[i].Proc.BlockAt(addr)
	return partRef{int32(i), int32(entry), 0}, entry >= 0
}

// segment adds a segment of block b of procedure i.
func (d *drawer) segment(i int32, b int, from, to image.Addr) int32 {
	if from >= to {
		return -1
	}
	block := &d.procs[i].Proc.Blocks[b]
	share := float32(to-from) / float32(block.End-block.Start)
	d.segments = append(d.segments, segment{i, int32(b), uint32(from - block.Start), uint32(to - block.Start), share * float32(block.Insts)})
	return int32(len(d.segments) - 1)
}

// leg draws a leg: where the outermost procedure returns, it begins anew.
func (d *drawer) leg() leg {
	w := legDrawer{drawer: d, left: legSteps * legDrawn}
	for len(w.steps) < legSteps && w.left > 0 {
		at, frames := d.begin()
		w.run(at, frames)
	}
	return w.leg
}

// begin draws where a leg begins, and what it returns to, the innermost last.
func (d *drawer) begin() (partRef, []partRef) {
	at := d.starts.draw(d.rng)
	var frames []partRef
	for p := at.proc; len(frames) < legFrames; {
		direct := d.callers[p].total()
		x := d.rng.Float64() * max(direct, d.procs[p].Entries.N)
		switch {
		case x < direct:
			frames = append(frames, d.callers[p].at(x))
		case d.indirectTo(p) > 0:
			frames = append(frames, d.drawIndirect(p))
		default:
			slices.Reverse(frames)
			return at, frames
		}
		p = frames[len(frames)-1].proc
	}
	slices.Reverse(frames)
	return at, frames
}

// indirectTo returns how many calls may lead to procedure p by themselves: those through pointers in its image, and of
// other images' procedures those that came from elsewhere.
func (d *drawer) indirectTo(p int32) float64 {
	h := d.homeOf(p)
	n := d.indirect[h].total()
	if h > 0 {
		n += d.imported.total()
	}
	return n
}

func (d *drawer) drawIndirect(p int32) partRef {
	own := &d.indirect[d.homeOf(p)]
	x := d.rng.Float64() * d.indirectTo(p)
	if x < own.total() {
		return own.at(x)
	}
	return d.imported.at(x - own.total())
}

// homeOf returns the home of procedure p.
func (t *trail) homeOf(p int32) int {
	return sort.Search(len(t.homes), func(h int) bool { return p < t.homes[h].end })
}

// settle appends the procedures of a program's other images that ran, and returns the home of each image.
func (t *trail) settle(im *image.Image, program []*infer.ImageProfile) map[*infer.ImageProfile]int {
	of := map[*infer.ImageProfile]int{}
	t.homes = []home{{image: im, end: int32(len(t.procs))}}
	const own = 1 << 31 // lines: where im and its order lie
	lines := uint32(own)
	for _, ip := range program {
		if ip.Image == im {
			of[ip] = 0
			continue
		}
		h := home{image: ip.Image, first: int32(len(t.procs))}
		var low, high image.Addr
		for _, r := range ip.Procs {
			if r.Samples == 0 && r.Entries.N < 0.5 || len(r.Proc.Blocks) == 0 || ip.Image.IsStub(r.Proc.Addr) {
				continue
			}
			if h.first == int32(len(t.procs)) {
				low = r.Proc.Addr / pageSize * pageSize
			}
			t.procs = append(t.procs, r)
			high = max(high, r.Proc.Addr+image.Addr(r.Proc.Size))
		}
		span := (high - low) / lineSize / setsOfPage * setsOfPage
		if h.end = int32(len(t.procs)); h.end == h.first || uint64(span)+setsOfPage > uint64(^uint32(0)-lines) {
			t.procs = t.procs[:h.first] // no code, or nowhere to put it
			continue
		}
		h.lines = lines - uint32(low/lineSize)
		lines += uint32(span) + setsOfPage
		of[ip] = len(t.homes)
		t.homes = append(t.homes, h)
	}
	return of
}

// setsOfPage is how many lines a page has: images are loaded at whole pages, so that the sets of their lines are known.
const setsOfPage = pageSize / lineSize

// A legDrawer is a leg that is being drawn.
type legDrawer struct {
	*drawer
	leg
	recent [recentSegments]int32 // each one more; 0 is none
	left   int                   // segments that may be drawn
}

// run goes on from a place until it returns from all frames, or the leg is long enough.
func (w *legDrawer) run(at partRef, frames []partRef) {
	for ; len(w.steps) < legSteps && w.left > 0; w.left-- {
		f := &w.flows[at.proc][at.block]
		if int(at.part) < len(f.parts) {
			p := &f.parts[at.part]
			w.step(p.segment)
			at.part++
			if !(p.call > 0) || w.rng.Float64() >= p.call {
				continue
			}
			to := p.to
			if to.proc < 0 {
				from := &w.foreign
				if to.proc == anywhere {
					from = &w.targets[w.homeOf(at.proc)]
				}
				if from.total() == 0 {
					continue
				}
				to = from.draw(w.rng)
			}
			if !p.tail {
				if len(frames) > 2*legFrames { // recursion; what is outermost is forgotten
					frames = append(frames[:0], frames[legFrames:]...)
				}
				frames = append(frames, at)
			}
			at = to
			continue
		}
		if x := w.rng.Float64() * f.n; x < f.out.total() {
			at = f.out.at(x)
			continue
		}
		if len(frames) == 0 {
			return
		}
		at, frames = frames[len(frames)-1], frames[:len(frames)-1]
	}
}

// step adds a segment to the leg.
func (w *legDrawer) step(s int32) {
	if s < 0 {
		return
	}
	if len(w.steps) >= warmSteps {
		w.insts += float64(w.segments[s].insts)
	}
	k := slices.Index(w.recent[:], s+1)
	if k < 0 {
		w.steps = append(w.steps, s)
		k = len(w.recent) - 1
	}
	copy(w.recent[1:k+1], w.recent[:k])
	w.recent[0] = s + 1
}

// A cache is an instruction cache that replaces what was used least recently in a set.
type cache struct{ sets, ways int }

// firstLevel is what callgrind simulates by default where it runs, and most x86-64 and many AArch64
// processors have: 32 KB in lines of 64 bytes.
var firstLevel = cache{64, 8}

// misses returns, for each leg, how many lines are missing in a cache where p puts the code, for 1000 of
// its instructions. What has no place is not run.
func (t *trail) misses(p *Placement, c cache) []float64 {
	return t.missesAt(c, func(proc, block int32) image.Addr { return p.Start[proc][block] }, nil)
}

// missesAt is misses where blocks of the first home are where start says. To each procedure of by, which may be nil and has
// those of the first home, it adds the lines of it that are missing.
func (t *trail) missesAt(c cache, start func(proc, block int32) image.Addr, by []float64) []float64 {
	type lines struct{ first, end uint32 }
	at := make([]lines, len(t.segments))
	for i, s := range t.segments {
		a, more := image.Addr(0), uint32(0)
		if h := t.homeOf(s.proc); h == 0 {
			a = start(s.proc, s.block)
		} else {
			a, more = t.procs[s.proc].Proc.Blocks[s.block].Start, t.homes[h].lines
		}
		if a != Nowhere {
			at[i] = lines{more + uint32((uint64(a)+uint64(s.from))/lineSize), more + uint32((uint64(a)+uint64(s.to)-1)/lineSize) + 1}
		}
	}
	sets := make([]uint32, c.sets*c.ways) // lines and one more, the last used first
	mask := uint32(c.sets - 1)            // a power of two, as of every such cache: to divide takes longer than all the rest
	missed := make([]float64, len(t.legs))
	for i, w := range t.legs {
		clear(sets)
		n, last := 0, ^uint32(0)
		for k, s := range w.steps {
			if k == warmSteps {
				n = 0
			}
			for l := at[s].first; l < at[s].end; l++ {
				if l == last {
					continue
				}
				last = l
				set := sets[int(l&mask)*c.ways:][:c.ways]
				moved, found := set[0], set[0] == l+1
				set[0] = l + 1
				for way := 1; way < len(set) && !found; way++ { // each takes the place of the next, up to where the line was
					moved, set[way] = set[way], moved
					found = moved == l+1
				}
				if !found {
					n++
					if p := int(t.segments[s].proc); p < len(by) {
						by[p]++
					}
				}
			}
		}
		if len(w.steps) > warmSteps && w.insts > 0 {
			missed[i] = 1000 * float64(n) / w.insts
		}
	}
	return missed
}

// fits reports whether all code that ran fits into the cache where p puts it, so that each line is missing once at most.
func fits(p *Placement, c cache) bool {
	held, last := make([]int, c.sets), ^uint64(0)
	for _, piece := range p.Pieces() { // by address
		if !(piece.N > 0) || piece.Start >= piece.End {
			continue
		}
		for l := uint64(piece.Start) / lineSize; l <= uint64(piece.End-1)/lineSize; l++ {
			if l == last {
				continue
			}
			last = l
			if held[l%uint64(c.sets)]++; held[l%uint64(c.sets)] > c.ways {
				return false
			}
		}
	}
	return true
}
