package image

import (
	"os"
	"strings"
	"testing"
)

const flowClasses = Flow | Nop | Bad

// x86Flow returns the flow classes of an x86 mnemonic.
func x86Flow(l line) Class {
	m := l.mnemonic
	indirect := strings.HasPrefix(l.operands, "*")
	switch {
	case m == "(bad)":
		return Bad
	case strings.HasPrefix(m, "ret") || strings.HasPrefix(m, "lret") || strings.HasPrefix(m, "iret") || strings.HasPrefix(m, "sysret"):
		return Ret
	case (strings.HasPrefix(m, "call") || strings.HasPrefix(m, "lcall")) && indirect:
		return IndCall
	case strings.HasPrefix(m, "call"):
		return DirCall
	case (strings.HasPrefix(m, "jmp") || strings.HasPrefix(m, "ljmp")) && indirect:
		return IndJump
	case strings.HasPrefix(m, "jmp"):
		return Jump
	case strings.HasPrefix(m, "j") || strings.HasPrefix(m, "loop") || m == "xbegin":
		return CondJump
	case m == "ud0" || m == "ud1" || m == "ud2" || m == "hlt" || m == "int3" || m == "int" && l.operands == "$0x3":
		return Trap
	case strings.HasPrefix(m, "nop") || strings.HasPrefix(m, "endbr"):
		return Nop
	case m == "xchg" && l.operands == "%ax,%ax" && l.len == 2:
		return Nop // 66 90
	}
	return 0
}

// x86Memory reports whether an instruction has an operand in memory that it reads or
// writes.
func x86Memory(l line) bool {
	l.operands, _, _ = strings.Cut(l.operands, " <") // names of Go have parentheses
	switch m := l.mnemonic; {
	case m == "in" || m == "out":
		return false
	case !strings.ContainsAny(strings.ReplaceAll(l.operands, "%st(", ""), "(:"):
		return strings.HasPrefix(m, "xlat") || strings.Contains(l.operands, "0x") && memoryByAddress(l)
	case strings.HasPrefix(m, "lea"), strings.HasPrefix(m, "nop"), strings.HasPrefix(m, "prefetch"), strings.HasPrefix(m, "clflush"),
		strings.HasPrefix(m, "cl"), strings.HasPrefix(m, "bnd"), m == "invlpg":
		return false
	}
	return true
}

// memoryByAddress tells of operands that are a constant address.
func memoryByAddress(l line) bool {
	for _, o := range strings.Split(l.operands, ",") {
		if strings.HasPrefix(o, "0x") && x86Flow(l) == 0 {
			return true
		}
	}
	return strings.HasPrefix(l.operands, "*0x")
}

// TestX86Objdump compares length, flow and use of memory of every instruction of whole programs
// with GNU objdump.
func TestX86Objdump(t *testing.T) {
	paths := []string{"/usr/lib/x86_64-linux-gnu/libc.so.6"}
	if extra := os.Getenv("BACKFEED_OBJDUMP"); extra != "" {
		paths = append(paths, strings.Fields(extra)...)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			im := openTest(t, path)
			var d x86
			n, wrong := 0, 0
			objdump(t, "objdump", path, func(l line) {
				b := im.code(l.addr, l.addr+15)
				if b == nil {
					if b = im.code(l.addr, l.addr+Addr(l.len)); b == nil {
						return
					}
				}
				in := d.inst(b, l.addr)
				want := x86Flow(l)
				n++
				memory := in.Class&(Load|Store) != 0 == x86Memory(l)
				if in.Len == l.len && in.Class&flowClasses == want && memory || want == Bad || l.mnemonic == "" {
					return
				}
				if wrong++; wrong < 20 {
					t.Errorf("%#x: % x %s%s %s: length %d class %#x, objdump has %d %#x", l.addr, b[:l.len], l.prefix, l.mnemonic, l.operands, in.Len, in.Class, l.len, want)
				}
			})
			if wrong > 0 || n == 0 {
				t.Errorf("%d of %d instructions differ", wrong, n)
			}
			t.Logf("%d instructions", n)
		})
	}
}

// openTest opens an image, or skips the test where there is none.
func openTest(tb testing.TB, path string) *Image {
	tb.Helper()
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("no %s", path)
	}
	im, err := Open(path, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { im.Close() })
	return im
}

