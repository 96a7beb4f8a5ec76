package calibrate

import (
	"cmp"
	"math"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// secondsOf returns the time that c covers, or any if its event does not tell: order is
// what counts then.
func secondsOf(c *sample.Counts) float64 {
	if c.Event.Unit != "ns" {
		return 1
	}
	return float64(c.Weight) / 1e9
}

// sitesThat returns the sites with the most gain of those that keep keeps, of one of each
// block that ran, by what was inferred. keep sets the gain; it gets what windows counted
// there so far.
func sitesThat(p *infer.Profile, c *sample.Counts, most int, keep func(s *infer.Site, n float64, probed sample.Probed) bool) []infer.Site {
	seconds := secondsOf(c)
	var all []infer.Site
	for _, ip := range p.Images {
		probed := c.Images[c.Image(ip.ID)].Probed
		for _, r := range ip.Procs {
			sites := ip.Image.ProbeSites(r.Proc)
			for b, f := range r.Block {
				if f.N < 1 || len(sites[b]) == 0 {
					continue
				}
				s := infer.Site{Image: ip, Proc: r, Block: b, ProbeSite: sites[b][0], Rate: f.N / seconds}
				if keep(&s, f.N, probed[s.Off]) {
					all = append(all, s)
				}
			}
		}
	}
	return mostGain(all, most)
}

// mostRun returns sites of the procedures that run most, by what was inferred: of each those
// that run most and not too often for windows to tell how often. Walks, samples and outcomes
// tell how the blocks of a procedure run among one another, but procedures among one another
// only as well as the time of an execution is known.
func (k *Calibrator) mostRun(p *infer.Profile, c *sample.Counts, most int) []infer.Site {
	gain := map[*infer.Result]float64{}
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for _, f := range r.Block {
				gain[r] += f.N
			}
		}
	}
	all := sitesThat(p, c, math.MaxInt, func(s *infer.Site, n float64, probed sample.Probed) bool {
		if k.dense[siteKey{s.Image.ID.Key(), s.Off}] || k.ownRate(*s) > mostOwnRate {
			return false
		}
		if probed.Windows >= fewWindows && probed.Covered > 0 && float64(probed.Runs) < n/10 {
			return false // it hardly runs
		}
		s.Runs, s.Gain = true, n
		return true
	})
	type runsOf struct {
		r *infer.Result
		n float64
	}
	seen := map[runsOf]bool{} // blocks that run equally often are mostly one behind another
	of := map[*infer.Result]int{}
	out := all[:0]
	for _, s := range all {
		at := runsOf{s.Proc, s.Gain}
		if seen[at] || of[s.Proc] == runsPerProc {
			continue
		}
		seen[at] = true
		of[s.Proc]++
		s.Gain = gain[s.Proc]
		out = append(out, s)
	}
	return mostGain(out, most)
}

// runsPerProc is how many places of a procedure are asked how often they run.
const runsPerProc = 2

// ownRate is how often s runs per second of its procedure's own time.
func (k *Calibrator) ownRate(s infer.Site) float64 {
	return s.Rate * max(k.samples, 1) / float64(max(s.Proc.Samples, 1))
}

// mostGain returns the sites with the most gain.
func mostGain(all []infer.Site, most int) []infer.Site {
	slices.SortStableFunc(all, func(a, b infer.Site) int { return cmp.Compare(b.Gain, a.Gain) })
	return all[:min(len(all), most)]
}

// unsureBranches returns the conditional branches of which it matters most, by what was
// inferred and by what windows counted so far, that it is not known where they go.
func unsureBranches(p *infer.Profile, c *sample.Counts, most int) []infer.Site {
	return sitesThat(p, c, most, func(s *infer.Site, n float64, probed sample.Probed) bool {
		if s.Cond < 0 {
			return false
		}
		s.Gain = n * unsure(probed, loops(s.Proc.Proc, s.Block))
		return true
	})
}

// unsure is how much what a branch leads to is off, relative to its executions, if it went
// so: of the rarer outcome one standard deviation. What runs in a loop is as far off as the
// exit.
func unsure(p sample.Probed, loop bool) float64 {
	few := float64(min(p.Taken, p.Outcomes-min(p.Taken, p.Outcomes))) + 0.5
	off := min(1, 1/math.Sqrt(few))
	if loop {
		return off
	}
	return 2 * off * few / (float64(p.Outcomes) + 1)
}

// loops reports whether an out-edge of block b leads back, up the code.
func loops(p *image.Proc, b int) bool {
	return slices.ContainsFunc(p.Blocks[b].Out, func(e int) bool { return p.Edges[e].To <= b })
}
