package infer

import (
	"math"
	"slices"

	"backfeed/infer/image"
)

// How often a procedure is entered, its samples hardly tell if it loops: entered once or a thousand times, it has
// as many. Its callers tell, but what calls it once has no samples itself. So where all calls of a procedure
// are known, and come from procedures without samples up to main and others that a process runs once, as
// many entries are believed as calls lead there: one for each call, and some more for each loop around one. Where no
// caller tells, all that is known is that a procedure which ran was entered, and that what leads to its loops has no
// samples: see bounded.

const (
	// processesSD is the standard deviation of the logarithm of the number of processes that a
	// recording is of, where it doesn't tell: most are of one program that ran once, some of a hundred.
	processesSD = 2
	// toldSD is that where it tells. Some processes may have ended before main, or executed another program in it.
	toldSD = 0.2
	// turns is the logarithm of how often a loop around a call without samples turns, turnsSD its
	// standard deviation.
	turns, turnsSD = 1.5, 2
	// callSD is the standard deviation of the logarithm of entries around the calls of one level.
	callSD = 0.5
	// manyCallers is how many procedures without samples are looked at, of those that call one, and maxUp how
	// far up.
	manyCallers, maxUp = 8, 16
	// moved is how far, in the logarithm, entries lie from what is believed of them to be moved there,
	// with so many evaluations.
	moved, settleEvals = 0.7, 20
	// strayShare is the share of the samples of a procedure that a block may have by skid alone: one of them in
	// code that runs once would have it run a million times.
	strayShare = 0.001
)

// A belief is what is believed of the logarithm of a procedure's entries.
type belief struct {
	mean, variance float64
	ok             bool // there is one
}

// A climber finds what is believed of entries by who calls.
type climber struct {
	links *links
	busy  map[caller]bool // those that have samples
	of    map[caller]belief
}

// roots finds what is believed of the entries of procedures with samples that main, or another procedure
// that is run once, leads to by procedures without samples.
func (pr *posed) roots(l *links) {
	index := pr.index()
	c := &climber{l, map[caller]bool{}, map[caller]belief{}}
	for _, ip := range l.images {
		for _, r := range ip.Procs {
			if q := pr.of[r]; q != nil && q.busy() {
				c.busy[caller{ip, r.Proc.Index}] = true
			}
		}
	}
	for _, ip := range l.images {
		for _, r := range ip.Procs {
			i, ok := index[pr.of[r]]
			if !ok || !pr.probs[i].entriesUntold() {
				continue
			}
			if b := c.entered(caller{ip, r.Proc.Index}, maxUp); b.ok {
				pr.once = append(pr.once, rooted{i, b})
			} else {
				pr.untold = append(pr.untold, rooted{i, once(ip.Counts.Processes)})
			}
		}
	}
}

// recurs reports whether the callee of t calls itself.
func (pr *program) recurs(t *tie) bool {
	return slices.ContainsFunc(t.sites, func(s site) bool { return s.q == pr.probs[t.callee] })
}

// A rooted is a problem with what is believed of its entries.
type rooted struct {
	problem int // index into probs
	belief
}

// entered returns what is believed of the entries of a procedure, looking so many calls up.
func (c *climber) entered(at caller, up int) belief {
	if b, ok := c.of[at]; ok {
		return b
	}
	c.of[at] = belief{} // it may call itself
	b := c.climb(at, up)
	c.of[at] = b
	return b
}

// once returns what is believed of the entries of what each of so many processes, 0 if that is not known, runs once.
func once(processes uint64) belief {
	if processes == 0 {
		return belief{0, processesSD * processesSD, true}
	}
	return belief{math.Log(float64(processes)), toldSD * toldSD, true}
}

