package infer

import (
	"slices"
	"strings"

	"backfeed/infer/image"
)

// staticGuess assigns each out-edge a logit from the shape of the code alone: what is
// believed of a branch where samples are silent. Loops go round, code from which
// nothing returns (panics, aborts, throws) is not reached, code that calls is
// reached less than other code, and what is likely follows without a jump, for so
// compilers lay it out. The idea and the first three rules are Ball and Larus's
// (PLDI 1993).
func staticGuess(p *image.Proc, f *flow, par *params) []float64 {
	guess := make([]float64, len(f.outs))
	doomed := p.Doomed(func(b *image.Block) bool { return ends(p, b) })
	for b := range f.blocks {
		for w := f.first[b]; w < f.first[b+1]; w++ {
			switch to := f.outs[w].to; {
			case to == leave:
			case doomed[to] && !doomed[b]:
				guess[w] = par.unlikely
			case int(to) <= b:
				guess[w] = par.backEdge
			default:
				if f.outs[w].edge >= 0 && p.Edges[f.outs[w].edge].Kind == image.Taken {
					guess[w] += par.forward
				}
				if len(p.Blocks[to].Calls) > 0 {
					guess[w] += par.calling
				}
			}
		}
	}
	return guess
}

// ends reports whether control does not come back from a block, or it only grows a Go stack.
func ends(p *image.Proc, b *image.Block) bool {
	return b.Exit == image.NoReturn || slices.ContainsFunc(b.Calls, func(c int) bool {
		return strings.HasPrefix(p.Calls[c].Target, "runtime.morestack")
	})
}
