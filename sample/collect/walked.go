package collect

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"backfeed/sample"
)

// A trail is what the kernel tells of a walk: with the code, it gives the whole way.
type trail struct {
	start    uint32 // operation
	steps    uint32
	end      WalkEnd
	left     uint64   // where an indirect branch left the code that is known, as linked; 0 is in no image
	pages    uint32   // walkRange.pages of the image that left is in
	outcomes []via    // by conditional branch
	targets  []uint32 // operations that indirect branches went to
}

// A via is how a walk came by a branch. The number of the place, times viaPlace, is added to it
// where places have numbers.
type via int32

const (
	viaInner   via = 1 << iota // in a call that began on the way
	viaTaken                   // jumps, calls and returns always are
	viaGuessed                 // it is not known whether it was taken
	viaPlace
)

// place gives which one it was.
func (v via) place() int32 { return int32(v / viaPlace) }

// Layout of struct trail of bpf/walker.c: six words of 4 bytes, one of 8, two bits for each of
// mostOutcomes, and the targets.
const (
	trailHead    = 32
	mostOutcomes = 512
	trailGuessed = trailHead + mostOutcomes/8
	trailSize    = trailGuessed + mostOutcomes/8 // without targets
)

// decodeTrail reads one.
func decodeTrail(b []byte) (trail, error) {
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	if len(b) < trailSize {
		return trail{}, fmt.Errorf("trail of %d bytes: %w", len(b), errRecord)
	}
	t := trail{start: word(0), steps: word(4), end: WalkEnd(word(8)), pages: word(20), left: binary.NativeEndian.Uint64(b[24:])}
	outcomes, targets := word(12), word(16)
	if t.end >= walkEnds || outcomes > mostOutcomes+1 || uint64(targets) > uint64(len(b)-trailSize)/4 {
		return trail{}, fmt.Errorf("trail of %d bytes with %d outcomes and %d targets: %w", len(b), outcomes, targets, errRecord)
	}
	for i := range int(min(outcomes, mostOutcomes)) {
		bit := func(at int) via { return via(b[at+i/8] >> (i % 8) & 1) }
		t.outcomes = append(t.outcomes, bit(trailHead)*viaTaken|bit(trailGuessed)*viaGuessed)
	}
	for i := range int(targets) {
		t.targets = append(t.targets, word(trailSize+4*i))
	}
	return t, nil
}

