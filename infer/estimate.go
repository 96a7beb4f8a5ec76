package infer

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
)

// estimate finds the executions of all procedures of prof and writes them into
// their Results.
func estimate(p *Placed, opt Options) {
	prof, counts, exact, model := p.Profile, p.counts, p.exact, p.model
	par, costOf := costModel(prof, model)
	var known []Known
	for _, ip := range prof.Images {
		known = append(known, exact.known(ip.ID, ip.Image)...)
	}
	known = slices.Concat(opt.Known, prof.sound(known))
	prof.Calibrated = len(known) > 0
	calibrated := len(known) > 0 || len(exact.counted.Images) > 0 || opt.Places > 0 || opt.Sites > 0
	if calibrated {
		sure := *par
		sure.hidden = math.Inf(1)
		if par.timed {
			// Known counts say which blocks bring fewer samples than they should, and which wait.
			sure.blockVar, sure.leastVar, sure.loopSD, sure.overlooked, sure.edges, sure.risks = 4.5, 0, 0, 0, 1, false
		}
		par = &sure
	}
	if par.timed {
		par = par.fetched(prof.Samples.Used-prof.Samples.Faulted, prof.cyclesApart())
	}
	if part := min(enoughSamples/float64(prof.Samples.Used), 1/prof.each()); part < 1 {
		fewer := *par
		fewer.part = part
		par = &fewer
	}
	if par.timed {
		of := *par
		of.total = of.counts() * float64(prof.Samples.Used-prof.Samples.Faulted)
		if heldUp(counts) {
			of.heldUp = of.counts() / prof.cyclesApart()
			of.returns = returnsHold(counts)
		}
		if !calibrated {
			of.minor = minorShare * of.total
		}
		par = &of
	}
	for _, ip := range prof.Images {
		ip.addKnown(known)
		ip.addRecorded(counts)
	}
	for _, r := range prof.results() {
		r.squares = nil
	}
	pr := pose(prof.results(), costOf, par, func(pr *posed) { pr.gather(prof, counts, exact, model, known) })
	for _, r := range prof.results() {
		r.expected = nil
	}
	links := newLinks(prof.Images, prof.missing)
	links.see(counts)
	pr.tie(links, prof.complete())
	pr.roots(links)
	pr.progress = p.progress
	sd := pr.run(opt.Places > 0 || opt.Sites > 0)
	prof.Common = commonFactor(pr.commonSD())
	pr.progress.stage(1, len(prof.Images))
	for _, ip := range prof.Images {
		if pr.progress.ended() {
			return
		}
		pr.follow(ip, links)
		pr.progress.done()
	}
	for r, q := range pr.of {
		r.Seen = r.Seen || !q.silent()
	}
	if opt.Places > 0 {
		prof.Places = pr.places(prof, sd, opt.Places)
	}
	if opt.Sites > 0 {
		prof.Sites = pr.sites(prof, sd, secondsOf(counts), opt.Sites, opt.Probing)
	}
	for _, r := range prof.results() {
		r.faults = 0
	}
	prof.cool()
}

// results returns the results of all images.
func (p *Profile) results() (all []*Result) {
	for _, ip := range p.Images {
		all = append(all, ip.Procs...)
	}
	return all
}

// A posed is the problems of some results.
type posed struct {
	*program                      // of the procedures that something was seen of
	results  []*Result            // as probs
	of       map[*Result]*problem // those that are silent, too
	costOf   coster
	par      *params
}

// pose makes problems of results; gather, if not nil, adds to them what is known
// beside samples. Procedures that have no problem keep their counts at None.
func pose(results []*Result, costOf coster, par *params, gather func(*posed)) *posed {
	pr := &posed{of: map[*Result]*problem{}, costOf: costOf, par: par}
	made := make([]*problem, len(results))
	parallel(len(results), func(i int) { made[i] = pr.pose(results[i]) })
	for i, q := range made {
		if q != nil {
			pr.of[results[i]] = q
		}
	}
	if gather != nil {
		gather(pr)
	}
	var probs []*problem
	for i, q := range made {
		if q != nil && !q.silent() {
			probs = append(probs, q)
			pr.results = append(pr.results, results[i])
		}
	}
	pr.program = newProgram(probs, nil, par.tieSD)
	return pr
}

