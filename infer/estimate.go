package infer

import (
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
)

// estimate finds the executions of all procedures of prof and writes them into
// their Results.
func estimate(prof *Profile, counts []*sample.Counts, model *machine.Model, opt Options) {
	for _, ip := range prof.Images {
		ip.addCallees()
	}
	var all []*Result
	for _, ip := range prof.Images {
		all = append(all, ip.Procs...)
	}
	par, costOf := costModel(prof, model)
	if len(opt.Known) > 0 || opt.Places > 0 {
		exact := *par
		exact.hidden = math.Inf(1)
		par = &exact
	}
	pr := pose(all, costOf, par, func(pr *posed) { pr.gather(prof, counts, model, opt.Known) })
	pr.tie(prof)
	sd := pr.run(opt.Places > 0)
	if opt.Places > 0 {
		prof.Places = pr.places(prof, sd, opt.Places)
	}
}

// A posed is the problems of some results.
type posed struct {
	*program                       // of the procedures that something was seen of
	results   []*Result            // as probs
	silent    []*problem           // the others
	silentFor []*Result            // as silent
	of        map[*Result]*problem // both
	callers   map[*problem][]site  // of silent ones
}

// pose makes problems of results; gather, if not nil, adds to them what is known
// beside samples. Procedures that have no problem keep their counts at None.
func pose(results []*Result, costOf coster, par *params, gather func(*posed)) *posed {
	made := make([]*problem, len(results))
	parallel(len(results), func(i int) {
		made[i] = newProblem(results[i].Proc, results[i].BlockSamples, costOf(results[i]), par)
	})
	pr := &posed{of: map[*Result]*problem{}, callers: map[*problem][]site{}}
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
		switch {
		case q == nil:
		case q.silent():
			pr.silent = append(pr.silent, q)
			pr.silentFor = append(pr.silentFor, results[i])
		default:
			probs = append(probs, q)
			pr.results = append(pr.results, results[i])
		}
	}
	pr.program = newProgram(probs, nil, par.tieSD)
	return pr
}

// run solves the program and fills all results.
func (pr *posed) run(keep bool) []spread {
	x := make([]float64, pr.at[len(pr.probs)])
	pr.solve(x)
	sd := pr.spread(x, keep)
	pr.each(func(i int) { pr.results[i].fill(pr.probs[i], sd[i]) })
	for range calleeDepth { // each time, one call further from what was seen
		called := make([]float64, len(pr.silent))
		for i, q := range pr.silent {
			for _, s := range pr.callers[q] {
				called[i] += s.calls()
			}
		}
		parallel(len(pr.silent), func(i int) { pr.silent[i].follow(called[i]) })
	}
	unsure := make([]spread, len(pr.silent))
	parallel(len(pr.silent), func(i int) {
		unsure[i] = pr.silent[i].unsure()
		pr.silentFor[i].fill(pr.silent[i], unsure[i])
	})
	// From here on, all counts are those that are written out.
	var all float64
	for _, r := range slices.Concat(pr.results, pr.silentFor) {
		for _, f := range r.Block {
			all += f.N
		}
	}
	pr.each(func(i int) { pr.results[i].cool(pr.probs[i], sd[i], coldShare*all) })
	parallel(len(pr.silent), func(i int) { pr.silentFor[i].cool(pr.silent[i], unsure[i], coldShare*all) })
	return sd
}

// calleeDepth is how many calls beyond the sampled procedures results are given
// for: a short procedure that is called often may have had no sample at all.
const calleeDepth = 2

// addCallees adds the procedures that the ones in ip call directly.
func (ip *ImageProfile) addCallees() {
	have := map[image.Addr]bool{}
	for _, r := range ip.Procs {
		have[r.Proc.Addr] = true
	}
	last := ip.Procs
	for range calleeDepth {
		var syms []int
		for _, r := range last {
			for _, c := range r.Proc.Calls {
				if c.To == 0 || have[c.To] {
					continue
				}
				if i := ip.Image.Find(c.To); i >= 0 && ip.Image.Symbols()[i].Addr == c.To {
					have[c.To] = true
					syms = append(syms, i)
				}
			}
		}
		last = ip.add(syms)
	}
}

// A coster gives what one execution of each block of a procedure is expected to
// bring, in samples.
type coster func(r *Result) func(b *image.Block) float64

// costModel gives the coster for the event of prof.
func costModel(prof *Profile, model *machine.Model) (*params, coster) {
	period := float64(max(1, prof.Event.Period))
	switch prof.Event.Unit {
	case "instructions": // every instruction costs one: samples are executions already
		return &precise, func(*Result) func(*image.Block) float64 {
			return func(b *image.Block) float64 { return float64(b.Insts) / period }
		}
	case "branches": // and every branch, too
		return &precise, func(*Result) func(*image.Block) float64 {
			return func(b *image.Block) float64 {
				if len(b.Out) == 1 && b.Exit == image.NoExit { // mostly falls through, without a branch
					return 0.3 / period
				}
				return 1 / period
			}
		}
	case "ns":
		period *= typicalGHz
	}
	home := map[*Result]*image.Image{}
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			home[r] = ip.Image
		}
	}
	return &outOfOrder, func(r *Result) func(*image.Block) float64 {
		if r.Samples < fewSamples { // not worth a schedule: little hangs on it
			return func(b *image.Block) float64 { return (fixedCycles + cyclesPerInst*float64(b.Insts)) / period }
		}
		timer := model.NewTimer(home[r])
		return func(b *image.Block) float64 { return (fixedCycles + timer.Cycles(b)) / period }
	}
}

