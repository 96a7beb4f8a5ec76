package machine

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer/image"
)

// program reads a block in a small notation: "alu 2 0 3; load 4 [1]; store 4 [2]".
// The first register is written, but for stores, the others are read, those in
// brackets are the address; f are the flags. "alu+load" is arithmetic from memory,
// "cmp" an alu that is a comparison. Every instruction has four bytes.
func program(t *testing.T, text string) ([]image.Inst, []image.Operands) {
	t.Helper()
	var insts []image.Inst
	var ops []image.Operands
	for _, line := range strings.Split(text, ";") {
		f := strings.Fields(line)
		in := image.Inst{Addr: image.Addr(4 * len(insts)), Len: 4}
		var o image.Operands
		for _, part := range strings.Split(f[0], "+") {
			switch part {
			case "load":
				in.Class |= image.Load
			case "store":
				in.Class |= image.Store
			case "cmp":
				in.Class |= image.Compare
				o.Op = image.OpALU
			default:
				o.Op = opNamed(t, part)
			}
		}
		writes := &o.Writes
		if in.Class&image.Store != 0 || o.Op == image.OpBranch {
			writes = &o.Reads
		}
		for _, r := range f[1:] {
			set := writes
			if strings.HasPrefix(r, "[") {
				set, r = &o.Address, strings.Trim(r, "[]")
			} else {
				writes = &o.Reads
			}
			n := image.Flags
			if r != "f" {
				var err error
				if n, err = strconv.Atoi(r); err != nil {
					t.Fatal(err)
				}
			}
			set.General |= 1 << n
		}
		insts, ops = append(insts, in), append(ops, o)
	}
	return insts, ops
}

func opNamed(t *testing.T, name string) image.Op {
	t.Helper()
	for op := range image.NumOps {
		if op.String() == name {
			return op
		}
	}
	t.Fatalf("no class %q", name)
	return 0
}

// TestInOrder holds the schedules of Cortex-A53 against ones worked by hand: two
// instructions a cycle, one load or store a cycle, loads take 4 cycles, products 4,
// arithmetic 1 and 2 more to an address.
func TestInOrder(t *testing.T) {
	m, err := ByName("arm-cortex-a53")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text, want string
		loop             bool
	}{
		{"two at once", "alu 0 1; alu 2 3", "1 dispatch, 0 together", false},
		{"the third waits", "alu 0 1; alu 2 3; alu 4 5", "1 dispatch, 0 together, 1 dispatch", false},
		{"a result is used", "alu 0 1; alu 2 0", "1 dispatch, 1 dependency 0", false},
		{"load and use", "load 0 [1]; alu 2 0", "1 dispatch, 4 dependency 0", false},
		{"load, something else, use", "load 0 [1]; alu 3 4; alu 2 0", "1 dispatch, 0 together, 4 dependency 0", false},
		{"what waits hides part", "load 0 [1]; alu 3 4; alu 5 6; alu 2 0", "1 dispatch, 0 together, 1 dispatch, 3 dependency 0", false},
		{"two loads", "load 0 [1]; load 2 [3]", "1 dispatch, 1 unit ldst", false},
		{"load and store", "load 0 [1]; store 2 [3]", "1 dispatch, 1 unit ldst", false},
		{"load beside arithmetic", "load 0 [1]; alu 2 3; load 4 [1]; alu 5 3", "1 dispatch, 0 together, 1 dispatch, 0 together", false},
		{"address from arithmetic", "alu 1 2; load 0 [1]", "1 dispatch, 3 dependency 0", false},
		{"address from a load", "load 1 [2]; load 0 [1]", "1 dispatch, 4 dependency 0", false},
		{"product", "mul 0 1 2; alu 3 0", "1 dispatch, 4 dependency 0", false},
		{"compare and branch", "alu-flags f 1 2; branch f", "1 dispatch, 1 dependency 0", false},
		{"two quotients", "div32 0 1 2; div32 3 1 2", "1 dispatch, 8 unit div", false},
		{"a list is walked", "load 0 [0]; branch 0", "0 together, 4 dependency 0", true},
		{"a sum", "alu 0 0 1; alu-flags f 2 3; branch f", "0 together, 1 dispatch, 1 dependency 1", true},
	} {
		insts, ops := program(t, tt.text)
		s := m.schedule(insts, ops, tt.loop)
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := describe(s); got != tt.want {
			t.Errorf("%s: %s: %s, want %s", tt.name, tt.text, got, tt.want)
		}
	}
}

// describe writes a schedule as the tables of the tests do.
func describe(s *Schedule) string {
	var out []string
	for _, in := range s.Insts {
		d := fmt.Sprintf("%.4g %s", in.Least, in.Why)
		switch in.Why {
		case Dependency:
			d += fmt.Sprintf(" %d", in.On)
		case Unit:
			d += " " + in.Unit
		}
		out = append(out, d)
	}
	return strings.Join(out, ", ")
}