func (c *climber) climb(at caller, up int) belief {
	if at.image.Image.Once(at.sym) {
		return once(at.image.Counts.Processes)
	}
	callers := c.links.callers(at)
	if up == 0 || len(callers) == 0 || len(callers) > manyCallers || slices.ContainsFunc(callers, func(from caller) bool { return c.busy[from] }) ||
		c.links.others(at) || c.recurs(at) {
		return belief{}
	}
	var sum, variance float64
	for _, from := range callers {
		by := c.entered(from, up-1)
		if !by.ok {
			return belief{}
		}
		p, err := from.image.Image.Proc(from.sym)
		if err != nil {
			return belief{}
		}
		once, looped := c.links.callsOf(from.image, p, at.start())
		calls := float64(once)
		if looped > 0 { // several are mostly alternatives
			calls += math.Exp(turns)
			by.variance += turnsSD * turnsSD
		}
		sum += math.Exp(by.mean) * calls
		variance = max(variance, by.variance)
	}
	if sum == 0 {
		return belief{} // by jumps that are no calls
	}
	return belief{math.Log(sum), variance + callSD*callSD, true}
}

// recurs reports whether a procedure calls itself directly: callers has no such call.
func (c *climber) recurs(at caller) bool {
	p, err := at.image.Image.Proc(at.sym)
	if err != nil {
		return true
	}
	once, looped := c.links.callsOf(at.image, p, at.start())
	return once+looped > 0
}

// callsOf counts the direct calls in p, which is in ip, of a procedure, outside of loops and in them.
func (l *links) callsOf(ip *ImageProfile, p *image.Proc, to target) (once, looped int) {
	loop := loopsOf(p)
	for i := range p.Calls {
		c := &p.Calls[i]
		switch {
		case !slices.ContainsFunc(l.leads(ip, c), func(at lead) bool { return at.branch.image == nil && at.target == to }):
		case loop[c.Block] == none:
			once++
		default:
			looped++
		}
	}
	return once, looped
}

// loopsOf numbers the loops of p: by block, none if it is in none. One within another is part of it.
func loopsOf(p *image.Proc) []int32 {
	loop := regions(p, func(int) bool { return true })
	turns := make([]bool, len(p.Blocks)) // by region
	for b := range p.Blocks {
		for _, e := range p.Blocks[b].Out {
			turns[loop[b]] = turns[loop[b]] || loop[p.Edges[e].To] == loop[b]
		}
	}
	for b, r := range loop {
		if !turns[r] {
			loop[b] = none
		}
	}
	return loop
}

// settle moves the entries of the procedures that once has a belief of, and of those that they alone call,
// to where their callers have them; then those of procedures that no caller tells. x is a solution, and stays one.
func (pr *program) settle(x []float64) {
	called := map[int][]int{} // ties, by problem that calls
	index := pr.index()
	for t := range pr.ties {
		if pr.ties[t].floor {
			continue
		}
		for _, s := range pr.ties[t].sites {
			i := index[s.q]
			if n := len(called[i]); n == 0 || called[i][n-1] != t {
				called[i] = append(called[i], t)
			}
		}
	}
	queue := slices.Clone(pr.once)
	done := map[int]bool{}
	untold := pr.bounded(x)
	for len(queue) > 0 || len(untold) > 0 {
		if len(queue) == 0 {
			queue, untold = slices.Clip(untold[:1]), untold[1:]
		}
		r := queue[0]
		queue = queue[1:]
		if done[r.problem] {
			continue
		}
		done[r.problem] = true
		if !pr.enter(r, pr.part(x, r.problem), called[r.problem]) {
			continue
		}
		for _, t := range called[r.problem] {
			if calls := pr.ties[t].calls(); calls > 0 && !pr.recurs(&pr.ties[t]) {
				queue = append(queue, rooted{pr.ties[t].callee, belief{math.Log(calls), callSD * callSD, true}})
			}
		}
	}
}

