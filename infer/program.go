package infer

import (
	"math"
	"runtime"
	"sync"
)

// A program joins the problems of many procedures: a procedure runs as often as
// it is called.
type program struct {
	probs []*problem
	at    []int // probs[i] has the unknowns x[at[i]:at[i+1]]
	ties  []tie
	pool  exchange
	tieSD float64
	once  []rooted // of procedures that main leads to

	// untold are procedures of which no caller tells how often they are entered, with what is believed of the number of
	// processes that they run in.
	untold []rooted

	// Where executions are known, the logarithm of how many of them one was worth before
	// solve set the scale of all costs.
	gauge float64

	progress *progress // of run; nil is none
}

// A tie binds the entries of one procedure to the executions of its call sites.
type tie struct {
	callee int // index into probs
	sites  []site
	floor  bool // there may be other callers: the entries are at least the sum of the sites

	// sd is the standard deviation of the logarithm of entries below that of the sum, above of what is more: infinite
	// if nothing is known of other callers.
	sd, above float64
}

// A site is a place that calls: a block, or one of its out-edges for a conditional
// tail call.
type site struct {
	q     *problem
	block int32   // index into Proc.Blocks
	out   int32   // index into flow.outs, or -1 if every execution of the block calls
	share float64 // of these executions
}

func newProgram(probs []*problem, ties []tie, tieSD float64) *program {
	pr := &program{probs: probs, at: make([]int, 1, len(probs)+1), ties: ties, tieSD: tieSD}
	for _, q := range probs {
		pr.at = append(pr.at, pr.at[len(pr.at)-1]+q.unknowns())
	}
	return pr
}

// index returns the index of each problem in probs.
func (pr *program) index() map[*problem]int {
	index := make(map[*problem]int, len(pr.probs))
	for i, q := range pr.probs {
		index[q] = i
	}
	return index
}

func (pr *program) part(x []float64, i int) []float64 { return x[pr.at[i]:pr.at[i+1]] }

// How long a search goes on. Over twelve programs the mean block overlap is 0.717 to
// 0.721 with 20 to 60 evaluations of each alone and 30 to 60 together, in no order: where
// a search stops decides between places that are about as good. Known counts make valleys
// steep and their floors flat: there it gains 0.01, and disturbed searches of 200
// evaluations instead of 60 choose places that gain another 0.005. Samples of instructions make
// valleys steep, too: of a million of them, the mean block overlap of five programs is 0.981 with the usual
// effort and 0.988 with steepEffort, and no more with three times as much.
//
// What is claimed of a program's counts is held by samples, so that procedures with hardly any of them may be known
// less well each, as long as they are right in the mean. Of gcc's cc1, 90,893 samples, standard
// deviations are 6 % smaller in the mean with 10 evaluations than with 25, and 2 % with 15. With short, about as much is claimed
// and held as by 30 draws of 25: README has the figures of 40 programs.
var (
	usualEffort  = effort{alone: 25, together: 35, draws: 30, drawn: 25, tol: 1e-6}
	steepEffort  = effort{alone: 100, together: 150, draws: 8, drawn: 25, tol: 1e-6}
	knownEffort  = effort{alone: 2000, together: 400, draws: 12, drawn: 200, tol: 1e-9}
	middleEffort = effort{alone: 25, together: 35, draws: 16, drawn: 15, tol: 1e-6, short: 0.05}
	minorEffort  = effort{alone: 25, together: 35, draws: 8, drawn: 10, tol: 1e-6, short: 0.16}
)

// minorShare is the share of a program's samples that a procedure has fewer of whose draws are those of minorEffort; with fewer
// than so many times as much as middleOfMinor they are those of middleEffort.
const minorShare, middleOfMinor = 0.002, 5

type effort struct {
	alone, together int     // evaluations of each procedure by itself, and of all together
	draws           int     // disturbed searches
	drawn           int     // evaluations of each, which starts next to its goal
	tol             float64 // relative gain of a step that ends the search
	short           float64 // the part that standard deviations are taken to be larger by than such draws show
}

func (q *problem) effort() effort {
	switch {
	case len(q.known) > 0:
		return knownEffort
	case q.par.steep:
		return steepEffort
	case sumOf(q.samples) < q.par.minor:
		return minorEffort
	case sumOf(q.samples) < middleOfMinor*q.par.minor:
		return middleEffort
	}
	return usualEffort
}

// solve finds the most probable executions of all procedures: first each by
// itself, then all together, so that the long-range part of the search starts
// from good places. If whole, cores leave nothing out.
func (pr *program) solve(x []float64, whole bool) {
	all := usualEffort
	pr.progress.stage(aloneShare, len(pr.probs))
	pr.each(func(i int) {
		q, xi := pr.probs[i], pr.part(x, i)
		copy(xi, q.center)
		q.alone(xi)
		pr.progress.done()
	})
	for _, q := range pr.probs {
		if e := q.effort(); e.together > all.together {
			all = e
		}
	}
	pr.setGauge(x)
	pr.setLevel(x)
	pr.each(func(i int) { pr.probs[i].run(pr.part(x, i)) })
	pr.contract(whole)
	pr.refine(x, all)
	pr.settle(x)
	pr.heed(x)
}

