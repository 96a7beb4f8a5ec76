package infer

import (
	"math"
	"slices"

	"backfeed/infer/image"
)

// The params are the constants of the model of out-of-order timer samples. Over
// sixteen programs the mean block overlap is flat around each that TestLeaveOneOut
// changes: other values of one, most of them half and twice, lose at most 0.006 and gain
// at most 0.003.
type params struct {
	// fixed: cycles of one execution of a block beside those that the machine model has at least: the jump there. Where
	// the processor guesses right it takes hardly any time: a loop of five blocks with 15 instructions takes two
	// cycles. What a wrong guess costs is in missed. Over the 34 programs the block overlap is 0.740 with 0.25; before
	// missed, it was 0.732 with 1.
	// waits: how many times as long as that an execution takes in the median. All counts hang on it alike.
	fixed, waits float64
	// costVar: the logarithm of the time of one execution of a block of n
	// instructions has variance costVar/n. On cores that retire up to eight
	// instructions at once a short block may be all but invisible, or carry its
	// neighbour's stall; the n instructions of a block err nearly independently.
	costVar float64
	// hidden: a time that is lower pulls no harder than one so many standard
	// deviations below the median. Short blocks retire with others: over twelve
	// programs, one in four blocks of two instructions brings less than a tenth of
	// the samples expected. The mean block overlap is 0.724 with 3, 0.723 with 2.5,
	// 0.719 with 4, 0.717 without; nearly all of the gain is in one program, gzip. With
	// known counts it does harm, and is infinite.
	hidden float64
	// outSD: standard deviation of an out-edge's logit around its static guess.
	outSD float64
	// backEdge: static guess of the logit of staying in a loop.
	backEdge float64
	// forward, calling: what is added to the static guess of the logit of a jump
	// down the code, and of an out-edge to a block that calls. Over twelve programs the
	// mean block overlap is 0.715 with these, and 0.711 with 0.
	forward, calling float64
	// unlikely: static guess of the logit of an out-edge to code that cannot return.
	unlikely float64
	// entrySD: of the logarithm of a procedure's entries around its samples.
	entrySD float64

	// What holds of a procedure with known executions. commonSD: of the logarithm of what
	// the costs of its blocks have in common. knownOutSD takes the place of outSD. rareVar:
	// the variance that the logarithm of the cost of a block without samples has
	// beside costVar; with s samples it is less by the factor 1+s/10. With 400 sites
	// probed on four programs the block overlap was 0.80 without these, 0.87 with them.
	commonSD, knownOutSD, rareVar float64
	// tieSD: of the logarithm of a procedure's entries around the executions of
	// its call sites, where these are all known.
	tieSD float64

	// steep: the search goes on for longer, see steepEffort.
	steep bool

	// timed: samples are of time, and how much of it one execution takes is not known.
	timed bool

	// What disturbed searches use, measured against true counts. The search itself
	// does with less: then the most probable solution lies nearer to the truth.
	blockVar float64 // variance of the logarithm of a block's cost, times its instructions
	leastVar float64 // the same, however many instructions it has
	// overlooked: the mean by which the logarithm of the cost of a block of one instruction is less, of longer
	// ones less by exp(-1/2) for each: those that retire with their neighbours bring no samples. By the exact
	// counts of five programs its median is -1.95 for one instruction, -1.2 for two, -0.7 for three, -0.4
	// for four, and 0 from seven on, with a variance of 3.6 divided by the instructions.
	overlooked float64
	// edges: how many times surer draws are of out-edges than they should be.
	edges float64
	// risks: what an execution may wait beside its cost is looked for; see riskOf.
	risks  bool
	procSD float64 // standard deviation of what the blocks of one procedure have in common
	loopSD float64 // the same of one loop, beside that of its procedure and of loops around it; see nest
	// armSD: the same of one arm, what runs from where an indirect jump leads to the next one: the operations of an
	// interpreter wait for their own operands, and for the jump. TestArms measured a variance of 0.2 to 0.3 beside that of
	// single blocks.
	armSD float64
	// levelSD is the least that is claimed of a procedure's level: see spread. Over
	// twelve programs 9 in 10 samples that are medium by it are within a factor 2; with
	// the 0.6 that levels deviate by in the mean it would be 8 in 10.
	levelSD float64

	// missed: the share of the executions of a side of a branch, in the median, that wait because the processor had
	// guessed the other one, where it hardly ever goes to that side. Where it goes there with probability p, it is
	// (1-p)^2 times as much: so a side that runs seldom brings the samples of one that runs often. By exact counts of 34
	// programs, blocks with 20 samples or more on a side with nine tenths of the executions of the branch wait no longer
	// than others, with half of them 3 cycles longer, with three tenths 6, with a tenth 9. 0 is nothing.
	missed float64

	// total is the samples of the program that count; 0 if that is of no matter.
	total float64

	// heldUp: the samples that a cycle brings in which interrupts are held up until a system call returns; 0 if what is
	// sampled there tells of no such time.
	heldUp  float64
	returns float64 // cycles for which one holds them up

	// minor is how many samples that count a procedure has fewer of that takes minorEffort, see there; 0 is none.
	minor float64

	// line is what a cache line of code brings by being fetched, in samples for each square root of an execution,
	// and often how many executions bring half of that; see fetchedAfter. 0 is nothing.
	line, often float64

	// part is the share of the samples that counts, where there are more than
	// enoughSamples, or where they were scaled up; 0 is all.
	part float64
}

