package infer

import (
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
	doomed := doomedBlocks(p, f)
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

// doomedBlocks marks the blocks from which every path ends in a call that does not
// return or in a trap, and those that only grow a Go stack.
func doomedBlocks(p *image.Proc, f *flow) []bool {
	doomed := make([]bool, f.blocks)
	for b := range doomed {
		bl := &p.Blocks[b]
		doomed[b] = bl.Exit == image.NoReturn
		for _, c := range bl.Calls {
			if strings.HasPrefix(p.Calls[c].Target, "runtime.morestack") {
				doomed[b] = true
			}
		}
	}
	// Paths that join before the end are found from the bottom up, usually in
	// one pass: such code lies at the end of a procedure.
	for changed := true; changed; {
		changed = false
		for b := f.blocks - 1; b >= 0; b-- {
			outs := f.outsOf(b)
			if doomed[b] || len(outs) == 0 {
				continue
			}
			all := true
			for _, w := range outs {
				all = all && w.to != leave && doomed[w.to] && int(w.to) != b
			}
			if all {
				doomed[b], changed = true, true
			}
		}
	}
	return doomed
}
