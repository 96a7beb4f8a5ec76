package image

import (
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestSiteOf holds the choice to what kernel 6.18 emulates.
func TestSiteOf(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		kind       siteKind
		cond       int8
	}{
		{"jo rel8", "7005", siteBranch, 0},
		{"je rel8", "7405", siteBranch, 4},
		{"jg rel8", "7ffe", siteBranch, 15},
		{"jne rel32", "0f8500010000", siteBranch, 5},
		{"jg rel32", "0f8f00010000", siteBranch, 15},
		{"jmp rel8", "eb10", siteJump, -1},
		{"jmp rel32", "e900010000", siteJump, -1},
		{"call rel32", "e800010000", siteCall, -1},
		{"push %rax", "50", sitePush, -1},
		{"push %rsp", "54", sitePush, -1},
		{"push %r8", "4150", sitePush, -1},
		{"push %r15", "4157", sitePush, -1},
		{"nop", "90", siteNop, -1},
		{"xchg %ax,%ax", "6690", siteNop, -1},
		{"nopl (%rax)", "0f1f00", siteNop, -1},
		{"nopl 0(%rax)", "0f1f4000", siteNop, -1},
		{"nopw 0(%rax,%rax,1)", "660f1f440000", siteNop, -1},
		{"nopl 0(%rax), long", "0f1f8000000000", siteNop, -1},
		{"nopl 0(%rax,%rax,1), long", "0f1f840000000000", siteNop, -1},

		{"nop of five bytes", "0f1f440000", noSite, -1},
		{"nop of five bytes, other operands", "0f1f440800", noSite, -1},
		{"nop of five bytes, prefixes", "6666666690", noSite, -1},
		{"nop of five bytes, prefix", "660f1f4000", noSite, -1},
		{"nopl of a register", "0f1fc0", noSite, -1},
		{"nop of nine bytes", "660f1f840000000000", noSite, -1},
		{"cs nopw", "662e0f1f840000000000", noSite, -1},
		{"endbr64", "f30f1efa", noSite, -1},
		{"pause", "f390", noSite, -1},
		{"xchg %r8,%rax", "4990", noSite, -1},
		{"xchg %r8d,%eax", "4190", noSite, -1},
		{"rex.W nop", "4890", noSite, -1},
		{"jrcxz", "e305", noSite, -1},
		{"jecxz", "67e305", noSite, -1},
		{"loop", "e2fe", noSite, -1},
		{"loope", "e1fe", noSite, -1},
		{"je, not taken hint", "2e7405", noSite, -1},
		{"je, taken hint", "3e7405", noSite, -1},
		{"bnd je", "f27405", noSite, -1},
		{"jne with 66", "660f8500010000", noSite, -1},
		{"jmp with 66", "66e900010000", noSite, -1},
		{"call with 66", "66e800010000", noSite, -1},
		{"rex call", "48e800010000", noSite, -1},
		{"bnd jmp", "f2e900010000", noSite, -1},
		{"push with 66", "6650", noSite, -1},
		{"rex.W push", "4850", noSite, -1},
		{"rex.WB push", "4950", noSite, -1},
		{"push imm8", "6a01", noSite, -1},
		{"push imm32", "6800010000", noSite, -1},
		{"push (%rax)", "ff30", noSite, -1},
		{"push %rax, long form", "fff0", noSite, -1},
		{"push %fs", "0fa0", noSite, -1},
		{"pop %rax", "58", noSite, -1},
		{"pop %r8", "4158", noSite, -1},
		{"pushf", "9c", noSite, -1},
		{"ret", "c3", noSite, -1},
		{"call *%rax", "ffd0", noSite, -1},
		{"jmp *%rax", "ffe0", noSite, -1},
		{"sete %al", "0f94c0", noSite, -1},
		{"cmove %eax,%ecx", "0f44c8", noSite, -1},
		{"mov", "89d0", noSite, -1},
		{"lock inc", "f0ff07", noSite, -1},
		{"lock alone", "f0", noSite, -1},
		{"xbegin", "c7f800010000", noSite, -1},
		{"syscall", "0f05", noSite, -1},
		{"ud2", "0f0b", noSite, -1},
		{"int3", "cc", noSite, -1},
	} {
		code, err := hex.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		if kind, cond := x86SiteOf(code); kind != tt.kind || cond != tt.cond {
			t.Errorf("%s (%s): kind %d, condition %d, want %d, %d", tt.name, tt.code, kind, cond, tt.kind, tt.cond)
		}
	}
}