// cycles is what an execution takes, in the median, that takes so many cycles at least.
func (p *params) cycles(least float64) float64 { return p.waits * (p.fixed + least) }

// counts returns the share of the samples that counts.
func (p *params) counts() float64 {
	if p.part == 0 {
		return 1
	}
	return p.part
}

// Code that runs rarely has left the caches by then, and waits to be fetched. By the exact counts of 34 programs the
// cycles of blocks beyond what the machine model has at least are, for each cache line, 6 where a block runs every
// 10^5.25 cycles, 14 at 10^6.25, 65 at 10^7.25 and 190 at 10^8.25, and where a procedure is entered as many again as
// one or two lines have, which nothing fetched ahead (TestFetching). It is about the square root of the time since
// it ran, which is also how misses grow as caches shrink (Hartstein et al., On the Nature of Cache Miss Behavior: Is It
// sqrt(2)?, Journal of Instruction-Level Parallelism 10, 2008). What runs often is in a first or second cache.
const (
	fetchCycles  = 0.013 // cycles for each line and square root of a cycle between executions
	fetchedAfter = 1e5   // cycles between executions with which they are half of that
	entryLines   = 2     // lines that an entry of a procedure waits for, beside those of its code
	lineBytes    = 64
)

// fetched returns p for total samples that are so many cycles apart. n executions of a line are total * period / n
// cycles apart, and bring fetchCycles / period samples each for the square root of that.
func (p *params) fetched(total uint64, period float64) *params {
	with := *p
	with.line = fetchCycles * math.Sqrt(float64(total)/period)
	with.often = float64(total) * period / fetchedAfter
	return &with
}

// enoughSamples is how many samples are taken for what they are. By then it is the
// time of one execution that is not known, not the noise of the samples; more of them
// only make the search steep: with 81 million samples of SQLite and 50 million of zstd
// the block overlap was 0.660 and 0.505, with a hundredth of them 0.679 and 0.714.
const enoughSamples = 1e6

var outOfOrder = params{
	fixed:      0.25,
	waits:      1.5,
	costVar:    1.5,
	hidden:     3,
	outSD:      6,
	backEdge:   1.5,
	forward:    -1,
	calling:    -1,
	unlikely:   -8,
	entrySD:    3,
	commonSD:   0.6,
	knownOutSD: 20,
	rareVar:    4,
	tieSD:      0.1,
	timed:      true,
	blockVar:   2,
	leastVar:   0.03,
	overlooked: 1.5,
	edges:      1.2,
	risks:      true,
	procSD:     0.5,
	loopSD:     0.15,
	armSD:      0.5,
	levelSD:    0.75,
	missed:     0.15,
}

