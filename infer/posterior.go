package infer

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"backfeed/infer/document"
)

// An estimate is uncertain because the cost of one execution is, because samples
// are few, and because static guesses are weak. spread measures the sum of
// these by perturb-and-MAP (Papandreou and Yuille, ICCV 2011): the search is
// done again and again with every one of them disturbed by its own standard
// deviation, and the results vary as the truth may.
//
// The draws go on from x in each procedure by itself; what its callers say of its
// entries is kept as it is in x, with the uncertainty of a typical caller.
// With fewer samples than fewSamples in a procedure, chance alone moves its counts by
// a factor 2 one time in ten; there is nothing to measure.
const fewSamples = 8

// callerSD is the standard deviation of the logarithm of the executions of all
// call sites of a procedure, measured against true counts.
const callerSD = 0.6

// A spread holds standard deviations of the logarithms of one problem's executions,
// in two parts. What a procedure's blocks have in common, level, is as uncertain as
// the time of its instructions: over twelve programs nothing known of a procedure
// (its samples, size, callers, stalls) told where it is far off. What its blocks and
// out-edges have for themselves follows from flow, and is known much better.
type spread struct {
	level float64
	block []float64 // by block, of N without the level
	out   []float64 // by out-edge, likewise

	// ask and askOut are, by block and by out-edge, how many times as many standard deviations as elsewhere their counts
	// are to be known by for the confidence that they are given; nil is 1.
	ask, askOut []float64

	// within is how many standard deviations a block's count is to be known by, of which no more is asked, to be Medium within
	// its procedure; 0 is mostly: see allow.
	within float64

	// scale is that of the factor that all counts of the program have in common: see scaleSD.
	scale float64

	// By draw, if asked for: how far the logarithms went, level included.
	drawn    [][]float64 // by block
	drawnOut [][]float64 // by out-edge
}

// of is the standard deviation of a logarithm with its level: of a count among all others of the program.
func (s *spread) of(own float64) float64 { return math.Sqrt(s.level*s.level + own*own) }

// timeSD is the standard deviation of the logarithm of the factor that all counts have in common where
// nothing but time was sampled. An execution takes anything from a fraction of a cycle to hundreds: programs
// of many loops were off by up to 2.6, one that only follows pointers through memory by 100.
const timeSD = 1.5

// TimeFactor is the factor that counts may be off by with 90 % confidence where nothing but time was sampled: what
// timeSD comes to, in round numbers.
const TimeFactor = document.TimeFactor

// commonFactor is Profile.Common of such a standard deviation.
func commonFactor(sd float64) float64 {
	switch sd {
	case 0:
		return 0
	case timeSD:
		return TimeFactor
	}
	return math.Exp(mostly * sd)
}

// scaleSD is what the factor that all counts have in common is uncertain by.
func (pr *posed) scaleSD() float64 {
	if pr.par.timed && !slices.ContainsFunc(pr.probs, (*problem).counted) {
		return timeSD
	}
	return 0
}

// commonFloor is the least standard deviation that it is taken to have: of 14 recordings of constructed programs with a loop that
// long walks time, it was 3 to 14 % too low, where these said 5 %.
const commonFloor = 0.1

// commonSD is the standard deviation of the logarithm of the factor that all counts may be off by together, around x: that of what
// is known of procedures with known executions, by their samples; 0 where not time was sampled. These fix the scale of all others
// together (see setGauge), as far as they have samples.
func (pr *posed) commonSD() float64 {
	if !pr.par.timed {
		return 0
	}
	var all, known, sum float64
	for _, q := range pr.probs {
		n := sumOf(q.samples)
		if all += n; q.counted() {
			known += n
			sum += n * max(commonFloor, q.togetherSD())
		}
	}
	if known == 0 {
		return timeSD
	}
	unsure := gaugeShare * (all - known)
	return min(timeSD, (sum+unsure*timeSD)/(known+unsure))
}