// gaugeShare is the share of all samples that would have to come of known executions at
// another scale for the scale to be found half way to there, in samples. gaugeRounds is how
// often it is found: each time, what procedures have of their own is found anew.
const gaugeShare, gaugeRounds = 0.1, 3

// setGauge sets the scale of all costs by the procedures with known executions: what their
// samples are of those that they should have brought. Only what each says by itself
// counts, and by its samples: of those that run seldom there are many, and their time, and
// how often their callers call, may be off by factors of a hundred. Searched for with all
// procedures together, the scale was that of the few with most such callees: with a place
// of each of 80 procedures known to 10 %, and where 1000 branches went, the mean block
// overlap of four programs was 0.70, and is 0.81 by this.
//
// Procedures wait for more or less than one another. So few of them, or such as differ much, say little of the others: where
// a loop that reads memory has most samples and waits 50 times as long as it should, nothing else is to. It is as if there were
// one more procedure that has what it should, with as many samples as those of a sample's have on average, times the variance
// of their scales, in logarithms: of one procedure that is taken to be 1.
func (pr *program) setGauge(x []float64) {
	var known []int
	var all, told, squares float64
	for i, q := range pr.probs {
		s := sumOf(q.samples)
		all += s
		if q.counted() {
			known = append(known, i)
			told += s
			squares += s * s
		}
	}
	if told == 0 {
		return
	}
	many := told * told / squares // as many procedures with the same number of samples each
	for round := range gaugeRounds {
		if round > 0 {
			parallel(len(known), func(k int) { pr.probs[known[k]].alone(pr.part(x, known[k])) })
		}
		var mean, square, expected float64
		for _, i := range known {
			q, xi := pr.probs[i], pr.part(x, i)
			share, off := sumOf(q.samples)/told, clamp(xi[len(xi)-1]*q.commonSD, -20, 20)
			mean += share * off
			square += share * off * off
			expected += share * told * math.Exp(-off)
		}
		usual := gaugeShare*all + told/many*(1/many+square-mean*mean)
		d := math.Log((usual*math.Exp(-pr.gauge) + expected) / (usual + told))
		pr.gauge += d
		pr.each(func(i int) { pr.probs[i].rescale(d, pr.part(x, i)) })
	}
}

// rescale makes each execution of q one of e^d. Where executions are known, they stay, and
// what costs have in common changes.
func (q *problem) rescale(d float64, x []float64) {
	q.rescaleCosts(math.Exp(d))
	for e := range q.enter {
		q.center[e] += d
	}
	if q.counted() {
		x[len(x)-1] += d / q.commonSD
		return
	}
	for e := range q.enter {
		x[e] += d
	}
}

// alone searches for q by itself, from x on.
func (q *problem) alone(x []float64) {
	e := q.effort()
	if few := int(5 * sumOf(q.samples)); len(q.known) == 0 {
		e.alone = min(e.alone, 20+few) // little to learn, little to search
	}
	search := newSearcher(len(x))
	search.minimize(q.objective, x, e.alone, e.tol)
	q.diag = search.diag
	searchers.Put(search)
}

// refine goes on from x with all procedures together that have more than a few
// samples: the others have little to say of their callers and callees, and follow
// them. The state of the problems is that of x, before and afterwards.
func (pr *program) refine(x []float64, e effort) {
	var of []int                        // by problem of the part: its index in pr.probs
	index := make([]int, len(pr.probs)) // the other out-edge; -1 for those left out
	var probs []*problem
	for i, q := range pr.probs {
		if index[i] = -1; q.core != nil {
			index[i] = len(of)
			of, probs = append(of, i), append(probs, q.core.problem)
		}
	}
	var ties, rest []tie
	for _, t := range pr.ties {
		j := index[t.callee]
		if j < 0 {
			rest = append(rest, t)
			continue
		}
		in := t
		in.callee, in.sites = j, make([]site, len(t.sites))
		for k, s := range t.sites {
			in.sites[k] = s.core()
		}
		if probs[j].system != nil || probs[j].counted() { // which tell how often they are made, where such procedures do not
			in.fewKnow()
		}
		ties = append(ties, in)
	}
	part := newProgram(probs, ties, pr.tieSD)
	part.progress, part.pool = pr.progress, pr.pool.core(index)
	y := make([]float64, part.at[len(probs)])
	for j, i := range of {
		copy(part.part(y, j), pr.probs[i].core.gather(pr.part(x, i)))
	}
	values := make([]float64, len(probs))
	search := newSearcher(len(y))
	search.diag = part.scales()
	pr.progress.stage(togetherShare, e.together)
	search.minimize(func(y, grad []float64) float64 {
		defer pr.progress.done()
		return part.eval(y, grad, values)
	}, y, e.together, e.tol)
	part.each(func(j int) { pr.probs[of[j]].core.scatter(part.part(y, j), pr.part(x, of[j])) })
	pr.each(func(i int) { pr.probs[i].run(pr.part(x, i)) })
	pr.trail(x, rest, e)
}