// pose makes the problem of r, or nil if there is none.
func (pr *posed) pose(r *Result) *problem {
	own := r.own()
	system := pr.par.timed && r.system != nil
	if system {
		own = r.system.own(own)
	}
	q := newProblem(r.Proc, own, pr.costOf(r), pr.par)
	if q == nil {
		return nil
	}
	if system {
		q.callSystem(r.system)
	}
	q.heedFaults(r.faulted)
	if pr.par.timed {
		q.heedEmulated(r.Proc)
	}
	return q
}

// run solves the program and fills all results that are not silent.
func (pr *posed) run(keep bool) []spread {
	x := make([]float64, pr.at[len(pr.probs)])
	pr.solve(x, keep)
	for _, q := range pr.of {
		if q.silent() {
			q.rescaleCosts(math.Exp(pr.gauge))
		}
	}
	sd := pr.spread(x, keep)
	scale := pr.scaleSD()
	for i, q := range pr.probs {
		if !q.waitless() {
			sd[i].scale = scale
		}
	}
	pr.each(func(i int) { pr.results[i].fill(pr.probs[i], sd[i]) })
	return sd
}

// calleeDepth is how many calls beyond the sampled procedures results are given
// for: a short procedure that is called often may have had no sample at all.
const calleeDepth = 2

// follow fills the results of silent procedures in ip that are called, each time
// one call further from what was seen. Procedures that are not in ip are decoded
// for it, so many calls far; those that nothing is found to call are left alone.
func (pr *posed) follow(ip *ImageProfile, l *links) {
	silent := map[image.Addr]*Result{}
	done := map[image.Addr]bool{0: true} // 0 is not known
	for _, r := range ip.Procs {
		if q := pr.of[r]; q != nil && q.silent() {
			silent[r.Proc.Addr] = r
		} else {
			done[r.Proc.Addr] = true
		}
	}
	called := map[image.Addr]float64{} // executions of the call sites
	last := ip.Procs
	for range calleeDepth {
		for _, r := range last {
			l.called(ip, r, func(to image.Addr, n float64) { called[to] += n })
		}
		last = nil
		var syms []int // by address
		for _, to := range slices.Sorted(maps.Keys(called)) {
			if done[to] {
				continue
			}
			done[to] = true
			if r := silent[to]; r != nil {
				last = append(last, r)
				delete(silent, to)
			} else if i := ip.Image.Find(to); i >= 0 && ip.Image.Symbols()[i].Addr == to {
				syms = append(syms, i)
			}
		}
		last = append(last, ip.add(syms)...)
		pr.progress.parallel(len(last), func(i int) { pr.fillSilent(last[i], max(called[last[i].Proc.Addr], last[i].faults), pr.par.tieSD) })
	}
	pr.start(ip, l, silent)
	pr.lead(ip, l, silent, last, pr.par.tieSD)
	var rest []*Result
	for _, r := range silent {
		if r.faults > 0 { // what faulted ran, as often as it did at least
			rest = append(rest, r)
		}
	}
	pr.progress.parallel(len(rest), func(i int) { pr.fillSilent(rest[i], rest[i].faults, pr.par.tieSD) })
}

// called calls f with where calls of r, a procedure of ip, lead in that image, and how often.
func (l *links) called(ip *ImageProfile, r *Result, f func(to image.Addr, n float64)) {
	for c := range r.Call {
		n := r.Call[c].N
		if n <= 0 {
			continue
		}
		for _, to := range l.leads(ip, &r.Proc.Calls[c]) {
			if to.image == ip {
				f(to.addr, n*to.share)
			}
		}
	}
}

// lead fills the results of silent procedures of ip that others lead to, which are filled, however many calls far, and takes them out of
// silent. sd is as fillSilent has it.
func (pr *posed) lead(ip *ImageProfile, l *links, silent map[image.Addr]*Result, from []*Result, sd float64) {
	for len(from) > 0 {
		called := map[image.Addr]float64{}
		for _, r := range from {
			l.called(ip, r, func(to image.Addr, n float64) {
				if silent[to] != nil {
					called[to] += n
				}
			})
		}
		from = nil
		for _, a := range slices.Sorted(maps.Keys(called)) {
			r := silent[a]
			delete(silent, a)
			pr.fillSilent(r, max(called[a], r.faults), sd)
			from = append(from, r)
		}
	}
}