// spread returns the spreads around x, by problem. The problems keep the state of x.
func (pr *program) spread(x []float64, keep bool) []spread {
	called := make([]callers, len(pr.probs))
	for i := range pr.ties {
		called[pr.ties[i].callee] = pr.callersOf(&pr.ties[i])
	}
	sd := make([]spread, len(pr.probs))
	pr.progress.stage(spreadShare, len(pr.probs))
	pr.each(func(i int) {
		sd[i] = pr.probs[i].spread(pr.part(x, i), called[i], keep)
		pr.progress.done()
	})
	// The factor that all counts share is mostly that of a procedure with most of the
	// executions: the more it has, the less it can differ; unless executions that are known fix
	// the factor. Of testdata/mix, calibrated, a loop with most of the executions and none that
	// windows counted was medium, and off by 7.
	var all float64
	if !slices.ContainsFunc(pr.probs, (*problem).counted) {
		for _, q := range pr.probs {
			all += sumOf(q.n)
		}
	}
	for i, q := range pr.probs {
		if all > 0 {
			sd[i].level *= 1 - sumOf(q.n)/all
		}
		sd[i].level = max(sd[i].level, q.togetherSD())
	}
	pr.allow(sd)
	return sd
}

// Medium is a promise about nine in ten of the counts of a program that have it, and most of them are far surer than that. So
// counts may have it that are sure with 80 % confidence alone, as long as of all that have it 95 % are expected to hold:
// what draws do not know of breaks as many again. It is about blocks, weighed by samples as promises are held, within their
// procedures by samples alone, the less the more is asked (see ask). Out-edges err together: of php, those that this
// would add break a quarter of all.
const (
	fourInFive = 1.282 // standard deviations of a normal variable
	allowKept  = 0.95
	allowSteps = 20 // from fourInFive to mostly
)

// allow sets spread.within.
func (pr *program) allow(sd []spread) {
	var blocks []certain
	for i, q := range pr.probs {
		if sd[i].ask == nil {
			continue
		}
		evidence := q.evidence()
		for b, own := range sd[i].block {
			if evidence[b] > Low {
				blocks = append(blocks, certain{q.samples[b], own, sd[i].asks(b)})
			}
		}
	}
	within := allowed(blocks)
	for i := range sd {
		if sd[i].ask != nil {
			sd[i].within = within
		}
	}
}

// A certain is what is known of one count.
type certain struct{ weight, own, ask float64 }

// holds reports whether it is within a factor 2 by so many standard deviations, where no more is asked; where as much as may be
// is, by mostly and what is asked.
func (c certain) holds(within float64) bool {
	return (mostly*c.ask-(mostly-within)*max(0, 1-(c.ask-1)/asked))*c.own <= math.Ln2
}

// likely is how likely it is to be.
func (c certain) likely() float64 { return math.Erf(math.Ln2 / max(c.own*c.ask, 1e-100) / math.Sqrt2) }

// allowed returns the least number of standard deviations by which enough of what holds are expected to.
func allowed(of []certain) float64 {
	for step := range allowSteps {
		within := fourInFive + (mostly-fourInFive)*float64(step)/allowSteps
		var all, kept float64
		for _, c := range of {
			if c.holds(within) {
				all += c.weight
				kept += c.weight * c.likely()
			}
		}
		if kept >= allowKept*all {
			return within
		}
	}
	return mostly
}

// callers are what calls a procedure, while all others stay as they are.
type callers struct {
	others float64 // executions of the call sites in other procedures
	all    bool    // no other can call it

	// own is what binds the entries of a procedure that calls itself to its calls; nil if it does not. Its sites are those
	// in the core of the procedure.
	own *tie
}

// callersOf returns the callers that t tells of.
func (pr *program) callersOf(t *tie) callers {
	q := pr.probs[t.callee]
	by := callers{all: !t.floor}
	own := *t
	own.sites = nil
	for _, s := range t.sites {
		if in := s.core(); s.q == q && q.core != nil && in.q == q.core.problem {
			own.sites = append(own.sites, in)
		} else {
			by.others += s.calls()
		}
	}
	if len(own.sites) > 0 {
		by.own = &own
	}
	return by
}

func (q *problem) spread(x []float64, called callers, keep bool) spread {
	if q.core == nil {
		return q.unsure()
	}
	return q.core.spread(q, q.core.draw(q.core.gather(x), called, keep))
}

