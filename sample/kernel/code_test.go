package kernel

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// codeSymbols are of a kernel whose text is 0x60 bytes, and of a module.
const codeSymbols = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000010 t local
ffffffff81000020 W weak
ffffffff81000020 T __x64_sys_getppid
ffffffff81000020 T __ia32_sys_getppid
ffffffff81000040 T last
ffffffff81000060 T _etext
ffffffff81200000 D __start_rodata
ffffffff81200020 D __start___ex_table
ffffffff81200038 D __stop___ex_table
ffffffff81300000 T after_boot
ffffffffc0201004 t nf_init	[nf_tables]
ffffffffc0202ff8 T nf_last	[nf_tables]
ffffffffc0203000 d nf_data	[nf_tables]
ffffffffc0400000 t bpf_prog_1234	[bpf]
`

// fakeMemory is memory that has bytes of its addresses, but for a hole.
type fakeMemory struct{ hole uint64 }

func (m fakeMemory) At(addr uint64, b []byte) error {
	for i := range b {
		if m.hole != 0 && (addr+uint64(i))/pageSize == m.hole/pageSize {
			return errNotThere
		}
		b[i] = byte(addr+uint64(i)) | 1
	}
	return nil
}

func (fakeMemory) Close() error { return nil }

func TestParseCode(t *testing.T) {
	list := func(c *Code) string {
		var b strings.Builder
		for _, p := range c.Parts {
			fmt.Fprintf(&b, "%s %x-%x %v\n", p.Name, p.Start, p.End, p.Exec)
		}
		for _, s := range c.Symbols {
			fmt.Fprintf(&b, "%x+%x %c %s\n", s.Addr, s.Size, s.Type, s.Name)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name   string
		module Module
		want   string
	}{
		{"the kernel", Module{}, `.text ffffffff81000000-ffffffff81000060 true
.rodata ffffffff81200000-ffffffff81200020 false
__ex_table ffffffff81200020-ffffffff81200038 false
ffffffff81000000+10 T _stext
ffffffff81000000+10 T _text
ffffffff81000010+10 t local
ffffffff81000020+20 T __ia32_sys_getppid
ffffffff81000020+20 T __x64_sys_getppid
ffffffff81000020+20 W weak
ffffffff81000040+20 T last
`},
		{"a module", Module{"nf_tables", 0xffffffffc0201000, 0x10000}, `.text ffffffffc0201000-ffffffffc0203000 true
