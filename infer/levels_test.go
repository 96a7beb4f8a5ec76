package infer

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/sample"
)

// levelProcs is of how many procedures TestLevels tells how often a place runs: those that run most.
const levelProcs = 40

// levelPlaces returns the exact executions, but for a standard deviation of sd, of the place of each of levelProcs procedures of p
// that runs most and no more than most times a second, of the procedure's own time if own is set, of those that may be probed; and how
// often all of them run in a second.
func (s *set) levelPlaces(p *Profile, most, sd float64, own bool) (known []Known, rate float64) {
	scale, seconds := s.compare(p).Scale, secondsOf(s.Rec.Counts)
	rng := rand.New(rand.NewPCG(1, 2))
	type proc struct {
		ip   *ImageProfile
		r    *Result
		runs float64
	}
	var procs []proc
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			of := proc{ip: ip, r: r}
			for _, f := range r.Block {
				of.runs += f.N
			}
			procs = append(procs, of)
		}
	}
	slices.SortStableFunc(procs, func(a, b proc) int { return cmp.Compare(b.runs, a.runs) })
	for _, of := range procs[:min(len(procs), levelProcs)] {
		sites := of.ip.Image.ProbeSites(of.r.Proc)
		best, part := -1, seconds // so much of the time
		if own {
			part *= float64(of.r.Samples) / float64(p.Samples.Used)
		}
		for b, f := range of.r.Block {
			if len(sites[b]) > 0 && f.N <= most*part && (best < 0 || f.N > of.r.Block[best].N) {
				best = b
			}
		}
		if best < 0 {
			continue
		}
		if n := s.exact(of.ip, &of.r.Proc.Blocks[best]) / scale; n > 0 {
			known = append(known, Known{Image: of.ip.ID, Addr: of.r.Proc.Blocks[best].Start, N: n * math.Exp(sd*rng.NormFloat64()), RelSD: sd})
			rate += n / seconds
		}
	}
	return known, rate
}

// TestLevels shows what it would bring to know how often a place of each procedure runs, by how often it may: a probe that is
// hit slows the program down. With -v it prints the scores; -sets adds programs to testdata/mix.
func TestLevels(t *testing.T) {
	all := append([]*set{loadMix(t).set}, loadSets(t)...)
	var more float64 // over recordings with walks
	walked := 0
	for _, s := range all {
		p := s.infer(t, s.Rec, Options{})
		plain := s.compare(p)
		t.Logf("%-8s as inferred: block overlap %.3f", s.Name, plain.BlockOverlap)
		for _, known := range []struct {
			what     string
			most, sd float64
			own      bool
		}{
			{"any", math.Inf(1), 0.05, false},
			{"any, known to 0.3", math.Inf(1), 0.3, false},
			{"up to 1e6 times a second", 1e6, 0.05, false},
			{"up to 1e6, known to 0.3", 1e6, 0.3, false},
			{"up to 1e5", 1e5, 0.05, false},
			{"up to 1e5 of own time", 1e5, 0.15, true},
			{"up to 3e6 of own time", 3e6, 0.15, true},
		} {
			places, rate := s.levelPlaces(p, known.most, known.sd, known.own)
			a := s.compare(s.infer(t, s.Rec, Options{Known: places}))
			t.Logf("%-8s %-26s %2d places that run %.2g times a second in all: block overlap %.3f", s.Name, known.what, len(places), rate, a.BlockOverlap)
			if math.IsInf(known.most, 1) && known.sd < 0.1 && a.BlockOverlap < plain.BlockOverlap {
				t.Errorf("%s: to know how often procedures run makes it worse: %.3f, without %.3f", s.Name, a.BlockOverlap, plain.BlockOverlap)
			}
			if known.own && known.most == 1e5 && s.walked(p) {
				more += a.BlockOverlap - plain.BlockOverlap
				walked++
			}
		}
	}
	if walked == 0 {
		return
	}
	more /= float64(walked)
	t.Logf("places that seldom run: block overlap higher by %.4f in the mean of %d recordings with walks", more, walked)
	if few := 10; walked >= few && more < 0 {
		t.Errorf("to know how often a place runs that seldom does makes it worse: by %.4f in the mean of %d recordings", -more, walked)
	}
}

// walked reports whether walks passed through an image of p, which was inferred from the recording of s.
func (s *set) walked(p *Profile) bool {
	x := exactOf(s.Rec)
	return slices.ContainsFunc(p.Images, func(ip *ImageProfile) bool {
		return slices.ContainsFunc(x.known(ip.ID, ip.Image), func(k Known) bool { return k.Visits > 0 })
	})
}

