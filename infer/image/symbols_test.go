package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// show writes symbols as "name lo-hi", addresses in hexadecimal.
func show(symbols []Symbol) string {
	var out []string
	for _, s := range symbols {
		out = append(out, fmt.Sprintf("%s %x-%x", strings.Join(append([]string{s.Name}, s.Aliases...), "="), uint64(s.Addr), uint64(s.Addr)+s.Size))
	}
	return strings.Join(out, ", ")
}

// parseNames reads "kind binding name lo-hi" with kind f (function) or n (no
// type) and binding l, g or w; addresses in hexadecimal.
func parseNames(t *testing.T, s string) []candidate {
	t.Helper()
	var out []candidate
	for i, item := range strings.Split(s, ", ") {
		var kind, binding, name string
		var lo, hi uint64
		if _, err := fmt.Sscanf(item, "%s %s %s %x-%x", &kind, &binding, &name, &lo, &hi); err != nil {
			t.Fatalf("%q: %v", item, err)
		}
		c := candidate{
			name: name, addr: Addr(lo), size: hi - lo,
			typ:  map[string]elf.SymType{"f": elf.STT_FUNC, "n": elf.STT_NOTYPE}[kind],
			bind: map[string]elf.SymBind{"l": elf.STB_LOCAL, "g": elf.STB_GLOBAL, "w": elf.STB_WEAK}[binding],
		}
		if c.bind == elf.STB_LOCAL {
			c.ordinal = i + 1
		}
		out = append(out, c)
	}
	return out
}

// parseSymbols reads what show writes.
func parseSymbols(t *testing.T, s string) []Symbol {
	t.Helper()
	var out []Symbol
	for _, item := range strings.Split(s, ", ") {
		var sym Symbol
		var hi uint64
		if s == "" {
			break
		}
		if _, err := fmt.Sscanf(item, "%s %x-%x", &sym.Name, &sym.Addr, &hi); err != nil {
			t.Fatalf("%q: %v", item, err)
		}
		sym.Size = hi - uint64(sym.Addr)
		out = append(out, sym)
	}
	return out
}

func TestBind(t *testing.T) {
	im := &Image{regions: []region{{0x10, 0x100, ".text"}, {0x100, 0x200, ".fini"}}}
	for _, tt := range []struct{ name, in, want string }{
		{"by address", "f g b 30-40, f g a 10-20", "a 10-20, b 30-40"},
		{"unknown sizes stay 0", "f g a 10-10, f g b 30-30", "a 10-10, b 30-30"},
		{"global over weak over local", "f l c 10-20, f w b 10-20, f g a 10-20", "a=b=c 10-20"},
		{"a unique name over one with fewer underscores", "f l a 10-20, f w __b 10-20", "__b=a 10-20"},
		{"fewer underscores", "f g __write 10-20, f g _write 10-20, f g write 10-20", "write=__write=_write 10-20"},
		{"the lesser string", "f g b 10-20, f g a 10-20", "a=b 10-20"},
		{"a function over a label", "n g a 10-10, f l b 10-20", "b=a 10-20"},
		{"the greatest size", "f g a 10-20, f g b 10-28", "a=b 10-28"},
		{"one name twice", "f l a 10-20, f l a 10-20", "a 10-20"},
		{"a label inside is none", "f g a 10-30, n g mid 20-20, n l loop 24-24", "a 10-30"},
		{"a label after is one", "f g a 10-20, n l b 20-20", "a 10-20, b 20-20"},
		{"a local label after a size of 0 is inside", "f g a 10-10, n l b 20-20, n l c 30-30", "a 10-10"},
		{"unless it has a size, as clang's parts of procedures have", "f l a 10-10, n l f.__part.1 20-28, n l c 24-24", "a 10-10, f.__part.1 20-28"},
		{"a global label after a size of 0 is not", "f g a 10-10, n g b 20-20", "a 10-10, b 20-20"},
		{"nor one in the next section", "f g a 10-10, n l b 100-100", "a 10-10, b 100-100"},
		{"overlap cuts the first", "f g a 10-30, f g b 20-40", "a 10-20, b 20-40"},
		{"the second of two nested ones gets the rest", "f g a 10-80, f g b 20-40", "a 10-20, b 20-80"},
		{"three nested ones", "f g a 10-80, f g b 20-40, f g c 30-50", "a 10-20, b 20-30, c 30-80"},
		{"a second entry of unknown size", "f g a 10-80, f g b 20-20", "a 10-20, b 20-80"},
		{"beyond the section", "f g a f0-180, f g b 180-900", "a f0-100, b 180-200"},
		{"parts stay on their own", "f l a.cold 10-20, f l a.part.0 20-30, f g a 30-40", "a.cold 10-20, a.part.0 20-30, a 30-40"},
	} {
		got := show(im.bind(parseNames(t, tt.in)))
		if got != tt.want {
			t.Errorf("%s: %s\ngives %s\nwant  %s", tt.name, tt.in, got, tt.want)
		}
		in := parseNames(t, tt.in)
		slices.Reverse(in)
		if again := show(im.bind(in)); again != got {
			t.Errorf("%s: in reverse order it gives %s, not %s", tt.name, again, got)
		}
	}
}