ffffffffc0201004+1ff4 t nf_init
ffffffffc0202ff8+8 T nf_last
`},
	} {
		c, err := parseCode(strings.NewReader(codeSymbols), tt.module)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if got := list(c); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
		}
	}
	zeros := regexp.MustCompile(`(?m)^\w{16}`).ReplaceAllString(codeSymbols, "0000000000000000")
	if _, err := parseCode(strings.NewReader(zeros), Module{}); !errors.Is(err, ErrHidden) {
		t.Errorf("zeros in place of addresses: %v, want %v", err, ErrHidden)
	}
	if _, err := parseCode(strings.NewReader("zz T _text\n"), Module{}); err == nil || !strings.Contains(err.Error(), "line 1: address") {
		t.Errorf("an address that is none: %v", err)
	}
	if _, err := parseCode(strings.NewReader("ffffffff81000000 T _text\n"), Module{}); err == nil {
		t.Error("no end of the text, and no error")
	}
}

// TestNotRunning: what does not run here is refused, and said.
func TestNotRunning(t *testing.T) {
	for _, id := range []sample.ImageID{{Path: "[kernel]"}, {Path: "[kernel]", Build: sample.BuildID{1, 2}}, {Path: "[no_such_module]", Build: sample.BuildID{1}}} {
		if _, err := ReadCode(id); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%v: %v, want %v", id, err, ErrNotRunning)
		}
	}
}

// testCode is what codeSymbols has of the kernel.
func testCode(t testing.TB) *Code {
	t.Helper()
	c, err := parseCode(strings.NewReader(codeSymbols), Module{})
	if err != nil {
		t.Fatal(err)
	}
	c.ID, c.Machine = sample.ImageID{Path: kernelPath, Build: sample.BuildID{0xab, 1, 2, 3}}, elf.EM_X86_64
	return c
}

// TestELF holds a file to its golden dump, to debug/elf and, where it is there, to readelf.
func TestELF(t *testing.T) {
	c := testCode(t)
	var b bytes.Buffer
	if err := c.WriteELF(&b, fakeMemory{}); err != nil {
		t.Fatal(err)
	}
	zeros := regexp.MustCompile(`(?m)(^\w+  (00 ){8} (00 ){8} \|\.{16}\|\n){3,}`)
	testtool.Golden(t, "testdata/kernel.dump", zeros.ReplaceAllString(hex.Dump(b.Bytes()), "*\n"))
	if e, err := sample.ReadELF(bytes.NewReader(b.Bytes())); err != nil || e.Build != c.ID.Build {
		t.Errorf("build ID %v, %v; want %v", e.Build, err, c.ID.Build)
	}
	f, err := elf.NewFile(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range c.Parts {
		s := f.Section(p.Name)
		want := make([]byte, p.End-p.Start)
		fakeMemory{}.At(p.Start, want)
		if got, err := s.Data(); err != nil || !bytes.Equal(got, want) || s.Addr != p.Start || f.Progs[i].Vaddr != p.Start || f.Progs[i].Off != s.Offset || (s.Offset-s.Addr)%pageSize != 0 {
			t.Errorf("%s: %v, %+v: % x, want % x", p.Name, err, s.SectionHeader, got, want)
		}
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var got []Symbol
	for _, s := range symbols {
		typ := map[elf.SymBind]byte{elf.STB_LOCAL: 't', elf.STB_GLOBAL: 'T', elf.STB_WEAK: 'W'}[elf.ST_BIND(s.Info)]
		got = append(got, Symbol{s.Name, s.Value, s.Size, typ})
	}
	want := slices.Clone(c.Symbols)
	for i := range want {
		if strings.HasPrefix(want[i].Name, "__ia32_") { // the other name of it is what this processor calls
			want[i].Type = 'W'
		}
	}
	slices.SortStableFunc(want, func(a, b Symbol) int { return int(b.Type&32) - int(a.Type&32) }) // local ones first
	if !reflect.DeepEqual(got, want) {
		t.Errorf("symbols\n%v\nwant\n%v", got, want)
	}
	t.Run("readelf", func(t *testing.T) {
		testtool.Need(t, "readelf")
		path := testtool.Write(t, t.TempDir(), "kernel", b.Bytes())
		out := testtool.Run(t, "", "readelf", "-W", "--all", path)
		for _, want := range []string{"Build ID: ab010203", "FUNC    LOCAL  DEFAULT    2 local", "FUNC    WEAK   DEFAULT    2 weak", "EXEC (Executable file)", ".text             PROGBITS        ffffffff81000000"} {
			if !strings.Contains(out, want) {
				t.Errorf("readelf has not %q:\n%s", want, out)
			}
		}
		if strings.Contains(out, "Warning") || strings.Contains(out, "Error") {
			t.Errorf("readelf complains:\n%s", out)
		}
	})
}

// TestHoles: pages that cannot be read are zeros, and what is around them is not.
func TestHoles(t *testing.T) {
	const start, hole = uint64(0xffffffff81000800), uint64(0xffffffff81003000)
	c := &Code{Machine: elf.EM_X86_64, Parts: []Part{{".text", start, start + 0x12345, true}}, Symbols: []Symbol{{"f", start, 0x12345, 'T'}}}
	var b bytes.Buffer
	if err := c.WriteELF(&b, fakeMemory{hole}); err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		a := start + uint64(i)
		if want := (a/pageSize == hole/pageSize) == (x == 0); !want {
			t.Fatalf("%#x is %#x", a, x)
		}
	}
	if err := c.WriteELF(&b, fakeMemory{start}); err == nil {
		t.Error("no code can be read, and no error")
	}
}

// words is memory of 64-bit words.
type words map[uint64]uint64

func (m words) At(a uint64, b []byte) error {
	for i := range b {
		at := a + uint64(i)
		b[i] = byte(m[at&^7] >> (8 * (at & 7)))
	}
	return nil
}

func (words) Close() error { return nil }

// TestTracedPointers: on AArch64, a pointer before a procedure, to what traces it, is no code of the one before.
func TestTracedPointers(t *testing.T) {
	const start = uint64(0xffff800080010000)
	c := &Code{Machine: elf.EM_AARCH64, Parts: []Part{{".text", start, start + 1<<18, true}}, Symbols: []Symbol{
		{"f", start, 0x100, 't'}, {"alias_of_f", start, 0x100, 'T'}, {"g", start + 0x100, 0x20000, 'T'}, {"h", start + 0x20100, 8, 'T'}, {"last", start + 0x20108, 0x100, 'T'},
	}}
	m := words{start + 0xf8: 0xffffa1b8c661f540, start + 0x200f8: 0xd65f03c0d503201f /* nop, ret */, start + 0x20100: 0xffffa1b8c661f540}
	for machine, want := range map[elf.Machine]map[string]uint64{
		elf.EM_AARCH64: {"f": 0xf8, "alias_of_f": 0xf8, "g": 0x20000, "h": 8, "last": 0x100},
		elf.EM_X86_64:  {"f": 0x100, "alias_of_f": 0x100, "g": 0x20000, "h": 8, "last": 0x100},
	} {
		c.Machine = machine
		var b bytes.Buffer
		if err := c.WriteELF(&b, m); err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := f.Symbols()
		if err != nil || len(symbols) != len(want) {
			t.Fatal(len(symbols), err)
		}
		for _, s := range symbols {
			if s.Size != want[s.Name] {
				t.Errorf("%v: %s has %#x bytes, want %#x", machine, s.Name, s.Size, want[s.Name])
			}
		}
	}
}

// TestDisk: a writer that fails is told of.
func TestDisk(t *testing.T) {
	if err := testCode(t).WriteELF(failing{}, fakeMemory{}); !errors.Is(err, errFull) {
		t.Errorf("%v, want %v", err, errFull)
	}
}

var errFull = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

// FuzzCode: whatever the list says, its file is one that debug/elf takes, or there is an error.
func FuzzCode(f *testing.F) {
	f.Add(codeSymbols, "", uint64(0), uint64(0))
	f.Add(codeSymbols, "nf_tables", uint64(0xffffffffc0201000), uint64(0x10000))
	f.Fuzz(func(t *testing.T, list, module string, start, size uint64) {
		c, err := parseCode(strings.NewReader(list), Module{module, start, size})
		if err != nil {
			return
		}
		total := uint64(0)
		for _, p := range c.Parts {
			if p.End <= p.Start {
				t.Fatalf("part %+v", p)
			}
			if total += p.End - p.Start; total > 1<<20 {
				return // slow to write, no more
			}
		}
		c.Machine = elf.EM_X86_64
		var b bytes.Buffer
		if c.WriteELF(&b, fakeMemory{}) != nil {
			return
		}
		e, err := elf.NewFile(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if symbols, err := e.Symbols(); err != nil && !errors.Is(err, elf.ErrNoSymbols) || len(symbols) != len(c.Symbols) {
			t.Fatalf("%d symbols of %d: %v", len(symbols), len(c.Symbols), err)
		}
	})
}
