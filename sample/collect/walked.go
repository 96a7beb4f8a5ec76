package collect

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"backfeed/sample"
)

// A trail is what the kernel tells of a walk: with the code, it gives the whole way.
type trail struct {
	start   uint32 // operation
	steps   uint32
	end     uint32   // index into WalkEnd
	taken   []bool   // by conditional branch
	targets []uint32 // operations that indirect branches went to
}

// Layout of struct trail of bpf/walker.c: six words of 4 bytes, a bit for each of
// mostOutcomes, and the targets.
const (
	trailHead    = 24
	mostOutcomes = 512
	trailSize    = trailHead + mostOutcomes/8 // without targets
)

// decodeTrail reads one.
func decodeTrail(b []byte) (trail, error) {
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	if len(b) < trailSize {
		return trail{}, fmt.Errorf("trail of %d bytes: %w", len(b), errRecord)
	}
	t := trail{start: word(0), steps: word(4), end: word(8)}
	outcomes, targets := word(12), word(16)
	if t.end >= walkEnds || outcomes > mostOutcomes+1 || uint64(targets) > uint64(len(b)-trailSize)/4 {
		return trail{}, fmt.Errorf("trail of %d bytes with %d outcomes and %d targets: %w", len(b), outcomes, targets, errRecord)
	}
	for i := range int(min(outcomes, mostOutcomes)) {
		t.taken = append(t.taken, b[trailHead+i/8]>>(i%8)&1 == 1)
	}
	for i := range int(targets) {
		t.targets = append(t.targets, word(trailSize+4*i))
	}
	return t, nil
}

// follow goes the way of t, and calls at for each branch on it: with its operation, whether
// it was taken, and whether that was in a call that began on the way. It gives the last
// operation.
func (c *walkCode) follow(t *trail, at func(op uint32, taken, inner bool)) (last uint32) {
	taken, targets, depth := t.taken, t.targets, 0
	op := t.start
	for range t.steps {
		if op == 0 || int(op) >= len(c.ops) {
			break
		}
		last = op
		o := &c.ops[op]
		if o.Branch == NoBranch {
			op++
			continue
		}
		goes := true
		if o.Branch == BranchCond {
			if len(taken) == 0 {
				break
			}
			goes, taken = taken[0], taken[1:]
		}
		at(op, goes, depth > 0)
		switch {
		case o.Branch == BranchCall:
			depth++
		case o.Branch == BranchReturn && depth > 0:
			depth--
		}
		switch {
		case !goes:
			op++
		case o.Target != 0:
			op = c.targets[op]
		case len(targets) > 0:
			op, targets = targets[0], targets[1:]
		default:
			op = 0
		}
	}
	return last
}

// batchTime is how long the walks are that are compared with one another, to tell how
// much programs change.
const batchTime = 5 * time.Second

// A walkedPlace is what walks saw of one branch, apart for calls that were under way when a
// walk began and for those that began in it.
type walkedPlace struct{ outer, inner walkedWays }

// walkedWays are executions of a branch, and those that were taken.
type walkedWays struct {
	n, taken float64
	// Over batches: sums of squares of the executions, and of those that were taken, and of
	// their products.
	nn, tt, nt float64
}

func (w *walkedWays) add(n, taken float64) {
	w.n, w.taken = w.n+n, w.taken+taken
	w.nn, w.tt, w.nt = w.nn+n*n, w.tt+taken*taken, w.nt+n*taken
}

const (
	// clump is how many executions of one branch in one walk are about as good as one: a loop
	// fills a walk.
	clump = 4
	// innerSD is the standard deviation, in logits, of where a branch goes in calls that begin
	// in walks, beside where it goes. A walk sees the first few hundred instructions of them: loops
	// that go on for long look short; and it comes to them too often from code that runs slowly,
	// where walks begin. A loop of bzip2 that ends in 7 of 100 turns did so in 33 of those, and in
	// 10 of others. Over four programs, with the walks of a minute at 1 %, the mean block
	// overlap is 0.819 without this, 0.839 with 0.1, 0.851 with 0.15, 0.858 with 0.2, 0.856 with
	// 0.3 and 0.850 with 1; nearly all of the gain is in bzip2, 0.79 to 0.94.
	innerSD = 0.2
)

// worth is how many independent executions tell as much as those of w, of which nothing is
// surer than a standard deviation of sd, in logits.
func (w *walkedWays) worth(sd float64) float64 {
	if w.n == 0 {
		return 0
	}
	share := w.taken / w.n
	chance := clump * w.n * share * (1 - share)
	of := w.n / clump
	if spread := w.tt - 2*share*w.nt + share*share*w.nn; chance > 0 && spread > chance {
		of *= chance / spread
	}
	likely := (w.taken + 0.5) / (w.n + 1)
	return min(of, 1/(sd*sd*likely*(1-likely)))
}

