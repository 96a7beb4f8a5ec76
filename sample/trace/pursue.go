package trace

import (
	"bytes"
	"slices"
)

// What counts by no step, as recursion does, a machine counts that goes the same way: from the state of a thread at one stop,
// it runs, over memory as it was then, until registers and memory are those of the next stop. It does so when the thread has
// long gone on, so that nothing stands for it.

// A Moment is the state of a thread at a stop, with the memory that it works on.
type Moment struct {
	State State
	pages map[uint64][]byte // by number
}

// NewMoment returns that of a thread in state st; mem is asked for the pages with these numbers.
func NewMoment(st *State, pages []uint64, mem Memory) *Moment {
	m := &Moment{State: *st, pages: make(map[uint64][]byte, len(pages))}
	all := make([]byte, len(pages)*pageSize)
	for i, n := range pages {
		if p := all[i*pageSize:][:pageSize]; mem.Read(n*pageSize, p) {
			m.pages[n] = p
		}
	}
	return m
}

// Read is that of a Memory which has these pages alone.
func (m *Moment) Read(addr uint64, p []byte) bool {
	from := m.pages[addr/pageSize]
	return from != nil && copy(p, from) == len(p)
}

// TouchedPages returns the numbers of the pages that a walk read or wrote, and of those beside them, which stacks and buffers soon
// reach; nil if they are more than most.
func (l *Long) TouchedPages(most int) (pages []uint64) {
	if l.Pages > most {
		return nil
	}
	for n := range l.m.x86.table {
		pages = append(pages, n-1, n, n+1)
	}
	slices.Sort(pages)
	if pages = slices.Compact(pages); len(pages) > most {
		return nil
	}
	return pages
}

// A Pursuer counts the instructions of a thread from one moment to the next. It is used by one goroutine at a time.
type Pursuer struct{ m *Machine }

// NewPursuer makes one of the code that walks go through.
func NewPursuer(code *Code) *Pursuer { return &Pursuer{NewMachine(code)} }

// recursWithin is within how many instructions a state must not recur: of a thread that waits in a loop for others, it does,
// and how often it went round is not to be told.
const recursWithin = 10_000

// Count returns how many instructions a thread ran between each moment and the next, up to the last one that was reached within so many
// instructions in all.
func (p *Pursuer) Count(moments []*Moment, space Space, most int) (counts []int) {
	if _, err := p.m.Start(&moments[0].State, space, moments[0], Limits{}); err != nil {
		return nil
	}
	for i, to := range moments[1:] {
		x := &p.m.x86
		at := *x
		if !at.enter(space, to.State.PC) {
			break
		}
		before := p.m.long.Steps
		if !p.reach(moments[0], to, at.pc, most-before) {
			break
		}
		counts = append(counts, p.m.long.Steps-before)
		if i+2 == len(moments) && p.reach(moments[0], to, at.pc, recursWithin) {
			return nil
		}
	}
	return counts
}

// reach emulates up to so many instructions more, until the thread is as at a moment.
func (p *Pursuer) reach(from, to *Moment, op uint32, most int) bool {
	m := p.m
	defer func() { m.x86.pause = 0 }()
	m.x86.pause = op
	for most > 0 && m.x86.end == EndLength {
		m.branches = m.branches[:0]
		ran := m.x86.steps(m, min(most, betweenLate))
		m.long.Steps += ran
		most -= ran
		if m.x86.end == EndLength && m.x86.pc == op && m.x86.is(from, to) {
			return true
		}
	}
	return false
}

// is reports whether registers and memory are those of a moment, as far as they are known; pages that were not read are as they were.
func (x *machineX86) is(from, to *Moment) bool {
	st := &to.State
	for r, v := range x.regs {
		if v != st.Regs[r] && x.known>>r&1 != 0 {
			return false
		}
	}
	for r := range x.v {
		for w := range int(st.Words) {
			if x.v[r][w] != st.Vectors[r][w] && x.vk[r]>>w&1 != 0 {
				return false
			}
		}
	}
	for n, want := range to.pages {
		p := x.table[n]
		switch {
		case p == nil:
			if is := from.pages[n]; is != nil && !bytes.Equal(is, want) {
				return false
			}
		case p.unknown == nil:
			if !bytes.Equal(p.data[:], want) {
				return false
			}
		default:
			for i, b := range want {
				if p.data[i] != b && p.unknown[i/64]>>(i%64)&1 == 0 {
					return false
				}
			}
		}
	}
	return true
}
