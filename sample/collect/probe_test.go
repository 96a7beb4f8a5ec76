package collect

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/probe"
)

// all says that every kind but the last, which is stepped, is emulated.
func (p *probeISA) allEmulated() []ProbeCost {
	costs := make([]ProbeCost, len(p.kinds)+1)
	for i := range costs {
		costs[i] = ProbeCost{Cost: 600, Exact: true}
	}
	costs[len(costs)-1].Cost = 19000
	if err := p.judge(costs); err != nil {
		panic(err)
	}
	return costs
}

// TestCheckSite: only what the kernel emulates is armed, with its own condition, and
// never a nop of 5 bytes.
func TestCheckSite(t *testing.T) {
	costs, arm := x86Probes.allEmulated(), armProbes.allEmulated()
	for _, tt := range []struct {
		name string
		code []byte
		cond int8
		ok   bool
	}{
		{"jo", []byte{0x70, 2}, 0, true},
		{"jg", []byte{0x7f, 2}, 15, true},
		{"jg as jle", []byte{0x7f, 2}, 14, false},
		{"jg as no branch", []byte{0x7f, 2}, probe.NoCond, false},
		{"jnz near", []byte{0x0f, 0x85, 1, 0, 0, 0}, 5, true},
		{"jmp", []byte{0xeb, 1}, probe.NoCond, true},
		{"jmp with condition", []byte{0xeb, 1}, 11, false},
		{"jmp near", []byte{0xe9, 1, 0, 0, 0}, probe.NoCond, true},
		{"call", []byte{0xe8, 1, 0, 0, 0}, probe.NoCond, true},
		{"push rbp", []byte{0x55}, probe.NoCond, true},
		{"push r12", []byte{0x41, 0x54}, probe.NoCond, true},
		{"nop", []byte{0x90}, probe.NoCond, true},
		{"nop of 2", []byte{0x66, 0x90}, probe.NoCond, true},
		{"nop of 4", []byte{0x0f, 0x1f, 0x40, 0x00}, probe.NoCond, true},
		{"nop of 5", []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}, probe.NoCond, false},
		{"nop of 5, of prefixes", []byte{0x66, 0x66, 0x66, 0x66, 0x90}, probe.NoCond, false},
		{"nop of 6", []byte{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}, probe.NoCond, true},
		{"nop of 8", []byte{0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, probe.NoCond, true},
		{"nop of 9", []byte{0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, probe.NoCond, false},
		{"xchg r8, rax", []byte{0x41, 0x90}, probe.NoCond, false},
		{"endbr64", []byte{0xf3, 0x0f, 0x1e, 0xfa}, probe.NoCond, false},
		{"mov", []byte{0x89, 0xc0}, probe.NoCond, false},
		{"push imm", []byte{0x6a, 1}, probe.NoCond, false},
		{"ret", []byte{0xc3}, probe.NoCond, false},
		{"jrcxz", []byte{0xe3, 1}, probe.NoCond, false},
		{"loop", []byte{0xe2, 1}, probe.NoCond, false},
		{"jmp [rip]", []byte{0xff, 0x25, 0, 0, 0, 0}, probe.NoCond, false},
		{"call rax", []byte{0xff, 0xd0}, probe.NoCond, false},
		{"lock inc", []byte{0xf0, 0xff, 0x00}, probe.NoCond, false},
		{"jz with 66", []byte{0x66, 0x0f, 0x84, 0, 0, 0, 0}, 4, false},
		{"int3", []byte{0xcc}, probe.NoCond, false},
		{"nothing", nil, probe.NoCond, false},
		{"end of file in a nop", []byte{0x0f, 0x1f}, probe.NoCond, false},
	} {
		if err := x86Probes.checkSite(tt.code, tt.cond, costs); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, tt := range []struct {
		name string
		code uint32
		cond int8
		ok   bool
	}{
		{"b.lt", 0x5400004b, 11, true},
		{"b.lt as b.ge", 0x5400004b, 10, false},
		{"bc.lt", 0x5400005b, 11, false},
		{"cbz x3", 0xb4000043, probe.CondZero, true},
		{"cbnz w3", 0x35000043, probe.CondNotZero, true},
		{"cbnz as cbz", 0x35000043, probe.CondZero, false},
		{"tbz", 0xb6f80043, probe.CondClear, true},
		{"tbnz", 0x37000043, probe.CondSet, true},
		{"tbnz as no branch", 0x37000043, probe.NoCond, false},
		{"b", 0x17ffffff, probe.NoCond, true},
		{"bl", 0x97ffffff, probe.NoCond, true},
		{"adrp", 0x90000000, probe.NoCond, true},
		{"nop", 0xd503201f, probe.NoCond, true},
		{"bti", 0xd503241f, probe.NoCond, false},
		{"ldr literal", 0x58000040, probe.NoCond, false},
		{"br", 0xd61f0000, probe.NoCond, false},
		{"ret", 0xd65f03c0, probe.NoCond, false},
		{"mov", 0xaa0103e0, probe.NoCond, false},
		{"svc", 0xd4000001, probe.NoCond, false},
	} {
		if err := armProbes.checkSite(words(tt.code), tt.cond, arm); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := armProbes.checkSite([]byte{0x1f, 0x20}, probe.NoCond, arm); err == nil {
		t.Error("the end of a file in an instruction: no error")
	}
}

// TestCookie: of a branch that tests a register, a cookie has which bits of which one.
func TestCookie(t *testing.T) {
	for _, tt := range []struct {
		code      uint32
		cond      int8
		reg, bits uint64
	}{
		{0x5400004b, 11, 0, 0},
		{0xb4000043, probe.CondZero, 3, 1 << 6},
		{0x3500005f, probe.CondNotZero, 31, 0},
		{0xb6f80043, probe.CondClear, 3, 1<<6 | 63},
		{0x37080045, probe.CondSet, 5, 1<<6 | 1},
	} {
		want := 7 | uint64(tt.cond)<<8 | tt.reg<<16 | tt.bits<<21
		if got := cookie(7, tt.cond, words(tt.code)); got != want {
			t.Errorf("%#x: %#x, want %#x", tt.code, got, want)
		}
	}
}

// TestJudge: a kind that is stepped, or was not counted exactly, is refused.
func TestJudge(t *testing.T) {
	costs := x86Probes.allEmulated()
	costs[0].Cost, costs[1].Exact = 12000, false
	if err := x86Probes.judge(costs); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true} {
		if costs[i].Emulated != want {
			t.Errorf("kind %d: emulated: %v", i, costs[i].Emulated)
		}
	}
	if err := x86Probes.checkSite([]byte{0x75, 0}, 5, costs); !errors.Is(err, errNotEmulated) {
		t.Errorf("a branch of a kind that is stepped: %v", err)
	}
	for i := range costs {
		costs[i].Cost = 19000
	}
	if unavailable := (*Unavailable)(nil); !errors.As(x86Probes.judge(costs), &unavailable) {
		t.Error("a kernel that steps all: no error")
	}
}

// TestLoopProgram: the program is an ELF file, and its sites are what they are to be.
func TestLoopProgram(t *testing.T) {
	for _, p := range probeISAs {
		file, offs := p.loopProgram()
		f, err := elf.NewFile(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Progs) != 1 || f.Progs[0].Filesz != uint64(len(file)) {
			t.Errorf("%s: segments %+v of %d bytes", p.name, f.Progs, len(file))
		}
		for i, off := range offs {
			k, err := p.kindOf(file[off:])
			if i < len(p.kinds) && (err != nil || k != i) {
				t.Errorf("%s: site %d: kind %d, %v", p.name, i, k, err)
			}
			if i == len(p.kinds) && err == nil {
				t.Errorf("%s: the stepped site is of kind %d", p.name, k)
			}
		}
	}
}

// TestLoopProgramRuns: the program for AArch64 runs each of its loops to the end.
func TestLoopProgramRuns(t *testing.T) {
	qemu := testtool.Path(t, "qemu-aarch64")
	code, offs := armProbes.loopProgram()
	exe := filepath.Join(t.TempDir(), "loops")
	if err := os.WriteFile(exe, code, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range len(offs) + 1 {
		if out, err := exec.Command(qemu, append([]string{exe}, make([]string, i)...)...).CombinedOutput(); err != nil {
			t.Errorf("loop %d: %v %s", i, err, out)
		}
	}
}