// precise is the model of samples of retired instructions each of which names the instruction that was
// counted (see retired): an execution brings as many samples as its block has instructions, in units of the
// period, and all that is uncertain of that is chance. The search is that of TestUnbiased, whose mean block
// overlap over five programs was 0.973 of 100,000 samples and 0.979 of a million with a variance of 0.3 and a
// shorter search, 0.976 and 0.988 with these; of the samples of the first, a tenth was high, then 0.7.
var precise = params{
	costVar:    0.005,
	hidden:     math.Inf(1),
	outSD:      6,
	backEdge:   1.5,
	forward:    -1,
	calling:    -1,
	unlikely:   -8,
	entrySD:    3,
	commonSD:   0.1,
	knownOutSD: 10,
	rareVar:    0,
	tieSD:      0.1,
	steep:      true,
	edges:      1,
	blockVar:   0.005,
	procSD:     0.03,
	levelSD:    0.03,
}

// skidding is the model of samples of retired instructions that fall where the processor has got to by the
// time of the interrupt: tens of cycles later, and so on instructions that wait. Skid moves samples from code
// to what runs after it, and leaves their sum: the search that trusts sums most is the best of those tried.
// TestSkid has the figures. What a block may be off by is little less than where time is sampled.
var skidding = with(precise, func(p *params) { p.blockVar, p.procSD, p.levelSD = 9, 0.1, 0.1 })

// branching is the model of samples of retired branches without branch records: what is uncertain of
// their cost is skid.
var branching = with(precise, func(p *params) {
	p.costVar, p.outSD, p.steep, p.blockVar = 0.3, 3, false, 0.3
})

// with returns p with changes.
func with(p params, change func(*params)) params {
	change(&p)
	return p
}

// A problem is the search for the executions of one procedure: a flow with the
// samples that were seen of it. Its unknowns x are the logarithm of the
// executions that come in at each entry, then the logits of the out-edges of blocks
// that have more than one; of two out-edges, the difference of their logits
// over the square root of 2, a step of which is as long as one in both. The last is
// the logarithm of a factor that the costs of all its blocks have in common.
type problem struct {
	p    *image.Proc // with dispatches
	flow *flow
	fac  *factor
	par  *params

	samples    []float64  // by block
	cost       []float64  // by block: samples that one execution brings, in the median
	quiet      bool       // no block has samples
	system     []float64  // by block: of cost, what system calls hold interrupts up, and returns take; nil if it makes none
	beside     []float64  // by block: the variance of the logarithm of its cost that system calls beside it add; nil likewise
	fetch      []float64  // by block: params.line of its code
	insts      []float64  // by block: instructions, at least 1
	invVar     []float64  // by block: 1 / variance of the logarithm of cost
	mispredict float64    // samples that a mispredicted branch costs; 0 if that is not looked at
	forks      []fork     // branches that go two ways; nil if mispredict is 0
	missed     []float64  // by block: samples that mispredicted branches are expected to cost it; nil is nothing
	risk       []float64  // by block: what an execution may wait beside its cost, in units of it; nil is nothing
	weigh      []weighing // by block: what explain needs of samples and invVar; see expect
	known      []observation
	visits     []observation // executions up to a factor that they have in common
	multiways  []multiway
	dispatches []*dispatch
	arms       []int32   // blocks that indirect jumps lead to
	branch     []int32   // blocks with more than one out-edge; their logits follow the entries in x
	center     []float64 // by unknown: what is believed of it before samples are seen
	sure       []float64 // by unknown: 1 / standard deviation around that

	diag []float64 // by unknown: what a search by itself learnt of second derivatives; see searcher
	live []bool    // by block: whether it is to be in the core
	core *core     // nil for a procedure that is searched by itself only

	// The logarithm of the factor of visits is expected to be level, with sureLevel the inverse of
	// its variance; 0 is as good as any.
	level, sureLevel float64

	// commonSD is the standard deviation of the logarithm of what the costs of all blocks have
	// in common, which is searched for where executions are known; 0 elsewhere.
	commonSD float64

	// Set by run.
	enter []float64 // by entry: executions that come in
	prob  []float64 // by out-edge
	n     []float64 // by block: executions

	// Set by forward.
	lam  []float64 // by block: samples expected by what its executions cost in the median
	mean []float64 // by block: the same by what they most probably cost

	// Accumulated between forward and backward: derivatives of the objective.
	dn    []float64 // by block, of n
	dout  []float64 // by out-edge, of prob
	dmean []float64 // by block, of the samples expected there; nil if missed is
	dx    []float64 // of x directly
}