// draw returns the spread around x by disturbed searches. It spoils the state of q.
func (q *problem) draw(x []float64, called callers, keep bool) spread {
	q.run(x)
	center, sure, known, visits, multiways, expected := q.center, q.sure, q.known, q.visits, q.multiways, q.level
	best := q.logarithms()
	weight := q.expected()
	if q.par.timed && !q.quiet {
		weight = q.samples // as promises are held
	}
	sum := spread{block: make([]float64, len(best.block)), out: make([]float64, len(best.out))}
	e := q.effort()
	if keep { // what is asked for are directions, not only lengths
		e = knownEffort
	}
	rng := rand.New(rand.NewPCG(1, uint64(q.p.Addr)))
	y := make([]float64, len(x))
	search := newSearcher(len(x))
	defer searchers.Put(search)
	search.diag = q.diag
	q.center, q.sure, q.known, q.visits = make([]float64, len(x)), slices.Clone(sure), slices.Clone(known), slices.Clone(visits)
	q.sureLevel = min(q.sureLevel, 1/(visitPhaseSD*visitPhaseSD))
	if called.fixed() {
		q.sure[0] = 1 / callerSD
	}
	cubes := spread{block: make([]float64, len(best.block)), out: make([]float64, len(best.out))}
	noise := make([]float64, len(q.n))
	drawn := q.logarithms()
	var loops *nest
	if q.par.loopSD > 0 {
		loops = q.flow.nest(q.arms)
	}
	for range e.draws {
		copy(q.center, center)
		copy(q.known, known)
		copy(q.visits, visits)
		q.multiways = disturbMultiways(multiways, rng)
		q.level = expected
		if called.fixed() {
			q.center[0] = math.Log(called.others)
		}
		risk := q.guessed(q.risk) // by the odds of the draw before: what they are is uncertain, too
		q.disturb(rng, loops, noise, risk)
		objective := q.objective
		if called.own != nil {
			objective = q.recursive(called, rng)
		}
		copy(y, x)
		search.minimize(objective, y, e.drawn, e.tol)
		if !search.there {
			q.run(y)
		}
		q.logarithmsTo(&drawn)
		axpy(-1, best.block, drawn.block)
		axpy(-1, best.out, drawn.out)
		level := dot(weight, drawn.block)
		if q.par.timed { // one loop may have waited; most of the procedure is where the median is
			level = middleOf(drawn.block, weight)
		}
		sum.level += level * level
		addSquares(sum.block, drawn.block, level)
		addSquares(sum.out, drawn.out, level)
		addCubes(cubes.block, drawn.block, level)
		addCubes(cubes.out, drawn.out, level)
		if keep {
			sum.drawn = append(sum.drawn, slices.Clone(drawn.block))
			sum.drawnOut = append(sum.drawnOut, slices.Clone(drawn.out))
		}
	}
	// Draws tell little of what the blocks of a procedure have in common.
	sum.level = deviation(sum.level, e.draws)
	if !slices.ContainsFunc(known, func(o observation) bool { return o.of == 0 && !o.none }) {
		sum.level = max(sum.level, q.par.levelSD)
	}
	if sum.ask = q.ask(loops, called.own); sum.ask != nil {
		sum.askOut = make([]float64, len(sum.out))
		for b, a := range sum.ask {
			for w := q.flow.first[b]; w < q.flow.first[b+1]; w++ {
				sum.askOut[w] = skewed(a, cubes.out[w], sum.out[w], e.draws)
			}
			sum.ask[b] = skewed(a, cubes.block[b], sum.block[b], e.draws)
		}
	}
	deviate(sum.block, e.draws)
	deviate(sum.out, e.draws)
	scale(1+e.short, sum.block)
	scale((1+e.short)*q.par.edges, sum.out)
	return sum
}

// fixed reports whether entries are told by other procedures alone.
func (c *callers) fixed() bool { return c.all && c.own == nil && c.others > 0 }

// recursive returns the objective of a procedure that calls itself, disturbed by what others may call and by what its tie
// leaves: its entries go with its calls.
func (q *problem) recursive(c callers, rng *rand.Rand) func(x, grad []float64) float64 {
	others := c.others * math.Exp(callerSD*rng.NormFloat64())
	off := c.own.sd * rng.NormFloat64()
	return func(x, grad []float64) float64 {
		v := q.forward(x)
		sum := others + c.own.calls()
		by, d := c.own.pull(sum, x[0]+off)
		q.dx[0] -= d
		c.own.push(d / max(sum, 1e-100))
		q.backward(x, grad)
		return v + by
	}
}

