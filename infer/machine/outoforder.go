package machine

import (
	"math"
	"slices"

	"backfeed/infer/image"
)

// bound returns the least time per execution where executions overlap: the largest
// of what dispatch, fetch, each group of units, and dependencies allow.
func (p *plan) bound(s *Schedule) {
	uops, insts := 0, 0
	for i := range p.steps {
		uops += p.steps[i].uops
		if !p.steps[i].fused {
			insts++
		}
	}
	w := &p.m.Width
	s.Cycles = max(float64(uops)/float64(min(w.Dispatch, w.Retire)), float64(insts)/float64(w.Decode))
	s.Bound = Dispatch
	more := func(c float64, w Why, unit string) {
		if c > s.Cycles+1e-9 {
			s.Cycles, s.Bound, s.Unit = c, w, unit
		}
	}
	c, unit := p.units()
	more(c, Unit, unit)
	if p.loop {
		more(p.chain(), Dependency, "")
		return
	}
	// Loops run from what was decoded before. Elsewhere code has to be fetched.
	more(float64(p.bytes)/float64(w.Fetch), Fetch, "")
	// What is in flight besides hides a chain of dependencies as long as it lasts.
	hidden := float64(p.m.ROB) / float64(w.Dispatch)
	if p.longest()-hidden > s.Cycles {
		more(p.path()-hidden, Dependency, "")
	}
}

// longest is what path does not exceed: the length of a chain of all steps.
func (p *plan) longest() (cycles float64) {
	for i := range p.steps {
		cycles += max(p.steps[i].latency, p.m.ops[image.OpALU].latency) + max(p.m.address, 0)
	}
	return cycles
}

// units returns the time that the busiest units need: of every set of units, the
// operations that can go nowhere else, shared out evenly.
func (p *plan) units() (cycles float64, unit string) {
	var load [2 * maxUnits]float64
	for i := range p.steps {
		for _, uses := range [...][]pressure{p.steps[i].uses, p.steps[i].mem, p.steps[i].store} {
			for _, u := range uses {
				load[u.set] += u.cycles
			}
		}
	}
	named := len(p.m.unitSets) - p.m.unionSets
	var used [2 * maxUnits]int
	n, all := 0, 0.0
	for i := range named {
		if load[i] > 0 {
			used[n] = i
			n++
			all += load[i]
		}
	}
	for i := range p.m.unitSets {
		set, sum := &p.m.unitSets[i], 0.0
		if all/float64(set.n) <= cycles+1e-9 {
			continue // even if nothing could go elsewhere
		}
		for _, j := range used[:n] {
			if p.m.unitSets[j].units&^set.units == 0 {
				sum += load[j]
			}
		}
		if c := sum / float64(set.n); c > cycles+1e-9 {
			cycles, unit = c, set.name
		}
	}
	return cycles, unit
}

// rounds are the executions that chain runs: half of them to get into step. A
// chain through more executions than the other half is cut short.
const rounds = 8

// chain returns the time per execution that dependencies from one execution to the
// next allow: the growth of start times where nothing else holds anything up.
func (p *plan) chain() float64 {
	p.link()
	now, before := p.now, p.before
	half := 0.0
	for r := range rounds {
		now, before = before, now
		p.start(now, before, r > 0)
		if r == rounds/2-1 {
			half = latest(now)
		}
	}
	return (latest(now) - half) / (rounds / 2)
}

// path returns the length of the longest chain of dependencies in one execution,
// up to its last result.
func (p *plan) path() float64 {
	p.link()
	p.start(p.now, nil, false)
	end := 0.0
	for i, t := range p.now {
		end = max(end, t+p.steps[i].latency)
	}
	return end
}

// start returns when each step can start by its dependencies alone.
func (p *plan) start(now, before []float64, carried bool) {
	for i := range p.steps {
		t := 0.0
		for _, d := range p.of(i) {
			t = max(t, d.over(now, before, carried))
		}
		now[i] = t
	}
}

func latest(at []float64) float64 {
	t := 0.0
	for _, a := range at {
		t = max(t, a)
	}
	return t
}

// Executions that retire runs: the first ones get into step, the others count.
// Twenty-four make whole cycles of most fractions, and all phases of 4, 6 or 8 places.
const (
	warmUp  = 8
	counted = 24
)

// retire shares the time of the block out to the instructions that hold up
// retirement while executions follow each other every s.Cycles cycles.
//
// An instruction is dispatched as the width allows, starts when its operands are
// there, and retires in order, no more than a width of them in one cycle. Where the
// block is no loop, other code runs between its executions, so much that the block
// begins at each place of a group equally often.
func (p *plan) retire(s *Schedule) { p.retireBy(s, p.period(s)) }