// probed gives what was seen in so many batches. Of the outcomes, so many are told as taken
// as is most probable by those of both kinds.
func (p *walkedPlace) probed(batches int, cond bool) sample.Probed {
	n := p.outer.n + p.inner.n
	if n == 0 {
		return sample.Probed{Windows: uint64(max(1, batches))}
	}
	seen := max(1, uint64(math.Round(n))) // what was seen at all is told
	out := sample.Probed{Windows: uint64(max(1, batches)), Visits: seen}
	if !cond {
		return out
	}
	var of, share, taken float64
	for _, w := range []struct {
		*walkedWays
		sd float64
	}{{&p.outer, 0}, {&p.inner, innerSD}} {
		if worth := w.worth(w.sd); worth > 0 {
			of += worth
			share += worth * w.taken / w.n
			taken += w.taken
		}
	}
	share /= of
	out.Outcomes, out.Taken = seen, uint64(math.Round(share*float64(seen)))
	if taken > 0 {
		out.Taken = max(1, out.Taken)
	}
	if taken < n && seen > 1 {
		out.Taken = min(seen-1, out.Taken)
	}
	out.Spread = sample.SquareOf(math.Ceil(sq(float64(seen)) * share * (1 - share) / of))
	return out
}

// A walkedAt is one branch.
type walkedAt struct {
	id   sample.ImageID // by key
	off  sample.Offset
	cond bool
}

// A walkSpot is an instruction where walks begin or end.
type walkSpot struct {
	id        sample.ImageID // by key
	proc, off uint64         // off by sample.Offset
}

// A seenWalk is a walk by what it came by, in numbers of walked.
type seenWalk struct {
	batch int
	start int32   // spot
	end   int32   // spot; -1 if it did not go on to its full length
	at    []int32 // what it came by: place * 4 + taken * 2 + inner
}

// walked is what all walks saw.
type walked struct {
	mu      sync.Mutex
	ids     map[sample.ImageID]sample.ImageID // by key
	place   map[walkedAt]int32
	places  []walkedAt
	spot    map[walkSpot]int32
	walks   []seenWalk
	batches int

	// Of walks before: those, by place, with the weights that they had.
	before []walkedPlace
}

// mostWalks is how many walks are kept one by one.
const mostWalks = 20000

// add adds a walk of one batch; batches go up.
func (w *walked) add(c *walkCode, images []WalkImage, t *trail, batch int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.place == nil {
		w.ids, w.place, w.spot = map[sample.ImageID]sample.ImageID{}, map[walkedAt]int32{}, map[walkSpot]int32{}
	}
	s := seenWalk{batch: batch, end: -1}
	last := c.follow(t, func(op uint32, taken, inner bool) {
		o, id := &c.ops[op], images[c.image[op]].ID
		place := walkedAt{id.Key(), o.Off, o.Branch == BranchCond}
		n := 4 * number(w.place, place)
		if int(n/4) == len(w.places) {
			w.ids[place.id] = id
			w.places = append(w.places, place)
		}
		if taken && place.cond {
			n |= 2
		}
		if inner {
			n |= 1
		}
		s.at = append(s.at, n)
	})
	if last == 0 {
		return
	}
	in := func(op uint32) int32 {
		return number(w.spot, walkSpot{images[c.image[op]].ID.Key(), c.ops[op].Proc, uint64(c.ops[op].Off)})
	}
	s.start = in(t.start)
	if t.end == 0 {
		s.end = in(last)
	}
	w.walks = append(w.walks, s)
	if len(w.walks) >= mostWalks {
		w.before, w.batches = w.sum()
		w.walks = w.walks[:0]
	}
}

// number gives the number of k, the next one if it is new.
func number[K comparable](numbers map[K]int32, k K) int32 {
	n, ok := numbers[k]
	if !ok {
		n = int32(len(numbers))
		numbers[k] = n
	}
	return n
}

// sum gives what was seen by place, and in how many batches.
func (w *walked) sum() ([]walkedPlace, int) {
	sums := append(slices.Clone(w.before), make([]walkedPlace, len(w.places)-len(w.before))...)
	batches := w.batches
	region := w.regions()
	weights := w.weights(region)
	type ways struct{ n, taken [2]float64 } // outer, inner
	of := map[int32]*ways{}
	flush := func() {
		for at, b := range of {
			sums[at].outer.add(b.n[0], b.taken[0])
			sums[at].inner.add(b.n[1], b.taken[1])
		}
		clear(of)
		batches++
	}
	for i, s := range w.walks {
		if i > 0 && s.batch != w.walks[i-1].batch {
			flush()
		}
		for _, n := range s.at {
			b := of[n/4]
			if b == nil {
				b = &ways{}
				of[n/4] = b
			}
			weight := weights[region[s.start]]
			b.n[n&1] += weight
			b.taken[n&1] += weight * float64(n>>1&1)
		}
	}
	if len(w.walks) > 0 {
		flush()
	}
	return sums, batches
}

