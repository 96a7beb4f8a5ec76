package layout

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"backfeed/infer/image"
)

// What Settle tries: rounds of a few orders each, of which the best is kept if it is better.
const (
	settleLegs   = 8 // of the trail that orders are tried on
	settleRounds = 120
	settleEach   = 4  // orders of a round
	settleStuck  = 30 // rounds without a gain, after which there are no more
	settleShare  = 0.999
)

// Settle moves procedures of the order, one at a time, where a run drawn from the counts then misses fewer
// lines in the instruction cache, and no more pages hold 99 % of the execution. Those move that take
// nearly all of the execution, the more often the more of their lines are missing. progress is as for
// FunctionsProgress.
func (o *Order) Settle(progress func(done, total int)) {
	hot := o.hottest(settleShare)
	if hot < 2 || o.fitting(o.Whole()) {
		return
	}
	s := &settler{Order: o, trail: o.trail(1, settleLegs), rng: rand.New(rand.NewPCG(2, 1)), pages: o.After.Pages.For99}
	best := s.try(o.order)
	for round, stuck := 0, 0; round < settleRounds && stuck < settleStuck && best.misses > 0; round++ {
		if progress != nil {
			progress(round, settleRounds)
		}
		next := s.round(best, hot)
		if stuck++; next != nil {
			best, stuck = next, 0
		}
	}
	if progress != nil {
		progress(settleRounds, settleRounds)
	}
	o.arrange(best.order)
}

// A settler tries orders.
type settler struct {
	*Order
	trail *trail
	rng   *rand.Rand
	pages int // for 99 % of the execution, at most
}

// A tried is an order, what it misses of 1000 instructions, and how many lines of each procedure.
type tried struct {
	order  []int
	misses float64
	lines  []float64
}

// try counts what an order misses.
func (s *settler) try(order []int) *tried {
	t := &tried{order: order, lines: make([]float64, len(s.procs))}
	at := s.starts(order)
	t.misses, _ = mean(s.trail.missesAt(firstLevel, func(proc, block int32) image.Addr {
		blocks := s.procs[proc].Proc.Blocks
		return at[proc] + blocks[block].Start - blocks[0].Start
	}, t.lines))
	return t
}

// round moves a procedure among the first hot ones, in several ways, and returns the best; nil if none is better.
func (s *settler) round(best *tried, hot int) *tried {
	next := make([]*tried, settleEach)
	var wg sync.WaitGroup
	for k := range next {
		from, to := heaviest(best.order[:hot], best.lines, s.rng), s.rng.IntN(hot)
		order := slices.Delete(slices.Clone(best.order), from, from+1)
		order = slices.Insert(order, to, best.order[from])
		wg.Go(func() { next[k] = s.try(order) })
	}
	wg.Wait()
	slices.SortStableFunc(next, func(a, b *tried) int { return cmp.Compare(a.misses, b.misses) })
	for _, t := range next {
		if t.misses < best.misses && coverage(s.whole(t.order).Pieces(), pageSize).For99 <= s.pages {
			return t
		}
	}
	return nil
}

// heaviest draws an index of order by the weights of what is there.
func heaviest(order []int, weight []float64, rng *rand.Rand) int {
	var sum float64
	for _, i := range order {
		sum += weight[i]
	}
	x := rng.Float64() * sum
	for k, i := range order {
		if x -= weight[i]; x < 0 {
			return k
		}
	}
	return len(order) - 1
}

// starts returns where the procedures of o begin in an order, as whole places them.
func (o *Order) starts(order []int) []image.Addr {
	at, starts := o.base, make([]image.Addr, len(o.procs))
	for _, i := range order {
		at = (at + procAlign - 1) / procAlign * procAlign
		starts[i] = at
		var end image.Addr
		blocks := o.procs[i].Proc.Blocks
		for b := range blocks {
			end = max(end, blocks[b].End-blocks[0].Start)
		}
		at += end
	}
	return starts
}

// hottest returns how many of the first procedures of the order take a share of the executed instructions.
func (o *Order) hottest(share float64) int {
	var all, sum float64
	for _, r := range o.procs {
		all += instructions(r)
	}
	for n, i := range o.order {
		if sum += instructions(o.procs[i]); sum >= share*all {
			return n + 1
		}
	}
	return len(o.order)
}

// A Gain is what an order does for a program.
type Gain struct {
	Pages, PagesLinked   int     // that hold 99 % of the execution
	Misses, MissesLinked float64 // lines missed in the instruction cache, of 1000 instructions of a run that is drawn from the counts
	Error                float64 // of the difference of the misses: twice its standard error, by how much parts of that run differ
}

// missesFactor is within what factor of Misses / MissesLinked that of a program itself was in 14 of 16 orders that callgrind counted
// (testdata/layout/README.md): a drawn run has other phases, and few lines in each other's way make the most of the misses.
const missesFactor = 2.6

// Gain compares the order, as linkers lay it out, with the image as it is linked, by a run that no order
// was tried on.
func (o *Order) Gain() Gain {
	g := Gain{Pages: o.After.Pages.For99, PagesLinked: o.Before.Pages.For99}
	linked, ordered := o.misses(o.Linked()), o.misses(o.Whole())
	difference := make([]float64, len(linked))
	for i := range linked {
		difference[i] = ordered[i] - linked[i]
	}
	g.MissesLinked, _ = mean(linked)
	g.Misses, _ = mean(ordered)
	_, se := mean(difference)
	g.Error = 2 * se
	return g
}

// Clear reports whether the order is clearly better in pages or misses, and Worse in neither.
func (g Gain) Clear() bool {
	return !g.Worse() && (g.Pages < g.PagesLinked || g.Fewer())
}

// Times is how many times as many lines as in the image as it is linked are missed in the order: in the run that is drawn, and in the program at least and at most.
func (g Gain) Times() (drawn, least, most float64) {
	drawn = g.Misses / g.MissesLinked
	return drawn, drawn / missesFactor, drawn * missesFactor
}

// Fewer reports whether the program, and not only the run that is drawn, clearly misses fewer lines.
func (g Gain) Fewer() bool { return missesFactor*g.Misses+g.Error < g.MissesLinked }

// Worse reports whether the order is worse than the image as it is linked, in pages, or in misses of the run that is drawn by more than chance.
func (g Gain) Worse() bool {
	return g.Pages > g.PagesLinked || g.Misses-g.MissesLinked > g.Error
}

// mean returns the mean of x and its standard error.
func mean(x []float64) (m, se float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	for _, v := range x {
		se += (v - m) * (v - m)
	}
	return m, math.Sqrt(se / float64(max(1, len(x)*(len(x)-1))))
}
