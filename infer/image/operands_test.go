package image

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// list writes a RegSet as a list: general registers by number, f flags, v0 a vector
// register, k0 a mask.
func (s RegSet) list() string {
	var out []string
	for g := s.General; g != 0; g &= g - 1 {
		switch r := bits.TrailingZeros64(g); {
		case r < 32:
			out = append(out, strconv.Itoa(r))
		case r == Flags:
			out = append(out, "f")
		case r == X87:
			out = append(out, "st")
		default:
			out = append(out, fmt.Sprintf("k%d", r-FirstMask))
		}
	}
	for v := s.Vector; v != 0; v &= v - 1 {
		out = append(out, fmt.Sprintf("v%d", bits.TrailingZeros64(v)))
	}
	return strings.Join(out, " ")
}

func TestOperands(t *testing.T) {
	for _, tt := range []struct {
		arch                           Arch
		code                           string
		op                             Op
		reads, address, writes, update string
	}{
		{X86_64, "48 01 d8", OpALU, "0 3", "", "0 f", ""},                    // add %rbx,%rax
		{X86_64, "48 03 44 8b 08", OpALU, "0", "1 3", "0 f", ""},             // add 8(%rbx,%rcx,4),%rax
		{X86_64, "48 89 43 08", OpNone, "0", "3", "", ""},                    // mov %rax,8(%rbx)
		{X86_64, "48 89 d8", OpMove, "3", "", "0", ""},                       // mov %rbx,%rax
		{X86_64, "31 c0", OpZero, "", "", "0 f", ""},                         // xor %eax,%eax
		{X86_64, "48 8d 44 8b 08", OpLeaComplex, "1 3", "", "0", ""},         // lea 8(%rbx,%rcx,4),%rax
		{X86_64, "48 8d 05 00 00 00 00", OpALU, "", "", "0", ""},             // lea 0(%rip),%rax
		{X86_64, "48 39 d8", OpALU, "0 3", "", "f", ""},                      // cmp %rbx,%rax
		{X86_64, "74 00", OpBranch, "f", "", "", ""},                         // je
		{X86_64, "55", OpNone, "5", "4", "", "4"},                            // push %rbp
		{X86_64, "5d", OpNone, "", "4", "5", "4"},                            // pop %rbp
		{X86_64, "48 f7 f3", OpDiv64, "0 2 3", "", "0 2 f", ""},              // div %rbx
		{X86_64, "f7 e3", OpMulWide, "0 3", "", "0 2 f", ""},                 // mul %ebx
		{X86_64, "0f 94 c0", OpSetCond, "0 f", "", "0", ""},                  // sete %al
		{X86_64, "48 0f 44 c3", OpSelect, "0 3 f", "", "0", ""},              // cmove %rbx,%rax
		{X86_64, "48 d3 e0", OpShiftVar, "0 1 f", "", "0 f", ""},             // shl %cl,%rax
		{X86_64, "88 e0", OpMove, "0", "", "0", ""},                          // mov %ah,%al
		{X86_64, "f2 0f 58 c1", OpFloatAdd, "v0 v1", "", "v0", ""},           // addsd %xmm1,%xmm0
		{X86_64, "c5 f3 58 c2", OpFloatAdd, "v1 v2", "", "v0", ""},           // vaddsd %xmm2,%xmm1,%xmm0
		{X86_64, "c4 e2 f1 b8 c2", OpFMA, "v0 v1 v2", "", "v0", ""},          // vfmadd231pd %xmm2,%xmm1,%xmm0
		{X86_64, "62 a1 7d 40 fe c1", OpVectorInt, "v16 v17", "", "v16", ""}, // vpaddd %zmm17,%zmm16,%zmm16
		{X86_64, "66 0f ef c0", OpZero, "", "", "v0", ""},                    // pxor %xmm0,%xmm0
		{X86_64, "66 48 0f 6e c0", OpToVector, "0", "", "v0", ""},            // movq %rax,%xmm0
		{X86_64, "66 0f d7 c1", OpFromVector, "v1", "", "0", ""},             // pmovmskb %xmm1,%eax
		{X86_64, "f0 48 0f c1 03", OpAtomic, "0", "3", "0 f", ""},            // lock xadd %rax,(%rbx)
		{AArch64, "20 00 02 8b", OpALU, "1 2", "", "0", ""},                  // add x0,x1,x2
		{AArch64, "20 0c 02 8b", OpALUScaled, "1 2", "", "0", ""},            // add x0,x1,x2,lsl #3
		{AArch64, "20 14 02 8b", OpALUShifted, "1 2", "", "0", ""},           // add x0,x1,x2,lsl #5
		{AArch64, "20 14 42 8a", OpALUScaled, "1 2", "", "0", ""},            // and x0,x1,x2,lsr #5
		{AArch64, "3f 00 02 eb", OpALUFlags, "1 2", "", "f", ""},             // cmp x1,x2
		{AArch64, "20 8c 40 f8", OpNone, "", "1", "0", "1"},                  // ldr x0,[x1,#8]!
		{AArch64, "fd 7b bf a9", OpNone, "29 30", "31", "", "31"},            // stp x29,x30,[sp,#-16]!
		{AArch64, "20 7c 02 9b", OpMulWide, "1 2", "", "0", ""},              // mul x0,x1,x2
		{AArch64, "20 00 82 9a", OpSelect, "1 2 f", "", "0", ""},             // csel x0,x1,x2,eq
		{AArch64, "20 00 00 b5", OpBranch, "0", "", "", ""},                  // cbnz x0
		{AArch64, "20 28 62 1e", OpFloatAdd, "v1 v2", "", "v0", ""},          // fadd d0,d1,d2
		{AArch64, "20 0c 42 1f", OpFMA, "v1 v2 v3", "", "v0", ""},            // fmadd d0,d1,d2,d3
		{AArch64, "20 cc 22 4e", OpFMA, "v0 v1 v2", "", "v0", ""},            // fmla v0.4s,v1.4s,v2.4s
		{AArch64, "20 00 66 9e", OpFromVector, "v1", "", "0", ""},            // fmov x0,d1
		{AArch64, "c0 03 5f d6", OpReturn, "30", "", "", ""},                 // ret
	} {
		code := hexBytes(t, tt.code)
		var in Inst
		var d x86
		if tt.arch == AArch64 {
			in = armInst(code, 0)
		} else {
			in = d.inst(code, 0)
		}
		o := operands(&d, tt.arch, code, in)
		got := []string{o.Op.String(), o.Reads.list(), o.Address.list(), o.Writes.list(), o.Update.list()}
		want := []string{tt.op.String(), tt.reads, tt.address, tt.writes, tt.update}
		if !slices.Equal(got, want) {
			t.Errorf("%s %s: %q, want %q", tt.arch, tt.code, got, want)
		}
	}
}