func newProblem(p *image.Proc, samples []uint64, costOf func(*image.Block) float64, par *params) *problem {
	p, dispatches := withDispatches(p)
	f := newFlow(p, len(dispatches))
	if f == nil {
		return nil
	}
	q := &problem{p: p, flow: f, par: par, dispatches: dispatches, arms: armsOf(p, f)}
	for b := range f.blocks {
		if f.first[b+1]-f.first[b] > 1 {
			q.branch = append(q.branch, int32(b))
		}
	}
	q.allocate()
	part := par.counts()
	for b := range p.Blocks {
		q.insts[b], q.invVar[b] = 1, 1/par.costVar
		if b >= len(samples) {
			continue // a dispatch takes no time
		}
		q.samples[b] = part * float64(samples[b])
		q.cost[b] = part * costOf(&p.Blocks[b])
		q.fetch[b] = part * par.line * float64(p.Blocks[b].End-p.Blocks[b].Start) / lineBytes
		q.insts[b] = float64(max(1, p.Blocks[b].Insts))
		q.invVar[b] = q.insts[b] / par.costVar
	}
	q.begin()
	for _, b := range f.entries {
		q.fetch[b] += part * par.line * entryLines
	}
	return q
}

// begin sets what is believed of q before a search, by samples and costs.
func (q *problem) begin() {
	sum, cost, fetch := sumOf(q.samples), sumOf(q.cost), sumOf(q.fetch)
	q.quiet = sum == 0
	q.expect(nil)
	// Before anything is known, each block ran as often as any other.
	q.believe(math.Log(runs(max(sum, 0.5), max(cost, 1e-300), fetch)))
}

// fetches is how many samples n executions of block b are expected to bring by waiting for its code, and how
// the logarithm of that grows with that of n.
func (q *problem) fetches(b int, n float64) (samples, power float64) {
	return fetchesOf(q.fetch[b], q.par.often, n)
}

// fetchesOf is fetches of a block with that fetch, in a program with that often.
func fetchesOf(fetch, often, n float64) (samples, power float64) {
	if fetch == 0 {
		return 0, 0
	}
	seldom := often / (often + n)
	return fetch * math.Sqrt(n) * seldom, seldom - 0.5
}

// brings is how many samples n executions of block b are expected to bring.
func (q *problem) brings(b int, n float64) float64 {
	fetches, _ := q.fetches(b, n)
	return n*q.cost[b] + fetches
}

// brought is how many all blocks are expected to bring.
func (q *problem) brought() (sum float64) {
	for b, n := range q.n {
		sum += q.brings(b, n)
	}
	return sum
}

// runs returns the executions that bring so many samples, each of them cost, and fetch for each square root.
func runs(samples, cost, fetch float64) float64 {
	root := 2 * samples / (fetch + math.Sqrt(fetch*fetch+4*cost*samples))
	return root * root
}

// rescaleCosts has so many times as many executions bring the same samples.
func (q *problem) rescaleCosts(by float64) {
	scale(1/by, q.cost)
	scale(1/math.Sqrt(by), q.fetch)
	for b, n := range q.system { // which takes what it takes, whatever the program waits for
		q.cost[b] += n * (1 - 1/by)
	}
	for _, o := range q.known {
		if o.steady { // likewise
			q.cost[o.block] *= by
		}
	}
}

// allocate makes the lists of q, for its flow and branch.
func (q *problem) allocate() {
	f := q.flow
	q.fac = f.newFactor()
	nb, nw := f.blocks, len(f.outs)
	blocks := floats.take(9 * nb)
	for i, s := range []*[]float64{&q.samples, &q.cost, &q.fetch, &q.insts, &q.invVar, &q.n, &q.dn, &q.lam, &q.mean} {
		*s = blocks[i*nb : (i+1)*nb]
	}
	q.weigh = weighings.take(nb)
	q.prob, q.dout = floats.take(nw), floats.take(nw)
	fillWith(q.prob, 1) // the only out-edge, unless its block branches
	q.enter = floats.take(len(f.entries))
	unknowns := len(f.entries) + 1
	for _, b := range q.branch {
		unknowns += f.logits(b)
	}
	all := floats.take(3 * unknowns)
	q.center, q.sure, q.dx = all[:unknowns], all[unknowns:2*unknowns], all[2*unknowns:]
}