// bounded returns what is believed of the entries of procedures that no caller tells: between once for each process,
// or as often as known callers call, and as often as what runs before and behind its loops may have run without a sample,
// anything is as likely.
func (pr *program) bounded(x []float64) (all []rooted) {
	least, tied := map[int]float64{}, map[int]bool{}
	for i := range pr.ties {
		t := &pr.ties[i]
		least[t.callee] = t.calls()
		tied[t.callee] = !math.IsInf(t.above, 1)
	}
	for _, r := range pr.untold {
		q := pr.probs[r.problem]
		if tied[r.problem] {
			continue
		}
		lower := math.Log(max(math.Exp(r.mean), least[r.problem]))
		upper := pr.part(x, r.problem)[0] + q.unseenMore()
		if upper > lower {
			all = append(all, rooted{r.problem, belief{(lower + upper) / 2, (upper - lower) * (upper - lower) / 12, true}})
		}
	}
	return all
}

// unseenMore returns the logarithm of how many times as often as it is thought to q may have been entered: at most so
// often with 95 % confidence, by what runs in none of its loops and has no samples but such as may have skidded there. It
// is infinite below 0 if there are more, which tell of entries.
func (q *problem) unseenMore() float64 {
	loop := q.busyLoops()
	var seen, brings, insts float64
	for b, s := range q.samples {
		if loop[b] == none {
			seen += s
			brings += q.brings(b, q.n[b])
			insts += q.insts[b] * min(1, q.n[b]/q.enter[0])
		}
	}
	if brings == 0 || seen > strayShare*sumOf(q.samples) {
		return math.Inf(-1)
	}
	sd := math.Sqrt(q.par.blockVar/max(1, insts) + q.par.levelSD*q.par.levelSD)
	return math.Log((seen + unseenAtMost(sd)) / brings)
}

// leastEntered is as few entries as are told from none. A procedure with samples may be called by code that is known never to run alone: to
// have it entered e^-170 times, as that code would, its loops turned 10^35 times.
const leastEntered = 1e-3

// enter moves the entries of the problem of r towards what is believed of them as far as that makes x more probable:
// its loops with samples go on as often, call as often by ties, and are left as many times less as they are entered. It
// returns false if x stays as it was.
func (pr *program) enter(r rooted, x []float64, ties []int) bool {
	q := pr.probs[r.problem]
	r.mean = max(r.mean, math.Log(leastEntered))
	if !q.entriesUntold() || math.Abs(x[0]-r.mean) < max(moved, math.Sqrt(r.variance)) {
		return false
	}
	q.center[0], q.sure[0] = r.mean, 1/math.Sqrt(r.variance)
	samples := q.samples
	q.samples = withoutStray(samples)
	q.expect(nil)
	least, best := math.Inf(1), -1
	grad, tried := make([]float64, len(x)), make([]float64, len(x))
	loop := q.busyLoops()
	exits := q.exits(loop)
	var calls []observation
	for _, t := range ties {
		for _, s := range pr.ties[t].sites {
			if s.q == q && loop[s.block] != none && s.calls() > 0 {
				calls = append(calls, observation{block: s.block, out: s.out, logN: math.Log(s.calls()), sd: pr.tieSD})
			}
		}
	}
	steps := []float64{0, 0.25, 0.5, 0.75, 1}
	// How often loops turn follows from the entries. That one turns a million times is unlikely once, not once for
	// each of its exits.
	center := slices.Clone(q.center)
	try := func(part float64) {
		q.reenter(tried, x, part*(r.mean-x[0]), exits)
		for u := len(q.enter); u < len(x); u++ {
			q.center[u] = center[u] + tried[u] - x[u]
		}
	}
	for i, part := range steps {
		try(part)
		if v := q.objective(tried, grad); v < least {
			least, best = v, i
		}
	}
	try(steps[best])
	if best > 0 {
		known := q.known
		q.known = slices.Concat(known, calls)
		minimize(q.objective, tried, settleEvals, 1e-6) // a loop that was left early in most turns now goes on
		q.known = known
		copy(x, tried)
	}
	q.samples = samples
	q.expect(nil)
	q.run(x)
	return best > 0
}