func hexBytes(t *testing.T, s string) []byte {
	t.Helper()
	var b []byte
	for _, f := range strings.Fields(s) {
		v, err := strconv.ParseUint(f, 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, byte(v))
	}
	return b
}

var x86RegisterName = regexp.MustCompile(`%[a-z0-9]+`)
var armRegisterName = regexp.MustCompile(`\b([xwvqdshbz][0-9]+|w?sp|[xw]zr)\b`)

var targetAddress = regexp.MustCompile(`\b[0-9a-f]{4,}\b`)

// x86Names has the number of each name of a general register.
var x86Names = func() map[string]int {
	m := map[string]int{}
	for i, n := range []string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di"} {
		m["r"+n], m["e"+n], m[n] = i, i, i
		if i < 4 {
			m[n[:1]+"l"], m[n[:1]+"h"] = i, i
		} else {
			m[n+"l"] = i
		}
	}
	for i := 8; i < 16; i++ {
		for _, suffix := range []string{"", "d", "w", "b"} {
			m[fmt.Sprintf("r%d%s", i, suffix)] = i
		}
	}
	return m
}()

// named returns the registers that objdump names.
func named(arch Arch, text string) (s RegSet) {
	if i := strings.IndexByte(text, '#'); i >= 0 && arch == X86_64 {
		text = text[:i]
	}
	text, _, _ = strings.Cut(text, "<")
	text = targetAddress.ReplaceAllString(text, "")
	if arch == AArch64 {
		for _, n := range armRegisterName.FindAllString(text, -1) {
			switch v, err := strconv.Atoi(n[1:]); {
			case n == "sp" || n == "wsp":
				s.general(31)
			case err != nil:
			case n[0] == 'x' || n[0] == 'w':
				s.general(v)
			default:
				s.Vector |= 1 << v
			}
		}
		return s
	}
	for _, n := range x86RegisterName.FindAllString(text, -1) {
		n = n[1:]
		if r, ok := x86Names[n]; ok {
			s.general(r)
		} else if len(n) == 2 && n[0] == 'k' {
			s.general(FirstMask + int(n[1]-'0'))
		} else if i := strings.Index(n, "mm"); i == 1 && n[0] != 'm' {
			v, _ := strconv.Atoi(n[3:])
			s.Vector |= 1 << v
		}
	}
	return s
}