// logits is how many unknowns the out-edges of b, of which there are several, have.
func (f *flow) logits(b int32) int {
	if n := int(f.first[b+1] - f.first[b]); n > 2 {
		return n
	}
	return 1
}

// believe sets what is believed of the unknowns: entry, the logarithm of the executions
// that come in at the top, and all else by the shape of the code.
func (q *problem) believe(entry float64) {
	p, f := q.p, q.flow
	for i, b := range f.entries {
		q.center[i], q.sure[i] = entry, 1/q.par.entrySD
		if i > 0 && (p.Complete || p.Blocks[b].Pad) {
			q.center[i] += q.par.unlikely
		}
	}
	at := len(f.entries)
	guess := staticGuess(p, f, q.par)
	for _, b := range q.branch {
		if g := guess[f.first[b]:f.first[b+1]]; len(g) == 2 {
			q.center[at] = (g[0] - g[1]) / math.Sqrt2
			at++
		} else {
			at += copy(q.center[at:], g)
		}
	}
	fillWith(q.sure[len(f.entries):], 1/q.par.outSD)
	q.sure[at] = 1
}

// objective is the function to minimise for the procedure by itself.
func (q *problem) objective(x, grad []float64) float64 {
	v := q.forward(x)
	q.backward(x, grad)
	return v
}

// silent tells that nothing was seen of the procedure itself.
func (q *problem) silent() bool { return q.quiet && len(q.known) == 0 }

// follow sets the executions of a silent procedure that is called so many times:
// what static guesses say, unless that would have brought samples.
func (q *problem) follow(called, sd float64) {
	entry := math.Log(max(called, 1e-9))
	q.center[0], q.sure[0] = entry, 1/sd
	for i := 1; i < len(q.enter); i++ {
		q.center[i] = entry + q.par.unlikely
	}
	x := slices.Clone(q.center)
	q.run(x)
	if q.brought() > 0.5 {
		minimize(q.objective, x, 100, 1e-6)
		q.run(x)
	}
}

func (q *problem) unknowns() int { return len(q.center) }

// forward sets prob and n for x and returns the objective: the negative
// logarithm, up to a constant, of the probability of samples and unknowns
// together. Samples of a block are Poisson with mean n * cost * e^slack, where
// slack, the logarithm of actual over median cost, is the most probable one; slack
// and unknowns are normal, but for the tail of slack beyond hidden, which is exponential.
func (q *problem) forward(x []float64) float64 {
	var v float64
	clear(q.dout)
	last := len(x) - 1
	sure, dx, at := q.sure[:len(q.center)], q.dx[:len(q.center)], x[:len(q.center)]
	for i, c := range q.center {
		r := (at[i] - c) * sure[i]
		v += r * r
		dx[i] = r * sure[i]
	}
	// Entries are believed to be about as many as samples say, by costs with what these have in common.
	if common := x[last] * q.commonSD; common != 0 {
		for i := range q.enter {
			s := q.sure[i]
			r := (x[i] - q.center[i]) * s
			with := r + common*s
			v += with*with - r*r
			q.dx[i] = with * s
			q.dx[last] += with * s * q.commonSD
		}
	}
	v /= 2
	q.run(x)
	// A common factor of all costs is one of the executions that bring the samples, in what they wait for code and for
	// mispredictions too: otherwise rare code would be the better explained the more executions all others have.
	common := 1.0
	if q.commonSD != 0 {
		common = math.Exp(clamp(x[last]*q.commonSD, -20, 20))
	}
	q.miss()
	q.bring(common)
	v = explain(q.weigh, q.lam, q.mean, v)
	dcommon := q.blame(common)
	if q.commonSD != 0 {
		q.dx[last] += dcommon * q.commonSD
	}
	q.missBack()
	for _, o := range q.known {
		v += q.observe(o)
	}
	for i := range q.multiways {
		v += q.observeMultiways(&q.multiways[i])
	}
	return v + q.observeVisits()
}

