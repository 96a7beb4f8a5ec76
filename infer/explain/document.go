package explain

import (
	"math"

	"backfeed/infer"
	"backfeed/infer/document"
)

// Document adds to d, the document of r, what is known of the time of its blocks. Blocks that did not run have no time.
func (x *Explainer) Document(ip *infer.ImageProfile, r *infer.Result, d *document.Proc) {
	e := x.Explain(ip, r)
	without := len(r.Proc.Blocks) - len(d.Blocks) // the entry, where nothing decodes there
	for i := 0; i < len(e.Insts); {
		b := &d.Blocks[e.Insts[i].Block-without]
		var total, least float64
		culprits := []document.Culprit{}
		n := e.Insts[i].N
		for at := e.Insts[i].Block; i < len(e.Insts) && e.Insts[i].Block == at; i++ {
			t := &e.Insts[i]
			total, least = total+t.Total, least+t.Least
			for _, c := range t.Stall.Culprits {
				culprits = append(culprits, document.Culprit{
					Cause: c.Cause.String(), At: document.Addr(t.Addr), Least: places(c.Least), Most: places(c.Most), From: document.Addr(c.From),
				})
			}
		}
		least = places(least)
		b.LeastCycles = &least
		if n > 0 {
			each := places(total / n)
			b.Cycles, b.Culprits = &each, culprits
		}
	}
}

// places rounds to three places.
func places(x float64) float64 { return math.Round(min(x, 1e12)*1000) / 1000 }
