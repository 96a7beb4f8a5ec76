package infer

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/sample"
)

// What a recording holds beside samples is read here: what probes counted in windows
// of it, and what other runs counted exactly.

// fewWindows is the number of windows below which the variance between them says
// nothing.
const fewWindows = 3

const (
	// unsureRuns is the standard deviation of runs, relative to them, from which on they
	// are not used. With outcomes of 200 branches simulated, the mean block overlap of four
	// programs is 0.788, with runs of 160 places known to 0.4 beside them 0.824, and with
	// those of 320 places known to 0.5 0.817.
	unsureRuns = 0.5
	// soundShare is the part of the samples that procedures with known runs must have. With
	// less, what is known moves few procedures against all others: of two recordings of a Go
	// program where it was less, the block overlap fell from 0.787 to 0.770 and from 0.795
	// to 0.767. With walks, of recordings of four programs the overlap is 0.893 with it, 0.895
	// without.
	soundShare = 0.4
	// runsFloor and shareFloor are the least that is claimed of runs, relative to
	// them, and of the logit of a share: windows slow down what they look at, and what one of
	// hundreds meets is off by more than these differ; walks begin where programs are slow. Of four
	// programs, with the walks and windows of five recordings at 1 and 3 %, the mean block overlap is
	// 0.886 with runs known to 0.03 at best, 0.887 with 0.2 and 0.3, 0.885 with 0.5. With a minute's
	// walks at 1 % and at 3 %, it is 0.860 and 0.851 with shares known to 0.06 at best, 0.861 and
	// 0.857 with 0.12, 0.857 and 0.862 with 0.2, 0.849 and 0.866 with 0.3.
	runsFloor, shareFloor = 0.2, 0.12
	// rareShare is what is added to the variance of the logit of a share that walks tell, times how often the rarer outcome was seen: what
	// seldom happens is of few phases, and it is of these that walks see too much or too little. Of 18,000 branches of twelve
	// calibrated recordings, with a rarer outcome seen 4 to 256 times, half are off by no more than chance has it, and all together by another 0.55 to
	// 0.75; beyond 1,000 times by none. Branches that end loops are off no further than others, and none of them in one direction. Of ten recordings
	// the mean overlap of blocks is 0.894 with 0 and 4, of edges 0.869 and 0.868; with the executions that weighVisits
	// speaks of 0.892 and 0.893, of CPython 0.873 and 0.896, all of it with visits of arms weighed like others.
	rareShare = 4
	// timedFloor is the least that is claimed of runs that walks tell which were timed by the loops that they go round.
	timedFloor = 0.05
	// windowsSD is the least that the executions of one procedure, told by windows, are taken to be off by
	// together; and they are off by no less than a single one, for its places are counted in the same windows. Of 43
	// procedures of 22 recordings of 19 programs, of 10 to 20 s, the logarithms of what windows told over the exact counts
	// have a root mean square of 1.07 of what was expected of each. Those of the 28 that were expected to be off by
	// less than 0.36 are off by 0.29, and 0.14 too low in the mean. But all executions of a recording may be off by more: of
	// 30 recordings, by a root mean square of 0.5, which no window tells. Most of that was of a prober that began late, whose time was taken to
	// be all: since then, seven have 0.4 to 0.8 of the true ones. With 0.3, medium executions of perl and of Tcl
	// were within a factor of 2 for 0.02 and 0.4 of their weight.
	windowsSD = 0.45
	// countedSD is that of executions counted in another run.
	countedSD = 0.1
)

// An exactCounts is what a recording holds of the images beside samples.
type exactCounts struct {
	probed  []probedIn // by name of their event
	counted *sample.Counts
}

// probedIn is what the probes of the Counts of one event counted.
type probedIn struct {
	*sample.Counts
	weight float64 // of all these Counts
	each   float64 // Dispersion of them: what was seen so often tells as much as if seen so many times less
}

// exactOf adds up what rec holds beside samples.
func exactOf(rec *sample.Recording) *exactCounts {
	x := &exactCounts{counted: sample.NewCounts(sample.CPU{}, sample.Event{})}
	byEvent, counts := map[string]*probedIn{}, map[string][]*sample.Counts{}
	for _, c := range rec.Counts {
		in := byEvent[c.Event.Name]
		if in == nil {
			in = &probedIn{Counts: sample.NewCounts(sample.CPU{}, c.Event)}
			byEvent[c.Event.Name] = in
		}
		in.weight += float64(c.Weight)
		counts[c.Event.Name] = append(counts[c.Event.Name], c)
		for _, ic := range c.Images {
			for off, p := range ic.Probed {
				in.AddProbed(in.Image(ic.ID), off, p)
			}
			for off, n := range ic.Counted {
				x.counted.AddCounted(x.counted.Image(ic.ID), off, n)
			}
		}
	}
	for _, event := range slices.Sorted(maps.Keys(byEvent)) {
		in := *byEvent[event]
		in.each = sample.Dispersion(counts[event])
		x.probed = append(x.probed, in)
	}
	return x
}