func TestX86Class(t *testing.T) {
	for _, tt := range []struct {
		text  string
		code  string
		class Class
	}{
		{"mov (%rdi),%eax", "\x8b\x07", Load},
		{"mov %eax,(%rdi)", "\x89\x07", Store},
		{"mov %eax,%edi", "\x89\xc7", 0},
		{"add %eax,(%rdi)", "\x01\x07", Load | Store},
		{"cmp %eax,(%rdi)", "\x39\x07", Load | Compare},
		{"cmpl $1,(%rdi)", "\x83\x3f\x01", Load | Compare},
		{"addl $1,(%rdi)", "\x83\x07\x01", Load | Store},
		{"test %eax,%eax", "\x85\xc0", Compare},
		{"lea (%rdi),%eax", "\x8d\x07", 0},
		{"push (%rdi)", "\xff\x37", Load | Push},
		{"push %rbp", "\x55", Push},
		{"lock cmpxchg %ecx,(%rdi)", "\xf0\x0f\xb1\x0f", Load | Store | Locked},
		{"xchg %eax,(%rdi)", "\x87\x07", Load | Store | Locked},
		{"xchg %eax,%ecx", "\x87\xc8", 0},
		{"rep movsq", "\xf3\x48\xa5", Load | Store | Rep},
		{"rep stos", "\xf3\xab", Store | Rep},
		{"movzwl (%rdi),%eax under repz", "\xf3\x0f\xb7\x07", Load},
		{"div %ecx", "\xf7\xf1", Div},
		{"divsd %xmm1,%xmm0", "\xf2\x0f\x5e\xc1", Float | Div},
		{"vsqrtsd", "\xc5\xfb\x51\xc0", Float | Div},
		{"imul (%rdi),%eax", "\x0f\xaf\x07", Load | Mul},
		{"mulx", "\xc4\xe2\xfb\xf6\xc1", Mul},
		{"movaps %xmm0,(%rdi)", "\x0f\x29\x07", Store},
		{"movq %xmm0,(%rdi)", "\x66\x0f\xd6\x07", Store},
		{"movq (%rdi),%xmm0", "\xf3\x0f\x7e\x07", Load},
		{"movd %xmm0,(%rdi)", "\x66\x0f\x7e\x07", Store},
		{"vmovdqu %ymm0,(%rdi)", "\xc5\xfe\x7f\x07", Store},
		{"vmovdqu64 (%rdi),%zmm0", "\x62\xf1\xfe\x48\x6f\x07", Load},
		{"vzeroupper", "\xc5\xf8\x77", 0},
		{"ucomisd %xmm1,%xmm0", "\x66\x0f\x2e\xc1", Float | Compare},
		{"fstpl (%rdi)", "\xdd\x1f", Float | Store},
		{"fldl (%rdi)", "\xdd\x07", Float | Load},
		{"mfence", "\x0f\xae\xf0", Locked},
		{"syscall", "\x0f\x05", System},
		{"cpuid", "\x0f\xa2", System},
		{"pause", "\xf3\x90", System},
		{"endbr64", "\xf3\x0f\x1e\xfa", Nop},
		{"nopw %cs:0(%rax,%rax,1)", "\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", Nop},
		{"repz ret", "\xf3\xc3", Ret},
		{"bnd jmp", "\xf2\xe9\x00\x00\x00\x00", Jump},
		{"notrack jmp *%rax", "\x3e\xff\xe0", IndJump},
		{"jmp *(%rax)", "\xff\x20", IndJump | Load},
		{"call *8(%rax)", "\xff\x50\x08", IndCall | Load},
		{"xbegin", "\xc7\xf8\x00\x00\x00\x00", CondJump | System},
		{"loop", "\xe2\xfe", CondJump},
		{"ud2", "\x0f\x0b", Trap},
		{"ud1 %edx,%eax", "\x0f\xb9\xc2", Trap},
		{"hlt", "\xf4", Trap},
		{"int3", "\xcc", Trap},
		{"int $3", "\xcd\x03", Trap},
		{"int $0x80", "\xcd\x80", System},
		{"movabs $1,%rax", "\x48\xb8\x01\x00\x00\x00\x00\x00\x00\x00", 0},
		{"REX2 mov (%r16),%eax", "\xd5\x10\x8b\x00", Load},
		{"FMA4 vfmaddpd", "\xc4\xe3\xf9\x69\xc1\x20", Float},
		{"XOP vpcomb", "\x8f\xe8\x78\xcc\xc1\x00", Float},
		{"3DNow! pfadd", "\x0f\x0f\xc1\x9e", Float},
		{"push %es, not in 64-bit mode", "\x06", Bad},
		{"REX alone", "\x48", Bad},
		{"cut short", "\xe8\x00\x00\x00", Bad},
		{"prefixes beyond 15 bytes", "\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90", Bad},
	} {
		var d x86
		in := d.inst([]byte(tt.code), 0)
		if in.Class != tt.class || in.Class&Bad == 0 && in.Len != len(tt.code) {
			t.Errorf("%s: class %#x, length %d; want %#x, %d", tt.text, in.Class, in.Len, tt.class, len(tt.code))
		}
	}
}
