package trace

import (
	"encoding/binary"
	"testing"

	"backfeed/sample"
)

// later returns the state of a walk after so many more steps.
func later(t *testing.T, code *Code, st *State, space Space, mem Memory, steps int) (*State, Memory) {
	t.Helper()
	m := NewMachine(code)
	l, err := m.Run(st, space, mem, Limits{Steps: steps})
	if err != nil || l.Steps != steps {
		t.Fatalf("%d steps, want %d: %v", l.Steps, steps, err)
	}
	now := *st
	m.State(&now)
	now.PC = l.Next
	return &now, changed{m, mem}
}

// changed is memory as a walk would have written it.
type changed struct {
	m    *Machine
	from Memory
}

func (c changed) Read(addr uint64, p []byte) bool {
	if !c.from.Read(addr, p) {
		return false
	}
	for i := 0; i < len(p); i += 8 {
		if v, known := c.m.Load(addr+uint64(i), 8); known {
			binary.LittleEndian.PutUint64(p[i:], v)
		}
	}
	return true
}

// TestTurns: what moves by the same step in each turn of a loop tells how many turns there were between two moments, wherever
// in a turn these are, and that of the outermost loop that goes on.
func TestTurns(t *testing.T) {
	sum, sumSpace := sums()
	// Loops of 3 turns in a loop that counts in memory alone: a register that the inner one begins anew goes nowhere.
	nest, nestSpace := program(
		imm(X86Mov, rdx, 3, moves),                          // 0: outer
		reg(X86Dec, rdx, X86None, X86ReadsDst|X86WritesDst), // 1: inner
		to(CondJump, 5, 1),                                  // 2: jne
		mem(X86Add, X86Mem, rbx, rdi, 16, modifies),         // 3
		to(Jump, 0, 0),                                      // 4
	)
	// One that nothing counts.
	none, noneSpace := program(
		imm(X86Xor, rax, 5, modifies), // 0
		to(Jump, 0, 0),                // 1
	)
	for _, tt := range []struct {
		name   string
		code   *Code
		space  Space
		header int
		values int
		steps  []int // from one moment to the next, each
		want   []int64
	}{
		{"registers", sum, sumSpace, 1, 2, []int{0, 1900, 3, 95}, []int64{200, 1, 10}},
		{"memory", nest, nestSpace, 0, 1, []int{5, 9 * 1000, 9*100 + 4}, []int64{1000, 100}},
		{"none", none, noneSpace, 0, 0, nil, nil},
	} {
		st, memory := start(1000)
		st.Regs[rbx] = 7
		l, err := NewMachine(tt.code).Run(st, tt.space, memory, Limits{Steps: 5000})
		if err != nil {
			t.Fatal(err)
		}
		turner := NewTurner(tt.code)
		loop := turner.Find(l, st, tt.space, memory)
		if tt.values == 0 {
			if loop != nil {
				t.Errorf("%s: loop %+v", tt.name, loop)
			}
			continue
		}
		if loop == nil || loop.Header != uint32(tt.header+1) || len(loop.values) != tt.values {
			t.Errorf("%s: loop %+v, want %d values, at %d", tt.name, loop, tt.values, tt.header+1)
			continue
		}
		var mem Memory = memory
		var before Turn
		for i, steps := range tt.steps {
			st, mem = later(t, tt.code, st, tt.space, mem, steps)
			now, ok := turner.Next(loop, st, tt.space, mem)
			if !ok {
				t.Fatalf("%s: moment %d: not in the loop", tt.name, i)
			}
			if i > 0 {
				if n, votes := loop.Between(before, now); n != tt.want[i-1] || votes != tt.values {
					t.Errorf("%s: moment %d: %d turns by %d values, want %d by %d", tt.name, i, n, votes, tt.want[i-1], tt.values)
				}
			}
			before = now
		}
		// A frame below is another call.
		after := before
		after.SP -= 64
		if n, votes := loop.Between(before, after); n != 0 || votes != 0 {
			t.Errorf("%s: in another call, %d turns", tt.name, n)
		}
		// Where the loop has ended there is no turn to come.
		out := *st
		out.PC = linked + bias + 4*7
		if _, ok := turner.Next(loop, &out, tt.space, mem); ok && tt.name == "registers" {
			t.Errorf("%s: a turn after its end", tt.name)
		}
	}
}