// imageOf returns the counts of an image, or nil.
func imageOf(c *sample.Counts, id sample.ImageID) *sample.ImageCounts {
	for _, ic := range c.Images {
		if ic.ID.Key() == id.Key() {
			return ic
		}
	}
	return nil
}

// known returns what probes found out of an image.
func (x *exactCounts) known(id sample.ImageID, im *image.Image) (known []Known) {
	for _, in := range x.probed {
		ic := imageOf(in.Counts, id)
		if ic == nil {
			continue
		}
		for _, off := range slices.Sorted(maps.Keys(ic.Probed)) {
			if a, ok := im.AddrOf(off); ok {
				k := Known{Image: id, Addr: a}
				k.N, k.RelSD = in.runs(ic.Probed[off])
				k.Taken, k.TakenSD = in.shareOf(ic.Probed[off])
				if k.RelSD > 0 {
					k.CommonSD = max(windowsSD*(1-timedShare(ic.Probed[off])), k.RelSD)
				}
				k.Visits = float64(ic.Probed[off].Visits) / in.each
				if k.RelSD > 0 || k.TakenSD > 0 || k.Visits > 0 {
					known = append(known, k)
				}
			}
		}
	}
	return known
}

// runs returns the executions in all recordings, and their standard deviation relative
// to them; 0 if they are not known.
func (in *probedIn) runs(p sample.Probed) (n, relSD float64) {
	timed := timedShare(p)
	if p.Covered == 0 || p.Runs == 0 || in.weight == 0 || p.Windows < fewWindows && timed < 1 {
		return 0, 0
	}
	n = float64(p.Runs) * in.weight / float64(p.Covered)
	relSD = math.Sqrt(p.Variance.Float64()) / float64(p.Runs)
	if timed < 1 {
		relSD *= 1 + 1/float64(p.Windows)
	}
	if relSD > unsureRuns {
		return 0, 0
	}
	return n, math.Hypot(relSD, runsFloor+timed*(timedFloor-runsFloor))
}

// timedShare is the part of what is covered of which runs are told by walks that were timed.
func timedShare(p sample.Probed) float64 { return float64(p.Timed) / float64(max(1, p.Covered)) }

// sound returns what of known is fit to be used. Known executions of a few procedures
// among many that are not known do more harm than good, unless walks tell how often these
// run beside those.
func (p *Profile) sound(known []Known) []Known {
	sure := map[*Result]bool{}
	for _, k := range known {
		if k.Visits > 0 {
			return known
		}
		if k.RelSD > 0 {
			sure[p.find(k)] = true
		}
	}
	var samples uint64
	for r := range sure {
		if r != nil {
			samples += r.Samples
		}
	}
	if float64(samples) >= soundShare*float64(p.Samples.Used) {
		return known
	}
	for i := range known {
		known[i].N, known[i].RelSD = 0, 0
	}
	return slices.DeleteFunc(known, func(k Known) bool { return k.TakenSD == 0 && k.Visits == 0 })
}

// shareOf returns the share of outcomes that were taken, and its standard deviation;
// 0 if there were none. With an uninformed prior (Jeffreys) the share of those not
// seen is that of a beta distribution; windows that differ by more than chance make it
// more uncertain.
func (in *probedIn) shareOf(p sample.Probed) (taken, sd float64) {
	if p.Outcomes == 0 {
		return 0, 0
	}
	of := float64(p.Outcomes)
	spread := p.Spread.Float64() / (of * of) * (1 + 1/float64(max(1, p.Windows)))
	of /= in.each
	taken = (float64(min(p.Taken, p.Outcomes))/in.each + 0.5) / (of + 1)
	chance := taken * (1 - taken) / (of + 2)
	floor := shareFloor * shareFloor
	if p.Visits > 0 {
		floor += rareShare / (float64(min(p.Taken, p.Outcomes-min(p.Taken, p.Outcomes)))/in.each + 0.5)
	}
	return taken, math.Sqrt(max(chance, spread) + floor*taken*(1-taken)*taken*(1-taken))
}

