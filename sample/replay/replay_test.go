package replay

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"

	"backfeed/sample"
	"backfeed/sample/trace"
)

// memory begins at 0x1000.
type memory []byte

func (m memory) Read(addr uint64, p []byte) bool {
	if addr < 0x1000 || addr-0x1000+uint64(len(p)) > uint64(len(m)) {
		return false
	}
	copy(p, m[addr-0x1000:])
	return true
}

const (
	rcx, rdx, rbx, rsp, rsi = 1, 2, 3, 4, 6

	base, start = 0x400000, 0x1000 // address and offset of the first instruction
	length      = 8                // of each
)

var image = sample.ImageID{Path: "/program"}

// program is one loop: it loads the next line of an array, and a word of the stack, branches by what it loaded, and
// calls a procedure that has its own line of code.
func program() (*trace.Code, trace.Space) {
	op := func(k trace.Kind, dst, src uint8, imm int64, f trace.Flags) trace.Inst {
		return trace.Inst{Op: trace.Op{Kind: k, Size: 8, Dst: dst, Src: src, Base: trace.X86NoReg, Index: trace.X86NoReg, Imm: imm, Flags: f}}
	}
	mem := func(k trace.Kind, dst, base uint8, f trace.Flags) trace.Inst {
		in := op(k, dst, trace.X86Mem, 0, f|trace.X86HasMem|trace.X86ReadsSrc)
		in.Base = base
		return in
	}
	to := func(k trace.Kind, cond uint8, target uint64) trace.Inst {
		in := op(k, trace.X86None, trace.X86None, 0, 0)
		in.Cond, in.Target = cond, base+length*target
		return in
	}
	const both, writes = trace.X86ReadsDst | trace.X86ReadsSrc, trace.X86WritesDst
	insts := []trace.Inst{
		mem(trace.X86Mov, rdx, rsi, writes),                  // 0
		mem(trace.X86Mov, rbx, rsp, writes),                  // 1
		op(trace.X86Add, rsi, trace.X86Imm, 64, both|writes), // 2
		op(trace.X86Test, rdx, trace.X86Imm, 1, both),        // 3
		to(trace.CondJump, 4, 6),                             // 4: je
		op(trace.X86Nop, trace.X86None, trace.X86None, 0, 0), // 5
		to(trace.Call, 0, 16),                                // 6
		op(trace.X86Add, rcx, trace.X86Imm, -1, both|writes), // 7
		to(trace.CondJump, 5, 0),                             // 8: jne
		{}, {}, {}, {}, {}, {}, {},
		mem(trace.Ret, trace.X86None, rsp, 0), // 16
	}
	for i := range insts {
		in := &insts[i]
		in.Addr, in.Off = base+length*uint64(i), start+length*sample.Offset(i)
		if in.Kind == trace.Call {
			in.Imm = int64(in.Addr) + length
		}
	}
	return trace.NewCode([]trace.Image{{ID: image, Procs: [][]trace.Inst{insts}}}), trace.Space{{Lo: base, Hi: base + 0x1000}}
}

// walked returns what a Model counts in some walks of so many turns through an array of lines.
func walked(t *testing.T, m *Model, walks, turns int) map[sample.Offset]sample.Replayed {
	t.Helper()
	code, space := program()
	machine := trace.NewMachine(code)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range walks {
		mem := make(memory, 0x1000+64*turns+0x2000)
		for i := 0; i+8 <= len(mem); i += 8 {
			binary.LittleEndian.PutUint64(mem[i:], rnd.Uint64())
		}
		st := &trace.State{PC: base}
		st.Regs[rcx], st.Regs[rsi], st.Regs[rsp] = uint64(turns), 0x2000, uint64(0x1000+len(mem)-0x1000)
		l, err := machine.Run(st, space, mem, trace.Limits{Steps: 1 << 20, Accesses: true})
		if err != nil || l.Steps < 8*turns {
			t.Fatal(l, err)
		}
		m.Walk(code, l)
	}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cycles"})
	m.AddTo(c)
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c.Images[c.Image(image)].Replayed
}

