package probe

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
)

// all says that every kind but the last, which is stepped, is emulated.
func (p *ISA) allEmulated() []Cost {
	costs := make([]Cost, len(p.Kinds)+1)
	for i := range costs {
		costs[i] = Cost{Cost: 600, Exact: true}
	}
	costs[len(costs)-1].Cost = 19000
	if err := p.Judge(costs); err != nil {
		panic(err)
	}
	return costs
}

// TestCheckSite: only what the kernel emulates is armed, with its own condition, and
// never a nop of 5 bytes.
func TestCheckSite(t *testing.T) {
	costs, arm := x86ISA.allEmulated(), armISA.allEmulated()
	for _, tt := range []struct {
		name string
		code []byte
		cond int8
		ok   bool
	}{
		{"jo", []byte{0x70, 2}, 0, true},
		{"jg", []byte{0x7f, 2}, 15, true},
		{"jg as jle", []byte{0x7f, 2}, 14, false},
		{"jg as no branch", []byte{0x7f, 2}, NoCond, false},
		{"jnz near", []byte{0x0f, 0x85, 1, 0, 0, 0}, 5, true},
		{"jmp", []byte{0xeb, 1}, NoCond, true},
		{"jmp with condition", []byte{0xeb, 1}, 11, false},
		{"jmp near", []byte{0xe9, 1, 0, 0, 0}, NoCond, true},
		{"call", []byte{0xe8, 1, 0, 0, 0}, NoCond, true},
		{"push rbp", []byte{0x55}, NoCond, true},
		{"push r12", []byte{0x41, 0x54}, NoCond, true},
		{"nop", []byte{0x90}, NoCond, true},
		{"nop of 2", []byte{0x66, 0x90}, NoCond, true},
		{"nop of 4", []byte{0x0f, 0x1f, 0x40, 0x00}, NoCond, true},
		{"nop of 5", []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}, NoCond, false},
		{"nop of 5, of prefixes", []byte{0x66, 0x66, 0x66, 0x66, 0x90}, NoCond, false},
		{"nop of 6", []byte{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}, NoCond, true},
		{"nop of 8", []byte{0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, NoCond, true},
		{"nop of 9", []byte{0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, NoCond, false},
		{"xchg r8, rax", []byte{0x41, 0x90}, NoCond, false},
		{"endbr64", []byte{0xf3, 0x0f, 0x1e, 0xfa}, NoCond, false},
		{"mov", []byte{0x89, 0xc0}, NoCond, false},
		{"push imm", []byte{0x6a, 1}, NoCond, false},
		{"ret", []byte{0xc3}, NoCond, false},
		{"jrcxz", []byte{0xe3, 1}, NoCond, false},
		{"loop", []byte{0xe2, 1}, NoCond, false},
		{"jmp [rip]", []byte{0xff, 0x25, 0, 0, 0, 0}, NoCond, false},
		{"call rax", []byte{0xff, 0xd0}, NoCond, false},
		{"lock inc", []byte{0xf0, 0xff, 0x00}, NoCond, false},
		{"jz with 66", []byte{0x66, 0x0f, 0x84, 0, 0, 0, 0}, 4, false},
		{"int3", []byte{0xcc}, NoCond, false},
		{"nothing", nil, NoCond, false},
		{"end of file in a nop", []byte{0x0f, 0x1f}, NoCond, false},
	} {
		if err := x86ISA.Check(tt.code, tt.cond, costs); (err == nil) != tt.ok {
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
		{"cbz x3", 0xb4000043, CondZero, true},
		{"cbnz w3", 0x35000043, CondNotZero, true},
		{"cbnz as cbz", 0x35000043, CondZero, false},
		{"tbz", 0xb6f80043, CondClear, true},
		{"tbnz", 0x37000043, CondSet, true},
		{"tbnz as no branch", 0x37000043, NoCond, false},
		{"b", 0x17ffffff, NoCond, true},
		{"bl", 0x97ffffff, NoCond, true},
		{"adrp", 0x90000000, NoCond, true},
		{"nop", 0xd503201f, NoCond, true},
		{"bti", 0xd503241f, NoCond, false},
		{"ldr literal", 0x58000040, NoCond, false},
		{"br", 0xd61f0000, NoCond, false},
		{"ret", 0xd65f03c0, NoCond, false},
		{"mov", 0xaa0103e0, NoCond, false},
		{"svc", 0xd4000001, NoCond, false},
	} {
		if err := armISA.Check(words(tt.code), tt.cond, arm); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := armISA.Check([]byte{0x1f, 0x20}, NoCond, arm); err == nil {
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
		{0xb4000043, CondZero, 3, 1 << 6},
		{0x3500005f, CondNotZero, 31, 0},
		{0xb6f80043, CondClear, 3, 1<<6 | 63},
		{0x37080045, CondSet, 5, 1<<6 | 1},
	} {
		want := 7 | uint64(tt.cond)<<8 | tt.reg<<16 | tt.bits<<21
		if got := Cookie(7, tt.cond, words(tt.code)); got != want {
			t.Errorf("%#x: %#x, want %#x", tt.code, got, want)
		}
	}
}

// TestJudge: a kind that is stepped, or was not counted exactly, is refused.
func TestJudge(t *testing.T) {
	costs := x86ISA.allEmulated()
	costs[0].Cost, costs[1].Exact = 12000, false
	if err := x86ISA.Judge(costs); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true} {
		if costs[i].Emulated != want {
			t.Errorf("kind %d: emulated: %v", i, costs[i].Emulated)
		}
	}
	if err := x86ISA.Check([]byte{0x75, 0}, 5, costs); !errors.Is(err, errNotEmulated) {
		t.Errorf("a branch of a kind that is stepped: %v", err)
	}
	for i := range costs {
		costs[i].Cost = 19000
	}
	if x86ISA.Judge(costs) == nil {
		t.Error("a kernel that steps all: no error")
	}
}

// TestLoopProgram: the program is an ELF file, and its sites are what they are to be.
func TestLoopProgram(t *testing.T) {
	for _, p := range isas {
		file, offs := p.LoopProgram()
		f, err := elf.NewFile(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Progs) != 1 || f.Progs[0].Filesz != uint64(len(file)) {
			t.Errorf("%s: segments %+v of %d bytes", p.Name, f.Progs, len(file))
		}
		for i, off := range offs {
			k, err := p.KindOf(file[off:])
			if i < len(p.Kinds) && (err != nil || k != i) {
				t.Errorf("%s: site %d: kind %d, %v", p.Name, i, k, err)
			}
			if i == len(p.Kinds) && err == nil {
				t.Errorf("%s: the stepped site is of kind %d", p.Name, k)
			}
		}
	}
}

// TestLoopProgramRuns: the program for AArch64 runs each of its loops to the end.
func TestLoopProgramRuns(t *testing.T) {
	qemu := testtool.Path(t, "qemu-aarch64")
	code, offs := armISA.LoopProgram()
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
