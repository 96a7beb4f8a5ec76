package main

import (
	"errors"
	"iter"

	"backfeed/infer"
)

// explainer prepares to say where the time of s went, and what instructions waited for.
func (s *source) explainer() (*infer.Explainer, error) {
	x, err := infer.NewExplainer(s.profile, s.recording)
	if errors.Is(err, infer.ErrNoTime) {
		err = failf(exitNothing, "%w; want those of cycles or of a timer", err)
	}
	return x, err
}

// explanations gives the explanations of all procedures that have samples: images by
// path, procedures by address. One is made at a time, since those of a large program
// are larger than it.
func (s *source) explanations(x *infer.Explainer) iter.Seq2[*infer.ImageProfile, *infer.Explanation] {
	return func(yield func(*infer.ImageProfile, *infer.Explanation) bool) {
		for _, ip := range s.profile.Images {
			for _, r := range ip.Procs {
				if r.Samples > 0 && !yield(ip, x.Explain(ip, r)) {
					return
				}
			}
		}
	}
}

// A trust tells how far counts are to be trusted, by the samples that lie in their
// blocks: CPI and stalls inherit it.
type trust struct {
	conf, shape mix
	samples     uint64
}

func (t *trust) add(r *infer.Result) {
	for b, n := range r.BlockSamples {
		t.conf[r.Block[b].Conf] += n
		t.shape[r.Block[b].Shape] += n
		t.samples += n
	}
}

// trust is that of all procedures.
func (s *source) trust() *trust {
	t := &trust{}
	for _, ip := range s.profile.Images {
		for _, r := range ip.Procs {
			t.add(r)
		}
	}
	return t
}

// letterOf is a confidence in a narrow column.
func letterOf(c infer.Confidence) string { return c.String()[:1] }