// A promise holds for nine in ten of the counts of each program, not of all programs together: where one loop has most
// of the samples of a program, that one count is to hold. So where a loop, an arm or a procedure without them has
// concentrated of all samples or more, its counts are to be within their promise by (1+asked) times as many standard
// deviations, which is with 99 % confidence, and with fewer by less, down to 1 at scattered: what has a tenth of a program
// cannot break its promise alone.
const (
	scattered    = 0.1
	concentrated = 0.3
	asked        = 0.6
)

// ask returns spread.ask for the loops of q, or nil. A loop in which q calls itself runs all of q in its turns.
func (q *problem) ask(loops *nest, own *tie) []float64 {
	if loops == nil || q.par.total == 0 {
		return nil
	}
	of := make([]float64, loops.loops+loops.arms) // samples
	for b, s := range q.samples {
		for _, l := range loops.of[b] {
			of[l] += s
		}
	}
	all, ask := sumOf(q.samples), make([]float64, len(q.samples))
	if own != nil {
		for _, s := range own.sites {
			for _, l := range loops.of[s.block] {
				of[l] = all
			}
		}
	}
	for b := range ask {
		least := all
		for _, l := range loops.of[b] {
			least = min(least, of[l])
		}
		ask[b] = 1 + asked*clamp((least/q.par.total-scattered)/(concentrated-scattered), 0, 1)
	}
	return ask
}

// asks is ask of block b, asksOut askOut of out-edge w.
func (s *spread) asks(b int) float64 {
	if s.ask == nil {
		return 1
	}
	return s.ask[b]
}

func (s *spread) asksOut(w int32) float64 {
	if s.askOut == nil {
		return 1
	}
	return s.askOut[w]
}

// skewed returns ask for a logarithm whose draws have these sums of cubes and squares. What runs nearly always cannot run
// much more often, but half as often: it has a tail on one side, and from what nine in ten of it are within to what all but
// one in a hundred are is further than of a normal variable, by what Cornish and Fisher say (Moments and Cumulants in the
// Specification of Distributions, Revue de l'Institut International de Statistique 5, 1937), less the skewness that so few
// draws of a normal variable show.
func skewed(ask, cubes, squares float64, draws int) float64 {
	n := float64(draws)
	skew := math.Abs(cubes/n) / max(math.Pow(squares/n, 1.5), 1e-100)
	return ask + max(0, skew-math.Sqrt(6/n))*mostly*(ask*ask-1)/6
}

func addCubes(sum, x []float64, mean float64) {
	for i, v := range x {
		sum[i] += (v - mean) * (v - mean) * (v - mean)
	}
}

// commonError is how much of the error of one known count all of a procedure are taken to
// have in common. Without it, where counts of zstd were known to 20 %, a third of the
// samples was high, and none of it within 10 %.
const commonError = 0.3

// togetherSD returns the least standard deviation that known executions leave to what all blocks of q have in common;
// 0 if there are none. Where other evidence has moved counts away from what is known, one of them is wrong: known
// executions of a procedure of minisat that windows had seen in different phases were off by up to a factor 4.
func (q *problem) togetherSD() (sd float64) {
	var off, of float64
	for _, o := range q.known {
		if !o.real || o.none {
			continue
		}
		if own := max(commonError*o.sd, o.common); sd == 0 || own < sd {
			sd = own
		}
		w := 1 / (o.sd * o.sd)
		d := math.Log(max(q.n[o.block], 1e-100)) - o.logN
		off += w * d * d
		of += w
	}
	if of == 0 {
		return 0
	}
	return math.Hypot(sd, math.Sqrt(off/of))
}

// expected is each block's share of the time of its procedure.
func (q *problem) expected() []float64 {
	w := make([]float64, len(q.n))
	all := max(q.brought(), 1e-300)
	for b, n := range q.n {
		w[b] = q.brings(b, n) / all
	}
	return w
}