// bring sets lam, and dn to how much more that is for each logarithm of n, where costs have a factor in common.
func (q *problem) bring(common float64) {
	n := q.n
	cost, fetch, lam, dn, often := q.cost[:len(n)], q.fetch[:len(n)], q.lam[:len(n)], q.dn[:len(n)], q.par.often
	for b, n := range n {
		n = max(n, 1e-100)
		each := n * common * cost[b]
		fetches, power := fetchesOf(fetch[b], often, n*common)
		lam[b], dn[b] = each+fetches, each+fetches*power
	}
	if q.missed != nil {
		missed := q.missed[:len(lam)]
		for b := range lam {
			lam[b] += missed[b] * common
		}
	}
}

// blame sets dn and dmean for lam and mean, and returns the derivative of the objective by the logarithm of common.
func (q *problem) blame(common float64) (dcommon float64) {
	n := q.n
	cost, weigh, lam, mean, dn := q.cost[:len(n)], q.weigh[:len(n)], q.lam[:len(n)], q.mean[:len(n)], q.dn[:len(n)]
	missed, dmean := q.missed, q.dmean
	for b, n := range n {
		n = max(n, 1e-100)
		off, all := mean[b]-weigh[b].samples, lam[b]
		if all == n*common*cost[b] {
			dn[b] = off / n
			dcommon += off
			if missed != nil {
				dmean[b] = off * common / max(all, 1e-150)
			}
			continue
		}
		part := off / (max(all, 1e-150) * n)
		grows := dn[b]
		dn[b] = part * grows
		if missed != nil {
			dmean[b] = part * n * common
			grows += missed[b] * common
		}
		dcommon += part * n * grows
	}
	return dcommon
}

// run sets enter, prob and n for x: how often all runs, without what samples say of that.
func (q *problem) run(x []float64) {
	f, at, prob := q.flow, len(q.enter), q.prob
	for _, b := range q.branch {
		lo, hi := f.first[b], f.first[b+1]
		if hi == lo+2 {
			p := prob[lo:hi]
			y := x[at] * math.Sqrt2
			at++
			e := fastExp(-min(math.Abs(y), 700)) // as logistic does, which the compiler does not inline
			o := 1 / (1 + e)
			if p[0], p[1] = o, e*o; y < 0 {
				p[0], p[1] = p[1], p[0]
			}
			continue
		}
		p := prob[lo:hi]
		at += copy(p, x[at:])
		softmax(p)
	}
	q.fac.set(q.prob)
	clear(q.n)
	for i, b := range f.entries {
		q.enter[i] = fastExp(clamp(x[i], -60, 80))
		q.n[b] += q.enter[i]
	}
	q.fac.visits(q.n)
}

// A fork is a branch that goes two ways: its block, the first of its out-edges, and where each of the two leads.
type fork struct {
	block, out int32
	to         [2]int32 // or leave
}

// miss sets missed for n and prob: for each side of each fork, the samples that a misprediction costs, times how often
// there is one in the median.
func (q *problem) miss() {
	if q.missed == nil {
		return
	}
	clear(q.missed)
	cost := q.par.missed * q.mispredict
	for i := range q.forks {
		k := &q.forks[i]
		n, p, o := cost*q.n[k.block], q.prob[k.out], q.prob[k.out+1]
		if k.to[0] != leave {
			q.missed[k.to[0]] += n * p * o * o
		}
		if k.to[1] != leave {
			q.missed[k.to[1]] += n * o * p * p
		}
	}
}

// missBack adds the derivatives of what missed adds to the samples expected.
func (q *problem) missBack() {
	if q.missed == nil {
		return
	}
	cost := q.par.missed * q.mispredict
	for i := range q.forks {
		k := &q.forks[i]
		n, p, o := q.n[k.block], q.prob[k.out], q.prob[k.out+1]
		dn, dp, do := q.dn[k.block], q.dout[k.out], q.dout[k.out+1]
		if k.to[0] != leave {
			d := q.dmean[k.to[0]] * cost
			dn += d * p * o * o
			dp += d * n * o * o
			do += d * n * 2 * p * o
		}
		if k.to[1] != leave {
			d := q.dmean[k.to[1]] * cost
			dn += d * o * p * p
			do += d * n * p * p
			dp += d * n * 2 * o * p
		}
		q.dn[k.block], q.dout[k.out], q.dout[k.out+1] = dn, dp, do
	}
}