// entriesUntold reports whether nothing that is known of q, beside samples, tells how often it was entered: where branches
// go, what walks passed through and how often loops turned do not.
func (q *problem) entriesUntold() bool {
	var loop []int32
	return !slices.ContainsFunc(q.known, func(o observation) bool {
		if o.of > 0 {
			return false
		}
		if loop == nil {
			loop = loopsOf(q.p)
		}
		return loop[o.block] == none
	})
}

// busyLoops is loopsOf of the loops that have samples.
func (q *problem) busyLoops() []int32 {
	loop := loopsOf(q.p)
	has := make([]bool, len(loop)) // by loop
	for b, l := range loop {
		if l != none && q.samples[b] > 0 {
			has[l] = true
		}
	}
	for b, l := range loop {
		if l != none && !has[l] {
			loop[b] = none
		}
	}
	return loop
}

// exits tells of each out-edge whether it leaves a loop.
func (q *problem) exits(loop []int32) []bool {
	f := q.flow
	exits := make([]bool, len(f.outs))
	for b, l := range loop {
		for w := f.first[b]; w < f.first[b+1]; w++ {
			to := f.outs[w].to
			exits[w] = l != none && (to == leave || loop[to] != l)
		}
	}
	return exits
}

// reenter sets to to x with entries, and probabilities of exits, more by d, in the logarithm.
func (q *problem) reenter(to, x []float64, d float64, exits []bool) {
	copy(to, x)
	to[0] += d
	at := len(q.enter)
	for _, b := range q.branch {
		lo, hi := q.flow.first[b], q.flow.first[b+1]
		if hi > lo+2 {
			for w := lo; w < hi; w++ {
				if exits[w] {
					to[at+int(w-lo)] += d
				}
			}
			at += int(hi - lo)
			continue
		}
		if exits[lo] != exits[lo+1] {
			// The logit of a probability p is log(p) - log(1 - p).
			sign := 1.0
			if exits[lo+1] {
				sign = -1
			}
			p, _ := logistic(sign * x[at] * math.Sqrt2)
			p = min(p*math.Exp(d), 0.5)
			to[at] = sign * (math.Log(p) - math.Log1p(-p)) / math.Sqrt2
		}
		at++
	}
}

// withoutStray returns samples by block without those that may have skidded from where most are.
func withoutStray(samples []float64) []float64 {
	few := strayShare * sumOf(samples)
	samples = slices.Clone(samples)
	for b, s := range samples {
		if s <= few {
			samples[b] = 0
		}
	}
	return samples
}

// heed moves procedures with few samples to where they call others as often as these are entered: main, which compares
// names thirteen times before it calls what takes all the time, by static guesses does so once in thousands of runs. It begins
// with the callers of procedures with samples, and goes on with theirs. x is a solution, and stays one.
func (pr *program) heed(x []float64) {
	index := pr.index()
	done, now := make([]bool, len(pr.probs)), map[int]bool{} // by problem
	for i, q := range pr.probs {
		if q.busy() {
			done[i], now[i] = true, true
		}
	}
	for len(now) > 0 {
		calls := map[int][]observation{} // by problem
		for i := range pr.ties {
			t := &pr.ties[i]
			sum := t.calls()
			if !now[t.callee] || t.floor || sum <= 0 {
				continue
			}
			off := x[pr.at[t.callee]] - math.Log(sum)
			for _, s := range t.sites {
				if c := index[s.q]; !done[c] && s.calls() > 0 {
					calls[c] = append(calls[c], observation{block: s.block, out: s.out, logN: math.Log(s.calls()/s.share) + off, sd: t.sd})
				}
			}
		}
		clear(now)
		for c, seen := range calls {
			done[c], now[c] = true, true
			q, xc := pr.probs[c], pr.part(x, c)
			known := q.known
			q.known = slices.Concat(known, seen)
			minimize(q.objective, xc, settleEvals, 1e-6)
			q.known = known
			q.run(xc)
		}
	}
}
