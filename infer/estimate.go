package infer

import (
	"math"

	"backfeed/infer/image"
	"backfeed/sample"
)

// estimate finds the executions of all procedures of prof and writes them into
// their Results.
func estimate(prof *Profile, opt Options) {
	for _, ip := range prof.Images {
		ip.addCallees()
	}
	var all []*Result
	for _, ip := range prof.Images {
		all = append(all, ip.Procs...)
	}
	par, costOf := costModel(prof.Event)
	pr := pose(all, costOf, par)
	pr.ties = findTies(prof, pr.index, pr.probs)
	pr.learn(prof, opt.Known)
	sd := pr.run(opt.Places > 0)
	if opt.Places > 0 {
		prof.Places = pr.places(prof, sd, opt.Places)
	}
}

// A posed is a program and the results that it is for.
type posed struct {
	*program
	results []*Result // as probs
	index   map[*Result]int
}

// pose makes a program of results. Procedures that have no problem keep their
// counts at None.
func pose(results []*Result, costOf func(*image.Block) float64, par *params) *posed {
	made := make([]*problem, len(results))
	parallel(len(results), func(i int) {
		made[i] = newProblem(results[i].Proc, results[i].BlockSamples, costOf, par)
	})
	pr := &posed{index: map[*Result]int{}}
	var probs []*problem
	for i, q := range made {
		if q != nil {
			pr.index[results[i]] = len(probs)
			probs = append(probs, q)
			pr.results = append(pr.results, results[i])
		}
	}
	pr.program = newProgram(probs, nil, par.tieSD)
	return pr
}

// run solves the program and fills its results.
func (pr *posed) run(keep bool) []spread {
	x := make([]float64, pr.at[len(pr.probs)])
	pr.solve(x)
	sd := pr.spread(x, keep)
	for i, q := range pr.probs {
		pr.results[i].fill(q, sd[i])
	}
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

// costModel gives what one execution of a block is expected to bring, in samples.
func costModel(ev sample.Event) (*params, func(*image.Block) float64) {
	period := float64(max(1, ev.Period))
	par := outOfOrder
	switch ev.Unit {
	case "instructions": // every instruction costs one: samples are executions already
		par.costPower, par.costVar = 1, 0.3
		return &par, func(b *image.Block) float64 { return float64(b.Insts) / period }
	case "ns":
		period *= typicalGHz
	}
	return &par, func(b *image.Block) float64 {
		return typicalCycles * math.Pow(float64(max(1, b.Insts)), par.costPower) / period
	}
}

// findTies collects, for every procedure with known call sites, these sites.
func findTies(prof *Profile, index map[*Result]int, probs []*problem) []tie {
	var ties []tie
	for _, ip := range prof.Images {
		sites := map[image.Addr][]site{}
		for _, r := range ip.Procs {
			i, ok := index[r]
			if !ok {
				continue
			}
			for c := range r.Proc.Calls {
				call := &r.Proc.Calls[c]
				if call.To != 0 {
					sites[call.To] = append(sites[call.To], probs[i].site(i, call))
				}
			}
		}
		for _, r := range ip.Procs {
			i, ok := index[r]
			if s := sites[r.Proc.Addr]; ok && len(s) > 0 {
				ties = append(ties, tie{callee: i, sites: s, floor: ip.Image.AddressTaken(r.Proc.Index)})
			}
		}
	}
	return ties
}

// site places a call of the procedure of q, whose index is i.
func (q *problem) site(i int, c *image.Call) site {
	s := site{prob: i, block: int32(c.Block), way: -1}
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
				r.Edge[e] = Freq{float64(ways[w]), confidence(sd.way[w])}
			}
		}
		r.Block[b] = Freq{float64(n), confidence(sd.block[b])}
	}
	r.Entries = Freq{float64(entries[0]), r.Block[0].Conf}
	exits := map[image.Addr]float64{} // conditional tail calls at one jump: a jump table may leave for several places
	for c := range r.Proc.Calls {
		if call := &r.Proc.Calls[c]; call.Cond {
			exits[call.Site]++
		}
	}
	for c := range r.Proc.Calls {
		call := &r.Proc.Calls[c]
		s := q.site(0, call)
		r.Call[c] = r.Block[s.block]
		if s.way >= 0 {
			r.Call[c] = Freq{math.Round(float64(ways[s.way]) / exits[call.Site]), confidence(sd.way[s.way])}
		}
	}
	r.entered, r.trapped = f.entries, f.trapped
}

// confidence turns the standard deviation of a logarithm into the level whose
// promise it keeps: nine times in ten within 1.645 of them.
func confidence(sd float64) Confidence {
	switch {
	case 1.645*sd <= math.Log(1.1):
		return High
	case 1.645*sd <= math.Log(2):
		return Medium
	}
	return Low
}

// The time that one execution takes, in the median: typicalCycles times the
// costPower-th power of the instructions of its block. With 1 cycle at 3 GHz the
// inferred executions were 0.79 (SQLite), 0.88 (zstd), 1.98 (bzip2) and 0.70 (a Go
// mix) of the true ones on an Emerald Rapids, 0.74 and about 0.3 (two others) on a Zen 5.
const (
	typicalGHz    = 3.0
	typicalCycles = 1.0
)