// The time of one execution of a block, in the median: what the machine model has
// at least, and fixedCycles for what it does not know of: the jump there, and
// the wait for what came before. Over the four fidelity programs the block overlap
// is 0.741 with 1, 0.740 with 0.5 and 2, and 0.737 with the instructions to the
// power 0.6, the best cost without a model. At 3 GHz the inferred executions were
// 0.99 (SQLite), 1.09 (zstd), 2.6 (bzip2) and 0.85 (a Go mix) of the true ones on an
// Emerald Rapids.
const (
	typicalGHz    = 3.0
	fixedCycles   = 1.0
	cyclesPerInst = 0.25
)

// tie finds what binds the procedures to each other: calls within an image.
func (pr *posed) tie(prof *Profile) {
	index := map[*problem]int{}
	for i, q := range pr.probs {
		index[q] = i
	}
	for _, ip := range prof.Images {
		sites := map[image.Addr][]site{}
		for _, r := range ip.Procs {
			q := pr.of[r]
			if q == nil {
				continue
			}
			for c := range r.Proc.Calls {
				if call := &r.Proc.Calls[c]; call.To != 0 {
					sites[call.To] = append(sites[call.To], q.site(call))
				}
			}
		}
		for _, r := range ip.Procs {
			q, s := pr.of[r], sites[r.Proc.Addr]
			if q == nil || len(s) == 0 {
				continue
			}
			if i, ok := index[q]; ok {
				pr.bind(i, s, ip.Image.AddressTaken(r.Proc.Index))
			} else {
				pr.callers[q] = s
			}
		}
	}
}

// bind ties the entries of problem i to its call sites. Those in silent procedures
// are left out: what had no sample hardly calls often.
func (pr *posed) bind(i int, sites []site, floor bool) {
	t := tie{callee: i, floor: floor}
	for _, s := range sites {
		if !s.q.silent() {
			t.sites = append(t.sites, s)
		}
	}
	if len(t.sites) > 0 {
		pr.ties = append(pr.ties, t)
	}
}

// site places a call of the procedure of q.
func (q *problem) site(c *image.Call) site {
	s := site{q: q, block: int32(c.Block), way: -1}
	if f := q.flow; c.Cond {
		for w := f.first[c.Block]; w < f.first[c.Block+1]; w++ {
			if f.ways[w].to == leave {
				s.way = w
			}
		}
	}
	return s
}

// fill writes the state of q into r, in whole executions.
func (r *Result) fill(q *problem, sd spread) {
	f := q.flow
	ways, entries := q.round()
	for b := range q.n {
		var n int64
		for w := f.first[b]; w < f.first[b+1]; w++ {
			n += ways[w]
			if e := f.ways[w].edge; e >= 0 {
				r.Edge[e] = sd.freq(float64(ways[w]), sd.way[w])
			}
		}
		r.Block[b] = sd.freq(float64(n), sd.block[b])
	}
	r.Entries = sd.freq(float64(entries[0]), sd.block[0])
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
		if s.way >= 0 {
			r.Call[c] = sd.freq(math.Round(float64(ways[s.way])/exits[call.Site]), sd.way[s.way])
		}
	}
	r.entered, r.trapped = f.entries, f.trapped
}

// cool finds the blocks whose executions are below least with the usual certainty.
func (r *Result) cool(q *problem, sd spread, least float64) {
	for b, n := range q.n {
		r.Cold[b] = max(n, r.Block[b].N)*math.Exp(mostly*sd.of(sd.block[b])) < least
	}
}

// coldShare is the share of the executions of all blocks of a program that a cold
// one has less of. Over twelve programs 57 to 94 % of the blocks that never ran are
// cold by it, and blocks with at most 0.5 % of the executions; with twice the share
// it is 64 to 96 %, and 0.6 %.
const coldShare = 5e-6

// confidence turns the standard deviation of a logarithm into the level whose
// promise it keeps.
func confidence(sd float64) Confidence {
	switch {
	case mostly*sd <= math.Log(1.1):
		return High
	case mostly*sd <= math.Log(2):
		return Medium
	}
	return Low
}

// freq is n executions whose logarithm has the standard deviation own without the
// level. Within a procedure, High was kept by 79 % of the samples on the worst of
// twelve programs, so it takes what is High among all counts.
func (s *spread) freq(n, own float64) Freq {
	conf := confidence(s.of(own))
	return Freq{n, conf, max(conf, min(confidence(own), Medium))}
}

// mostly is how many standard deviations a normal variable is within 9 times in 10,
// and below 19 times in 20.
const mostly = 1.645