func TestCover(t *testing.T) {
	for _, tt := range []struct{ name, symbols, more, want string }{
		{"none to add", "a 10-20", "", "a 10-20"},
		{"none there", "", "x 10-20, y 20-30", "x 10-20, y 20-30"},
		{"between and around", "a 10-20, b 30-40", "x 0-8, y 20-28, z 40-48", "x 0-8, a 10-20, y 20-28, b 30-40, z 40-48"},
		{"what is there stays", "a 10-20", "x 10-30, y 18-28", "a 10-20"},
		{"cut by the next", "a 10-20, b 28-40", "x 20-38", "a 10-20, x 20-28, b 28-40"},
		{"gives a size", "a 10-10, b 40-50", "x 10-30", "a 10-30, b 40-50"},
		{"gives a size up to the next", "a 10-10, b 20-50", "x 10-30", "a 10-20, b 20-50"},
		{"after an unknown size", "a 10-10, b 40-50", "x 20-30", "a 10-10, x 20-30, b 40-50"},
		{"the first of two that overlap", "", "x 10-30, y 18-28, z 30-38", "x 10-30, z 30-38"},
		{"a signal frame starts a byte early", "a 10-20, b 30-30", "x 2f-40", "a 10-20, b 30-30"},
		{"a function of one byte", "a 10-20", "x 20-21", "a 10-20, x 20-21"},
	} {
		if got := show(cover(parseSymbols(t, tt.symbols), slices.Values(parseSymbols(t, tt.more)))); got != tt.want {
			t.Errorf("%s: %s with %s\ngives %s\nwant  %s", tt.name, tt.symbols, tt.more, got, tt.want)
		}
	}
}

func TestSplitGaps(t *testing.T) {
	regions := []region{{0x1000, 0x1010, ".plt"}, {0x1010, 0x2004, ".text"}}
	for _, tt := range []struct {
		name, symbols string
		targets       []Addr
		want          string
	}{
		{"nothing known", "", nil, "fn_1010 1010-2004"},
		{"at the targets", "", []Addr{0x1010, 0x1100, 0x1108}, "fn_1010 1010-1100, fn_1100 1100-1108, fn_1108 1108-2004"},
		{"targets elsewhere", "a 1010-1800", []Addr{0x1000, 0x1010, 0x1400, 0x1900, 0x3000}, "a 1010-1800, fn_1800 1800-1900, fn_1900 1900-2004"},
		{"padding", "a 1010-1fe5", []Addr{0x1fe8}, "a 1010-1fe5"},
		{"after padding", "a 1010-1103, b 1800-2004", []Addr{0x1200}, "a 1010-1103, fn_1110 1110-1200, fn_1200 1200-1800, b 1800-2004"},
		{"a target in the padding", "a 1010-1103, b 1800-2004", []Addr{0x1108}, "a 1010-1103, fn_1108 1108-1800, b 1800-2004"},
	} {
		if got := show(splitGaps(parseSymbols(t, tt.symbols), regions, tt.targets)); got != tt.want {
			t.Errorf("%s: %s at %#x\ngives %s\nwant  %s", tt.name, tt.symbols, tt.targets, got, tt.want)
		}
	}
}

