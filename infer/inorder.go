package infer

import (
	"cmp"
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// On an in-order core an instruction is sampled while it is the next to issue:
// its samples are executions times the cycles it waits at the head of the queue. A
// machine model gives the least wait; samples over least wait is the frequency
// where nothing stalled, and too high elsewhere. The rules that choose whom to
// believe are DCPI's (Anderson et al., "Continuous profiling: where have all the
// cycles gone?", ACM TOCS 15(4), 1997, section 6.1), which leaves their thresholds
// open in part.

// An issue is one instruction in the static schedule of its block.
type issue struct {
	addr  image.Addr
	least float64 // cycles at the head of the queue; 0 if it issues with the one before
	after int     // index of the one whose result or unit it waits for, or -1; not an earlier one: that of the execution before, in a loop of one block
}

const (
	// clusterWidth is how far ratios of one frequency differ: the largest over the
	// smallest. DCPI's.
	clusterWidth = 1.5
	// clusterShare is the least share of a class's issue points that a cluster may
	// consist of. DCPI has such a bound; the number is ours. TestInOrder's figures
	// hardly move between 0.1 and 0.3.
	clusterShare = 0.25
	// longestStall is the longest mean wait that is believed, in cycles per
	// execution: a miss of all caches and of the TLB. DCPI has such a bound;
	// the number is ours.
	longestStall = 500
	// fewPerPoint: with fewer samples per issue point, the smaller ratios are
	// those that chance made small. DCPI has such a bound; the number is ours.
	// TestInOrder's figures hardly move between 8 and 20.
	fewPerPoint = 10
)

// A classEstimate is what the samples of a class of blocks say of its executions.
type classEstimate struct {
	f       float64 // executions, in samples per cycle: times the period of a cycles event
	samples float64 // that it is made from
	least   float64 // cycles of one execution that they fell in
	points  int     // issue points that it is made from; 0: no estimate
	tight   float64 // largest over smallest of their ratios
	pooled  bool    // made from all issue points, for want of some that agree or of samples
}

// issuesOf takes what is needed here from a schedule of an in-order model.
func issuesOf(s *machine.Schedule) []issue {
	is := make([]issue, len(s.Insts))
	for i, slot := range s.Insts {
		is[i] = issue{slot.Addr, slot.Least, -1}
		if slot.Why == machine.Dependency {
			is[i].after = slot.On
		}
	}
	return is
}

// A point is an issue point, with the samples and least cycles of the window it ends.
type point struct{ samples, least float64 }

func (p point) ratio() float64      { return p.samples / p.least }
func (p point) plus(q point) point  { return point{p.samples + q.samples, p.least + q.least} }
func (p point) minus(q point) point { return point{p.samples - q.samples, p.least - q.least} }

// inOrderEstimates estimates the classes of p, by class. Classes without an issue
// point, such as those of edges alone, have no estimate.
func inOrderEstimates(c *classes, p *image.Proc, schedule func(block int) []issue, samplesAt func(image.Addr) uint64) []classEstimate {
	points := make([][]point, c.n)
	for b, k := range c.block {
		points[k] = append(points[k], issuePoints(schedule(b), samplesAt)...)
	}
	est := make([]classEstimate, c.n)
	for k, ps := range points {
		est[k] = estimatePoints(ps)
	}
	return est
}

// issuePoints returns the instructions that must wait. One that waits for another
// does so all the less, the longer those between the two were stalled; but the time
// from the one's issue to the other's is at least the sum of what all of them need.
func issuePoints(is []issue, samplesAt func(image.Addr) uint64) []point {
	sum := make([]point, len(is)+1) // of all before
	for i, in := range is {
		sum[i+1] = sum[i].plus(point{float64(samplesAt(in.addr)), in.least})
	}
	var ps []point
	for i, in := range is {
		if in.least <= 0 {
			continue
		}
		w := sum[i+1]
		switch {
		case in.after < 0:
			w = w.minus(sum[i])
		case in.after < i:
			w = w.minus(sum[in.after+1])
		default: // from there to the end of the loop, and on from its start
			w = w.plus(sum[len(is)].minus(sum[in.after+1]))
		}
		ps = append(ps, w)
	}
	return ps
}

// estimatePoints estimates one class from its issue points.
func estimatePoints(ps []point) classEstimate {
	if len(ps) == 0 {
		return classEstimate{}
	}
	all := pool(ps)
	if all.samples < fewPerPoint*float64(len(ps)) {
		all.pooled = true
		return all
	}
	ps = slices.Clone(ps)
	slices.SortFunc(ps, func(a, b point) int { return cmp.Compare(a.ratio(), b.ratio()) })
	for lo := 0; lo < len(ps); {
		hi := lo + 1
		for hi < len(ps) && ps[hi].ratio() <= clusterWidth*ps[lo].ratio() {
			hi++
		}
		if e := pool(ps[lo:hi]); float64(hi-lo) >= clusterShare*float64(len(ps)) && plausible(ps, e.f) {
			return e
		}
		lo = hi
	}
	all.pooled = true
	return all
}

// pool takes all of ps together.
func pool(ps []point) classEstimate {
	e := classEstimate{points: len(ps)}
	lo, hi := math.Inf(1), 0.0
	for _, p := range ps {
		e.samples += p.samples
		e.least += p.least
		lo, hi = min(lo, p.ratio()), max(hi, p.ratio())
	}
	e.f, e.tight = e.samples/e.least, hi/lo
	return e
}

// plausible reports whether no point stalled for longer than anything can, if f is
// the frequency.
func plausible(ps []point, f float64) bool {
	return !slices.ContainsFunc(ps, func(p point) bool { return p.samples > f*(p.least+longestStall) })
}

// inOrderObservations turns estimates into executions, given the period in cycles:
// one observation for each class, at its first block. They take the place of the
// samples that they are made from; both together would count them twice.
func inOrderObservations(est []classEstimate, c *classes, period float64) []observation {
	var obs []observation
	done := make([]bool, c.n)
	for b, k := range c.block {
		if e := est[k]; e.points > 0 && !done[k] {
			mean, variance := logGamma(e.samples + 0.5) // as for branch records
			sd := e.modelError()
			obs = append(obs, observation{block: int32(b), out: -1, logN: mean + math.Log(period/e.least), sd: math.Sqrt(variance + sd*sd)})
		}
		done[k] = true
	}
	return obs
}

// modelError is the standard deviation of the logarithm of f that is not chance: the
// points may all have stalled, or the machine model may be wrong. DCPI judges by
// the same two, the number of points and their tightness. The numbers are ours, from
// the cores of TestInOrder; they are cautious for points that agree, since those
// cores keep to their model exactly.
func (e *classEstimate) modelError() float64 {
	switch {
	case e.points == 1:
		return 0.5
	case e.pooled:
		return 0.4
	}
	return (e.tight - 0.9) / math.Sqrt(float64(e.points))
}