// sitesOf shows the offsets of the sites, blocks in brackets, with condition codes.
func sitesOf(im *Image, p *Proc) string {
	var b strings.Builder
	for _, sites := range im.ProbeSites(p) {
		b.WriteByte('[')
		for i, s := range sites {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(shortAddr(s.Addr))
			if s.Cond >= 0 {
				fmt.Fprintf(&b, "?%x", s.Cond)
			}
		}
		b.WriteByte(']')
	}
	return b.String()
}

func TestProbeSites(t *testing.T) {
	for _, tt := range []struct {
		name  string
		arch  Arch
		code  string
		sites string
	}{
		{"branch first, then call, push and nop", X86_64, "\x90\x55\xe8\x00\x01\x00\x00\x85\xff\x75\xf5\xc3", "[09?5 02 01 00][]"},
		{"jump before call", X86_64, "\xe8\x00\x01\x00\x00\xeb\x00\xc3", "[05 00][]"},
		{"bytes within instructions", X86_64, "\xb8\x55\x74\x00\xeb\xc3", "[]"}, // mov $0xeb007455,%eax
		{"nop of five bytes", X86_64, "\x0f\x1f\x44\x00\x00\xc3", "[]"},
		{"lock skipped", X86_64, "\x85\xff\x74\x01\xf0\xff\x07\xc3", "[02?4][][]"},
		{"nothing leads there", X86_64, "\xeb\x02\x55\x90\xc3", "[00][][]"},
		{"jump into an instruction", X86_64, "\x55\x85\xff\x74\x01\xb8\x00\x00\x00\x00\xc3", "[][]"},
		{"bad bytes behind", X86_64, "\x55\xc3\x06\x06", "[]"},
		{"runs off", X86_64, "\x55\x31\xc0", "[]"},
		{"unknown targets", X86_64, "\x55\xff\xe0\x55\xc3", "[00][]"}, // push; jmp *%rax; push; ret
		{"AArch64: branch, then adr and nop", AArch64, "\x1f\x20\x03\xd5\x01\x00\x00\x10\x4b\x00\x00\x54\xc0\x03\x5f\xd6\xc0\x03\x5f\xd6", "[08?b 04 00][][]"},
		{"AArch64: tests of registers", AArch64, "\x61\x00\x00\xb5\xe0\xff\xff\x37\xc0\x03\x5f\xd6\xc0\x03\x5f\xd6", "[00?12][04?14][][]"}, // cbnz, tbnz
		{"AArch64: loads of literals and branches to registers", AArch64, "\x40\x00\x00\x58\xc0\x03\x5f\xd6", "[]"},
	} {
		im := codeImage(tt.arch, []byte(tt.code), nil)
		p, err := im.Proc(0)
		if err != nil {
			t.Fatal(err)
		}
		if got := sitesOf(im, p); got != tt.sites {
			t.Errorf("%s: %s, want %s (%s)", tt.name, got, tt.sites, p.Why)
		}
	}
}

func TestNotProbeable(t *testing.T) {
	const code = "\x55\xc3"
	for _, tt := range []struct {
		name  string
		spoil func(*Image, *Proc)
		sites string
	}{
		{"as it is", func(*Image, *Proc) {}, "[00]"},
		{"an object file", func(im *Image, _ *Proc) { im.elf.Type = elf.ET_REL }, "[]"},
		{"data in code", func(im *Image, _ *Proc) { im.data = []extent{{testBase + 1, testBase + 2}} }, "[]"},
		{"a symbol that only a call tells of", func(_ *Image, p *Proc) { p.Source = FromCall }, "[]"},
		{"a stub", func(_ *Image, p *Proc) { p.Source = FromPLT }, "[]"},
	} {
		im := codeImage(X86_64, []byte(code), nil)
		p, err := im.Proc(0)
		if err != nil {
			t.Fatal(err)
		}
		if tt.spoil(im, p); sitesOf(im, p) != tt.sites {
			t.Errorf("%s: %s, want %s", tt.name, sitesOf(im, p), tt.sites)
		}
	}
}

