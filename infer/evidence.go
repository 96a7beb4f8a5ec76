package infer

import (
	"cmp"
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
)

// Evidence other than samples of time: counts that are known, branch records, and
// the estimates that an in-order core allows. All of it enters the search as
// observations with their own uncertainty, so one program may mix them.

// gather returns the problems of all images what is known of them.
func (pr *posed) gather(prof *Profile, counts []*sample.Counts, exact *exactCounts, model *machine.Model, known []Known) {
	pr.learn(prof, known)
	pr.count(prof, exact)
	pr.record(prof, counts)
	pr.turn(prof)
	if pr.par.risks {
		pr.risk(prof, model)
	}
	if ofTime := prof.Event.Unit == "ns" || prof.Event.Unit == "cycles"; ofTime && model.InOrder {
		pr.schedule(prof, model)
	} else if ofTime {
		pr.steady(prof, model)
	}
}

// learn adds what is known.
func (pr *posed) learn(prof *Profile, known []Known) {
	visits := map[*problem]map[int]float64{} // by block
	for _, k := range known {
		r := prof.find(k)
		if r == nil {
			continue
		}
		q, b := pr.of[r], r.Proc.BlockAt(k.Addr)
		if q == nil {
			continue
		}
		if o, ok := k.executions(b); ok {
			q.known = append(q.known, o)
			q.loosen()
		}
		if o, ok := k.share(q, b); ok {
			q.known = append(q.known, o)
		}
		if k.Visits > 0 {
			q.visits = append(q.visits, visited(b, k.Visits))
			if visits[q] == nil {
				visits[q] = map[int]float64{}
			}
			visits[q][b] = max(visits[q][b], k.Visits)
		}
	}
	for q, by := range visits {
		for _, d := range q.dispatches {
			for _, j := range d.jumps {
				by[d.block] += by[j.block]
			}
		}
		q.weighVisits()
		q.compareShares(by)
		q.learnMultiways(by)
	}
}

// noneSD is the least standard deviation of the logarithm of one more than the executions
// where there were none.
const noneSD = 0.5

// loosen prepares q for known executions. Without them nothing hangs on how cool the cool
// places of a procedure are. With them the hot ones are known by the cool ones, and all
// that is wrong of these adds up: that guesses of out-edges are far too near to even, and
// that what runs rarely takes long each time, having to be fetched and guessed.
func (q *problem) loosen() {
	if q.commonSD > 0 {
		return
	}
	q.commonSD = q.par.commonSD
	fillWith(q.sure[len(q.flow.entries):len(q.sure)-1], 1/q.par.knownOutSD)
	for b, s := range q.samples {
		q.invVar[b] = 1 / (1/q.invVar[b] + q.par.rareVar/(1+s/10))
	}
	q.expect(nil)
}

// executions returns what k says of how often block b ran.
func (k Known) executions(b int) (observation, bool) {
	if !(k.RelSD > 0) || !(k.N >= 0) || math.IsInf(k.N, 1) || math.IsInf(k.RelSD, 1) {
		return observation{}, false
	}
	if k.N == 0 {
		return observation{block: int32(b), out: -1, none: true, sd: max(k.RelSD, noneSD), real: true}, true
	}
	return observation{block: int32(b), out: -1, logN: math.Log(k.N), sd: k.RelSD, real: true, common: k.CommonSD}, true
}

// share returns what k says of the branch at the end of block b.
func (k Known) share(q *problem, b int) (observation, bool) {
	out := q.takenOut(b)
	if !(k.TakenSD > 0) || !(k.Taken >= 0) || !(k.Taken <= 1) || out < 0 {
		return observation{}, false
	}
	// So many executions have that standard deviation, or leave a share that was
	// never seen as uncertain.
	t := clamp(k.Taken, k.TakenSD, max(k.TakenSD, 1-k.TakenSD))
	of := t * (1 - t) / (k.TakenSD * k.TakenSD)
	return observation{block: int32(b), out: out, of: of, part: k.Taken * of}, of > 0
}

// takenOut returns the out-edge of block b by which its conditional branch is taken, or -1.
func (q *problem) takenOut(b int) int32 {
	f := q.flow
	lo := f.first[b]
	if f.first[b+1] != lo+2 {
		return -1
	}
	for w := lo; w < lo+2; w++ {
		e, other := f.outs[w].edge, f.outs[2*lo+1-w].edge
		if other < 0 || q.p.Edges[other].Kind != image.FallThrough {
			continue
		}
		if e >= 0 && q.p.Edges[e].Kind == image.Taken || e < 0 && q.p.Blocks[b].Exit == image.TailCall {
			return w
		}
	}
	return -1
}