// regionStarts is how many walks begin in a region, at least, if so many begin in its procedure.
const regionStarts = 100

// regions gives each spot the number of its region: neighbours of one procedure.
func (w *walked) regions() []int32 {
	starts := make([]int, len(w.spot))
	for _, s := range w.walks {
		starts[s.start]++
	}
	spots := slices.SortedFunc(maps.Keys(w.spot), func(a, b walkSpot) int {
		return cmp.Or(cmp.Compare(a.id.Path, b.id.Path), bytes.Compare(a.id.Build[:], b.id.Build[:]), cmp.Compare(a.proc, b.proc), cmp.Compare(a.off, b.off))
	})
	region := make([]int32, len(spots))
	now, n := int32(0), 0
	for i, p := range spots {
		if i > 0 && (p.id != spots[i-1].id || p.proc != spots[i-1].proc || n >= regionStarts) {
			now, n = now+1, 0
		}
		region[w.spot[p]] = now
		n += starts[w.spot[p]]
	}
	return region
}

// weights gives the weights of walks by the region where they began.
func (w *walked) weights(region []int32) []float64 {
	var m moves
	for _, s := range w.walks {
		end := s.end
		if end >= 0 {
			end = region[end]
		}
		m.add(region[s.start], end)
	}
	return m.weights()
}

// addTo adds all that was seen to counts.
func (w *walked) addTo(counts *sample.Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sums, batches := w.sum()
	for i, p := range sums {
		at := w.places[i]
		counts.AddProbed(counts.Image(w.ids[at.id]), at.off, p.probed(batches, at.cond))
	}
}

// forget begins anew.
func (w *walked) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids, w.place, w.places, w.spot = nil, nil, nil, nil
	w.walks, w.batches, w.before = nil, 0, nil
}

// Moves are how many walks went from where to where, by region.
//
// Walks begin where time is spent, and so the more often the slower the code is there; what
// they see should weigh as much as instructions that ran. Where a program is, counted by
// instructions, does not change by its running so many instructions more: of walks with the
// right weights, as many begin in a region as end in it. That gives the weights, as far as
// walks lead from region to region. Of regions that hardly any lead out of and into, the mean
// weight is about one: nothing is known of how slow they are.
type moves struct {
	starts []float64           // walks by region
	to     []map[int32]float64 // those of full length, by region and where they ended
}

// Of each region as many more walks are thought to have come and gone, with a weight of one,
// as heldShare of those that begin there and heldFew. Over four programs, with the walks of a
// minute at 1 %, the mean block overlap is 0.855 without weights and 0.858, 0.862 and 0.863 with
// 0.03, 0.1 and 0.3; of SQLite, where it matters most, 0.868 without and 0.889, 0.889 and 0.885.
const heldShare, heldFew = 0.1, 1

func (m *moves) add(start, end int32) {
	for len(m.starts) <= int(max(start, end)) {
		m.starts, m.to = append(m.starts, 0), append(m.to, nil)
	}
	m.starts[start]++
	if end < 0 || end == start {
		return
	}
	if m.to[start] == nil {
		m.to[start] = map[int32]float64{}
	}
	m.to[start][end]++
}

// weights gives those of walks, by the region where they began. Their mean over all walks
// is one.
func (m *moves) weights() []float64 {
	type move struct {
		from int32
		n    float64
	}
	w := make([]float64, len(m.starts))
	out := make([]float64, len(w))
	in := make([][]move, len(w))
	for from := range m.to {
		w[from] = 1
		for to, n := range m.to[from] {
			out[from] += n
			in[to] = append(in[to], move{int32(from), n})
		}
	}
	for to := range in { // sums in one order, whatever that of the map
		slices.SortFunc(in[to], func(a, b move) int { return int(a.from - b.from) })
	}
	const rounds, near = 200, 1e-4
	for range rounds {
		far := 0.0
		for g := range w {
			held := heldShare*m.starts[g] + heldFew
			came := held
			for _, v := range in[g] {
				came += w[v.from] * v.n
			}
			to := came / (out[g] + held)
			far = max(far, math.Abs(to-w[g])/w[g])
			w[g] = to
		}
		if far < near {
			break
		}
	}
	var sum, all float64
	for g, n := range m.starts {
		sum += w[g] * n
		all += n
	}
	for g := range w {
		w[g] *= all / max(sum, 1e-300)
	}
	return w
}