// TestOperandsAgainstObjdump: the registers that the text of an instruction names
// are those that Operands gives, but for what an instruction reads or writes
// without naming it.
// TestFixed: a place is fixed if nothing but the stack pointer or the instruction says where it is.
func TestFixed(t *testing.T) {
	of := func(general, vector uint64) Operands {
		return Operands{Address: RegSet{General: general, Vector: vector}}
	}
	for _, tt := range []struct {
		arch  Arch
		o     Operands
		fixed bool
	}{
		{X86_64, of(0, 0), true},
		{X86_64, of(1<<rsp, 0), true},
		{X86_64, of(1<<rsp|1<<rax, 0), false},
		{X86_64, of(1<<31, 0), false},
		{X86_64, of(0, 1), false},
		{AArch64, of(1<<31, 0), true},
		{AArch64, of(1<<rsp, 0), false},
	} {
		if got := tt.o.Fixed(tt.arch); got != tt.fixed {
			t.Errorf("%s: %+v: fixed %t", tt.arch, tt.o.Address, got)
		}
	}
}

func TestOperandsAgainstObjdump(t *testing.T) {
	for _, tt := range []struct{ tool, path string }{
		{"objdump", "/lib/x86_64-linux-gnu/libc.so.6"},
		{"objdump", "/usr/lib/x86_64-linux-gnu/libm.so.6"},
		{"aarch64-linux-gnu-objdump", "/usr/aarch64-linux-gnu/lib/libc.so.6"},
		{"aarch64-linux-gnu-objdump", "/usr/aarch64-linux-gnu/lib/libm.so.6"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			im, err := Open(tt.path, Options{})
			if err != nil {
				t.Skip(err)
			}
			defer im.Close()
			bad, n := map[string]int{}, 0
			objdump(t, tt.tool, tt.path, func(l line) {
				code := im.code(l.addr, l.addr+Addr(l.len))
				if len(code) == 0 {
					return
				}
				in := im.decodeOne(code, l.addr)
				o := im.Operands(in)
				if in.Len != l.len || in.Class&(Bad|Nop) != 0 || o.Op == OpSystem || o.Op == OpMask || o.Op == OpNop || o.Op == OpFence {
					return
				}
				n++
				got := RegSet{}
				for _, s := range []RegSet{o.Reads, o.Address, o.Writes, o.Update} {
					got.add(s)
				}
				want := named(im.Arch, l.operands)
				got.General &^= 1<<Flags | 1<<X87
				if o.Op == OpZero {
					return
				}
				missing := RegSet{want.General &^ got.General, want.Vector &^ got.Vector}
				extra := RegSet{got.General &^ want.General, got.Vector &^ want.Vector}
				if missing == (RegSet{}) && (extra == RegSet{} || implicit(im.Arch, o, l.mnemonic)) {
					return
				}
				if bad[l.mnemonic]++; bad[l.mnemonic] == 1 {
					t.Logf("%#x %s%s %s: %s: without %q, too many %q", l.addr, l.prefix, l.mnemonic, l.operands, o.Op, missing.list(), extra.list())
				}
			})
			wrong := 0
			for _, k := range bad {
				wrong += k
			}
			t.Logf("%d instructions, %d differ", n, wrong)
			if n < 1000 || wrong*1000 > n {
				t.Errorf("%d of %d instructions differ", wrong, n)
			}
		})
	}
}

// implicit tells of instructions that use registers they do not name.
func implicit(arch Arch, o Operands, mnemonic string) bool {
	switch o.Op {
	case OpCall, OpReturn, OpString, OpAtomic, OpMulWide, OpDiv32, OpDiv64, OpCrypto:
		return true
	}
	if arch == AArch64 {
		return false
	}
	for _, p := range []string{"push", "pop", "leave", "cltq", "cqto", "cltd", "cwtl", "cltd", "cmpxchg", "movs", "stos", "lods", "scas", "cmps", "jrcxz", "loop", "pcmp", "blendv", "pblendv"} {
		if strings.HasPrefix(mnemonic, p) {
			return true
		}
	}
	return false
}

func BenchmarkOperands(b *testing.B) {
	im, err := Open("../../testdata/mix/mix", Options{})
	if err != nil {
		b.Skip(err)
	}
	defer im.Close()
	var insts []Inst
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			continue
		}
		for j := range p.Blocks {
			insts = append(insts, im.Insts(&p.Blocks[j])...)
		}
	}
	for b.Loop() {
		for _, in := range insts {
			im.Operands(in)
		}
	}
	b.ReportMetric(float64(b.N*len(insts))/b.Elapsed().Seconds(), "insts/s")
}
