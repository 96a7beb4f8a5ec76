package image

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestText claims what objdump prints. The image has f at 0x401000, the variable v
// of 16 bytes at 0x402000, and the slot of an import at 0x403000.
func TestText(t *testing.T) {
	for _, tt := range []struct {
		arch       Arch
		code, want string
	}{
		{X86_64, "48 89 e5", "mov %rsp,%rbp"},
		{X86_64, "48 89 8d e8 fd ff ff", "mov %rcx,-0x218(%rbp)"},
		{X86_64, "48 89 8d 18 02 00 00", "mov %rcx,0x218(%rbp)"},
		{X86_64, "8b 45 00", "mov 0x0(%rbp),%eax"},
		{X86_64, "8b 04 33", "mov (%rbx,%rsi,1),%eax"},
		{X86_64, "49 8b 44 24 08", "mov 0x8(%r12),%rax"},
		{X86_64, "41 8b 04 24", "mov (%r12),%eax"},
		{X86_64, "64 48 8b 04 25 28 00 00 00", "mov %fs:0x28,%rax"},
		{X86_64, "64 48 8b 04 25 f8 ff ff ff", "mov %fs:0xfffffffffffffff8,%rax"},
		{X86_64, "8b 04 8d f0 ff ff ff", "mov -0x10(,%rcx,4),%eax"},
		{X86_64, "67 8b 40 f0", "mov -0x10(%eax),%eax"},
		{X86_64, "8b 05 fa 0f 00 00", "mov 0xffa(%rip),%eax  # 0x402000 <v>"},
		{X86_64, "8b 05 02 10 00 00", "mov 0x1002(%rip),%eax  # 0x402008 <v+0x8>"},
		{X86_64, "48 8b 05 f9 1f 00 00", "mov 0x1ff9(%rip),%rax  # 0x403000 <malloc@got>"},
		{X86_64, "8b 05 fa 2f 00 00", "mov 0x2ffa(%rip),%eax  # 0x404000"},
		{X86_64, "c5 fd 6f 15 f8 0f 00 00", "vmovdqa 0xff8(%rip),%ymm2  # 0x402000 <v>"},
		{X86_64, "83 f8 ff", "cmp $0xffffffff,%eax"},
		{X86_64, "48 83 e0 f0", "and $0xfffffffffffffff0,%rax"},
		{X86_64, "66 83 f8 ff", "cmp $0xffff,%ax"},
		{X86_64, "80 f9 f0", "cmp $0xf0,%cl"},
		{X86_64, "c7 45 f0 ff ff ff ff", "movl $0xffffffff,-0x10(%rbp)"},
		{X86_64, "48 b8 00 00 00 00 00 00 00 80", "movabs $0x8000000000000000,%rax"},
		{X86_64, "6a ff", "push $0xffffffffffffffff"},
		{X86_64, "74 10", "je 0x401012"},
		{X86_64, "eb fe", "jmp 0x401000 <f>"},
		{X86_64, "e8 fb 7f 00 00", "call 0x409000"},
		{X86_64, "ff 25 fa 1f 00 00", "jmp *0x1ffa(%rip)  # 0x403000 <malloc@got>"},
		{X86_64, "3e ff e0", "notrack jmp *%rax"},
		{X86_64, "f3 c3", "repz ret"},
		{X86_64, "f3 48 ab", "rep stos %rax,%es:(%rdi)"},
		{X86_64, "f3 0f 1e fa", "endbr64"},
		{X86_64, "66 90", "xchg %ax,%ax"},
		{X86_64, "66 66 2e 0f 1f 84 00 00 00 00 00", "data16 cs nopw 0x0(%rax,%rax,1)"},
		{X86_64, "48 98", "cltq"},
		{X86_64, "48 63 d0", "movslq %eax,%rdx"},
		{X86_64, "c4 e2 fa f7 c1", "sarx %rax,%rcx,%rax"},
		{X86_64, "66 4c 0f 38 f6 eb", "adcx %rbx,%r13"},
		{X86_64, "f3 4d 0f 38 f6 28", "adox (%r8),%r13"},
		{X86_64, "66 0f 3a 0f c1 f8", "palignr $0xf8,%xmm1,%xmm0"},
		{X86_64, "dd d8", "fstp %st(0)"},
		{X86_64, "df 00", "filds (%rax)"},
		{X86_64, "c5 f8 77 c3", "vzeroupper"},
		{X86_64, "62 f3 7d 48 3f c2 00", "vpcmpeqb %zmm2,%zmm0,%k0"},
		{X86_64, "62 f1 7d 48 6f 40 ff", "vmovdqa32 -0x40(%rax),%zmm0"},
		{X86_64, "06", ".byte 0x06"},
		{AArch64, "c0 03 5f d6", "ret"},
		{AArch64, "1f 20 03 d5", "nop"},
		{AArch64, "5f 24 03 d5", "bti c"},
		{AArch64, "fd 7b bf a9", "stp x29, x30, [sp, #-16]!"},
		{AArch64, "fd 7b c1 a8", "ldp x29, x30, [sp], #16"},
		{AArch64, "40 d0 3b d5", "mrs x0, tpidr_el0"},
		{AArch64, "ff ff ff 17", "b 0x400ffc"},
		{AArch64, "00 00 00 94", "bl 0x401000 <f>"},
		{AArch64, "00 00 00 f0", "adrp x0, 0x404000"},
		{AArch64, "00 80 00 10", "adr x0, 0x402000 <v>"},
		{AArch64, "41 00 20 b8", ".inst 0xb8200041"},
	} {
		im := codeImage(tt.arch, hexBytes(t, tt.code), nil)
		im.objects = []object{{"v", extent{0x402000, 0x402010}}}
		im.relocs = func() *relocations {
			return &relocations{all: []reloc{{slot: 0x403000}}, names: []Dynamic{{Name: "malloc"}}}
		}
		if got := im.Text(testBase); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.code, got, tt.want)
		}
	}
}