// countedBlock is a block whose executions were counted in another run.
type countedBlock struct {
	r     *Result
	block int
	n     float64 // executions there
}

// blocks returns the blocks of ip that were counted: of each the most that any of its
// instructions ran.
func (x *exactCounts) blocks(ip *ImageProfile) (all []countedBlock) {
	ic := imageOf(x.counted, ip.ID)
	if ic == nil {
		return nil
	}
	at := countsByAddr(ip.Image, ic.Counted)
	for _, r := range ip.Procs {
		i, _ := slices.BinarySearchFunc(at, r.Proc.Addr, func(h hit, a image.Addr) int { return cmp.Compare(h.addr, a) })
		for b := range r.Proc.Blocks {
			blk := &r.Proc.Blocks[b]
			for i < len(at) && at[i].addr < blk.Start {
				i++
			}
			c := countedBlock{r, b, -1}
			for ; i < len(at) && at[i].addr < blk.End; i++ {
				c.n = max(c.n, float64(at[i].n))
			}
			if c.n >= 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

// symbols returns the symbols of ip whose code was probed, or counted and ran.
func (x *exactCounts) symbols(ip *ImageProfile) map[int]bool {
	syms := map[int]bool{}
	for _, k := range x.known(ip.ID, ip.Image) {
		syms[ip.Image.Find(k.Addr)] = true
	}
	if ic := imageOf(x.counted, ip.ID); ic != nil {
		for off, n := range ic.Counted {
			if a, ok := ip.Image.AddrOf(off); ok && n > 0 {
				syms[ip.Image.Find(a)] = true
			}
		}
	}
	return syms
}

// countsByAddr returns counts by offset by increasing address.
func countsByAddr(im *image.Image, counts map[sample.Offset]uint64) []hit {
	all := make([]hit, 0, len(counts))
	for off, n := range counts {
		if a, ok := im.AddrOf(off); ok {
			all = append(all, hit{addr: a, n: n})
		}
	}
	slices.SortFunc(all, func(a, b hit) int { return cmp.Compare(a.addr, b.addr) })
	return all
}

// maxOtherWays is the share of a procedure's samples in blocks that another run did not execute, above which that run tells nothing
// of what does not run in it: it had other inputs. A longer run has some samples in what seldom runs.
const maxOtherWays = 0.01

// scaleRounds is how often a scale is fitted anew. It doubles with each at first, and
// stands still when the blocks are the right ones.
const scaleRounds = 30

// count adds executions that were counted in another run. They tell of counts among one
// another only: their scale is the one that explains the samples best.
func (pr *posed) count(prof *Profile, x *exactCounts) {
	var fit scaleFit
	type seen struct {
		r *Result
		q *problem
		o observation
	}
	var all, none []seen
	ran, astray := map[*Result]bool{}, map[*Result]float64{} // and samples where the other run never was
	for _, ip := range prof.Images {
		for _, c := range x.blocks(ip) {
			q := pr.of[c.r]
			if q == nil {
				continue
			}
			o, _ := Known{N: c.n, RelSD: countedSD}.executions(c.block)
			o.real = false
			if c.n == 0 {
				none = append(none, seen{c.r, q, o})
				astray[c.r] += q.samples[c.block]
				continue
			}
			all = append(all, seen{c.r, q, o})
			fit.add(q, o)
			ran[c.r] = true
		}
	}
	s, ok := fit.scale()
	if !ok {
		return
	}
	// A block that should have brought less than a sample says little of the scale, and
	// at a wrong one which blocks these are is not known.
	for range scaleRounds {
		var again scaleFit
		for _, c := range all {
			c.o.logN += math.Log(s)
			if c.q.brings(int(c.o.block), math.Exp(c.o.logN)) > 1 {
				again.add(c.q, c.o)
			}
		}
		d, _ := again.scale()
		s *= d
	}
	for _, c := range all {
		c.o.logN += math.Log(s)
		c.q.known = append(c.q.known, c.o)
	}
	for _, c := range none {
		if c.q.samples[c.o.block] > 0 || astray[c.r] > maxOtherWays*float64(c.r.Samples) {
			continue // it ran, or the other run went other ways
		}
		c.o.sd = max(c.o.sd, math.Log1p(s)) // one execution there would be so many here
		c.q.known = append(c.q.known, c.o)
	}
	var samples uint64
	for r := range ran {
		samples += r.Samples
	}
	prof.Counted = float64(samples) / float64(prof.Samples.Used)
}