// start fills the results of silent procedures that every process runs once, and of those that these call: stacks were seen
// to come from them, and so they ran. It takes them out of silent.
func (pr *posed) start(ip *ImageProfile, l *links, silent map[image.Addr]*Result) {
	var once []*Result
	for _, a := range slices.Sorted(maps.Keys(silent)) {
		if r := silent[a]; ip.Image.Once(r.Proc.Index) {
			pr.fillSilent(r, float64(max(1, ip.Counts.Processes)), toldSD)
			once = append(once, r)
		}
	}
	for _, r := range once {
		delete(silent, r.Proc.Addr)
	}
	pr.lead(ip, l, silent, once, toldSD)
}

// fillSilent fills the result of a silent procedure that is called so many times; sd is the standard deviation of the logarithm of that.
func (pr *posed) fillSilent(r *Result, called, sd float64) {
	q := pr.of[r]
	if q == nil {
		if q = pr.pose(r); q == nil {
			return
		}
		q.rescaleCosts(math.Exp(pr.gauge))
	}
	q.follow(called, sd)
	r.fill(q, q.unsure())
}

// addKnown adds the procedures of ip with known counts.
func (ip *ImageProfile) addKnown(known []Known) {
	syms := map[int]bool{}
	for _, k := range known {
		if k.Image.Key() == ip.ID.Key() {
			syms[ip.Image.Find(k.Addr)] = true
		}
	}
	ip.addNew(syms)
}

// addRecorded adds the procedures of ip that branch records start or end in.
func (ip *ImageProfile) addRecorded(counts []*sample.Counts) {
	syms := map[int]bool{}
	for _, c := range counts {
		for b := range c.Branches {
			for _, at := range []sample.Frame{b.From, b.To} {
				if at.Image == sample.Unknown || c.Images[at.Image].ID.Key() != ip.ID.Key() {
					continue
				}
				if a, ok := ip.Image.AddrOf(at.Off); ok {
					syms[ip.Image.Find(a)] = true
				}
			}
		}
	}
	ip.addNew(syms)
}

// addNew adds the procedures of those symbols that are not in ip yet.
func (ip *ImageProfile) addNew(syms map[int]bool) {
	delete(syms, -1)
	for _, r := range ip.Procs {
		delete(syms, r.Proc.Index)
	}
	ip.add(slices.Sorted(maps.Keys(syms)))
}

// cool finds the blocks that are cold among those of all images.
func (p *Profile) cool() {
	var all float64
	results := p.results()
	for _, r := range results {
		for _, f := range r.Block {
			all += f.N
		}
	}
	p.ColdBelow = coldShare * all
	for _, r := range results {
		for b, n := range r.Most {
			r.Cold[b] = n < p.ColdBelow
		}
	}
}

// A coster returns what one execution of each block of a procedure is expected to
// bring, in samples.
type coster func(r *Result) func(b *image.Block) float64

// costModel returns the coster for the event of prof.
func costModel(prof *Profile, model *machine.Model) (*params, coster) {
	par, plain := prof.simpleCost()
	if par != &outOfOrder {
		return par, func(*Result) func(*image.Block) float64 { return plain }
	}
	period := prof.cyclesApart()
	home := map[*Result]*image.Image{}
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			home[r] = ip.Image
		}
	}
	longer := prof.gathered(model, home)
	return &outOfOrder, func(r *Result) func(*image.Block) float64 {
		if prof.tell(r.Samples) < fewSamples { // not worth a schedule: little hangs on it
			return plain
		}
		im, samples := home[r], longer(r)/period
		return func(b *image.Block) float64 {
			if r.system.in(b) || b.Emulated {
				return plain(b) // its time is in the kernel, or the hypervisor
			}
			return samples * outOfOrder.cycles(r.expects(b, im, model))
		}
	}
}

// expects is model.Expected of block b of r, unless it was asked for before.
func (r *Result) expects(b *image.Block, im *image.Image, model *machine.Model) float64 {
	if r.expected != nil {
		if i := r.Proc.BlockAt(b.Start); i >= 0 && r.expected[i] > 0 {
			return r.expected[i]
		}
	}
	return model.Expected(im, b)
}