// record adds branch records. Those of an event that is not branches tell counts
// among one another only; their scale then is the one that explains the samples.
func (pr *posed) record(prof *Profile, counts []*sample.Counts) {
	if !slices.ContainsFunc(counts, func(c *sample.Counts) bool { return len(c.Branches) > 0 }) {
		return
	}
	var fit scaleFit
	relative := true
	seen := map[*problem][]observation{}
	for _, ip := range prof.Images {
		records := newBranchRecords(counts, ip.ID, ip.Image.AddrOf)
		var procs []*image.Proc
		var all []*observed
		for _, r := range ip.Procs {
			procs = append(procs, r.Proc)
			all = append(all, records.observe(r.Proc))
		}
		if records.perRecord > 0 {
			relative = false
			if records.untaken {
				records.perRecord *= takenShare(procs, all)
			}
		}
		for i, r := range ip.Procs {
			q := pr.of[r]
			if q == nil {
				continue
			}
			obs := all[i].observations(r.Proc, q.flow, classesOf(r.Proc))
			if len(obs) > 0 {
				seen[q] = obs
			}
			for _, o := range obs {
				if o.out < 0 {
					fit.add(q, o)
				}
			}
		}
	}
	shift := 0.0
	if s, ok := fit.scale(); ok && relative {
		shift = math.Log(s)
	}
	for q, obs := range seen {
		for _, o := range obs {
			o.logN += shift
			q.known = append(q.known, o)
		}
		if !relative { // what was sampled are the branches: the place of a sample says no more
			q.blind()
		}
	}
}

// schedule adds the estimates of an in-order core. They are made of the samples,
// which must not count twice.
func (pr *posed) schedule(prof *Profile, model *machine.Model) {
	period := prof.cyclesApart()
	for _, ip := range prof.Images {
		parallel(len(ip.Procs), func(i int) {
			r := ip.Procs[i]
			q := pr.of[r]
			if q == nil || r.Samples == 0 {
				return
			}
			c := classesOf(r.Proc)
			est := inOrderEstimates(c, r.Proc,
				func(b int) []issue { return issuesOf(model.Schedule(ip.Image, &r.Proc.Blocks[b])) },
				func(a image.Addr) uint64 {
					off, _ := ip.Image.OffsetOf(a)
					return ip.Counts.At[off]
				})
			obs := inOrderObservations(est, c, period)
			for _, o := range obs {
				q.invVar[o.block] = noWeight
			}
			q.expect(nil)
			q.known = append(q.known, obs...)
		})
	}
}

// noWeight is the weight of a cost that is not known at all.
const noWeight = 1e-6

// blind makes the problem blind to its samples.
func (q *problem) blind() {
	for b := range q.invVar {
		q.invVar[b] = noWeight
	}
	q.expect(nil)
}

// A scaleFit finds the factor between the samples of blocks and those that their
// known executions should have brought.
type scaleFit struct{ weight, sum float64 }

func (f *scaleFit) add(q *problem, o observation) {
	b := o.block
	lam := q.brings(int(b), math.Exp(o.logN))
	w := 1 / (1/q.invVar[b] + 1/max(q.samples[b], lam) + o.sd*o.sd)
	f.sum += w * math.Log((q.samples[b]+0.5)/(lam+0.5))
	f.weight += w
}

func (f *scaleFit) scale() (float64, bool) {
	if f.weight == 0 {
		return 1, false
	}
	return math.Exp(f.sum / f.weight), true
}

// find returns the result whose procedure has a block at k, or nil.
func (p *Profile) find(k Known) *Result {
	for _, ip := range p.Images {
		if ip.ID.Key() != k.Image.Key() {
			continue
		}
		i, ok := slices.BinarySearchFunc(ip.Procs, k.Addr, func(r *Result, a image.Addr) int { return cmp.Compare(r.Proc.Addr, a) })
		if !ok {
			i--
		}
		if i >= 0 && ip.Procs[i].Proc.BlockAt(k.Addr) >= 0 {
			return ip.Procs[i]
		}
	}
	return nil
}
