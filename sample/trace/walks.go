package trace

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"backfeed/sample"
)

// BatchTime is how long the batches of walks are that are compared with one another, to tell how
// much programs change.
const BatchTime = 5 * time.Second

// A branchSum is what walks saw of one branch, apart for calls that had begun when a
// walk began and for those that began in it.
type branchSum struct {
	outer, inner outcomeSum
	guessed      float64 // executions with outcomes that were guessed
}

// outcomeSum are executions of a branch, and those that were taken.
type outcomeSum struct {
	n, taken float64
	// Over batches: sums of squares of the executions, and of those that were taken, and of
	// their products.
	nn, tt, nt float64
}

func (w *outcomeSum) add(n, taken float64) {
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
func (w *outcomeSum) worth(sd float64) float64 {
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

// probed returns what was seen in so many batches. Of the outcomes, so many are told as taken
// as is most probable by those of both kinds.
func (p *branchSum) probed(batches int, cond bool) sample.Probed {
	n := p.outer.n + p.inner.n
	out := sample.Probed{Windows: uint64(max(1, batches)), Visits: whole(n + p.guessed)}
	if n == 0 || !cond {
		return out
	}
	seen := whole(n)
	var of, share, taken float64
	for _, w := range []struct {
		*outcomeSum
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

// A branchKey is one branch, or that it went to one place.
type branchKey struct {
	id   sample.ImageID // by key
	off  sample.Offset
	cond bool
	to   target
}

// A target is where an indirect branch went; the zero value is that it is not said. Where known and
// without an image, that is code of no image that is known.
type target struct {
	known bool
	id    sample.ImageID // by key
	off   sample.Offset
}

// An endpoint is an instruction where walks begin or end. Loop tells how long a walk goes round
// one loop from there on, or did up to there: a loop that goes on for long is a phase of its own.
type endpoint struct {
	id   sample.ImageID // by key
	proc uint64
	loop int
	off  uint64 // by sample.Offset
}

// turnsKinds are as many times as a walk passes through the same branch at first, or at last, and by no
// other, from which on a spot is of the next kind. Of all spots where code of a loop runs, as many
// have so many turns before them as after them. Over four programs, with the walks and windows of
// three recordings at 1 % and one at 3 %, the mean block overlap is 0.891 without this, 0.894 with
// 12, 0.896 with 12 and 40, and 0.895 with 4, 16 and 48.
var turnsKinds = []int{12, 40}

// loopOf returns the kind of a walk that passes through places in that order, as seenWalk has them.
func loopOf(places iter.Seq[via]) (kind int) {
	n, first := 0, int32(-1)
	for at := range places {
		if at&viaTarget != 0 {
			continue
		}
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

// backward returns the values of s from its end.
func backward(s []via) iter.Seq[via] {
	return func(yield func(via) bool) {
		for _, v := range slices.Backward(s) {
			if !yield(v) {
				return
			}
		}
	}
}

// A seenWalk is a walk by what it passed through.
type seenWalk struct {
	batch int
	steps int32      // instructions
	head  int32      // of these, up to the last of at
	start int32      // spot
	end   int32      // spot; -1 if it did not go on to its full length, or is long
	at    []via      // what it passed through at first, with places: all, of a short walk
	rest  []viaTimes // what a long one passed through after that, in no order
	alone bool       // it was added by AddLong
	speed float64    // of the program there, in instructions per ns; 0 is not known
}

// Walks is what all walks saw. The zero value has seen none. Methods may be called from
// several goroutines at once.
type Walks struct {
	mu      sync.Mutex
	code    *Code                             // that they go through now
	ids     map[sample.ImageID]sample.ImageID // by key
	place   map[branchKey]int32
	places  []branchKey
	spot    map[endpoint]int32
	walks   []seenWalk
	gone    int // how many there were before these
	size    int // of what these passed through
	batches int
	rates   []Rate // as windows told last

	// Walks through the code that they go through now: those that left it, by where they went on to,
	// as far as that is known, and all.
	left map[Left]int
	went int

	short numbers // of walks of the kernel
	long  longAdder

	// Of walks before: those, by place, with the weights that they had.
	before []branchSum

	keeps bool          // paths are kept
	kept  sample.Counts // its Paths are a sample of what walks took
	fresh []sample.Path // likewise, that are not among them yet

	keptImages []int // by image of keptCode: 1 + that of kept; 0 is none yet
	keptCode   *Code
}

// mostWalks is how many walks are kept one by one, if what they passed through has no more than mostSize parts.
const mostWalks, mostSize = 40000, 8e6

// SetCode says that walks go through c from now on.
func (w *Walks) SetCode(c *Code) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code, w.left, w.went = c, nil, 0
}

// Add adds the walk of which a trail of the kernel's tells (struct trail of
// sample/collect/bpf/walk.h), as one of a batch; batches go up. Of a trail that is malformed,
// nothing is added.
func (w *Walks) Add(b []byte, batch int) error {
	t, err := decodeTrail(b)
	if err != nil {
		return err
	}
	w.add(&t, batch)
	return nil
}

func (w *Walks) add(t *path, batch int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.code
	w.begin()
	s := seenWalk{batch: batch, steps: int32(t.steps), head: int32(t.steps), end: -1}
	w.short.of(w, c)
	var path pathOf
	var ended uint32 // operation at which it did, if that is an indirect branch
	last := c.follow(t, func(b passed) {
		if w.keeps {
			path.add(b)
		}
		s.at = append(s.at, w.short.placeOf(w, b.op)*viaPlace|b.how)
		if ended = 0; !c.leads(b.op, b.to) {
			return
		}
		if b.to == 0 {
			ended = b.op
			return
		}
		s.at = append(s.at, w.short.wentTo(w, b.op, b.to)*viaPlace|b.how|viaTarget)
	})
	w.went++
	if last == 0 {
		return
	}
	var out *Left
	if t.end == EndOutside {
		out = w.leave(t, last)
		if ended != 0 {
			s.at = append(s.at, w.placeOf(c, ended, c.targetOf(out))*viaPlace|viaTaken|viaTarget)
		}
	}
	if w.keeps {
		w.keep(c, path.steps, path.insts, out)
	}
	s.start = w.spotOf(c, t.start, loopOf(slices.Values(s.at)))
	if t.end == EndLength {
		s.end = w.spotOf(c, last, loopOf(backward(s.at)))
	}
	w.saw(s)
}

// begin makes ready for walks.
func (w *Walks) begin() {
	if w.place == nil {
		w.ids, w.place, w.spot = map[sample.ImageID]sample.ImageID{}, map[branchKey]int32{}, map[endpoint]int32{}
	}
}

// numbers are those of places by operation, of walks through one code.
type numbers struct {
	code    *Code
	place   []via             // by operation of code: 1 + number of its place; 0 is not known yet
	targets map[[2]uint32]via // by operations of an indirect branch and of where it went
}

// of makes n those of code c in w.
func (n *numbers) of(w *Walks, c *Code) {
	if n.code != c || w.places == nil {
		*n = numbers{c, make([]via, len(c.Ops)), map[[2]uint32]via{}}
	}
}

// placeOf returns the number of the place of a branch.
func (n *numbers) placeOf(w *Walks, op uint32) via {
	if n.place[op] == 0 {
		n.place[op] = 1 + w.placeOf(n.code, op, target{})
	}
	return n.place[op] - 1
}

// wentTo returns the number of what says that an indirect branch went to an operation.
func (n *numbers) wentTo(w *Walks, op, to uint32) via {
	at, ok := n.targets[[2]uint32{op, to}]
	if !ok {
		at = w.placeOf(n.code, op, n.code.targetAt(to))
		n.targets[[2]uint32{op, to}] = at
	}
	return at
}

// placeOf returns the number of the place of a branch of c, or of that it went to a target.
func (w *Walks) placeOf(c *Code, op uint32, to target) via {
	in := &c.at[op]
	id := c.ids[in.image]
	place := branchKey{id.Key(), in.off, c.Ops[op].Kind == CondJump, to}
	n := number(w.place, place)
	if int(n) == len(w.places) {
		w.ids[place.id] = id
		if i := c.indexOf(to.id); to.known && i >= 0 {
			w.ids[to.id] = c.ids[i]
		}
		w.places = append(w.places, place)
	}
	return via(n)
}

// leads reports whether op is a call or a jump that may lead from one procedure to several, and to, if it is not 0, where
// it did so.
func (c *Code) leads(op, to uint32) bool {
	from := &c.at[op]
	switch c.Ops[op].Kind {
	case CallInd:
		return from.target == 0
	case JumpInd:
		return from.target == 0 && (to == 0 || from.proc != c.at[to].proc || from.image != c.at[to].image)
	}
	return false
}

// indexOf returns which image of c has an ID, by key; -1 is none.
func (c *Code) indexOf(key sample.ImageID) int {
	return slices.IndexFunc(c.ids, func(id sample.ImageID) bool { return id.Key() == key })
}

// targetAt returns where an operation is.
func (c *Code) targetAt(op uint32) target {
	at := &c.at[op]
	return target{true, c.ids[at.image].Key(), at.off}
}

// targetOf returns where a walk went on to that left the code; nil is nowhere in an image.
func (c *Code) targetOf(l *Left) target {
	if l == nil {
		return target{known: true}
	}
	return target{true, l.ID, sample.Offset(l.Addr - c.Ranges[c.indexOf(l.ID)].Delta)}
}

// spotOf returns the spot of an operation of c, of a kind.
func (w *Walks) spotOf(c *Code, op uint32, loop int) int32 {
	at := &c.at[op]
	return number(w.spot, endpoint{c.ids[at.image].Key(), at.proc, loop, uint64(at.off)})
}

// saw keeps a walk, and sums up all if there is no more room.
func (w *Walks) saw(s seenWalk) {
	if n := len(w.walks); n > 0 { // walks of either kind have a clock of their own
		s.batch = max(s.batch, w.walks[n-1].batch)
	}
	w.walks = append(w.walks, s)
	w.size += len(s.at) + len(s.rest)
	if len(w.walks) >= mostWalks || w.size >= mostSize {
		w.before, w.batches = w.sum()
		w.gone += len(w.walks)
		w.walks, w.size = w.walks[:0], 0
	}
}

// leave notes where t, of which last is the last operation, left the code that is known, and returns
// that; nil is nowhere in an image.
func (w *Walks) leave(t *path, last uint32) *Left {
	c := w.code
	i, to := int(c.at[last].image), c.at[last].target
	if to == 0 {
		i, to = slices.IndexFunc(c.Ranges, func(r Range) bool { return r.Hi != 0 && r.Pages == t.pages }), t.left
	}
	if i < 0 || to == 0 {
		return nil
	}
	if w.left == nil {
		w.left = map[Left]int{}
	}
	out := Left{c.ids[i].Key(), to}
	w.left[out]++
	return &out
}

// number returns the number of k, the next one if it is new.
func number[K comparable](numbers map[K]int32, k K) int32 {
	n, ok := numbers[k]
	if !ok {
		n = int32(len(numbers))
		numbers[k] = n
	}
	return n
}

// sum returns what was seen by place, and in how many batches.
func (w *Walks) sum() ([]branchSum, int) {
	sums := append(slices.Clone(w.before), make([]branchSum, len(w.places)-len(w.before))...)
	batches := w.batches
	region, worths := w.regions(), w.worths()
	weights, most := w.weights(region, w.weigher(region, worths).weights()), w.longMost()
	type outcomes struct {
		n, taken [2]float64 // outer, inner
		guessed  float64
		some     bool
	}
	of, told := make([]outcomes, len(w.places)), []int32(nil) // of one batch, by place, and where there are some
	flush := func() {
		for _, at := range told {
			b := &of[at]
			sums[at].outer.add(b.n[0], b.taken[0])
			sums[at].inner.add(b.n[1], b.taken[1])
			sums[at].guessed += b.guessed
			*b = outcomes{}
		}
		told = told[:0]
		batches++
	}
	for i, s := range w.walks {
		if i > 0 && s.batch != w.walks[i-1].batch {
			flush()
		}
		worths[i].each(&s, func(n via, times float64) {
			b := &of[n.place()]
			if !b.some {
				b.some = true
				told = append(told, n.place())
			}
			weight := weights[i] * s.share(most) * times
			switch in := n & viaInner; {
			case n&viaGuessed != 0:
				b.guessed += weight
			case n&viaTaken != 0:
				b.taken[in] += weight
				fallthrough
			default:
				b.n[in] += weight
			}
		})
	}
	if len(w.walks) > 0 {
		flush()
	}
	return sums, batches
}

// regionStarts is how many walks begin in a region, at least, if so many begin in its procedure.
const regionStarts = 100

// regions assigns each spot the number of its region: neighbours of one procedure and kind.
func (w *Walks) regions() []int32 {
	starts := make([]int, len(w.spot))
	for _, s := range w.walks {
		starts[s.start]++
	}
	spots := slices.SortedFunc(maps.Keys(w.spot), func(a, b endpoint) int {
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

// weigher returns what tells the weights of walks.
func (w *Walks) weigher(region []int32, worths []worth) *weigher {
	n := 0
	for _, g := range region {
		n = max(n, int(g)+1)
	}
	out := &weigher{starts: make([]float64, n), slow: w.slowness(region, n), out: make([][]cell, n), in: make([][]cell, n)}
	out.proc = make([]int32, n)
	procs := map[endpoint]int32{} // by image and procedure alone
	for at, spot := range w.spot {
		out.proc[region[spot]] = number(procs, endpoint{id: at.id, proc: at.proc})
	}
	out.procs = len(procs)
	var came, went pairs
	most := w.longMost()
	for i, s := range w.walks {
		from := region[s.start]
		out.starts[from]++
		out.steps += s.share(most) * float64(s.steps)
		if s.end >= 0 && region[s.end] != from {
			worth := worths[i].last()
			came = append(came, pair{region[s.end], from, worth})
			went = append(went, pair{from, region[s.end], worth})
		}
	}
	came.sum(func(to int32, c cell) { out.in[to] = append(out.in[to], c) })
	went.sum(func(from int32, c cell) { out.out[from] = append(out.out[from], c) })
	rate := map[int32]*Rate{}
	for i := range w.rates {
		r := &w.rates[i]
		for _, cond := range []bool{false, true} {
			if place, ok := w.place[branchKey{id: r.ID.Key(), off: r.Off, cond: cond}]; ok && r.PerSec > 0 {
				rate[place] = r
			}
		}
	}
	places, visits := w.visits(region, worths, func(place int32) bool { return rate[place] != nil })
	for i, place := range places {
		r := rate[place]
		out.rates = append(out.rates, rated{visits[i], math.Log(r.PerSec), r.SD})
	}
	return out
}

// visits returns how often walks passed through the places that are wanted, those of them that they did
// pass through, by region.
func (w *Walks) visits(region []int32, worths []worth, wanted func(place int32) bool) (places []int32, visits [][]cell) {
	want := make([]bool, len(w.places))
	for i := range want {
		want[i] = wanted(int32(i))
	}
	var seen pairs
	times := map[int32]float64{} // of one walk, by place
	most := w.longMost()
	for i, s := range w.walks {
		worths[i].each(&s, func(at via, n float64) {
			if want[at.place()] {
				times[at.place()] += s.share(most) * n
			}
		})
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

// Left returns how many walks left the code that SetCode was told last, by where they went on
// to in one of its images, and how many walks there were since.
func (w *Walks) Left() (map[Left]int, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.left), w.went
}

// AddTo adds what was seen since the last Forget to counts, the samples of the same processes.
// Rates are those of the same time.
func (w *Walks) AddTo(counts *sample.Counts, rates []Rate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addCounts(counts, rates)
	w.addPaths(counts)
}

// AddCounts is AddTo without paths.
func (w *Walks) AddCounts(counts *sample.Counts, rates []Rate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addCounts(counts, rates)
}

func (w *Walks) addCounts(counts *sample.Counts, rates []Rate) {
	w.rates = rates
	sums, batches := w.sum()
	runs := w.runs(counts)
	for i, p := range sums {
		at := w.places[i]
		from := sample.Frame{Image: counts.Image(w.ids[at.id]), Off: at.off}
		if at.to.known {
			to := sample.Frame{Image: sample.Unknown}
			if id, ok := w.ids[at.to.id]; ok {
				to = sample.Frame{Image: counts.Image(id), Off: at.to.off}
			}
			counts.AddTarget(sample.Branch{From: from, To: to}, whole(p.outer.n+p.inner.n))
			continue
		}
		seen := p.probed(batches, at.cond)
		if counts.Images[from.Image].Probed[from.Off].Covered == 0 { // windows have not told
			runs[int32(i)].addTo(&seen, counts.Weight)
		}
		counts.AddProbed(from.Image, from.Off, seen)
	}
}

// Forget begins anew, when what AddTo added is stored.
func (w *Walks) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids, w.place, w.places, w.spot = nil, nil, nil, nil
	w.gone += len(w.walks)
	w.walks, w.size, w.batches, w.before, w.rates = nil, 0, 0, nil, nil
	w.kept, w.keptImages, w.fresh = sample.Counts{}, nil, nil
}