// simpleCost returns what one execution of a block is expected to bring, in samples, as
// far as that can be told without a machine model, and what to make of it.
func (p *Profile) simpleCost() (*params, func(b *image.Block) float64) {
	ev := p.Event
	period := float64(max(1, ev.Period))
	switch ev.Unit {
	case "instructions": // every instruction costs one: samples are executions already
		par := &skidding
		if p.retired() {
			par = &precise
		}
		return par, func(b *image.Block) float64 { return float64(b.Insts) / period }
	case "branches": // and every branch, too
		return &branching, func(b *image.Block) float64 {
			if len(b.Out) == 1 && b.Exit == image.NoExit { // mostly falls through, without a branch
				return 0.3 / period
			}
			return 1 / period
		}
	}
	period = p.cyclesApart()
	return &outOfOrder, func(b *image.Block) float64 {
		cycles := outOfOrder.cycles(cyclesPerInst * float64(b.Insts))
		if b.Emulated {
			cycles += emulatedCycles
		}
		return cycles / period
	}
}

// each is how many samples tell as much as one alone: more than one if they were scaled up.
func (p *Profile) each() float64 { return max(1, p.dispersion) }

// tell is how many samples as they were taken tell as much as so many do.
func (p *Profile) tell(samples uint64) float64 { return float64(samples) / p.each() }

// retired reports whether samples of instructions name those that were counted: on x86-64, where the
// kernel refuses perf_event_attr.precise_ip unless the processor has it (x86_pmu_hw_config in
// arch/x86/events/core.c of Linux); perf names such events instructions:pp. On Arm the kernel heeds no
// precise_ip (drivers/perf/arm_pmu.c), whatever the name of the event.
func (p *Profile) retired() bool {
	for _, ip := range p.Images {
		if ip.Image.Arch != image.X86_64 {
			return false
		}
	}
	return zeroSkid(p.Event)
}

// cyclesApart is the mean number of cycles between samples of an event that does not
// count executions.
func (p *Profile) cyclesApart() float64 {
	period := float64(max(1, p.Event.Period))
	if p.Event.Unit == "ns" {
		ghz, _ := p.Clock()
		period *= ghz
	}
	return period
}

// Clock returns the cycles per ns that samples of time are read with: as measured while they were taken, or else TypicalGHz.
func (p *Profile) Clock() (ghz float64, measured bool) {
	if p.GHz > 0 {
		return p.GHz, true
	}
	return TypicalGHz, false
}

// TypicalGHz is the clock that samples of time are taken at, in cycles per ns, where nothing else is known of it.
// At 3 GHz the inferred executions were 0.99 (SQLite), 1.09 (zstd), 2.6 (bzip2) and
// 0.85 (a Go mix) of the true ones on an Emerald Rapids.
const (
	TypicalGHz    = 3.0
	cyclesPerInst = 0.25
)

// site places a call of the procedure of q.
func (q *problem) site(c *image.Call) site {
	s := site{q: q, block: int32(c.Block), out: -1, share: 1}
	if f := q.flow; c.Cond {
		for w := f.first[c.Block]; w < f.first[c.Block+1]; w++ {
			if f.outs[w].to == leave {
				s.out = w
			}
		}
	}
	return s
}

// fill writes the state of q into r, in whole executions.
func (r *Result) fill(q *problem, sd spread) {
	f := q.flow
	outs, entries := q.round()
	r.Most = make([]float64, len(r.Block))
	within, evidence := cmp.Or(sd.within, mostly), q.evidence()
	for b := range r.Block {
		var n int64
		for w := f.first[b]; w < f.first[b+1]; w++ {
			n += outs[w]
			if e := f.outs[w].edge; e >= 0 && int(e) < len(r.Edge) {
				r.Edge[e] = sd.freq(float64(outs[w]), sd.out[w], sd.asksOut(w), mostly).atMost(evidence[b])
			}
		}
		r.Block[b] = sd.freq(float64(n), sd.block[b], sd.asks(b), within).atMost(evidence[b])
		r.Most[b] = max(q.n[b], float64(n)) * math.Exp(mostly*sd.of(sd.block[b]))
	}
	for _, d := range q.dispatches {
		r.fillDispatch(d, f, outs, sd)
	}
	r.Entries = sd.freq(float64(entries[0]), sd.block[0], sd.asks(0), within).atMost(evidence[0])
	exits := map[image.Addr]float64{} // conditional tail calls at one jump: a jump table may leave for several places
	for c := range r.Proc.Calls {
		if call := &r.Proc.Calls[c]; call.Cond {
			exits[call.Site]++
		}
	}
	for c := range r.Proc.Calls {
		call := &r.Proc.Calls[c]
		s := q.site(call)
		r.Call[c] = r.Block[s.block]
		if s.out >= 0 {
			r.Call[c] = sd.freq(math.Round(float64(outs[s.out])/exits[call.Site]), sd.out[s.out], sd.asksOut(s.out), mostly).atMost(evidence[s.block])
		}
	}
	r.entered, r.trapped = f.entries, f.trapped
}