// dumpedTarget are the addresses that objdump prints without 0x: of branches, and of
// what AArch64 loads or makes relative to the instruction.
var dumpedTarget = map[Arch]*regexp.Regexp{
	X86_64:  regexp.MustCompile(`^((?:[a-z0-9]+ )*(?:j[a-z]+|call|xbegin|loop[a-z]*)(?:,p[nt])?) ([0-9a-f]+)\b`),
	AArch64: regexp.MustCompile(`^((?:bl?|b\.[a-z]+|cbn?z [^ ]*|tbn?z .*|adrp? x[0-9]+,|ldr [xwdqs][0-9]+,|ldrsw x[0-9]+,)) ([0-9a-f]+)\b`),
}

// dumpedFirst are the first letters of the mnemonics that dumpedTarget matches.
var dumpedFirst = map[Arch]string{X86_64: "jcxl", AArch64: "bctal"}

var dumpedComment = map[Arch]*regexp.Regexp{X86_64: regexp.MustCompile(` *(#.*|<.*)$`), AArch64: regexp.MustCompile(` *(//.*|<.*)$`)}

var ourComment = regexp.MustCompile(`(  # .*| <.*)$`)

// without returns the text of an instruction without its comment. Most have none, which a look tells.
func without(comment *regexp.Regexp, text string) string {
	if !strings.ContainsAny(text, "#</") {
		return text
	}
	return comment.ReplaceAllString(text, "")
}

// TestTextAgainstObjdump: how many instructions of real programs print as objdump prints
// them, but for what it says of addresses, which has names that are ours. The log has what
// differs, by class.
func TestTextAgainstObjdump(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		tool, path string
		every      int     // one byte of so many is compared, in ten parts
		want       float64 // share of the instructions
	}{
		{"objdump", "/lib/x86_64-linux-gnu/libc.so.6", 1, 0.9999},
		{"objdump", "/usr/lib/x86_64-linux-gnu/libm.so.6", 1, 0.995}, // FMA4 is AMD's, and gone
		{"objdump", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", 5, 0.99999},
		{"objdump", self, 1, 0.9999}, // this test: Go
		{"aarch64-linux-gnu-objdump", "/usr/aarch64-linux-gnu/lib/libc.so.6", 1, 0.998},
	} {
		t.Run(tt.path, func(t *testing.T) {
			if i > 0 && testing.Short() {
				t.Skip("one program is enough for -short")
			}
			im, err := Open(tt.path, Options{})
			if err != nil {
				t.Skip(err)
			}
			defer im.Close()
			n, same := 0, 0
			classes, example := map[string]int{}, map[string]string{}
			compare := func(l line) {
				if im.region(l.addr) == nil {
					return
				}
				want := without(dumpedComment[im.Arch], strings.TrimSpace(l.prefix+l.mnemonic+" "+strings.Join(strings.Fields(l.operands), " ")))
				if l.mnemonic != "" && strings.Contains(dumpedFirst[im.Arch], l.mnemonic[:1]) {
					want = dumpedTarget[im.Arch].ReplaceAllString(want, "$1 0x$2")
				}
				got := without(ourComment, im.Text(l.addr))
				if n++; got == want {
					same++
					return
				}
				class := textClass(l, got, want)
				if classes[class]++; classes[class] == 1 {
					example[class] = got + ", not " + want
				}
			}
			if tt.every == 1 {
				objdump(t, tt.tool, tt.path, compare)
			} else {
				const parts, settled, maxInst = 10, 50, 15
				text := im.regions[slices.IndexFunc(im.regions, func(r region) bool { return r.name == ".text" })]
				size := (text.hi - text.lo) / parts
				for i := range Addr(parts) {
					from, read := text.lo+i*size, 0
					to := from + size/Addr(tt.every)
					objdump(t, tt.tool, tt.path, func(l line) {
						if read++; read > settled && l.addr+maxInst <= to { // a part may begin and end within an instruction
							compare(l)
						}
					}, fmt.Sprintf("--start-address=%#x", from), fmt.Sprintf("--stop-address=%#x", to))
				}
			}
			if n < 1000 {
				t.Fatalf("%d instructions", n)
			}
			share := float64(same) / float64(n)
			t.Logf("%d of %d instructions print alike: %.4f %%", same, n, 100*share)
			names := slices.SortedFunc(maps.Keys(classes), func(a, b string) int { return cmp.Or(classes[b]-classes[a], strings.Compare(a, b)) })
			for _, class := range names[:min(20, len(names))] {
				t.Logf("%6d %s: %s", classes[class], class, example[class])
			}
			if share < tt.want {
				t.Errorf("%.4f %% print alike, want %.4f %%", 100*share, 100*tt.want)
			}
		})
	}
}

// textClass says in what two texts of an instruction differ.
func textClass(l line, got, want string) string {
	mnemonic := func(text string) string {
		m, _ := splitGNU(text)
		return m
	}
	switch {
	case l.mnemonic == "(bad)" || l.mnemonic == ".byte" || l.mnemonic == ".word":
		return "no instruction to objdump"
	case strings.HasPrefix(got, ".byte") || strings.HasPrefix(got, ".inst"):
		return "not known here"
	case mnemonic(got) != mnemonic(want):
		return "mnemonic of " + l.mnemonic
	}
	return "operands of " + l.mnemonic
}