func TestExtend(t *testing.T) {
	im := &Image{
		regions: []region{{0x10, 0x100, ".text"}},
		frames:  []frame{{lo: 0x3f, hi: 0x48}, {lo: 0x80, hi: 0x90}},
	}
	symbols := parseSymbols(t, "a 10-10, b 20-28, restore_rt 40-40, c 60-60, d 84-84")
	im.extend(symbols)
	want := "a 10-20, b 20-28, restore_rt 40-48, c 60-84, d 84-90"
	if got := show(symbols); got != want {
		t.Errorf("gives %s\nwant  %s", got, want)
	}
}

func TestOrdinals(t *testing.T) {
	text := &elf.Section{SectionHeader: elf.SectionHeader{Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000, Size: 0x1000}}
	comment := &elf.Section{SectionHeader: elf.SectionHeader{Addr: 0, Size: 0x10000}}
	sym := func(name string, at Addr, bind elf.SymBind, typ elf.SymType) tableSymbol {
		return tableSymbol{name: name, value: at, info: elf.ST_INFO(bind, typ), section: text}
	}
	table := []tableSymbol{
		sym("f", 0x1300, elf.STB_LOCAL, elf.STT_FUNC), // after the next by address
		sym("f", 0x1100, elf.STB_LOCAL, elf.STT_FUNC),
		sym("g", 0x1100, elf.STB_LOCAL, elf.STT_FUNC),
		sym("f", 0x1200, elf.STB_GLOBAL, elf.STT_FUNC),
		sym("g", 0x1200, elf.STB_LOCAL, elf.STT_OBJECT), // objects count
		sym("g", 0x1200, elf.STB_LOCAL, elf.STT_FUNC),   // but after functions
		sym("f", 0x5000, elf.STB_LOCAL, elf.STT_FUNC),   // outside its section
		{name: "f", value: 0x1000, section: comment},    // not in memory
		{name: "f", value: 0x1001, index: elf.SHN_ABS},
		{name: "f", value: 0x1002, index: elf.SHN_UNDEF},
	}
	want := []int{3, 2, 1, 0, 3, 2, 0, 0, 1, 0}
	if got := ordinals(table); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestDataRanges(t *testing.T) {
	regions := []region{{0x1000, 0x2000, ".text"}, {0x2000, 0x2100, ".fini"}}
	memory := &elf.Section{SectionHeader: elf.SectionHeader{Flags: elf.SHF_ALLOC, Addr: 0x1000, Size: 0x3000}}
	mark := func(name string, at Addr) tableSymbol { return tableSymbol{name: name, value: at, section: memory} }
	im := &Image{data: dataRanges([]tableSymbol{
		mark("$x", 0x1000), mark("$d", 0x1100), mark("$x", 0x1180), mark("f", 0x1190),
		mark("$d.7", 0x1f00), mark("$d", 0x1f80), mark("$x", 0x2000),
		mark("$d", 0x1200), mark("$x", 0x1200), // both: code
		mark("$d", 0x20f0), mark("$d", 0x3000), mark("$dd", 0x1300),
		{name: "$d", value: 0x1190, section: &elf.Section{}}, // of debug information, at 0x1190 there
	}, regions)}
	want := []extent{{0x1100, 0x1180}, {0x1f00, 0x2000}, {0x20f0, 0x2100}}
	if !slices.Equal(im.data, want) {
		t.Errorf("%x, want %x", im.data, want)
	}
	for _, tt := range []struct {
		lo, hi Addr
		want   []extent
	}{
		{0x1000, 0x1100, nil},
		{0x1000, 0x1101, []extent{{0x1100, 0x1101}}},
		{0x1140, 0x1f10, []extent{{0x1140, 0x1180}, {0x1f00, 0x1f10}}},
		{0x1180, 0x1f00, nil},
		{0x20f8, 0x2100, []extent{{0x20f8, 0x2100}}},
	} {
		if got := im.dataIn(tt.lo, tt.hi); !slices.Equal(got, tt.want) {
			t.Errorf("in [%#x, %#x): %x, want %x", tt.lo, tt.hi, got, tt.want)
		}
	}
}

// program is C with what makes symbol tables interesting.
const program = `
#include <stdio.h>
#include <stdlib.h>
static __attribute__((noinline)) int work(int x) { return x * 3 + rand(); }
__attribute__((noinline)) int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
__attribute__((noinline, cold)) void fail(const char *s) { fprintf(stderr, "%s\n", s); abort(); }
int same(int) __attribute__((weak, alias("twice")));
__attribute__((noinline)) int twice(int x) { return work(x) + work(x + 1); }
int main(int c, char **v) {
	int z[3] = {c, twice(c), 2};
	if (c > 9) fail(v[1]);
	qsort(z, 3, 4, compare);
	printf("%d\n", same(z[0]));
	return 0;
}
`

// nm returns the functions with sizes that binutils sees in a file.
func nm(t *testing.T, tool, path string) []Symbol {
	t.Helper()
	var out []Symbol
	for line := range strings.Lines(testtool.Output(t, "", tool, "-S", path)) {
		f := strings.Fields(line)
		if len(f) != 4 || !strings.Contains("tTwW", f[2]) {
			continue
		}
		addr, _ := strconv.ParseUint(f[0], 16, 64)
		size, _ := strconv.ParseUint(f[1], 16, 64)
		out = append(out, Symbol{Name: f[3], Addr: Addr(addr), Size: size, Local: f[2] == "t"})
	}
	return out
}

// TestAgainstNm builds a program and compares the symbols with nm's, then those
// of its stripped copies with its own.
func TestAgainstNm(t *testing.T) {
	for _, tt := range []struct{ name, cc, nm, strip, flags string }{
		{"gcc", "gcc", "nm", "strip", "-O2"},
		{"gcc, bound at start", "gcc", "nm", "strip", "-O2 -Wl,-z,now -fcf-protection"},
		{"gcc, not relocatable", "gcc", "nm", "strip", "-O2 -no-pie"},
		{"gcc, static", "gcc", "nm", "strip", "-O2 -static"},
		{"clang, lld", "clang-19", "nm", "strip", "-O2 -fuse-ld=lld-19"},
		{"clang, lld, packed relocations", "clang-19", "nm", "strip", "-O2 -fuse-ld=lld-19 -Wl,--pack-dyn-relocs=relr"},
		{"AArch64", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-nm", "aarch64-linux-gnu-strip", "-O2"},
		{"AArch64, branch protection", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-nm", "aarch64-linux-gnu-strip", "-O2 -mbranch-protection=standard -Wl,-z,force-bti,-z,now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			testtool.Write(t, dir, "p.c", program)
			testtool.Run(t, dir, append(append([]string{tt.cc}, strings.Fields(tt.flags)...), "p.c", "-o", "p")...)
			path := filepath.Join(dir, "p")
			im := mustOpen(t, path, Options{})
			named := nm(t, tt.nm, path)
			if len(named) < 5 {
				t.Fatalf("nm lists %d functions", len(named))
			}
			for _, want := range named {
				i := im.Find(want.Addr)
				if i < 0 {
					t.Errorf("%s at %#x: not found", want.Name, want.Addr)
					continue
				}
				s := im.Symbols()[i]
				name, _, _ := strings.Cut(want.Name, "@@")
				if s.Addr != want.Addr || s.Name != name && !slices.Contains(s.Aliases, name) {
					t.Errorf("%s at %#x, in %s at %#x", want.Name, want.Addr, s.Name, s.Addr)
				}
				if s.Name == name && (s.Size != want.Size || s.Local != want.Local) {
					t.Errorf("%s: %d bytes, local %v; nm says %d, %v", name, s.Size, s.Local, want.Size, want.Local)
				}
			}
			for _, name := range []string{"rand", "qsort"} {
				stub := im.Lookup(name + "@plt")
				if static := strings.Contains(tt.flags, "static"); static != (stub < 0) {
					t.Errorf("stub of %s is symbol %d, static %v", name, stub, static)
				}
			}
			stripped := filepath.Join(dir, "stripped")
			testtool.Run(t, dir, tt.strip, "-o", "stripped", "p")
			sim := mustOpen(t, stripped, Options{})
			for _, name := range []string{"work", "compare", "fail", "twice", "main", "_start"} {
				s := im.Symbols()[im.Lookup(name)]
				i := sim.Find(s.Addr)
				if i < 0 || sim.Symbols()[i].Addr != s.Addr || sim.Symbols()[i].Size != s.Size {
					t.Errorf("stripped: %s is at %#x, %d bytes, found as symbol %d", name, s.Addr, s.Size, i)
				} else if got := sim.Symbols()[i]; got.Source != FromEhFrame || got.Name != fmt.Sprintf("fn_%x", uint64(s.Addr)) {
					t.Errorf("stripped: %s is %q from %d", name, got.Name, got.Source)
				}
			}
			if !strings.Contains(tt.flags, "static") && sim.Lookup("rand@plt") < 0 {
				t.Error("stripped: no rand@plt")
			}
		})
	}
}

// TestWithoutFrames strips a program that has no .eh_frame of its own: only
// calls tell where functions start.
func TestWithoutFrames(t *testing.T) {
	for _, cc := range []string{"gcc", "aarch64-linux-gnu-gcc"} {
		t.Run(cc, func(t *testing.T) {
			dir := t.TempDir()
			testtool.Write(t, dir, "p.c", program)
			testtool.Run(t, dir, cc, "-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "p.c", "-o", "p")
			testtool.Run(t, dir, strings.TrimSuffix(cc, "gcc")+"strip", "-o", "stripped", "p")
			im := mustOpen(t, filepath.Join(dir, "p"), Options{})
			sim := mustOpen(t, filepath.Join(dir, "stripped"), Options{})
			for _, name := range []string{"work", "twice"} {
				s := im.Symbols()[im.Lookup(name)]
				if i := sim.Find(s.Addr); i < 0 || sim.Symbols()[i].Addr != s.Addr || sim.Symbols()[i].Source != FromCall {
					t.Errorf("%s is at %#x, found as symbol %d", name, s.Addr, i)
				}
			}
			// In no call: its code still belongs to some symbol.
			if s := im.Symbols()[im.Lookup("main")]; sim.Find(s.Addr) < 0 {
				t.Errorf("main at %#x is in no symbol", s.Addr)
			}
		})
	}
}

// TestLibc reads a library with old versions, indirect functions, assembler code
// and a separate debug file.
func TestLibc(t *testing.T) {
	const libc = "/lib/x86_64-linux-gnu/libc.so.6"
	if _, err := os.Stat(libc); errors.Is(err, os.ErrNotExist) {
		t.Skipf("no %s on this host", libc)
	}
	plain := mustOpen(t, libc, Options{DebugDirs: []string{}})
	if plain.debug != nil {
		t.Error("a debug file was found in no directory")
	}
	for _, name := range []string{"memcpy", "malloc", "qsort", "write"} {
		if i := plain.Lookup(name); i < 0 || plain.Symbols()[i].Source != FromDynsym {
			t.Errorf("%s is symbol %d", name, i)
		}
	}
	if a, b := plain.Lookup("memcpy"), plain.Lookup("memcpy@GLIBC_2.2.5"); a == b || b < 0 {
		t.Errorf("memcpy is symbol %d, its old version %d", a, b)
	}
	im := mustOpen(t, libc, Options{})
	if im.debug == nil {
		t.Skip("no debug file of libc on this host (libc6-dbg)")
	}
	if len(im.Symbols()) <= len(plain.Symbols())/2 || im.Lookup("_int_malloc") < 0 {
		t.Errorf("%d symbols, %d without the debug file; _int_malloc is symbol %d", len(im.Symbols()), len(plain.Symbols()), im.Lookup("_int_malloc"))
	}
	if i := im.Lookup("malloc"); i < 0 || im.Symbols()[i].Name != "malloc" {
		t.Errorf("malloc is symbol %d, whose name is another", i)
	}
	// All code that a symbol of .dynsym names is found under that name with .symtab, too.
	for _, s := range plain.Symbols() {
		if i := im.Lookup(s.Name); s.Source == FromDynsym && (i < 0 || im.Symbols()[i].Addr != s.Addr) {
			t.Errorf("%s at %#x is symbol %d with the debug file", s.Name, s.Addr, i)
		}
	}
}

func parseHex(t *testing.T, s string) Addr {
	t.Helper()
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return Addr(v)
}

// TestOrdinalsAgainstBOLT builds a program with three local functions of one
// name, which the linker does not lay out in the order of its table, and compares their names
// with those that BOLT gives them.
func TestOrdinalsAgainstBOLT(t *testing.T) {
	dir := t.TempDir()
	args := []string{"clang-19", "-O1", "-fuse-ld=lld-19", "-Wl,-q,-z,keep-text-section-prefix", "-ffunction-sections", "-o", "p", "main.c"}
	for i, attribute := range []string{`, section(".text.unlikely.work")`, "", `, section(".text.hot.work")`} {
		name := fmt.Sprintf("f%d.c", i)
		testtool.Write(t, dir, name, fmt.Appendf(nil, `
static __attribute__((noinline%[2]s)) int work(int x) { return x * (%[1]d + 7) + 3; }
int f%[1]d(int x) { return work(x) + work(x + 1); }
`, i, attribute))
		args = append(args, name)
	}
	testtool.Write(t, dir, "main.c", []byte("int f0(int), f1(int), f2(int);\nint main(int c, char **v) { return f0(c) + f1(c) + f2(c); }\n"))
	testtool.Run(t, dir, args...)
	im := mustOpen(t, filepath.Join(dir, "p"), Options{})
	want := map[string]string{}
	var name string
	for line := range strings.Lines(testtool.Output(t, dir, "llvm-bolt-19", "p", "-o", "out", "--print-cfg")) {
		if _, s, ok := strings.Cut(line, "All names"); ok {
			name = strings.TrimLeft(strings.TrimSpace(s), ": ")
		}
		if _, s, ok := strings.Cut(line, "Address     : 0x"); ok && strings.HasPrefix(name, "work/") {
			want[name] = strings.TrimSpace(s)
			name = ""
		}
	}
	got := map[string]string{}
	for _, s := range im.Symbols() {
		if s.Name == "work" {
			got[fmt.Sprintf("work/%d", s.Ordinal)] = fmt.Sprintf("%x", uint64(s.Addr))
		}
	}
	if len(want) != 3 || !maps.Equal(got, want) {
		t.Errorf("%v, BOLT: %v", got, want)
	}
}

// TestCodeOfObjects: what has the type of an object is a procedure where the unwinder knows a frame of it, as those of GHC's
// runtime are, and else a table; inside a function it is a label.
func TestCodeOfObjects(t *testing.T) {
	testtool.Need(t, "gcc")
	dir := t.TempDir()
	testtool.Write(t, dir, "o.s", `
	.text
	.type	entry, @object
entry:	.cfi_startproc
	xorl	%eax, %eax
	ret
	.cfi_endproc
	.size	entry, .-entry
	.type	table, @object
table:	.quad	1, 2, 3
	.size	table, .-table
	.globl	main
	.type	main, @function
main:	.cfi_startproc
	call	entry
	.type	inner, @object
inner:	ret
	.size	inner, 1
	.cfi_endproc
	.size	main, .-main
	.section .note.GNU-stack,"",@progbits
`)
	testtool.Run(t, dir, "gcc", "o.s", "-o", "o")
	im := mustOpen(t, filepath.Join(dir, "o"), Options{})
	names := map[string]uint64{}
	for _, s := range im.Symbols() {
		names[s.Name] = s.Size
	}
	if names["entry"] != 3 || names["main"] != 6 {
		t.Errorf("entry has %d bytes, want 3; main %d, want 6", names["entry"], names["main"])
	}
	for _, name := range []string{"table", "inner"} {
		if n, ok := names[name]; ok {
			t.Errorf("%s is a procedure of %d bytes", name, n)
		}
	}
}