// aloneSD is the standard deviation of the logarithm of the calls of a procedure that has too few samples to be searched together
// with others. Only procedures that call the system heed it, or whose executions were counted: bound so to all such callers, SQLite's block
// overlap is 0.673 instead of 0.684. Of a program whose main calls two counted procedures in a loop that has two samples, these
// were thought to run 530 times as often as windows had counted them, and now 1.5 and 1.9 times as often.
const aloneSD = 1

// fewKnow has t bind the less, the more of its calls are those of procedures that are searched by themselves.
func (t *tie) fewKnow() {
	var sum, alone float64
	for _, s := range t.sites {
		n := s.calls()
		if sum += n; s.q.core == nil && !s.q.busy() {
			alone += n
		}
	}
	if alone > 0 {
		t.sd = math.Hypot(t.sd, aloneSD*alone/sum)
		t.above = math.Hypot(t.above, aloneSD*alone/sum)
	}
}

// scales returns what the searches of each procedure by itself say of the second
// derivatives. Ties change them, so half of it, in the logarithm, is believed.
func (pr *program) scales() []float64 {
	var diag []float64
	for _, q := range pr.probs {
		for i, sure := range q.sure {
			v := 1 / sure
			if q.diag != nil {
				v = math.Sqrt(q.diag[i])
			}
			diag = append(diag, v)
		}
	}
	return diag
}

// trail searches the callees of ties by themselves, each called as often as it is.
func (pr *program) trail(x []float64, ties []tie, e effort) {
	called := make([]float64, len(ties))
	for i := range ties {
		called[i] = ties[i].calls()
	}
	pr.progress.parallel(len(ties), func(i int) {
		c := ties[i].callee
		q, xc := pr.probs[c], pr.part(x, c)
		if ties[i].floor && q.enter[0] >= called[i] {
			return
		}
		q.center[0], q.sure[0] = math.Log(max(called[i], 1e-9)), 1/ties[i].sd
		minimize(q.objective, xc, e.drawn, e.tol)
		q.run(xc)
	})
}

// busy reports whether the procedure has more than a few samples, or a known count.
func (q *problem) busy() bool { return len(q.known) > 0 || sumOf(q.samples) >= fewSamples }

// eval is the objective of the whole program. Sums run in the order of the
// problems whatever the number of processors: equal arguments, equal results.
func (pr *program) eval(x, grad, values []float64) float64 {
	pr.each(func(i int) { values[i] = pr.probs[i].forward(pr.part(x, i)) })
	v := sumOf(values)
	for i := range pr.ties {
		v += pr.pull(&pr.ties[i], x)
	}
	v += pr.share(x)
	// From the last to the first: what was used last is in the caches still, then and at the beginning of the next evaluation.
	last := len(pr.probs) - 1
	pr.each(func(i int) { pr.probs[last-i].backward(pr.part(x, last-i), pr.part(grad, last-i)) })
	return v
}

// pull adds the derivatives of one tie to the problems it binds, and returns its value.
func (pr *program) pull(t *tie, x []float64) float64 {
	sum := t.calls()
	v, d := t.pull(sum, x[pr.at[t.callee]])
	pr.probs[t.callee].dx[0] -= d
	t.push(d / max(sum, 1e-100))
	return v
}

// pull returns what so many calls say of the logarithm of the entries, with the derivative of that by the logarithm of
// the calls.
func (t *tie) pull(calls, entries float64) (v, d float64) {
	r, sd := fastLog(max(calls, 1e-100))-entries, t.sd
	if r < 0 {
		sd = t.above
	}
	v, d = huber(r/sd, farTie)
	return v, d / sd
}

// push adds d, a derivative by the calls of t, to those of its sites.
func (t *tie) push(d float64) {
	for _, s := range t.sites {
		q := s.q
		g := d * s.share
		if s.out < 0 {
			q.dn[s.block] += g
		} else {
			q.dn[s.block] += g * q.prob[s.out]
			q.dout[s.out] += g * q.n[s.block]
		}
	}
}

// farTie is farKnown of ties.
const farTie = 20

// calls is how often all sites call.
func (t *tie) calls() (sum float64) {
	for _, s := range t.sites {
		sum += s.calls()
	}
	return sum
}

// calls is how often s calls.
func (s site) calls() float64 {
	if s.out < 0 {
		return s.share * s.q.n[s.block]
	}
	return s.share * s.q.n[s.block] * s.q.prob[s.out]
}

// each runs f for all problems on all processors. Problems are dealt out in order,
// so large neighbours do not pile up on one of them. If the work is to end, f is not run any more.
func (pr *program) each(f func(i int)) { pr.progress.parallel(len(pr.probs), f) }

func parallel(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	take := func() (lo, hi int) {
		mu.Lock()
		defer mu.Unlock()
		lo = next
		next = min(n, next+max(1, (n-next)/(4*workers)))
		return lo, next
	}
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				lo, hi := take()
				if lo >= hi {
					return
				}
				for i := lo; i < hi; i++ {
					f(i)
				}
			}
		}()
	}
	wg.Wait()
}