// retireBy is retire where the executions repeat after so many, if they stand the same then; 0 is unknown.
func (p *plan) retireBy(s *Schedule, period int) {
	p.link()
	n := len(p.steps)
	at, before := p.now, p.before
	p.on, p.waits = slices.Grow(p.on[:0], n)[:n], slices.Grow(p.waits[:0], n)[:n]
	on, waits := p.on, p.waits
	clear(on)
	clear(waits)
	q := retirement{width: p.m.Width.Retire}
	other := p.between()
	gap := float64(other) / float64(p.m.Width.Dispatch)
	total := 0.0
	var then standing // where it stood when the first execution that counts began
	for r := range warmUp + counted {
		if n := r - warmUp; n == 0 && period > 0 {
			then = standing{q, append(p.then[:0], at...)}
			p.then = then.at
		} else if n > 0 && n == period && then.is(&q, at, float64(period)*(s.Cycles+gap)) {
			// From here on all goes as it went since then: what was counted comes again and again.
			for i := range p.steps {
				s.Insts[i].Least *= float64(counted / period)
				waits[i] *= counted / period
			}
			total *= float64(counted / period)
			break
		}
		at, before = before, at
		begin := float64(r) * (s.Cycles + gap)
		p.pace(s, at, before, begin, r > 0, on)
		for i := range p.steps {
			wait, late := q.next(&p.steps[i], at[i])
			if r < warmUp {
				continue
			}
			s.Insts[i].Least += wait
			total += wait
			if late && on[i] >= 0 {
				waits[i]++
				s.Insts[i].On = on[i]
			}
		}
		for i := range other {
			q.next(&step{uops: 1, latency: 1}, math.Floor(begin+s.Cycles+float64(i)/float64(p.m.Width.Dispatch)))
		}
	}
	p.explain(s, waits, total)
}

// period is after how many executions they begin in the same part of a cycle again: 0 if it is not known, or arithmetic would not
// be exact.
func (p *plan) period(s *Schedule) int {
	p.link()
	const parts = 16
	cycles := s.Cycles + float64(p.between())/float64(p.m.Width.Dispatch)
	exact := func(x float64) bool { return x*parts == math.Floor(x*parts) && x < 1<<20 }
	if w := p.m.Width.Dispatch; w&(w-1) != 0 || w > parts || !exact(s.Cycles) || !exact(cycles) {
		return 0
	}
	for i := range p.steps {
		if !exact(p.steps[i].latency) {
			return 0
		}
	}
	for i := range p.deps {
		if !exact(p.deps[i].wait) {
			return 0
		}
	}
	for _, n := range [...]int{1, 2, 3, 4, 6, 8, 12} { // of what is counted
		if x := float64(n) * cycles; x == math.Floor(x) {
			return n
		}
	}
	return 0
}

// standing is where retirement stands, and when the steps of the execution before started.
type standing struct {
	retirement
	at []float64
}

// is reports whether q and at are where t was, so many cycles later.
func (t *standing) is(q *retirement, at []float64, later float64) bool {
	if q.clock != t.clock+later || q.room != t.room {
		return false
	}
	for i := range at {
		if at[i] != t.at[i]+later {
			return false
		}
	}
	return true
}

// between returns how many micro-operations of other code run between two executions
// of the block: none in a loop, else one group and what shifts the next begin by one.
func (p *plan) between() int {
	if p.loop {
		return 0
	}
	w, uops := p.m.Width.Dispatch, 0
	for i := range p.steps {
		uops += p.steps[i].uops
	}
	return 2*w + 1 - uops%w
}

// pace returns when each step of an execution starts whose dispatch begins at the time
// begin, and on what it waits for longer than for dispatch, -1 for nothing. Where dependencies set the pace of the
// block, dispatch keeps it, and both come at once.
func (p *plan) pace(s *Schedule, at, before []float64, begin float64, carried bool, on []int) {
	uops := 0
	for i := range p.steps {
		if p.steps[i].fused {
			at[i], on[i] = at[i-1], -1
			continue
		}
		at[i] = math.Floor(begin + float64(uops)/float64(p.m.Width.Dispatch) + 1e-9)
		on[i] = -1
		for _, d := range p.of(i) {
			if t := d.over(at, before, carried); t > at[i]+1e-9 || t > at[i]-1e-9 && s.Bound == Dependency {
				at[i], on[i] = max(t, at[i]), d.on
			}
		}
		uops += p.steps[i].uops
	}
}

// retirement is where retirement stands.
type retirement struct {
	width int
	clock float64
	room  int // micro-operations that still fit in this cycle
}

// next retires a step that started at the time start. It returns how much time that
// took, and whether that was because the step was not done.
func (q *retirement) next(step *step, start float64) (wait float64, late bool) {
	last := q.clock
	done := math.Ceil(start + max(step.latency, 1) - 1e-9)
	if late = done > q.clock; late {
		q.clock, q.room = done, q.width
	} else if q.room < step.uops {
		q.clock++
		q.room = q.width
	}
	q.room -= min(q.room, step.uops)
	return q.clock - last, late
}

// explain scales the times to the time of the block and says what they come from.
func (p *plan) explain(s *Schedule, waits []int, total float64) {
	if total == 0 { // never first of its group
		s.Insts[0].Least, total = s.Cycles, s.Cycles
	}
	for i := range s.Insts {
		in := &s.Insts[i]
		switch {
		case in.Least == 0:
			in.Why, in.On = Together, 0
		case 2*waits[i] > counted:
			in.Why = Dependency
		default:
			if in.Why, in.Unit, in.On = s.Bound, s.Unit, 0; s.Bound == Dependency {
				in.Why = Dispatch
			}
		}
		in.Least *= s.Cycles / total
	}
}
