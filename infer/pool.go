package infer

import (
	"math"

	"backfeed/infer/image"
	"backfeed/sample"
)

// An exchange is the calls through pointers that lead to where nothing tells, and the procedures that nothing calls by name: these are
// entered by those calls, and so all together at most as often as such calls are made. It holds where all code that may call is
// known; none of it tells which call enters which procedure.
type exchange struct {
	sites   []site
	callees []int // indices into probs
}

// poolSD is the standard deviation of the logarithm of how much more often than that they may be entered: by the kernel, or by
// code without samples.
const poolSD = 0.3

// mostElsewhere is the part of the samples in code that is not known from which on its calls may enter any procedure.
const mostElsewhere = 0.01

// complete reports whether nearly all samples are in code that is known, so that what calls through pointers is.
func (p *Profile) complete() bool {
	var lost uint64
	for why, n := range p.Samples.Lost {
		if !outside[why] {
			lost += n
		}
	}
	return !p.missing && float64(lost) <= mostElsewhere*float64(p.Samples.Total)
}

// outside are losses that tell of no code of a program that calls others.
var outside = map[sample.Loss]bool{sample.LostDropped: true, sample.LostKernel: true, sample.LostVDSO: true, sample.LostGuest: true}

// add adds a call of q, which is in ip, that leads to so much: what part of its executions leads to where nothing tells.
func (p *exchange) add(ip *ImageProfile, q *problem, c *image.Call, leads []lead) {
	if _, imports := ip.Image.Import(c); c.To != 0 || imports {
		return
	}
	s := q.site(c)
	s.share = 1
	for _, to := range leads {
		s.share -= to.share
	}
	if s.share > 0 {
		p.sites = append(p.sites, s)
	}
}

// addUnresolved adds jumps of which it is not known whether they leave the procedure.
func (p *exchange) addUnresolved(proc *image.Proc, q *problem) {
	for b := range proc.Blocks {
		if proc.Blocks[b].Exit == image.Unresolved {
			p.sites = append(p.sites, site{q: q, block: int32(b), out: -1, share: 1})
		}
	}
}

// core returns the exchange of the problems that index has, -1 of others.
func (p *exchange) core(index []int) (in exchange) {
	for _, s := range p.sites {
		in.sites = append(in.sites, s.core())
	}
	for _, c := range p.callees {
		if index[c] >= 0 {
			in.callees = append(in.callees, index[c])
		}
	}
	return in
}

// share adds the derivatives of pool to its problems, and returns its value.
func (pr *program) share(x []float64) float64 {
	p := &pr.pool
	if len(p.sites) == 0 || len(p.callees) == 0 {
		return 0
	}
	t := tie{sites: p.sites}
	calls, entries := t.calls(), 0.0
	for _, c := range p.callees {
		entries += math.Exp(x[pr.at[c]])
	}
	r := math.Log(max(calls, 1e-100)) - math.Log(max(entries, 1e-100))
	if r >= 0 {
		return 0
	}
	v, d := huber(r/poolSD, farTie)
	d /= poolSD
	for _, c := range p.callees {
		pr.probs[c].dx[0] -= d * math.Exp(x[pr.at[c]]) / entries
	}
	t.push(d / max(calls, 1e-100))
	return v
}