// TestSeldom shows how far places are off beside their procedures, by how much more often the block does that runs most there: what a
// rate tells of a procedure is off by that too. Places that walks did not pass through are left out where there are walks.
func TestSeldom(t *testing.T) {
	const steps = 10 // of e
	var weight, squares [steps]float64
	for _, s := range append([]*set{loadMix(t).set}, loadSets(t)...) {
		p := s.infer(t, s.Rec, Options{})
		scale := s.compare(p).Scale
		var all float64
		for _, ip := range p.Images {
			for _, r := range ip.Procs {
				for _, f := range r.Block {
					all += f.N
				}
			}
		}
		for _, ip := range p.Images {
			visits := map[int]float64{} // by block of a procedure
			for _, r := range ip.Procs {
				var runs, truth, most float64
				for b, f := range r.Block {
					runs, truth, most = runs+f.N, truth+s.exact(ip, &r.Proc.Blocks[b])/scale, max(most, f.N)
				}
				if runs < all/300 || truth == 0 {
					continue
				}
				clear(visits)
				for _, c := range s.Rec.Counts {
					ic := imageOf(c, ip.ID)
					if ic == nil {
						continue
					}
					for off, seen := range ic.Probed {
						if a, ok := ip.Image.AddrOf(off); ok && seen.Visits > 0 && r.Proc.BlockAt(a) >= 0 {
							visits[r.Proc.BlockAt(a)] += float64(seen.Visits)
						}
					}
				}
				var off [steps][]float64
				for b, f := range r.Block {
					n := s.exact(ip, &r.Proc.Blocks[b]) / scale
					if n == 0 || f.N < 1 || len(visits) > 0 && visits[b] == 0 {
						continue
					}
					step := min(steps-1, int(math.Log(most/f.N)))
					off[step] = append(off[step], clamp(math.Log(f.N/n)-math.Log(runs/truth), -2, 2))
				}
				for step, of := range off {
					for _, d := range of {
						weight[step] += runs / all / float64(len(of))
						squares[step] += runs / all / float64(len(of)) * d * d
					}
				}
			}
		}
	}
	var near, far [2]float64 // squares, weight
	for step, w := range weight {
		if w == 0 {
			continue
		}
		t.Logf("blocks that run e^%d times less often: off by %.2f, over %.1f programs", step, math.Sqrt(squares[step]/w), w)
		of := &near
		if step >= 3 {
			of = &far
		}
		of[0], of[1] = of[0]+squares[step], of[1]+w
	}
	if near[0]/near[1] >= far[0]/far[1] {
		t.Errorf("blocks that run seldom are off by %.2f beside their procedures, others by %.2f", math.Sqrt(far[0]/far[1]), math.Sqrt(near[0]/near[1]))
	}
}

// rightVisits returns the calibrated recording of s with as many visits in each procedure, beside others, as it has executions by the
// exact counts: what walks would tell that are weighed right. p is what is inferred of it.
func (s *set) rightVisits(p *Profile) *sample.Recording {
	rec := sample.Merge(s.Calibrated)
	for _, c := range rec.Counts {
		type proc struct {
			ic            *sample.ImageCounts
			offs          []sample.Offset
			visits, exact float64
		}
		var procs []*proc
		var visits, exact float64
		for _, ip := range p.Images {
			ic := imageOf(c, ip.ID)
			if ic == nil {
				continue
			}
			of := map[*Result]*proc{}
			for _, off := range slices.Sorted(maps.Keys(ic.Probed)) {
				a, ok := ip.Image.AddrOf(off)
				if !ok || ic.Probed[off].Visits == 0 {
					continue
				}
				r := p.find(Known{Image: ip.ID, Addr: a})
				if r == nil || r.Proc.BlockAt(a) < 0 {
					continue
				}
				if of[r] == nil {
					of[r] = &proc{ic: ic}
					procs = append(procs, of[r])
				}
				o := of[r]
				n := s.exact(ip, &r.Proc.Blocks[r.Proc.BlockAt(a)])
				o.offs = append(o.offs, off)
				o.visits, o.exact = o.visits+float64(ic.Probed[off].Visits), o.exact+n
				visits, exact = visits+float64(ic.Probed[off].Visits), exact+n
			}
		}
		for _, o := range procs {
			for _, off := range o.offs {
				seen := o.ic.Probed[off]
				seen.Visits = uint64(math.Ceil(float64(seen.Visits) * o.exact / o.visits * visits / exact))
				o.ic.Probed[off] = seen
			}
		}
	}
	return rec
}

// TestVisitLevels shows what the weights of walks can bring at best: visits of procedures that are right among one another, in
// recordings of -sets with calibrated.bfr.
func TestVisitLevels(t *testing.T) {
	var mean, right, n float64
	for _, s := range loadSets(t) {
		if s.Calibrated == nil {
			continue
		}
		p := s.infer(t, s.Calibrated, Options{})
		is, best := s.compare(p), s.compare(s.infer(t, s.rightVisits(p), Options{}))
		t.Logf("%-10s block overlap %.3f as inferred, %.3f with right visits of procedures, %.3f with procedures right among one another",
			s.Name, is.BlockOverlap, best.BlockOverlap, s.compare(s.oracle(p, false)).BlockOverlap)
		mean, right, n = mean+is.BlockOverlap, right+best.BlockOverlap, n+1
	}
	if n == 0 {
		t.Skip("no -sets with calibrated.bfr")
	}
	t.Logf("mean %.3f, %.3f", mean/n, right/n)
	if right < mean {
		t.Errorf("with right visits of procedures, the mean block overlap is %.3f, without them %.3f", right/n, mean/n)
	}
}
