package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"backfeed/sample"
)

// A flat is memory from 0x1000 on.
type flat []byte

func (f flat) Read(addr uint64, p []byte) bool {
	if addr < 0x1000 || addr-0x1000+uint64(len(p)) > uint64(len(f)) {
		return false
	}
	copy(p, f[addr-0x1000:])
	return true
}

// Registers of programs of these tests.
const (
	rax = iota
	rcx
	rdx
	rbx
	rsp
	rbp
	rsi
	rdi
)

const (
	readsBoth = X86ReadsDst | X86ReadsSrc
	modifies  = readsBoth | X86WritesDst
	moves     = X86ReadsSrc | X86WritesDst
)

func reg(k Kind, dst, src uint8, f Flags) Inst {
	return Inst{Op: Op{Kind: k, Size: 8, Dst: dst, Src: src, Base: X86NoReg, Index: X86NoReg, Flags: f}}
}

func imm(k Kind, dst uint8, v int64, f Flags) Inst {
	in := reg(k, dst, X86Imm, f)
	in.Imm = v
	return in
}

func mem(k Kind, dst, src, base uint8, disp int32, f Flags) Inst {
	in := reg(k, dst, src, f|X86HasMem)
	in.Base, in.Disp = base, disp
	return in
}

func to(k Kind, cond uint8, target int) Inst {
	in := reg(k, X86None, X86None, 0)
	in.Cond, in.Target = cond, linked+4*uint64(target)
	return in
}

// linked is where these programs are linked to, and bias how far from there they are mapped.
const linked, bias = 0x400000, 0x10000000

// program makes code of operations of 4 bytes each, and says where it is mapped.
func program(insts ...Inst) (*Code, Space) {
	for i := range insts {
		in := &insts[i]
		in.Addr = linked + 4*uint64(i)
		in.Off = 0x1000 + 4*sample.Offset(i)
		if in.Kind == Call || in.Kind == CallInd {
			in.Imm = int64(in.Addr) + 4
			in.Dst = X86None
		}
	}
	code := NewCode([]Image{{Procs: [][]Inst{insts}}})
	return code, Space{{Lo: linked + bias, Hi: linked + bias + 0x1000, Bias: bias}}
}

// sums adds the first count words of memory to rax, those that are odd twice, in a procedure of its own.
func sums() (*Code, Space) {
	return program(
		reg(X86Xor, rax, rax, modifies),                     // 0
		mem(X86Mov, rdx, X86Mem, rsi, 0, moves),             // 1: loop
		to(Call, 0, 8),                                      // 2
		imm(X86Add, rsi, 8, modifies),                       // 3
		reg(X86Dec, rcx, X86None, X86ReadsDst|X86WritesDst), // 4
		to(CondJump, 5, 1),                                  // 5: jne
		mem(X86Mov, X86Mem, rax, rdi, 0, moves),             // 6
		Inst{},                                              // 7: stop
		reg(X86Add, rax, rdx, modifies),                     // 8
		imm(X86Test, rdx, 1, readsBoth),                     // 9
		to(CondJump, 4, 12),                                 // 10: je
		reg(X86Add, rax, rdx, modifies),                     // 11
		mem(Ret, X86None, X86Mem, rsp, 0, X86ReadsSrc),      // 12
	)
}

// start is the state in which sums adds up n words, and memory with them.
func start(n int) (*State, flat) {
	m := make(flat, 0x4000)
	for i := range n {
		binary.LittleEndian.PutUint64(m[8*i:], uint64(i))
	}
	st := &State{PC: linked + bias}
	st.Regs[rcx], st.Regs[rsi], st.Regs[rdi], st.Regs[rsp] = uint64(n), 0x1000, 0x2ff8, 0x4ff0
	return st, m
}

func TestMachine(t *testing.T) {
	code, space := sums()
	const n = 10
	st, mem := start(n)
	before := string(mem)
	m := NewMachine(code)
	for range 2 { // a machine begins anew
		l, err := m.Run(st, space, mem, Limits{Steps: 1000})
		if err != nil {
			t.Fatal(err)
		}
		const even, odd = 9, 10
		if want := 1 + n/2*even + n/2*odd + 1; l.Steps != want || l.End != EndOp || l.Next != linked+bias+4*7 {
			t.Errorf("%d instructions, %v, at %#x, want %d, at %#x", l.Steps, l.End, l.Next, want, linked+bias+4*7)
		}
		var now State
		known := m.State(&now)
		if want := uint64(n*(n-1)/2 + 25); now.Regs[rax] != want || known.Regs != 0xffff || now.Regs[rsp] != st.Regs[rsp] {
			t.Errorf("rax %d, want %d; known %#x", now.Regs[rax], want, known.Regs)
		}
		if v, known := m.Load(0x2ff8, 8); v != now.Regs[rax] || !known {
			t.Errorf("it stored %d, %v", v, known)
		}
		if string(mem) != before {
			t.Error("it changed memory")
		}
		var ran strings.Builder
		l.Executions(func(op uint32, n, taken int) { fmt.Fprintf(&ran, "%d:%d/%d ", op-1, n, taken) })
		if want := "0:1/0 1:10/0 2:10/10 3:10/0 4:10/0 5:10/9 6:1/0 8:10/0 9:10/0 10:10/5 11:5/0 12:10/10 "; ran.String() != want {
			t.Errorf("executions, taken:\n got %s\nwant %s", &ran, want)
		}
	}
}