// mayMiss has mispredicted branches cost that many samples each.
func (q *problem) mayMiss(mispredict float64) {
	q.mispredict = mispredict
	if mispredict > 0 && q.par.missed > 0 {
		q.missed, q.dmean, q.forks = floats.take(len(q.n)), floats.take(len(q.n)), forkLists.take(len(q.branch))[:0]
		for _, b := range q.branch {
			if lo := q.flow.first[b]; q.flow.first[b+1] == lo+2 {
				q.forks = append(q.forks, fork{b, lo, [2]int32{q.flow.outs[lo].to, q.flow.outs[lo+1].to}})
			}
		}
	}
}

// observe adds the derivatives of one observation, and returns its value.
func (q *problem) observe(o observation) float64 {
	n := max(q.n[o.block], 1e-100)
	if o.of > 0 {
		return q.observeShare(o)
	}
	if o.none {
		v, d := huber(math.Log1p(n)/o.sd, farKnown)
		q.dn[o.block] += d / o.sd / (1 + n)
		return v
	}
	if o.out < 0 {
		far := float64(farKnown)
		if o.common > 0 {
			far = farRuns
		}
		v, d := huber((math.Log(n)-o.logN)/o.sd, far)
		q.dn[o.block] += d / o.sd / n
		return v
	}
	p := max(q.prob[o.out], 1e-100)
	v, d := huber((math.Log(n)+math.Log(p)-o.logN)/o.sd, farKnown)
	q.dn[o.block] += d / o.sd / n
	q.dout[o.out] += d / o.sd / p
	return v
}

// observeShare is observe of a share: by the binomial distribution, less the value
// at the share that was seen. Its curvature nowhere exceeds that of a logit, so
// shares near 0 and 1 need no care.
func (q *problem) observeShare(o observation) (v float64) {
	first := q.flow.first[o.block]
	for w, part := range [2]float64{o.part, o.of - o.part} {
		if w == 1 {
			o.out = 2*first + 1 - o.out // the other one
		}
		if p := max(q.prob[o.out], 1e-100); part > 0 {
			v += part * math.Log(part/(o.of*p))
			q.dout[o.out] -= part / p
		}
	}
	return v
}

// farKnown is how many standard deviations off an observation may be before it
// pulls no harder: a wrong one must not bend a whole procedure.
const farKnown = 50

// farRuns is farKnown of executions that windows tell: what runs in a phase that few of them met may be off by a factor of a
// thousand and seem sure. Of SQLite, two places of its largest procedure were, with 13 windows each: block overlap 0.881, and 0.896
// with 3.
const farRuns = 3

// huber is r^2/2, going on as a straight line beyond far, with its derivative.
func huber(r, far float64) (v, d float64) {
	if math.Abs(r) > far {
		return far*math.Abs(r) - far*far/2, math.Copysign(far, r)
	}
	return r * r / 2, r
}

// A weighing is what explain needs of a block beside the samples expected there. far is hidden, as a logarithm. edge is
// where the tail begins: without samples the x of explain, with samples its w.
type weighing struct{ samples, k, tilt, share, far, edge, logEdge float64 }

// neverHidden is far of a block whose time never is hidden: out of reach, and small enough to reckon with.
const neverHidden = 500

// expect prepares explain. noise, if not nil, is by block where the logarithm of
// the cost is expected to be, beside that of the median cost; all else has to be as it was.
func (q *problem) expect(noise []float64) {
	for b, s := range q.samples {
		k, w := q.invVar[b], &q.weigh[b]
		w.samples, w.k = s, k
		c := 0.0
		if noise != nil {
			c = noise[b]
		} else {
			w.share, w.far = s/k, q.par.hidden/math.Sqrt(k)
			if q.system != nil && q.system[b] > 0.5*q.cost[b] {
				w.far = neverHidden // no call retires with others
			}
			if s == 0 {
				w.edge = w.far * math.Exp(w.far)
			} else {
				w.edge = w.share + w.far
				w.logEdge = math.Log(w.edge)
			}
		}
		if s == 0 {
			w.tilt = math.Exp(c) / k
		} else {
			w.tilt = c + w.share - math.Log(k)
		}
	}
}

