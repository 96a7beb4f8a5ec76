package machine

import (
	"math"
	"math/bits"
)

func trailing(v uint64) int { return bits.TrailingZeros64(v) }

// bound gives the least time per execution where executions overlap: the largest
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
	more(p.path()-hidden, Dependency, "")
}

// units gives the time that the busiest units need: of every set of units, the
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
	n := 0
	for i := range named {
		if load[i] > 0 {
			used[n] = i
			n++
		}
	}
	for i := range p.m.unitSets {
		set, sum := &p.m.unitSets[i], 0.0
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

// chain gives the time per execution that dependencies from one execution to the
// next allow: the growth of start times where nothing else holds anything up.
func (p *plan) chain() float64 {
	now, before := make([]float64, len(p.steps)), make([]float64, len(p.steps))
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

// path gives the length of the longest chain of dependencies in one execution,
// up to its last result.
func (p *plan) path() float64 {
	at := make([]float64, len(p.steps))
	p.start(at, nil, false)
	end := 0.0
	for i, t := range at {
		end = max(end, t+p.steps[i].latency)
	}
	return end
}

// start gives when each step can start by its dependencies alone.
func (p *plan) start(now, before []float64, carried bool) {
	for i := range p.steps {
		t := 0.0
		for _, d := range p.of(i) {
			switch {
			case !d.carried:
				t = max(t, now[d.on]+d.wait)
			case carried:
				t = max(t, before[d.on]+d.wait)
			}
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
// Twelve make whole cycles of most fractions.
const (
	warmUp  = 6
	counted = 12
)

// retire shares the time of the block out to the instructions that hold up
// retirement while executions follow each other every s.Cycles cycles.
//
// An instruction is dispatched as the width allows, starts when its operands are
// there, and retires in order, no more than a width of them in one cycle.
func (p *plan) retire(s *Schedule) {
	n := len(p.steps)
	at, before := make([]float64, n), make([]float64, n)
	clock, room := 0.0, 0 // of retirement: the cycle, and micro-operations that still fit in it
	waits := make([]int, n)
	total := 0.0
	for r := range warmUp + counted {
		at, before = before, at
		uops := 0
		for i := range p.steps {
			step := &p.steps[i]
			start, on := math.Floor(float64(r)*s.Cycles+float64(uops)/float64(p.m.Width.Dispatch)+1e-9), -1
			for _, d := range p.of(i) {
				t := at[d.on]
				if d.carried {
					if r == 0 {
						continue
					}
					t = before[d.on]
				}
				if t += d.wait; t > start+1e-9 || t > start-1e-9 && s.Bound == Dependency {
					start, on = max(t, start), d.on
				}
			}
			at[i] = start
			uops += step.uops
			last := clock
			done := math.Ceil(start + step.latency - 1e-9)
			late := done > clock
			if late {
				clock, room = done, p.m.Width.Retire
			}
			if room < step.uops {
				clock++
				room = p.m.Width.Retire
				late = false
			}
			room -= min(room, step.uops)
			if r < warmUp {
				continue
			}
			s.Insts[i].Least += clock - last
			total += clock - last
			if late && on >= 0 {
				waits[i]++
				s.Insts[i].On = on
			}
		}
	}
	p.explain(s, waits, total)
}

// explain scales the times to the time of the block and says what they come from.
func (p *plan) explain(s *Schedule, waits []int, total float64) {
	for i := range s.Insts {
		in := &s.Insts[i]
		switch {
		case in.Least == 0 || total == 0:
			in.Why, in.On = Together, 0
		case 2*waits[i] > counted:
			in.Why = Dependency
		default:
			if in.Why, in.Unit, in.On = s.Bound, s.Unit, 0; s.Bound == Dependency {
				in.Why = Dispatch
			}
		}
		if total > 0 {
			in.Least *= s.Cycles / total
		}
	}
}
