package feedback

import (
	"math"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/sample"
)

// Targets knows where the indirect calls of a profile go, within their image: as branch records, walks and call stacks saw them.
type Targets struct {
	counts []*sample.Counts
	of     map[*infer.ImageProfile]*sites
}

// NewTargets returns those of what was inferred from rec.
func NewTargets(p *infer.Profile, rec *sample.Recording) *Targets {
	return &Targets{countsOf(p, rec), map[*infer.ImageProfile]*sites{}}
}

// Document adds to d, the document of r, where its indirect calls go.
func (t *Targets) Document(ip *infer.ImageProfile, r *infer.Result, d *document.Proc) {
	s := t.of[ip]
	if s == nil {
		s = newSites(newView(ip, t.counts))
		t.of[ip] = s
	}
	if s.blind() {
		return
	}
	for i, c := range r.Proc.Calls {
		if c.To != 0 || c.Target != "" {
			continue
		}
		for _, to := range s.targets(r, i) {
			if share := math.Round(1000*to.share) / 1000; share > 0 {
				d.Calls[i].Targets = append(d.Calls[i].Targets, document.CallTarget{To: document.Addr(to.to), Share: share})
			}
		}
	}
}
