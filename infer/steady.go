package infer

import (
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// A loop of one block that touches no memory, calls nothing and is left seldom has nothing to wait for: each turn takes
// what the machine model has at least. Of nine such loops with 30 samples or more, of constructed programs on Cascade Lake,
// eight took 1.02 to 1.11 of that, and the ninth, which is left after few turns, 1.66 (TestSteadyTimes). So its samples tell how often
// it ran, however long the rest of the program waits.
//
// Where two processors of a machine share a core, what keeps its units busy takes up to twice as long beside another program:
// in another recording, the loop of one cycle took 2.1.
const (
	steadySD       = 0.15 // of the logarithm of what a turn takes
	steadySharedSD = 0.45 // likewise, of a loop that keeps units busy, around so many times what the model has:
	steadyShared   = 1.2
	steadyDivideSD = 0.35 // likewise, of one that divides, as tables of latencies hardly agree on that
	steadyClockSD  = 0.25 // beside these, where the clock is not known
	steadyMost     = 0.5  // a standard deviation with which it tells no more than other loops
	steadyFew      = 3    // samples that a block may have missed
)

// waitsFor is what instructions do that may take longer than their latency.
const waitsFor = image.Load | image.Store | image.Push | image.DirCall | image.IndCall | image.IndJump | image.Ret | image.Trap |
	image.Locked | image.Rep | image.System | image.Bad

// steady tells the problems of prof of the loops that wait for nothing.
func (pr *posed) steady(prof *Profile, model *machine.Model) {
	period := prof.cyclesApart()
	clock := 0.0
	if _, measured := prof.Clock(); prof.Event.Unit == "ns" && !measured {
		clock = steadyClockSD
	}
	for _, ip := range prof.Images {
		parallel(len(ip.Procs), func(i int) {
			if q := pr.of[ip.Procs[i]]; q != nil && !q.quiet {
				q.steady(ip.Image, model, period, clock)
			}
		})
	}
}

// steady has the executions of q's steady loops known, unless something else tells them as surely, and their cost what they take.
func (q *problem) steady(im *image.Image, model *machine.Model, period, clock float64) {
	perCycle := q.par.counts() / period // samples
	for b := range q.p.Blocks {
		blk := &q.p.Blocks[b]
		if q.samples[b] < fewSamples || !q.p.Loops(b) {
			continue
		}
		least, sd := steadyTurn(im, model, blk)
		if least == 0 {
			continue
		}
		// At most so often it is entered, each of which may end in a misprediction.
		entries := 0.0
		for _, e := range blk.In {
			if from := q.p.Edges[e].From; from != b {
				entries += (q.samples[from] + steadyFew) / max(1, model.Cycles(im, &q.p.Blocks[from]))
			}
		}
		missed := math.Log1p(entries * float64(model.Mispredict) / q.samples[b])
		sd = math.Sqrt(sd*sd + clock*clock + missed*missed + 1/q.samples[b])
		is := func(o observation) bool { return o.of == 0 && o.out < 0 && o.block == int32(b) }
		if sd > steadyMost || slices.ContainsFunc(q.known, func(o observation) bool { return is(o) && o.sd <= sd }) {
			continue
		}
		q.known = slices.DeleteFunc(q.known, is)
		q.cost[b] = perCycle * least
		q.known = append(q.known, observation{block: int32(b), out: -1, logN: math.Log(q.samples[b] / q.cost[b]),
			sd: sd, real: true, steady: true, common: sd})
	}
}

// waitless reports whether q has a steady loop, whose samples tell how often it runs whatever others wait for.
func (q *problem) waitless() bool {
	return slices.ContainsFunc(q.known, func(o observation) bool { return o.steady })
}

// steadyTurn returns the cycles that a turn of blk takes, a loop by itself, and the standard deviation of their logarithm; 0 if it may
// wait for something.
func steadyTurn(im *image.Image, model *machine.Model, blk *image.Block) (cycles, sd float64) {
	insts, ops := im.AppendOperands(nil, nil, blk)
	sd = steadySD
	for _, in := range insts {
		if in.Class&waitsFor != 0 {
			return 0, 0
		}
		if in.Class&image.Div != 0 {
			sd = steadyDivideSD
		}
	}
	s := model.ScheduleOf(insts, ops, blk)
	if 2*float64(s.Uops) > s.Cycles*float64(model.Width.Dispatch) {
		return steadyShared * s.Cycles, max(sd, steadySharedSD)
	}
	return s.Cycles, sd
}