// TestMachineBranches: a walk tells each branch with the instructions before it.
func TestMachineBranches(t *testing.T) {
	code, space := sums()
	st, mem := start(2)
	l, err := NewMachine(code).Run(st, space, mem, Limits{Steps: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	l.Branches(func(step int, b Branch) bool {
		fmt.Fprintf(&got, "%d: %d>%d %v; ", step, b.Op-1, b.To-1, b.Taken)
		return step < 14
	})
	if want := "2: 2>8 true; 5: 10>12 true; 6: 12>3 true; 9: 5>1 true; 11: 2>8 true; 14: 10>11 false; "; got.String() != want {
		t.Errorf("\n got %s\nwant %s", &got, want)
	}
	if pc := space.PC(code, 3); pc != linked+bias+8 {
		t.Errorf("operation 3 is at %#x", pc)
	}
}

func TestMachineFirstNear(t *testing.T) {
	code, space := sums()
	st, mem := start(50)
	l, err := NewMachine(code).Run(st, space, mem, Limits{Steps: 1000})
	if err != nil {
		t.Fatal(err)
	}
	// Of the loop, all is seen by its second time; what comes after is at the end.
	for _, tt := range []struct{ k, op, step int }{{0, 1, 1}, {5, 10, 5}, {11, 5, 9}, {13, 11, 15}, {245, 11, 15}, {300, 6, 476}, {9999, 6, 476}} {
		op, step, ok := l.FirstNear(tt.k)
		if !ok || int(op)-1 != tt.op || step != tt.step {
			t.Errorf("near %d: operation %d after %d, %v; want %d after %d", tt.k, int(op)-1, step, ok, tt.op, tt.step)
		}
	}
}

// TestMachineEnds: a walk ends at its limits, and where it does not know on.
func TestMachineEnds(t *testing.T) {
	code, space := sums()
	for _, tt := range []struct {
		name   string
		change func(st *State, lim *Limits)
		want   End
		late   bool
		steps  int
	}{
		{"instructions", func(st *State, lim *Limits) { lim.Steps = 7 }, EndLength, false, 7},
		{"time", func(st *State, lim *Limits) { lim.Late = func() bool { return true } }, EndLength, true, betweenLate},
		{"unmapped code", func(st *State, lim *Limits) { st.PC = 0x1234 }, EndStart, false, 0},
		{"between instructions", func(st *State, lim *Limits) { st.PC++ }, EndStart, false, 0},
		{"unreadable memory: the branch depends on it", func(st *State, lim *Limits) { st.Regs[rsi] = 0x100000 }, EndBranch, false, 5},
		{"a guess", func(st *State, lim *Limits) { st.Regs[rsi] = 0x100000; lim.Guesses = 1; lim.Seed = 1 }, EndBranch, false, 14},
		{"unreadable stack", func(st *State, lim *Limits) { st.Regs[rsp], lim.Steps = 0x100000, 30 }, EndLength, false, 30},
		{"room", func(st *State, lim *Limits) { lim.Pages = 1 }, EndRoom, false, 2},
	} {
		st, mem := start(1000)
		lim := Limits{Steps: 100000}
		tt.change(st, &lim)
		l, err := NewMachine(code).Run(st, space, mem, lim)
		if err != nil {
			t.Fatal(err)
		}
		if l.End != tt.want || l.Late != tt.late || l.Steps != tt.steps {
			t.Errorf("%s: %d instructions, %v, late %v; want %d, %v, %v", tt.name, l.Steps, l.End, l.Late, tt.steps, tt.want, tt.late)
		}
	}
}

func TestMachineARM(t *testing.T) {
	code := NewCode([]Image{{ARM: true, Procs: [][]Inst{[]Inst{{Addr: 0x1000, Off: 0x1000, Op: Op{Kind: ArmAdd}}}}}})
	if _, err := NewMachine(code).Run(new(State), nil, flat(nil), Limits{Steps: 1}); !errors.Is(err, ErrARM) {
		t.Errorf("got %v", err)
	}
}

// TestMemory: pages keep what is written, also across their borders, and what of it is known.
func TestMemory(t *testing.T) {
	var m memory
	m.begin(make(flat, 0x3000), 10)
	for _, addr := range []uint64{0x1000, 0x1ffd, 0x2ff8, 0x3ffc} {
		if !m.store(addr, 8, 0x0102030405060708, true) {
			t.Fatal("no room")
		}
		if v, known := m.fetch(addr, 8); v != 0x0102030405060708 || !known {
			t.Errorf("%#x: %#x, %v", addr, v, known)
		}
	}
	if _, known := m.fetch(0x4000, 8); known {
		t.Error("what cannot be read is known")
	}
	if v, known := m.fetch(0x4000, 4); v != 0x01020304 || !known {
		t.Errorf("of what was written to it: %#x, %v", v, known)
	}
	m.store(0x1002, 1, 0, false)
	for _, tt := range []struct {
		addr  uint64
		size  uint8
		known bool
	}{{0x1000, 2, true}, {0x1000, 4, false}, {0x1002, 1, false}, {0x1003, 1, true}} {
		if _, known := m.fetch(tt.addr, tt.size); known != tt.known {
			t.Errorf("%d bytes at %#x: known %v", tt.size, tt.addr, known)
		}
	}
	if m.store(0x1002, 1, 7, true); !m.pages[0].knows(0, pageSize) {
		t.Error("what is written is not known")
	}
}

func BenchmarkMachine(b *testing.B) {
	code, space := sums()
	st, mem := start(1000)
	m := NewMachine(code)
	steps := 0
	for b.Loop() {
		l, err := m.Run(st, space, mem, Limits{Steps: 1 << 20})
		if err != nil || l.Steps < 9000 {
			b.Fatal(l, err)
		}
		steps += l.Steps
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds()/1e6, "M-inst/s")
}