// TestProbeSitesObjdump: sites of whole libraries are instructions of those kinds to GNU objdump, too.
func TestProbeSitesObjdump(t *testing.T) {
	for _, tt := range []struct {
		objdump, path string
		same          func(p *Proc, b int, s ProbeSite, l line) bool
	}{
		{"objdump", "/usr/lib/x86_64-linux-gnu/libc.so.6", sameSiteX86},
		{"aarch64-linux-gnu-objdump", "/usr/aarch64-linux-gnu/lib/libc.so.6", sameSiteARM},
	} {
		t.Run(tt.objdump, func(t *testing.T) {
			im := openTest(t, tt.path)
			lines := map[Addr]line{}
			objdump(t, tt.objdump, tt.path, func(l line) { lines[l.addr] = l })
			n := 0
			for i := range im.Symbols() {
				p, err := im.Proc(i)
				if err != nil {
					continue
				}
				for b, sites := range im.ProbeSites(p) {
					for _, s := range sites {
						l, ok := lines[s.Addr]
						a, back := im.AddrOf(s.Off)
						if !ok || !back || a != s.Addr || (s.Cond >= 0) != (s.kind == siteBranch) || !tt.same(p, b, s, l) {
							t.Errorf("%s: %+v: %+v", p.Name, s, l)
						}
						n++
					}
				}
			}
			if n < 10000 {
				t.Errorf("%d sites", n)
			}
		})
	}
}

// sameSiteX86 reports whether the line of objdump is of an instruction as the site of block b is said to be.
func sameSiteX86(p *Proc, b int, s ProbeSite, l line) bool {
	plain := l.prefix == ""
	switch s.kind {
	case siteBranch:
		return plain && l.mnemonic[0] == 'j' && l.mnemonic != "jmp" && s.Addr == p.Blocks[b].Last
	case siteJump:
		return plain && l.mnemonic == "jmp" && l.operands[0] != '*'
	case siteCall:
		return plain && l.mnemonic == "call" && l.operands[0] != '*'
	case sitePush:
		return plain && l.mnemonic == "push" && l.operands[0] == '%'
	case siteNop:
		return l.len != 5 && (strings.HasPrefix(l.mnemonic, "nop") || l.mnemonic == "xchg" && l.operands == "%ax,%ax")
	}
	return plain
}

// sameSiteARM does as sameSiteX86.
func sameSiteARM(p *Proc, b int, s ProbeSite, l line) bool {
	switch m := l.mnemonic; s.kind {
	case siteBranch:
		want, ok := map[string]int8{"cbz": 17, "cbnz": 18, "tbz": 19, "tbnz": 20}[m]
		if !ok {
			want = int8(slices.Index([]string{"b.eq", "b.ne", "b.cs", "b.cc", "b.mi", "b.pl", "b.vs", "b.vc", "b.hi", "b.ls", "b.ge", "b.lt", "b.gt", "b.le"}, m))
		}
		return s.Cond == want && s.Addr == p.Blocks[b].Last
	case siteJump:
		return m == "b"
	case siteCall:
		return m == "bl"
	case sitePush:
		return m == "adr" || m == "adrp"
	case siteNop:
		return m == "nop"
	}
	return false
}

// TestProbeSitesVDSO: what the kernel maps into processes has no sites, although it decodes.
func TestProbeSitesVDSO(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	var lo, hi int64
	for _, l := range strings.Split(string(maps), "\n") {
		if strings.HasSuffix(l, "[vdso]") {
			fmt.Sscanf(l, "%x-%x", &lo, &hi)
		}
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil || lo == 0 {
		t.Skipf("no vdso: %v", err)
	}
	defer mem.Close()
	code := make([]byte, hi-lo)
	if _, err := mem.ReadAt(code, lo); err != nil {
		t.Skip(err)
	}
	im := mustOpen(t, testtool.Write(t, t.TempDir(), "vdso", code), Options{})
	if im.Arch != X86_64 {
		t.Skip("vdso of another processor")
	}
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, sites := range im.ProbeSites(p) {
			if len(sites) > 0 {
				t.Errorf("%s: %+v", p.Name, sites)
			}
		}
	}
}