// unsure is the spread where samples say nothing: counts by static guesses alone. Of
// the blocks of such procedures that ran, 72 to 98 in 100 (twelve programs; the median
// is 93) ran at most 27 times as often as guessed, which is 1.645 of this.
func (q *problem) unsure() spread {
	s := spread{level: math.Sqrt2, block: make([]float64, len(q.n)), out: make([]float64, len(q.prob))}
	fillWith(s.block, math.Sqrt2)
	fillWith(s.out, math.Sqrt2)
	return s
}

// logarithms of the executions of blocks and out-edges.
func (q *problem) logarithms() spread {
	l := spread{block: make([]float64, len(q.n)), out: make([]float64, len(q.prob))}
	q.logarithmsTo(&l)
	return l
}

func (q *problem) logarithmsTo(l *spread) {
	for b, n := range q.n {
		l.block[b] = fastLog(max(n, 1e-100))
		lo, hi := q.flow.first[b], q.flow.first[b+1]
		if hi == lo+1 {
			l.out[lo] = l.block[b]
			continue
		}
		for w := lo; w < hi; w++ {
			l.out[w] = l.block[b] + fastLog(max(q.prob[w], 1e-100))
		}
	}
}

// middleOf is the median of x by weight.
func middleOf(x, weight []float64) float64 {
	var order []int
	for i, w := range weight {
		if w > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	half := sumOf(weight) / 2
	for _, i := range order {
		if half -= weight[i]; half <= 0 {
			return x[i]
		}
	}
	return 0
}

func addSquares(sum, x []float64, mean float64) {
	for i, v := range x {
		sum[i] += (v - mean) * (v - mean)
	}
}

func fillWith(x []float64, v float64) {
	for i := range x {
		x[i] = v
	}
}

func sumOf[T uint64 | float64](x []T) (t T) {
	for _, v := range x {
		t += v
	}
	return t
}

// deviate turns sums of squares over all draws into standard deviations.
func deviate(sum []float64, draws int) {
	for i, v := range sum {
		sum[i] = deviation(v, draws)
	}
}

// deviation is the standard deviation that a sum of squares shows. By so few draws
// Student's quantile takes the place of the normal one, if promises are to be kept:
// at 0.95 it is 1+1/draws times as large, within 2 % from 5 draws on.
func deviation(sum float64, draws int) float64 {
	n := float64(draws)
	return math.Sqrt(sum/n) * (1 + 1/n)
}

// disturb shifts what the search believes: costs, unknowns, known counts and visits. loops, if not nil, have errors of
// their own.
func (q *problem) disturb(rng *rand.Rand, loops *nest, noise, risk []float64) {
	common := rng.NormFloat64() * q.par.procSD
	if q.counted() {
		common = 0 // it is an unknown
	}
	shared := loops.draw(rng, q.par.loopSD, q.par.armSD)
	for b := range noise {
		v := q.par.blockVar/q.insts[b] + q.par.leastVar + 1/(q.samples[b]+1)
		if q.beside != nil {
			v += q.beside[b]
		}
		noise[b] = common - q.par.overlooked*fastExp(max(-(q.insts[b]-1)/2, -700)) + rng.NormFloat64()*math.Sqrt(v)
		if loops != nil {
			for _, l := range loops.of[b] {
				noise[b] += shared[l]
			}
		}
		if risk != nil && risk[b] > 0 {
			noise[b] = waiting(noise[b], risk[b], math.Pow(rng.Float64(), 3))
		}
	}
	q.expect(noise)
	for i := range q.center {
		q.center[i] += rng.NormFloat64() / q.sure[i]
	}
	for i := range q.known {
		o := &q.known[i]
		z := rng.NormFloat64()
		switch {
		case o.of > 0: // the logit of a share is about normal (Jeffreys' prior)
			yes, no := o.part+0.5, o.of-o.part+0.5
			p, _ := logistic(math.Log(yes/no) + z*math.Sqrt(1/yes+1/no))
			o.part = p * o.of
		case !o.none:
			o.logN += z * o.sd
		}
	}
	for i := range q.visits {
		q.visits[i].logN += rng.NormFloat64() * q.visits[i].sd
	}
	if q.sureLevel > 0 {
		q.level += rng.NormFloat64() / math.Sqrt(q.sureLevel)
	}
}
