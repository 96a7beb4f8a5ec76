package machine

import (
	"math"
	"math/bits"
)

// issuer is where an in-order processor stands: instructions issue in order, as
// many in a cycle as there are places and units.
type issuer struct {
	cycle float64
	room  int
	free  []float64 // when each unit can take the next operation
}

// issue returns the time each instruction is at the head of the queue: since the one
// before it issued, or one cycle for the first. A loop is issued until its
// executions are alike.
func (p *plan) issue(s *Schedule) {
	p.link()
	n := len(p.steps)
	q := &issuer{cycle: -1, free: make([]float64, len(p.m.units))}
	at, before := make([]float64, n), make([]float64, n)
	times := 1
	if p.loop {
		times = rounds
	}
	for r := range times {
		at, before = before, at
		s.Cycles = 0
		for i := range p.steps {
			slot := &s.Insts[i]
			last := q.cycle
			t, why, on := p.ready(i, at, before, r > 0, q)
			unit := -1
			if why, unit = q.place(p, i, t, why); why != Dependency {
				on = 0
			}
			at[i] = q.cycle
			slot.Least, slot.Why, slot.On, slot.Unit = q.cycle-last, why, on, ""
			if unit >= 0 {
				slot.Unit = p.m.unitSets[unit].name
			}
			s.Cycles += slot.Least
		}
	}
	for _, in := range s.Insts { // the reason that costs most
		if b := s.Bound; in.Why != Together && (b == Together || in.Why > Dispatch && b == Dispatch) {
			s.Bound, s.Unit = in.Why, in.Unit
		}
	}
}

// ready returns the first cycle in which step i has its operands.
func (p *plan) ready(i int, at, before []float64, carried bool, q *issuer) (t float64, why Why, on int) {
	t, why = q.cycle, Together
	if q.cycle < 0 {
		t, why = 0, Dispatch
	}
	for _, d := range p.of(i) {
		if r := math.Ceil(d.over(at, before, carried)); r > t {
			t, why, on = r, Dependency, d.on
		}
	}
	return t, why, on
}

// place issues step i, not before cycle t, which why explains. It returns the last
// reason there was to wait, and which units that was.
func (q *issuer) place(p *plan, i int, t float64, why Why) (Why, int) {
	step := &p.steps[i]
	unit := -1
	if t > q.cycle {
		q.cycle, q.room = t, p.m.Width.Dispatch
	} else if step.uops > q.room {
		q.cycle, q.room, why = q.cycle+1, p.m.Width.Dispatch, Dispatch
	}
	for _, uses := range [...][]pressure{step.uses, step.mem, step.store} {
		for _, u := range uses {
			if at := q.unit(p.m.unitSets[u.set].units, q.cycle, 0); at > q.cycle {
				q.cycle, q.room, why, unit = at, p.m.Width.Dispatch, Unit, u.set
			}
		}
	}
	for _, uses := range [...][]pressure{step.uses, step.mem, step.store} {
		for _, u := range uses {
			q.unit(p.m.unitSets[u.set].units, q.cycle, u.cycles)
		}
	}
	q.room -= min(q.room, step.uops)
	return why, unit
}

// unit finds the unit of a set that is free first, returns the first whole cycle at
// or after t in which it is, and takes it for so many cycles from then on.
func (q *issuer) unit(set uint64, t, cycles float64) float64 {
	best := -1
	for s := set; s != 0; s &= s - 1 {
		if u := bits.TrailingZeros64(s); best < 0 || q.free[u] < q.free[best] {
			best = u
		}
	}
	at := max(t, math.Ceil(q.free[best]-1e-9))
	if cycles > 0 {
		q.free[best] = at + cycles
	}
	return at
}