// follow goes the way of t, and calls at for each branch on it with its operation. It gives the
// last operation.
func (c *walkCode) follow(t *trail, at func(op uint32, how via)) (last uint32) {
	outcomes, targets, depth := t.outcomes, t.targets, 0
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
		how := viaTaken
		if o.Branch == BranchCond {
			if len(outcomes) == 0 {
				break
			}
			how, outcomes = outcomes[0], outcomes[1:]
		}
		if depth > 0 {
			how |= viaInner
		}
		at(op, how)
		switch {
		case o.Branch == BranchCall:
			depth++
		case o.Branch == BranchReturn && depth > 0:
			depth--
		}
		switch {
		case how&viaTaken == 0:
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
type walkedPlace struct {
	outer, inner walkedWays
	guessed      float64 // executions with ways that were guessed
}

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
	out := sample.Probed{Windows: uint64(max(1, batches)), Visits: whole(n + p.guessed)}
	if n == 0 || !cond {
		return out
	}
	seen := whole(n)
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

// whole rounds what was seen: if it was seen at all, to something.
func whole(n float64) uint64 {
	if n == 0 {
		return 0
	}
	return max(1, uint64(math.Round(n)))
}

// A walkedAt is one branch.
type walkedAt struct {
	id   sample.ImageID // by key
	off  sample.Offset
	cond bool
}

// A walkSpot is an instruction where walks begin or end. Loop tells how long a walk goes round
// one loop from there on, or did up to there: a loop that goes on for long is a phase of its own.
type walkSpot struct {
	id   sample.ImageID // by key
	proc uint64
	loop int
	off  uint64 // by sample.Offset
}

// turnsKinds are as many times as a walk comes by the same branch at first, or at last, and by no
// other, from which on a spot is of the next kind. Of all spots where code of a loop runs, as many
// have so many turns before them as after them. Over four programs, with the walks and windows of
// three recordings at 1 % and one at 3 %, the mean block overlap is 0.891 without this, 0.894 with
// 12, 0.896 with 12 and 40, and 0.895 with 4, 16 and 48.
var turnsKinds = []int{12, 40}

// loopOf gives the kind of a walk that comes by places in that order, as seenWalk has them.
func loopOf(places iter.Seq[via]) (kind int) {
	n, first := 0, int32(-1)
	for at := range places {
		if n > 0 && at.place() != first {
			break
		}
		n, first = n+1, at.place()
	}
	for kind < len(turnsKinds) && n >= turnsKinds[kind] {
		kind++
	}
	return kind
}

// backward gives the values of s from its end.
func backward(s []via) iter.Seq[via] {
	return func(yield func(via) bool) {
		for _, v := range slices.Backward(s) {
			if !yield(v) {
				return
			}
		}
	}
}

// A seenWalk is a walk by what it came by, in numbers of walked.
type seenWalk struct {
	batch int
	steps int32 // instructions
	start int32 // spot
	end   int32 // spot; -1 if it did not go on to its full length
	at    []via // what it came by, with places
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
	rates   []SiteRate // as windows told last

	// Walks through the code that they go through now: those that left it, by where they went on to,
	// as far as that is known, and all.
	left map[WalkLeft]int
	went int

	// Of walks before: those, by place, with the weights that they had.
	before []walkedPlace
}

// mostWalks is how many walks are kept one by one.
const mostWalks = 40000

// add adds a walk of one batch; batches go up.
func (w *walked) add(c *walkCode, images []WalkImage, t *trail, batch int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.place == nil {
		w.ids, w.place, w.spot = map[sample.ImageID]sample.ImageID{}, map[walkedAt]int32{}, map[walkSpot]int32{}
	}
	s := seenWalk{batch: batch, steps: int32(t.steps), end: -1}
	last := c.follow(t, func(op uint32, how via) {
		o, id := &c.ops[op], images[c.image[op]].ID
		place := walkedAt{id.Key(), o.Off, o.Branch == BranchCond}
		n := number(w.place, place)
		if int(n) == len(w.places) {
			w.ids[place.id] = id
			w.places = append(w.places, place)
		}
		s.at = append(s.at, via(n)*viaPlace|how)
	})
	w.went++
	if last == 0 {
		return
	}
	if t.end == EndOutside {
		w.leave(c, images, t, last)
	}
	in := func(op uint32, loop int) int32 {
		return number(w.spot, walkSpot{images[c.image[op]].ID.Key(), c.ops[op].Proc, loop, uint64(c.ops[op].Off)})
	}
	s.start = in(t.start, loopOf(slices.Values(s.at)))
	if t.end == EndLength {
		s.end = in(last, loopOf(backward(s.at)))
	}
	w.walks = append(w.walks, s)
	if len(w.walks) >= mostWalks {
		w.before, w.batches = w.sum()
		w.walks = w.walks[:0]
	}
}

// leave notes where t, of which last is the last operation, left the code that is known.
func (w *walked) leave(c *walkCode, images []WalkImage, t *trail, last uint32) {
	i, to := int(c.image[last]), c.ops[last].Target
	if to == 0 {
		i, to = slices.IndexFunc(c.images, func(r walkRange) bool { return r.hi != 0 && r.pages == t.pages }), t.left
	}
	if i < 0 || to == 0 {
		return
	}
	if w.left == nil {
		w.left = map[WalkLeft]int{}
	}
	w.left[WalkLeft{images[i].ID.Key(), to}]++
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
	weights := w.weigher(region).weights()
	type ways struct {
		n, taken [2]float64 // outer, inner
		guessed  float64
	}
	of := map[int32]*ways{}
	flush := func() {
		for at, b := range of {
			sums[at].outer.add(b.n[0], b.taken[0])
			sums[at].inner.add(b.n[1], b.taken[1])
			sums[at].guessed += b.guessed
		}
		clear(of)
		batches++
	}
	for i, s := range w.walks {
		if i > 0 && s.batch != w.walks[i-1].batch {
			flush()
		}
		for _, n := range s.at {
			b := of[n.place()]
			if b == nil {
				b = &ways{}
				of[n.place()] = b
			}
			weight := weights[region[s.start]]
			switch in := n & viaInner; {
			case n&viaGuessed != 0:
				b.guessed += weight
			case n&viaTaken != 0:
				b.taken[in] += weight
				fallthrough
			default:
				b.n[in] += weight
			}
		}
	}
	if len(w.walks) > 0 {
		flush()
	}
	return sums, batches
}

// regionStarts is how many walks begin in a region, at least, if so many begin in its procedure.
const regionStarts = 100

// regions gives each spot the number of its region: neighbours of one procedure and kind.
func (w *walked) regions() []int32 {
	starts := make([]int, len(w.spot))
	for _, s := range w.walks {
		starts[s.start]++
	}
	spots := slices.SortedFunc(maps.Keys(w.spot), func(a, b walkSpot) int {
		return cmp.Or(a.id.Compare(b.id), cmp.Compare(a.proc, b.proc), cmp.Compare(a.loop, b.loop), cmp.Compare(a.off, b.off))
	})
	region := make([]int32, len(spots))
	now, n := int32(0), 0
	for i, p := range spots {
		if i > 0 && (p.id != spots[i-1].id || p.proc != spots[i-1].proc || p.loop != spots[i-1].loop || n >= regionStarts) {
			now, n = now+1, 0
		}
		region[w.spot[p]] = now
		n += starts[w.spot[p]]
	}
	return region
}

// weigher gives what tells the weights of walks.
func (w *walked) weigher(region []int32) *weigher {
	n := 0
	for _, g := range region {
		n = max(n, int(g)+1)
	}
	out := &weigher{starts: make([]float64, n), slow: w.slowness(region, n), out: make([][]cell, n), in: make([][]cell, n)}
	out.proc = make([]int32, n)
	procs := map[walkSpot]int32{} // by image and procedure alone
	for at, spot := range w.spot {
		out.proc[region[spot]] = number(procs, walkSpot{id: at.id, proc: at.proc})
	}
	out.procs = len(procs)
	var came, went pairs
	for _, s := range w.walks {
		from := region[s.start]
		out.starts[from]++
		out.steps += float64(s.steps)
		if s.end >= 0 && region[s.end] != from {
			came = append(came, pair{region[s.end], from, 1})
			went = append(went, pair{from, region[s.end], 1})
		}
	}
	came.sum(func(to int32, c cell) { out.in[to] = append(out.in[to], c) })
	went.sum(func(from int32, c cell) { out.out[from] = append(out.out[from], c) })
	rate := map[int32]*SiteRate{}
	for i := range w.rates {
		r := &w.rates[i]
		for _, cond := range []bool{false, true} {
			if place, ok := w.place[walkedAt{r.ID.Key(), r.Off, cond}]; ok && r.PerSec > 0 {
				rate[place] = r
			}
		}
	}
	places, visits := w.visits(region, func(place int32) bool { return rate[place] != nil })
	for i, place := range places {
		r := rate[place]
		out.rates = append(out.rates, rated{visits[i], math.Log(r.PerSec), r.SD})
	}
	return out
}

// visits gives how often walks came by the places that are wanted, those of them that they did
// come by, by region.
func (w *walked) visits(region []int32, wanted func(place int32) bool) (places []int32, visits [][]cell) {
	want := make([]bool, len(w.places))
	for i := range want {
		want[i] = wanted(int32(i))
	}
	var seen pairs
	times := map[int32]float64{} // of one walk, by place
	for _, s := range w.walks {
		for _, at := range s.at {
			if want[at.place()] {
				times[at.place()]++
			}
		}
		for place, n := range times {
			seen = append(seen, pair{place, region[s.start], n})
		}
		clear(times)
	}
	seen.sum(func(place int32, c cell) {
		if len(places) == 0 || places[len(places)-1] != place {
			places, visits = append(places, place), append(visits, nil)
		}
		last := &visits[len(visits)-1]
		*last = append(*last, c)
	})
	return places, visits
}

// pairs are what one walk each has to do with two things, so often.
type pairs []pair

type pair struct {
	of, region int32
	n          float64
}

// sum calls each with the sums of p, in order.
func (p pairs) sum(each func(of int32, c cell)) {
	slices.SortFunc(p, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.region, b.region), cmp.Compare(a.n, b.n))
	})
	for len(p) > 0 {
		of, c := p[0].of, cell{region: p[0].region}
		for len(p) > 0 && p[0].of == of && p[0].region == c.region {
			c.walks++
			c.n += p[0].n
			c.nn += sq(p[0].n)
			p = p[1:]
		}
		each(of, c)
	}
}

// whereLeft gives left, and went.
func (w *walked) whereLeft() (map[WalkLeft]int, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.left), w.went
}

// anew is for when walks go through other code.
func (w *walked) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.went = nil, 0
}

// addTo adds all that was seen to counts, weighed by what windows told.
func (w *walked) addTo(counts *sample.Counts, rates []SiteRate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rates = rates
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
	w.walks, w.batches, w.before, w.rates = nil, 0, nil, nil
}
