package infer

import (
	"math/rand/v2"
	"slices"

	"backfeed/infer/image"
)

// A nest is the natural loops of a flow, and its arms: what is reached only through one place that an indirect jump leads
// to, such as an operation of an interpreter. What the blocks of one take beside their model they take together: a loop
// that fits the processor runs at several instructions a cycle, and another one of the same procedure waits in each
// turn. Two loops, or two arms, compare only up to that.
type nest struct {
	loops, arms int       // how many there are
	of          [][]int32 // by block: the loops that it is in, then its arm, counted on from the loops
}

// nest finds the loops of f, and the arms that heads begin. The loops that one block begins are one.
func (f *flow) nest(heads []int32) *nest {
	if len(heads) == 0 && !f.turns() {
		return &nest{of: make([][]int32, f.blocks)}
	}
	next, in := make([][]int, f.blocks), make([][]int32, f.blocks)
	for b := range f.blocks {
		for _, o := range f.outsOf(b) {
			if o.to != leave {
				next[b] = append(next[b], int(o.to))
				in[o.to] = append(in[o.to], int32(b))
			}
		}
	}
	entries := make([]int, len(f.entries))
	for i, b := range f.entries {
		entries[i] = int(b)
	}
	dom := image.Dominators(next, entries)
	n := &nest{of: make([][]int32, f.blocks)}
	last := make([]int, f.blocks) // by block: the loop that it was last put into, from 1 on
	var work []int32
	for h := range f.blocks {
		work = work[:0]
		for _, b := range in[h] {
			if dom.Dominates(h, int(b)) {
				work = append(work, b)
			}
		}
		if len(work) == 0 {
			continue
		}
		id := int32(n.loops)
		n.loops++
		last[h] = n.loops
		n.of[h] = append(n.of[h], id)
		for len(work) > 0 {
			b := work[len(work)-1]
			work = work[:len(work)-1]
			if last[b] == n.loops {
				continue
			}
			last[b] = n.loops
			n.of[b] = append(n.of[b], id)
			work = append(work, in[b]...)
		}
	}
	arm := make([]int32, f.blocks+1) // from 1 on
	for _, h := range heads {
		n.arms++
		arm[h] = int32(n.arms)
	}
	for _, b := range dom.Order {
		if arm[b] == 0 {
			arm[b] = arm[dom.Idom[b]]
		}
		if arm[b] > 0 {
			n.of[b] = append(n.of[b], int32(n.loops)+arm[b]-1)
		}
	}
	return n
}

// turns reports whether an out-edge leads back, without which there is no loop.
func (f *flow) turns() bool {
	for b := range f.blocks {
		for _, o := range f.outsOf(b) {
			if o.to != leave && int(o.to) <= b {
				return true
			}
		}
	}
	return false
}

// draw returns an error for each loop, of standard deviation loop, and for each arm.
func (n *nest) draw(rng *rand.Rand, loop, arm float64) []float64 {
	if n == nil {
		return nil
	}
	errs := make([]float64, n.loops+n.arms)
	for i := range errs {
		errs[i] = rng.NormFloat64()
	}
	scale(loop, errs[:n.loops])
	scale(arm, errs[n.loops:])
	return errs
}

// armsOf returns the blocks of p, of flow f, that control comes to from elsewhere, beside where p begins: by an indirect
// jump, be its targets known or not.
func armsOf(p *image.Proc, f *flow) []int32 {
	heads := slices.Clone(f.entries[1:])
	for b := range p.Blocks {
		if slices.ContainsFunc(p.Blocks[b].In, func(e int) bool { return p.Edges[e].Kind == image.Indirect }) {
			heads = append(heads, int32(b))
		}
	}
	slices.Sort(heads)
	return slices.Compact(heads)
}
