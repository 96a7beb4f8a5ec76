package trace

import (
	"slices"
	"testing"

	"backfeed/sample"
)

// sequence is a loop that counts by no step: each turn adds rax to rbx, rbx to rax, and a word of memory to rcx, which it sets to rax.
func sequence() (*Code, Space) {
	return program(
		reg(X86Add, rbx, rax, modifies),            // 0
		reg(X86Add, rax, rbx, modifies),            // 1
		mem(X86Add, rcx, X86Mem, rdi, 0, modifies), // 2
		mem(X86Mov, X86Mem, rax, rdi, 0, moves),    // 3
		to(Jump, 0, 0),                             // 4
	)
}

// TestPursuer: what a thread ran from one moment to the next is counted as far as it came where emulation does, and not at all where
// it may have been in the same state before.
func TestPursuer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		steps  []int // from one moment to the next
		change func(moments []*Moment)
		most   int
		want   []int
	}{
		{"all", []int{137, 2000}, nil, 1e6, []int{137, 2000}},
		{"one turn", []int{5}, nil, 1e6, []int{5}},
		{"in as many instructions", []int{137, 2000}, nil, 2137, []int{137, 2000}},
		{"not in fewer", []int{137, 2000}, nil, 2136, []int{137}},
		{"another register", []int{137, 2000}, func(m []*Moment) { m[2].State.Regs[rdx]++ }, 1e5, []int{137}},
		{"another byte of memory", []int{137, 2000}, func(m []*Moment) { m[2].pages[1][77]++ }, 1e5, []int{137}},
		{"another byte of a page that it left alone", []int{137, 2000}, func(m []*Moment) { m[2].pages[3][77]++ }, 1e5, []int{137}},
		{"a page that is not known", []int{137, 2000}, func(m []*Moment) {
			for _, at := range m {
				delete(at.pages, 1)
			}
		}, 1e5, []int{137, 2000}},
		{"outside of the code", []int{137, 2000}, func(m []*Moment) { m[1].State.PC += 0x100000 }, 1e5, nil},
	} {
		code, space := sequence()
		st, memory := start(10)
		st.Regs[rax], st.Regs[rbx], st.Regs[rdi] = 1, 1, 0x1008
		pages := []uint64{1, 2, 3}
		var mem Memory = memory
		moments := []*Moment{NewMoment(st, pages, mem)}
		for _, steps := range tt.steps {
			st, mem = later(t, code, st, space, mem, steps)
			moments = append(moments, NewMoment(st, pages, mem))
		}
		if tt.change != nil {
			tt.change(moments)
		}
		if got := NewPursuer(code).Count(moments, space, tt.most); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d instructions, want %d", tt.name, got, tt.want)
		}
	}

	// A thread that waits for others is where it was again and again.
	code, space := program(
		imm(X86Xor, rax, 5, modifies), // 0
		to(Jump, 0, 0),                // 1
	)
	st, memory := start(1)
	first := NewMoment(st, []uint64{1}, memory)
	st, mem := later(t, code, st, space, memory, 401)
	if got := NewPursuer(code).Count([]*Moment{first, NewMoment(st, []uint64{1}, mem)}, space, 1e6); got != nil {
		t.Errorf("of a loop that comes to the same state: %d instructions", got)
	}
}

// TestTouchedPages: a walk is pursued over the pages that it touched and those beside them, if they are few.
func TestTouchedPages(t *testing.T) {
	code, space := sequence()
	st, memory := start(10)
	st.Regs[rdi] = 0x2ffc // across two pages
	m := NewMachine(code)
	l, err := m.Run(st, space, memory, Limits{Steps: 100})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.TouchedPages(4), []uint64{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("pages %d, want %d", got, want)
	}
	if got := l.TouchedPages(3); got != nil {
		t.Errorf("pages %d, want none, as they are more than 3", got)
	}
}

// TestPursued: where no loop counts, walks that were pursued tell how often code runs, and stand for those that were skipped; not where most
// were pursued in vain, nor where turns tell.
func TestPursued(t *testing.T) {
	code, space := program(
		imm(X86Add, rax, 1, modifies), // 0: four instructions a turn
		imm(X86Add, rax, 1, modifies), // 1
		imm(X86Add, rax, 1, modifies), // 2
		to(Jump, 0, 0),                // 3
	)
	for i := range code.at {
		code.at[i].proc = linked
	}
	code.ids[0].Path = "/loops"
	m := NewMachine(code)
	const vain = 0
	for _, tt := range []struct {
		name    string
		turns   []float64 // speeds of walks, of 20
		pursued []float64
		want    float64 // instructions per ns
		sd      float64 // of runs, relative to them, at most
	}{
		{"pursued", nil, []float64{2, 2, 2, 2}, 2, 0.1},
		{"of different speeds", nil, []float64{1, 3, 1, 3}, 2, 0.5},
		{"half in vain", nil, []float64{2, vain, 2, vain, 2, vain}, 2, 0.5},
		{"mostly in vain", nil, []float64{2, 2, vain, vain, vain, vain, vain, vain}, 0, 0},
		{"once", nil, []float64{2}, 0, 0},
		{"turns tell", []float64{4, 4, 4, 4, 4, 4, 4, 4}, []float64{2, 2, 2, 2}, 4, 0.6},
		{"turns do not", []float64{2, 2}, []float64{2, 2, 2, 2}, 2, 0.1},
	} {
		var w Walks
		for k := range 20 {
			l, err := m.Run(&State{PC: linked + bias}, space, flat{}, Limits{Steps: 4000})
			if err != nil {
				t.Fatal(err)
			}
			walk := w.AddLong(l, 0)
			switch n := len(tt.turns); {
			case k < n:
				w.Time(walk, tt.turns[k], ByTurns)
			case k < n+len(tt.pursued):
				w.Time(walk, tt.pursued[k-n], ByPursuit)
			default:
				w.Time(walk, 0, Skipped)
			}
		}
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns", Period: 1e6})
		c.Weight = 1000e6
		c.AddSample(c.Image(sample.ImageID{Path: "/loops"}), 0x1000, 1000)
		w.AddTo(c, nil)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		p := c.Images[0].Probed[0x100c]
		want := 1000e6 * tt.want / 4
		if got := float64(p.Runs); got < 0.95*want || got > 1.05*want || (p.Covered > 0) != (want > 0) {
			t.Errorf("%s: %+v, want %g runs", tt.name, p, want)
		}
		if v := p.Variance.Float64(); v > sq(tt.sd*want) || want > 0 && v < sq(0.01*want) {
			t.Errorf("%s: variance %g, want at most %g", tt.name, v, sq(tt.sd*want))
		}
	}
}