// TestModel: each place of a program whose behaviour is known has what it does counted.
func TestModel(t *testing.T) {
	const walks, turns = 4, 5000
	m := New()
	at := walked(t, m, walks, turns)
	of := func(i int) sample.Replayed { return at[start+length*sample.Offset(i)] }

	// Of the first 14 lines of each set it is not known whether the cache had them, of the first
	// pages neither. The array is one line after the other.
	want := sample.Replayed{Walks: walks, Accesses: walks * turns}
	got := of(0)
	for _, n := range []struct {
		name      string
		got, want uint64
	}{
		{"walks", got.Walks, want.Walks}, {"accesses", got.Accesses, want.Accesses}, {"near", got.Near, 0},
	} {
		if n.got != n.want {
			t.Errorf("array: %s %d, want %d: %+v", n.name, n.got, n.want, got)
		}
	}
	if far := walks * uint64(turns-farOthers*sets); got.Far < far || got.Far > far+walks*sets || got.Steady < got.Far-walks {
		t.Errorf("array: far %d, want %d, at a constant distance: %+v", got.Far, far, got)
	}
	if got.NearPages < walks*turns*9/10 || got.FarPages > 0 {
		t.Errorf("array: pages: %+v", got)
	}
	if s := of(1); s.Near < walks*turns-walks || s.Far > 0 || s.Accesses != walks*turns {
		t.Errorf("stack: %+v", s)
	}
	if b := of(4); b.Branches < walks*turns*9/10 || b.Missed < b.Branches*4/10 || b.Missed > b.Branches*6/10 {
		t.Errorf("random branch: %+v", b)
	}
	if b := of(8); b.Branches < walks*turns*9/10 || b.Missed > b.Branches/100 {
		t.Errorf("loop: %+v", b)
	}
	if b := of(16); b.Branches != walks*turns || b.Missed != 0 || b.Fetches != walks*turns || b.NearFetches != walks*(turns-1) {
		t.Errorf("return: %+v", b)
	}
	if b := of(6); b.Branches != 0 || b.Accesses != walks*turns || b.Near < walks*turns-walks {
		t.Errorf("call: %+v", b)
	}

	m.Forget()
	again := walked(t, m, 1, turns)
	if b := again[start+length*8]; b.Walks != 1 || b.Missed > 2 {
		t.Errorf("loop, learned before: %+v", b)
	}
}

// TestModelBeyond: lines after more others than a second cache holds are beyond it, of walks that are long enough.
func TestModelBeyond(t *testing.T) {
	const turns = 25_000
	at := walked(t, New(), 1, turns)
	if r := at[start]; r.Beyond < turns-beyondLines-10 || r.Beyond > turns-beyondLines+10 {
		t.Errorf("array: %+v", r)
	}
	if r := at[start+length]; r.Beyond != 0 {
		t.Errorf("stack: %+v", r)
	}
}

// TestModelAgain: the same walks give the same counts.
func TestModelAgain(t *testing.T) {
	if a, b := walked(t, New(), 2, 700), walked(t, New(), 2, 700); !reflect.DeepEqual(a, b) || len(a) == 0 {
		t.Errorf("%+v and %+v", a, b)
	}
}

func BenchmarkModel(b *testing.B) {
	code, space := program()
	machine := trace.NewMachine(code)
	const turns = 5000
	mem := make(memory, 0x1000+64*turns+0x2000)
	for i := range mem {
		mem[i] = byte(i * i >> 3)
	}
	st := &trace.State{PC: base}
	st.Regs[rcx], st.Regs[rsi], st.Regs[rsp] = turns, 0x2000, uint64(len(mem))
	l, err := machine.Run(st, space, mem, trace.Limits{Steps: 1 << 20, Accesses: true})
	if err != nil {
		b.Fatal(err)
	}
	m := New()
	for b.Loop() {
		m.Walk(code, l)
	}
	b.ReportMetric(float64(b.N*l.Steps)/b.Elapsed().Seconds()/1e6, "M-inst/s")
}
