package infer

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/sample"
)

// Probing says what probes can find out, and what they cost: the program runs on
// in windows of some milliseconds in which each hit of a site delays it.
type Probing struct {
	MaxRate float64 // executions per second up to which a site's can be counted; of others, only outcomes
	Window  float64 // seconds that a site is armed for
	Fixed   float64 // seconds that a site costs whether it is hit or not
	PerHit  float64 // seconds that a hit costs
}

// A Site is an instruction worth probing.
type Site struct {
	Image *ImageProfile
	Proc  *Result
	Block int // index into Proc.Proc.Blocks
	image.ProbeSite
	Runs bool    // its executions can be counted; otherwise only its outcomes
	Rate float64 // expected executions per second of the recording
	Gain float64 // expected reduction of the sum of all errors, in executions
	Cost float64 // expected delay of the program, in seconds
}

// cost is the delay by a site of such a rate in one window, which ends in time.
func (p *Probing) cost(rate float64) float64 {
	hit := rate * p.PerHit
	return p.Fixed + p.Window*hit/(1+hit)
}

// secondsOf returns the time that the samples of counts cover, or 0 if their event does
// not tell.
func secondsOf(counts []*sample.Counts) (s float64) {
	for _, c := range counts {
		switch c.Event.Unit {
		case "ns":
			s += float64(c.Weight) / 1e9
		case "cycles":
			s += float64(c.Weight) / (TypicalGHz * 1e9)
		}
	}
	return s
}

const (
	// siteBlocks bounds the blocks of one procedure that are weighed as sites.
	siteBlocks = 1000
	// runsSD and shareSD are the standard deviations of the logarithm of runs, and of
	// the logit of a share, that a site is expected to leave.
	runsSD, shareSD = 0.1, 0.05
)

// A candidate is a site with what the draws say of it: its runs and the logit of its
// share, or nil if it does not tell.
type candidate struct {
	Site
	runs, share     []float64 // by draw
	runsSD, shareSD float64   // that a window leaves
}

// A siteRanking chooses sites of one procedure as a ranking chooses places.
type siteRanking struct {
	prob  int
	n     []float64   // by target: executions
	drawn [][]float64 // by target, by draw
	cand  []candidate
	best  int // index into cand of the next choice
	worth float64
}

// newSiteRanking prepares the choice among the blocks of q with sites. The image and its
// result are in site.
func newSiteRanking(prob int, q *problem, sd spread, site Site, seconds float64, opt *Probing) *siteRanking {
	r := &siteRanking{prob: prob}
	if len(sd.drawn) == 0 {
		return r
	}
	var blocks []int
	for b := range site.Proc.Block {
		if q.n[b] >= 1 {
			blocks = append(blocks, b)
		}
	}
	slices.SortStableFunc(blocks, func(a, b int) int {
		return cmp.Compare(q.n[b]*min(sd.of(sd.block[b]), 2), q.n[a]*min(sd.of(sd.block[a]), 2))
	})
	for _, b := range blocks[:min(len(blocks), rankBlocks)] {
		r.n = append(r.n, q.n[b])
		r.drawn = append(r.drawn, sd.column(func(d, _ []float64) float64 { return d[b] }))
	}
	sites := site.Image.Image.ProbeSites(site.Proc.Proc)
	for _, b := range blocks[:min(len(blocks), siteBlocks)] {
		if len(sites[b]) == 0 {
			continue
		}
		c := candidate{Site: site}
		c.Block, c.ProbeSite = b, sites[b][0]
		hits := 1.0
		if seconds > 0 {
			c.Rate = q.n[b] / seconds
			c.Cost = opt.cost(c.Rate)
			hits = opt.Window * c.Rate / (1 + c.Rate*opt.PerHit)
		}
		c.runsSD = math.Sqrt(runsSD*runsSD + 1/hits)
		if w := q.takenOut(b); w >= 0 && c.Cond >= 0 {
			other := 2*q.flow.first[b] + 1 - w
			p := max(q.prob[w]*q.prob[other], 1e-6)
			c.shareSD = math.Sqrt(shareSD*shareSD + 1/(hits*p))
			c.share = sd.column(func(_, out []float64) float64 { return out[w] - out[other] })
		}
		if c.Runs = seconds > 0 && c.Rate <= opt.MaxRate; c.Runs {
			c.runs = sd.column(func(d, _ []float64) float64 { return d[b] })
		}
		if c.runs != nil || c.share != nil {
			r.cand = append(r.cand, c)
		}
	}
	r.choose()
	return r
}