// fillDispatch fills in the edges that d stands for, of the executions of all out-edges.
func (r *Result) fillDispatch(d *dispatch, f *flow, outs []int64, sd spread) {
	var jumps []int64
	for _, j := range d.jumps {
		for w := f.first[j.block]; w < f.first[j.block+1]; w++ {
			if int(f.outs[w].to) == d.block {
				jumps = append(jumps, outs[w])
			}
		}
	}
	first := f.first[d.block]
	places := outs[first : int(first)+len(d.jumps[0].edges)]
	at := 0
	d.share(jumps, places, func(edge int, n int64) {
		w := first + int32(at%len(places))
		r.Edge[edge] = sd.freq(float64(n), sd.out[w], sd.asksOut(w), mostly)
		at++
	})
}

// coldShare is the share of the executions of all blocks of a program that a cold
// one has less of. Over twelve programs 51 to 91 % of the blocks that never ran are
// cold by it, and blocks with at most 0.4 % of the executions.
const coldShare = 5e-6

// logTenth is the logarithm of 1.1.
var logTenth = math.Log(1.1)

// confidence turns the standard deviation of a logarithm into the level whose
// promise it keeps.
func confidence(sd float64) Confidence {
	switch {
	case mostly*sd <= logTenth:
		return High
	case mostly*sd <= math.Ln2:
		return Medium
	}
	return Low
}

// freq is n executions whose logarithm has the standard deviation own without the
// level and the scale, for which ask times as many of these are asked as elsewhere; elsewhere, by are for Medium within its
// procedure. There, High was kept by 79 % of the samples on the worst of twelve programs, so it takes
// what is High among all counts.
func (s *spread) freq(n, own, ask, by float64) Freq {
	of := s.of(own)
	among, within := confidence(ask*of), Low
	if (certain{1, own, ask}).holds(by) {
		within = Medium
	}
	return Freq{n, confidence(ask * math.Sqrt(of*of+s.scale*s.scale)), among, max(among, within)}
}

// evidence is the most that can be said of each block by what was seen of it. One that has hardly any samples, and would
// hardly have more as often as it is thought to run, may as well have run once: so few are no more than an upper
// bound. So are windows and walks that met it, or would have, so few times; each sees it by itself. And one that was
// seen and is thought not to have run has no more than a lower bound, wrong as that is: the search did not find what ran.
func (q *problem) evidence() []Confidence {
	most := make([]Confidence, len(q.n))
	sighted := q.sightings()
	for b, n := range q.n {
		most[b] = High
		hardly := max(q.samples[b], q.brings(b, n))+sighted[b] < hardlySeen
		if q.par.timed && (hardly || q.samples[b] > 0 && n < 0.5) {
			most[b] = Low
		}
	}
	return most
}

// sightings returns how many times windows and walks met each block independently of one another, or would have, as often as
// it is thought to run: what is met once is met again soon after.
func (q *problem) sightings() []float64 {
	met := make([]float64, len(q.n))
	if len(q.visits) > 0 {
		m := q.visitFactor(q.level, q.sureLevel) // to visits of which visitClump are one
		for b, n := range q.n {
			met[b] = n * math.Exp(-m)
		}
		for _, o := range q.visits {
			met[o.block] = max(met[o.block], math.Exp(o.logN))
		}
	}
	for _, o := range q.known {
		if !o.real || o.none || o.of > 0 {
			continue
		}
		each := 1 / (o.sd * o.sd * visitClump * max(q.n[o.block], 1)) // for each execution
		for b, n := range q.n {
			met[b] = max(met[b], each*min(n, q.n[o.block]))
		}
	}
	return met
}

// hardlySeen is how many samples and sightings a block is to have, or to be expected to have, for its count to be more than
// an upper bound.
const hardlySeen = 3

// atMost returns f with no confidence above most.
func (f Freq) atMost(most Confidence) Freq {
	f.Conf, f.Among, f.Within = min(f.Conf, most), min(f.Among, most), min(f.Within, most)
	return f
}

// mostly is how many standard deviations a normal variable is within with 90 % confidence,
// and below with 95 % confidence.
const mostly = 1.645