// explain sets mean to what lam, the samples expected of blocks, say of each, and returns value and, up to
// a constant, the sum of m - s*log(m) + k*(u-c)^2/2 at its minimum over u, where
// m = lam*e^u. With s samples, weight k = invVar and c of expect, the derivative is
// zero at m = k*w and u-c = s/k-w, where w = omega(log(lam/k) + c + s/k). Where u-c is
// less than -h/sqrt(k), of hidden h, the last term goes on as a straight line, and
// the derivative is zero at m = s + h*sqrt(k). All blocks are in one loop, as a call for each costs more than what it does.
func explain(weigh []weighing, lam, mean []float64, value float64) float64 {
	lam, mean = lam[:len(weigh)], mean[:len(weigh)]
	for b := range weigh {
		by, lam := &weigh[b], lam[b]
		s, k := by.samples, by.k
		if s == 0 {
			x := lam * by.tilt
			if x > by.edge {
				mean[b] = k * by.far
				value += k * by.far * (1 + fastLog(x/by.far) - by.far/2)
				continue
			}
			var w float64
			if x >= lambertLo && x < lambertHi { // lambert, which the compiler does not inline
				w = lambertMiddle(x)
			} else {
				w = lambert(x)
			}
			mean[b] = k * w
			value += k * w * (1 + w/2)
			continue
		}
		y := fastLog(max(lam, 1e-300)) + by.tilt + 0*lam // what is infinite or not a number makes the value so
		if w := by.edge; y > w {
			if z := y - by.logEdge; z > w {
				mean[b] = k * w
				value += k*w - s*by.logEdge + k*by.far*(z-by.share-by.far/2)
				continue
			}
		}
		var w float64
		if y >= omegaLo && y < omegaHi { // omega, likewise
			w = omegaMiddle(y)
		} else {
			w = omegaEnds(y)
		}
		u := by.share - w
		mean[b] = k * w
		value += k*w - s*(y-w) + k*u*u/2
	}
	return value
}

// backward sets grad for the x of the last forward, from dn, dout and dx. It spoils dn.
func (q *problem) backward(x, grad []float64) {
	f := q.flow
	q.fac.values(q.dn) // from here on: the value of one more entry at each block
	for i, b := range f.entries {
		g := 0.0
		if x[i] > -60 && x[i] < 80 {
			g = q.dn[b] * q.enter[i]
		}
		grad[i] = q.dx[i] + g
	}
	at := len(q.enter)
	for _, b := range q.branch {
		lo, hi := f.first[b], f.first[b+1]
		var mean float64
		for w := lo; w < hi; w++ {
			if to := f.outs[w].to; to != leave {
				q.dout[w] += q.n[b] * q.dn[to]
			}
			mean += q.prob[w] * q.dout[w]
		}
		if hi == lo+2 {
			grad[at] = q.dx[at] + math.Sqrt2*q.prob[lo]*q.prob[lo+1]*(q.dout[lo]-q.dout[lo+1])
			at++
			continue
		}
		for w := lo; w < hi; w++ {
			grad[at] = q.dx[at] + q.prob[w]*(q.dout[w]-mean)
			at++
		}
	}
	grad[at] = q.dx[at]
}

// logistic returns the probabilities of two out-edges whose logits differ by x.
func logistic(x float64) (p, q float64) {
	e := fastExp(-min(math.Abs(x), 700))
	p = 1 / (1 + e)
	if q = e * p; x < 0 {
		return q, p
	}
	return p, q
}

// softmax turns logits into probabilities that sum to 1.
func softmax(x []float64) {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	var sum float64
	for i, v := range x {
		x[i] = fastExp(max(v-top, -700))
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

func clamp(x, lo, hi float64) float64 { return max(lo, min(hi, x)) }