// column returns what each draw says of something, by its logarithms of blocks and out-edges.
func (s *spread) column(of func(block, out []float64) float64) []float64 {
	x := make([]float64, len(s.drawn))
	for i := range x {
		x[i] = clamp(of(s.drawn[i], s.drawnOut[i]), -2, 2)
	}
	return x
}

func meanProduct(x, y []float64) float64 { return dot(x, y) / float64(len(x)) }

// without takes out of each of rows what goes with x, which is known but for noise.
func without(rows [][]float64, x []float64, noise float64) {
	v := meanProduct(x, x) + noise*noise
	for _, y := range rows {
		if y != nil {
			c := meanProduct(x, y)
			// Draws are few, so of any two, one seems to go with the other.
			if c*c > meanProduct(x, x)*meanProduct(y, y)*4/float64(len(x)) {
				axpy(-c/v, x, y)
			}
		}
	}
}

// gain is what c takes off the errors of all targets.
func (r *siteRanking) gain(c *candidate) (sum float64) {
	runs, share := c.runs, c.share
	if runs != nil && share != nil {
		share = slices.Clone(share)
		without([][]float64{share}, runs, c.runsSD)
	}
	vr, vs := 0.0, 0.0
	if runs != nil {
		if vr = meanProduct(runs, runs); vr < c.runsSD*c.runsSD/4 {
			runs = nil
		}
	}
	if share != nil {
		if vs = meanProduct(share, share); vs < c.shareSD*c.shareSD/4 {
			share = nil
		}
	}
	if runs == nil && share == nil {
		return 0
	}
	for j, d := range r.drawn {
		v := meanProduct(d, d)
		left := v
		if runs != nil {
			left -= explainedPart(d, runs, v, vr, c.runsSD)
		}
		if share != nil {
			left -= explainedPart(d, share, v, vs, c.shareSD)
		}
		sum += r.n[j] * (math.Sqrt(v) - math.Sqrt(max(0, left)))
	}
	return sum
}

// explainedPart is the part of the variance v of d that goes with x, of variance vx and known but
// for noise. Of draws that have nothing to do with each other, the square of the
// correlation is in the mean one over their number.
func explainedPart(d, x []float64, v, vx, noise float64) float64 {
	c := meanProduct(d, x)
	chance := v * vx / float64(len(x))
	return max(0, c*c-chance) / (vx + noise*noise)
}

// choose finds the candidate whose knowledge takes most off the errors, for its cost.
func (r *siteRanking) choose() {
	r.best, r.worth = -1, 0
	for i := range r.cand {
		c := &r.cand[i]
		c.Gain = r.gain(c)
		if worth := c.Gain / max(c.Cost, 1e-9); worth > r.worth {
			r.best, r.worth = i, worth
		}
	}
}

// take returns the chosen site, takes what it tells out of the draws, and chooses again.
func (r *siteRanking) take() Site {
	c := r.cand[r.best]
	r.cand = slices.Delete(r.cand, r.best, r.best+1)
	rows := slices.Clone(r.drawn)
	for i := range r.cand {
		rows = append(rows, r.cand[i].runs, r.cand[i].share)
	}
	if c.runs != nil {
		without(append(rows, c.share), c.runs, c.runsSD)
	}
	if c.share != nil {
		without(rows, c.share, c.shareSD)
	}
	r.choose()
	return c.Site
}

type siteRankings []*siteRanking

func (h siteRankings) Len() int { return len(h) }
func (h siteRankings) Less(i, j int) bool {
	if h[i].worth != h[j].worth {
		return h[i].worth > h[j].worth
	}
	return h[i].prob < h[j].prob
}
func (h siteRankings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *siteRankings) Push(x any)   { *h = append(*h, x.(*siteRanking)) }
func (h *siteRankings) Pop() any {
	r := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return r
}

// sites returns the sites that take most off the sum of all errors for what they cost,
// each chosen as if those before it were known.
func (pr *posed) sites(prof *Profile, sd []spread, seconds float64, most int, opt Probing) []Site {
	images := map[*Result]*ImageProfile{}
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			images[r] = ip
		}
	}
	made := make([]*siteRanking, len(pr.probs))
	pr.each(func(i int) {
		res := pr.results[i]
		made[i] = newSiteRanking(i, pr.probs[i], sd[i], Site{Image: images[res], Proc: res}, seconds, &opt)
	})
	h := siteRankings(slices.DeleteFunc(made, func(r *siteRanking) bool { return r == nil || r.worth == 0 }))
	heap.Init(&h)
	var out []Site
	for len(h) > 0 && len(out) < most {
		r := h[0]
		out = append(out, r.take())
		if r.worth == 0 {
			heap.Pop(&h)
		} else {
			heap.Fix(&h, 0)
		}
	}
	return out
}
