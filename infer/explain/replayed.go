package explain

import (
	"math"

	"backfeed/infer/image"
	"backfeed/sample"
)

// What models of predictors and caches made of walks (package replay) is evidence for causes and against them: an
// access to a line that was used shortly before is none that waits for memory, and a branch that a model always
// predicts is none that processors mispredict. The models bound how often a cause happens; how long each takes is between
// what caches and memory take. What walks cannot know is between both.

const (
	// fewReplayed is of how many executions models tell something.
	fewReplayed = 20
	// neverNear is the part of accesses, not known to hit the first caches, from which on data is taken to be used once: what walks
	// cannot tell is then as far as what they can.
	neverNear = 0.9
	// hiddenWalks: of what happens in none of n walks, 3/n of the time may be, with 95 % confidence. Walks
	// begin in proportion to time, and those of a phase that none began in explain no more than its time.
	hiddenWalks = 3
	// mismatch is how many times more often predictors may err than the model: they are larger, and have more to
	// remember than one program's walks.
	mismatch = 2
	// hiddenMisses is the part of executions that a predictor may miss that the model does not: where a branch is, for one.
	hiddenMisses = 0.002
	// steadyCost is the part of the cycles of a miss that is left where the processor fetches ahead.
	steadyCost = 0.25
)

// readReplayed gathers what models counted.
func (x *Explainer) readReplayed(rec *sample.Recording) {
	if rec == nil {
		return
	}
	for _, c := range rec.Counts {
		for _, ic := range c.Images {
			if len(ic.Replayed) == 0 {
				continue
			}
			if x.replayed == nil {
				x.replayed = map[sample.ImageID]map[sample.Offset]sample.Replayed{}
			}
			id := ic.ID.Key()
			if x.replayed[id] == nil {
				x.replayed[id] = map[sample.Offset]sample.Replayed{}
			}
			for off, r := range ic.Replayed {
				x.replayed[id][off] = x.replayed[id][off].Plus(r)
			}
		}
	}
}

// replayOf returns what models counted of instruction i, the zero value if nothing.
func (w *work) replayOf(i int) sample.Replayed {
	at := w.replayed[w.ipKey]
	if len(at) == 0 {
		return sample.Replayed{}
	}
	off, ok := w.im.OffsetOf(w.exp.Insts[i].Addr)
	if !ok {
		return sample.Replayed{}
	}
	return at[off]
}

// A rate is how often something happens, of executions that models saw: the part in which it did, the part of which
// that is not known, and how often it happens at least and at most.
type rate struct{ did, unknown, least, most float64 }

// rateOf returns the rate of what happened in some of n executions, and did not in others.
func rateOf(did, not, n uint64) rate {
	all := float64(n)
	chance := func(p float64) float64 { return 1.645*math.Sqrt(p*(1-p)/all) + 1/all }
	lo, hi := float64(did)/all, float64(n-not)/all
	return rate{lo, hi - lo, max(0, lo-chance(lo)), min(1, hi+chance(hi))}
}

// cycles returns what is expected of something that takes so many cycles where it happens, and where that is not known
// takes others, half the time: what a walk used for the first time may well have been near before.
func (r rate) cycles(did, unknown float64) float64 { return r.did*did + r.unknown/2*unknown }

// weighReplayed returns what is left of an accusation of i, of cause c at the instruction at from, by what models made of
// it: how much it explains at most, how much it is expected to, and its likelihood.
func (w *work) weighReplayed(i int, c Cause, from image.Addr, most, expected, score float64) (float64, float64, float64) {
	if len(w.replayed) == 0 || from == 0 {
		return most, expected, score
	}
	k, ok := w.instAt(from)
	if !ok {
		return most, expected, score
	}
	r, in := w.replayOf(k), &w.exp.Insts[k]
	if in.Class&(image.Rep|image.DirCall|image.IndCall|image.Push) != 0 {
		return most, expected, score
	}
	mem := &w.model.Memory
	each := max(1, in.N/max(w.exp.Insts[i].N, 1e-300))
	hidden := hiddenWalks / max(float64(r.Walks), hiddenWalks) * w.exp.Insts[i].Time
	bound := func(p rate, cost, usual float64) (float64, float64) {
		return min(most, p.most*each*cost+hidden), min(expected, each*usual)
	}
	switch c {
	case DCache:
		if r.Accesses < fewReplayed || in.Class&image.Load == 0 {
			break
		}
		p := rateOf(r.Far, r.Near, r.Accesses)
		usual := float64(2 * mem.DRAM)
		if r.Far > 0 {
			steady := float64(r.Steady) / float64(r.Far)
			usual *= 1 - steady*(1-steadyCost)
			if steady < 0.5 && p.least > 0.1 {
				score = max(score, likely)
			}
		}
		unknown := float64(mem.L2)
		if p.did+p.unknown > neverNear { // even what loops use is new each time
			unknown = usual
		}
		most, expected = bound(p, float64(2*mem.DRAM), p.cycles(usual, unknown))
	case DTLB:
		if r.Accesses < fewReplayed {
			break
		}
		p := rateOf(r.FarPages, r.NearPages, r.Accesses)
		// The second TLB has what walks do not show to be beyond it: short ones show that of no page.
		beyond := float64(r.BeyondPages) / float64(max(r.FarPages, 1))
		most, expected = bound(p, float64(2*mem.DRAM), p.cycles(secondTLB+beyond*float64(mem.L3-secondTLB), secondTLB))
	case PageFault:
		if r.Accesses < fewReplayed {
			break
		}
		p := rateOf(0, r.NearPages, r.Accesses)
		cost := max(faultCost, most)
		if most == unbounded { // by all faults together; one is bounded itself
			cost = max(faultMost, w.exp.Insts[i].Time)
		}
		most, expected = bound(p, cost, p.cycles(0, 2*cost))
	case ICache:
		// What is waited for after a call may be the code of what was called.
		if r.Fetches < fewReplayed || k > 0 && w.exp.Insts[k-1].Class&(image.DirCall|image.IndCall) != 0 {
			break
		}
		p := rateOf(r.FarFetches, r.NearFetches, r.Fetches)
		if p.least > 0.1 { // more than a mean of all code says
			most = max(most, p.most*float64(mem.L3))
			expected = max(expected, p.did*float64(mem.L2))
			score = max(score, likely)
		}
		most, expected = bound(p, float64(mem.DRAM), p.cycles(float64(mem.DRAM), float64(mem.L2)))
	case StoreBuffer:
		if r.Accesses >= fewReplayed && rateOf(r.Far, r.Near, r.Accesses).most < 0.02 {
			score /= 4 // as fast as they come
		}
	}
	return most, expected, score
}

// replayedMisses returns how often the branch at the end of block b is mispredicted, by models; false if they
// have not seen enough of it.
func (w *work) replayedMisses(b int) (rate, bool) {
	last := w.first[b+1] - 1
	if len(w.replayed) == 0 || last < w.first[b] {
		return rate{}, false
	}
	r := w.replayOf(last)
	if r.Branches < fewReplayed {
		return rate{}, false
	}
	p := rateOf(r.Missed, r.Branches-r.Missed, r.Branches)
	p.most = min(1, mismatch*p.most+hiddenMisses+hiddenWalks/max(float64(r.Walks), hiddenWalks)*p.most)
	return p, true
}