// TestTurnsBack: a loop that was begun anew counts back, or its values differ on how often it turned.
func TestTurnsBack(t *testing.T) {
	o := Turning{values: []turningValue{{reg: 0, size: 8, step: 8}, {reg: 1, size: 4, step: -1}}}
	for _, tt := range []struct {
		a, b  []uint64
		n     int64
		votes int
	}{
		{[]uint64{0x1000, 100}, []uint64{0x1050, 90}, 10, 2},
		{[]uint64{0x1000, 3}, []uint64{0x1050, 1<<32 - 7}, 10, 2}, // of 32 bits
		{[]uint64{0x1050, 90}, []uint64{0x1000, 100}, -10, 2},
		{[]uint64{0x1000, 100}, []uint64{0x1054, 90}, 10, 1},
		{[]uint64{0x1000, 100}, []uint64{0x1050, 95}, 5, 1},
	} {
		if n, votes := o.Between(Turn{values: tt.a}, Turn{values: tt.b}); n != tt.n || votes != tt.votes {
			t.Errorf("%v to %v: %d by %d, want %d by %d", tt.a, tt.b, n, votes, tt.n, tt.votes)
		}
	}
}

// TestTimed: of a program that is half of its time in a fast loop and half in a slow one, walks that are timed tell how often
// both run, and those that are not are taken to be like others of their procedure. Where most are not, nothing is told.
func TestTimed(t *testing.T) {
	code, space := program(
		reg(X86Dec, rcx, X86None, X86ReadsDst|X86WritesDst), // 0: a loop of two instructions
		to(CondJump, 5, 0),            // 1: jne
		Inst{},                        // 2
		imm(X86Add, rax, 1, modifies), // 3: one of four
		imm(X86Add, rax, 1, modifies), // 4
		reg(X86Dec, rcx, X86None, X86ReadsDst|X86WritesDst), // 5
		to(CondJump, 5, 3), // 6: jne
		Inst{},             // 7
	)
	for i := range code.at {
		code.at[i].proc = linked
		if i > 3 {
			code.at[i].proc = linked + 4*3
		}
	}
	m := NewMachine(code)
	counts := func() *sample.Counts {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns", Period: 1e6})
		c.Weight = 1000e6
		im := c.Image(sample.ImageID{Path: "/loops"})
		c.AddSample(im, 0x1000, 500)
		c.AddSample(im, 0x1000+4*5, 500)
		return c
	}
	code.ids[0].Path = "/loops"
	for _, tt := range []struct {
		name   string
		timed  [2]int // of 10 walks in the fast loop, and of 30 in the slow one
		want   bool
		sd     float64 // of the runs of the slow one, relative to them, at most
		kernel uint64  // samples there
	}{
		{"all", [2]int{10, 30}, true, 0.05, 0},
		{"some", [2]int{10, 20}, true, 0.1, 0},
		{"half in the kernel", [2]int{10, 30}, true, 0.05, 1000}, // which these speeds are of, too
		{"too few", [2]int{1, 0}, false, 0, 0},
		{"no share of the time", [2]int{4, 3}, false, 0, 0},
	} {
		var w Walks
		w.Time(7, 1) // of a walk that is not there
		for i, of := range []int{10, 30} {
			for k := range of {
				l, err := m.Run(&State{PC: linked + bias + 12*uint64(i), Regs: [16]uint64{rcx: 1e6}}, space, flat{}, Limits{Steps: 4000})
				if err != nil {
					t.Fatal(err)
				}
				if walk := w.AddLong(l, 0); k < tt.timed[i] {
					w.Time(walk, []float64{4, 0.5}[i]) // instructions per ns
				}
			}
		}
		c := counts()
		c.Lose(sample.LostKernel, tt.kernel)
		w.AddTo(c, nil)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		for i, off := range []sample.Offset{0x1004, 0x1018} {
			p := c.Images[0].Probed[off]
			if !tt.want {
				if p.Covered != 0 || p.Timed != 0 || p.Runs != 0 {
					t.Errorf("%s: %+v", tt.name, p)
				}
				continue
			}
			// Half of a second, at 4 and 0.5 instructions per ns, two and four of which are a turn.
			want := []float64{500e6 * 4 / 2, 500e6 * 0.5 / 4}[i]
			if got := float64(p.Runs); got < 0.95*want || got > 1.05*want || p.Covered != c.Weight || p.Timed != c.Weight {
				t.Errorf("%s: loop %d: %+v, want %g runs", tt.name, i, p, want)
			}
			if sd := p.Variance.Float64(); i == 1 && sd > sq(tt.sd*want) {
				t.Errorf("%s: variance %g, want at most %g", tt.name, sd, sq(tt.sd*want))
			}
		}
	}
}
