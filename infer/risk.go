package infer

import (
	"slices"

	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// What one execution may take is not in its instructions alone. A risk is the most cycles that a block
// may wait beside what its instructions take, for one of three reasons that its code shows:
//
//   - it is a side of a branch that goes either way, and is waited for where the processor guessed wrong;
//   - it follows an indirect jump, and is waited for where the processor predicted another target: the
//     bytecodes of an interpreter take ten cycles each, or one;
//   - it loads from an address that it loaded before, as what follows pointers does: nothing can be
//     fetched ahead, and each step takes as long as the memory that it reaches.
//
// Samples of time do not show which of them wait. So risks change no count, but make counts less
// sure: disturbed searches take such a block to wait anything between nothing and all of it. What the sides of
// branches wait for in the median is in the counts, see params.missed.

// memoryCycles is what a load from memory takes at most: 100 ns and some, at 3 GHz.
const memoryCycles = 400

// risk finds the risks of all problems.
func (pr *posed) risk(prof *Profile, model *machine.Model) {
	perCycle := pr.par.counts() / prof.cyclesApart() // samples
	for _, ip := range prof.Images {
		parallel(len(ip.Procs), func(i int) {
			r := ip.Procs[i]
			q := pr.of[r]
			if q == nil || prof.tell(r.Samples) < fewSamples {
				return
			}
			q.mayMiss(float64(model.Mispredict) * perCycle)
			if cycles := riskOf(ip.Image, r.Proc, model, r.BlockSamples); cycles != nil {
				q.risk = make([]float64, len(q.cost)) // dispatches take no time, and risk none
				for b, most := range cycles {
					if most > 0 {
						q.risk[b] = most * perCycle / q.cost[b]
					}
				}
			}
		})
	}
}

// riskOf returns the risk of each block of p, in cycles; nil if there is none.
func riskOf(im *image.Image, p *image.Proc, m *machine.Model, samples []uint64) (risk []float64) {
	var insts []image.Inst
	var ops []image.Operands
	for b := range p.Blocks {
		blk := &p.Blocks[b]
		if samples[b] == 0 {
			continue // it has not waited
		}
		var most float64
		for _, e := range blk.In {
			if p.Dispatches(p.Edges[e].From) {
				most = float64(m.Mispredict)
			}
		}
		if loops(p, b) {
			insts, ops = im.AppendOperands(insts[:0], ops[:0], blk)
			if followsPointers(insts, ops) {
				most += memoryCycles
			}
		}
		if most > 0 {
			if risk == nil {
				risk = make([]float64, len(p.Blocks))
			}
			risk[b] = most
		}
	}
	return risk
}

// loops reports whether block b of p leads to itself.
func loops(p *image.Proc, b int) bool {
	return slices.ContainsFunc(p.Blocks[b].Out, func(e int) bool { return p.Edges[e].To == b })
}

// followsPointers reports whether a block loads from an address that is loaded in it: before, or the time
// before, if it is a loop.
func followsPointers(insts []image.Inst, ops []image.Operands) bool {
	var loaded image.RegSet
	for range 2 { // the second time, what the end of the block left
		for i := range insts {
			o := &ops[i]
			load := insts[i].Class&image.Load != 0
			if load && (o.Address.General&loaded.General != 0) {
				return true
			}
			from := o.Reads.General & loaded.General // what is made from a pointer points, too
			loaded.General &^= o.Writes.General
			if load && o.Op == image.OpNone || from != 0 && insts[i].Class&image.Load == 0 {
				loaded.General |= o.Writes.General
			}
		}
	}
	return false
}

// guessed returns risk with what conditional branches add, by the odds of the present state: where both sides run
// often, the processor may guess wrong as often as the rarer one runs, and either side waits for that.
func (q *problem) guessed(risk []float64) []float64 {
	if q.mispredict == 0 {
		return risk
	}
	all := make([]float64, len(q.n))
	copy(all, risk)
	for _, b := range q.branch {
		lo := q.flow.first[b]
		if q.flow.first[b+1] != lo+2 {
			continue
		}
		rarer := 2 * min(q.prob[lo], q.prob[lo+1])
		for w := lo; w < lo+2; w++ {
			if to := q.flow.outs[w].to; to != leave && q.cost[to] > 0 {
				of := min(1, q.n[b]*q.prob[w]/max(q.n[to], 1e-100)) // of the executions of that side
				all[to] += rarer * of * q.mispredict / q.cost[to]
			}
		}
	}
	return all
}

// waiting adds to the logarithm of a cost what a risk of so many times that cost adds to it, of which a
// part has come true.
func waiting(noise, risk, part float64) float64 {
	return fastLog(fastExp(clamp(noise, -700, 700)) + risk*part)
}