// TestOutOfOrder holds the time of blocks on Skylake against the bound that is met
// first: 4 places, arithmetic on four ports, shifts on two of them, products on one.
func TestOutOfOrder(t *testing.T) {
	m, err := ByName("intel-skylake-x")
	if err != nil {
		t.Fatal(err)
	}
	repeat := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+"; ", n), "; ") }
	for _, tt := range []struct {
		name, text string
		loop       bool
		cycles     float64
		bound      Why
		unit       string
	}{
		{"four places", repeat(8, "alu 0 1"), true, 2, Dispatch, ""},
		{"two ports for shifts", repeat(3, "shift 0 1"), true, 1.5, Unit, "p06"},
		{"shifts leave room for others", "shift 0 1; shift 2 3; alu 4 5; alu 6 7", true, 1, Dispatch, ""},
		{"two loads a cycle", repeat(4, "load 0 [1]"), true, 2, Unit, "p23"},
		{"a store a cycle", repeat(2, "store 0 [1]"), true, 2, Unit, "p4"},
		{"loads with arithmetic take one place", repeat(4, "alu+load 0 [1] 2"), true, 2, Unit, "p23"},
		{"compare and branch take one", "alu 0 1; alu 2 1; alu 3 1; cmp f 4 5; branch f", true, 1, Dispatch, ""},
		{"a chain of products", "mul 0 0 1", true, 3, Dependency, ""},
		{"two chains, the longer counts", "mul 0 0 1; alu 2 2 1; alu 2 2 1; alu 2 2 1; alu 2 2 1", true, 4, Dependency, ""},
		{"a list is walked", "load 0 [0]", true, 4, Dependency, ""},
		{"a list of what is added up", "load 0 [1]; alu 1 0 1", true, 6, Dependency, ""},
		{"a list whose ends are sums", "alu+load 0 [0] 1", true, 6, Dependency, ""},
		{"a sum from memory waits for the sum only", "alu+load 0 [1] 0", true, 1, Dependency, ""},
		{"executions overlap but in loops", "mul 0 0 1", false, 1, Unit, "p1"},
		{"beyond the window latency shows", repeat(30, "mul 0 0 1"), false, 90 - 224/4, Dependency, ""},
		{"a call cuts dependencies", "mul 0 0 1; call; mul 0 0 1", true, 2, Unit, "p1"},
	} {
		insts, ops := program(t, tt.text)
		for i, o := range ops {
			if o.Op == image.OpCall {
				insts[i].Class |= image.DirCall
			}
		}
		s := m.schedule(insts, ops, tt.loop)
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if math.Abs(s.Cycles-tt.cycles) > 1e-9 || s.Bound != tt.bound || s.Unit != tt.unit {
			t.Errorf("%s: %.3f cycles, %s %s, want %.3f, %s %s", tt.name, s.Cycles, s.Bound, s.Unit, tt.cycles, tt.bound, tt.unit)
		}
	}
}

// TestWaits: loads wait where that was measured, but for those from the stack or a fixed place.
func TestWaits(t *testing.T) {
	for _, tt := range []struct {
		model, text string
		waits       float64
	}{
		{"intel-skylake-x", "load 0 [1]; alu+load 2 [3] 2; store 0 [1]; alu 0 1", 1},
		{"intel-skylake-x", "load 0 [4]; load 0; alu 0 1", 0},
		{"intel-skylake-x", "load 0 [31]", 0.5},
		{"amd-zen4", "load 0 [1]", 0},
	} {
		m, err := ByName(tt.model)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.waits(program(t, tt.text)); got != tt.waits {
			t.Errorf("%s: %s: %g cycles, want %g", tt.model, tt.text, got, tt.waits)
		}
	}
}

// TestHeads: out of order, the first of a group that retires together has its time.
func TestHeads(t *testing.T) {
	m, err := ByName("intel-skylake-x")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"groups of four", "alu 0 9; alu 1 9; alu 2 9; alu 3 9", "1 dispatch, 0 together, 0 together, 0 together"},
		{"what uses a load waits", "load 0 [0]; alu 1 0; alu 2 9; alu 3 9", "3 dependency 0, 1 dependency 0, 0 together, 0 together"},
		{"the branch of a pair never", "alu 0 0; cmp f 0 5; branch f", "0 together, 1 dependency 0, 0 together"},
	} {
		insts, ops := program(t, tt.text)
		s := m.schedule(insts, ops, true)
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := describe(s); got != tt.want {
			t.Errorf("%s: %s: %s, want %s", tt.name, tt.text, got, tt.want)
		}
	}
}

// TestReal: schedules of all blocks of a program keep their promises on every
// model, and are the same each time.
func TestReal(t *testing.T) {
	for _, path := range []string{"../../testdata/mix/mix", "/usr/aarch64-linux-gnu/lib/libm.so.6"} {
		t.Run(path, func(t *testing.T) {
			im, _ := open(t, path)
			repeat := 0
			for _, m := range embeddedModels() {
				if m.Arch != im.Arch {
					continue
				}
				for i := range min(len(im.Symbols()), 300) {
					p, err := im.Proc(i)
					if err != nil {
						continue
					}
					for j := range p.Blocks {
						s := m.Schedule(im, &p.Blocks[j])
						if err := s.Check(); err != nil {
							t.Fatalf("%s: %s: block %#x: %v", m.Name, p.Name, uint64(p.Blocks[j].Start), err)
						}
						if !reflect.DeepEqual(s, m.Schedule(im, &p.Blocks[j])) {
							t.Fatalf("%s: %s: block %#x: another schedule the second time", m.Name, p.Name, uint64(p.Blocks[j].Start))
						}
						insts, ops := im.AppendOperands(nil, nil, &p.Blocks[j])
						if each, period := unrolled(m, insts, ops, s.Loop); !reflect.DeepEqual(s, each) {
							t.Fatalf("%s: %s: block %#x: another schedule where each of its executions is followed", m.Name, p.Name, uint64(p.Blocks[j].Start))
						} else if period > 0 {
							repeat++
						}
						of := &plan{m: m}
						of.set(insts, ops, s.Loop)
						if path, longest := of.path(), of.longest(); !s.Loop && path > longest+1e-9 {
							t.Fatalf("%s: %s: block %#x: a path of %g cycles where the longest is %g", m.Name, p.Name, uint64(p.Blocks[j].Start), path, longest)
						}
						if c := m.Cycles(im, &p.Blocks[j]); c != s.Cycles {
							t.Fatalf("%s: %s: block %#x: %g cycles, by its schedule %g", m.Name, p.Name, uint64(p.Blocks[j].Start), c, s.Cycles)
						}
					}
				}
			}
			if repeat == 0 {
				t.Error("the executions of no block repeat")
			}
		})
	}
}

// unrolled returns the schedule of a block by following each of its executions, and after how many they may repeat.
func unrolled(m *Model, insts []image.Inst, ops []image.Operands, loop bool) (*Schedule, int) {
	s := m.schedule(insts, ops, loop)
	if m.InOrder {
		return s, 0
	}
	p := &plan{m: m}
	p.set(insts, ops, loop)
	for i := range s.Insts {
		s.Insts[i] = Slot{Addr: s.Insts[i].Addr}
	}
	p.retireBy(s, 0)
	p.blame(s)
	return s, p.period(s)
}

// BenchmarkSchedule has decoding in it.
func BenchmarkSchedule(b *testing.B) {
	im, err := image.Open("../../testdata/mix/mix", image.Options{})
	if err != nil {
		b.Skip(err)
	}
	defer im.Close()
	var blocks []*image.Block
	insts := 0
	for i := range im.Symbols() {
		if p, err := im.Proc(i); err == nil {
			for j := range p.Blocks {
				blocks = append(blocks, &p.Blocks[j])
				insts += p.Blocks[j].Insts
			}
		}
	}
	for _, name := range []string{"amd-zen4", "arm-cortex-a53"} {
		b.Run(name, func(b *testing.B) {
			m, err := ByName(name)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for _, bl := range blocks {
					m.Schedule(im, bl)
				}
			}
			b.ReportMetric(float64(b.N*insts)/b.Elapsed().Seconds(), "insts/s")
		})
	}
}

// anyProgram makes a block of bytes, for fuzzing: four for each instruction, which
// are its class, what it does to memory, what it writes and what it reads.
func anyProgram(b []byte) ([]image.Inst, []image.Operands) {
	insts, ops := []image.Inst{{Len: 4}}, []image.Operands{{Op: image.OpALU}}
	for ; len(b) >= 4 && len(insts) < 64; b = b[4:] {
		in := image.Inst{Addr: image.Addr(4 * len(insts)), Len: 4, Class: image.Class(b[1] & 3)}
		o := image.Operands{Op: image.Op(b[0] % byte(image.NumOps)), Vector: b[1]&4 != 0}
		o.Writes.General = 1 << (b[2] & 31)
		o.Reads.General = 1 << (b[3] & 31)
		o.Address.General = 1 << (b[3] >> 3)
		if b[1]&8 != 0 {
			o.Update = o.Address
		}
		insts, ops = append(insts, in), append(ops, o)
	}
	return insts, ops
}

// FuzzSchedule: whatever the block, schedules keep their promises.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte("a load, an add"))
	f.Add([]byte{1, 1, 0, 0, 18, 1, 3, 3, 13, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		insts, ops := anyProgram(b)
		for _, m := range embeddedModels() {
			for _, loop := range []bool{false, true} {
				s := m.schedule(insts, ops, loop)
				if err := s.Check(); err != nil {
					t.Fatalf("%s: loop %t: %v", m.Name, loop, err)
				}
				p := &plan{m: m}
				p.set(insts, ops, loop)
				if path, longest := p.path(), p.longest(); !loop && path > longest+1e-9 {
					t.Fatalf("%s: a path of %g cycles where the longest is %g", m.Name, path, longest)
				}
				if each, _ := unrolled(m, insts, ops, loop); !reflect.DeepEqual(s, each) {
					t.Fatalf("%s: loop %t: %v, by following each execution %v", m.Name, loop, s, each)
				}
			}
		}
	})
}
