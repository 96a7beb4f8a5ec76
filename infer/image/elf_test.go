package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// checkSymbols reports the first promise of Symbols, Find and Lookup that im breaks.
func checkSymbols(im *Image) error {
	var end Addr
	for i, s := range im.Symbols() {
		r := im.region(s.Addr)
		switch {
		case s.Name == "":
			return fmt.Errorf("%#x: no name", s.Addr)
		case s.Size == 0:
			return fmt.Errorf("%s: no size", s.Name)
		case s.Addr < end:
			return fmt.Errorf("%s at %#x: overlaps the one before, which ends at %#x", s.Name, s.Addr, end)
		case r == nil || s.Size > uint64(r.hi-s.Addr):
			return fmt.Errorf("%s at %#x, %d bytes: outside its section", s.Name, s.Addr, s.Size)
		case s.Section != r.name:
			return fmt.Errorf("%s: section %q, want %q", s.Name, s.Section, r.name)
		case !s.Local && s.Ordinal != 0:
			return fmt.Errorf("%s: local %v, ordinal %d", s.Name, s.Local, s.Ordinal)
		case im.Find(s.Addr) != i || im.Find(s.Addr+Addr(s.Size)-1) != i:
			return fmt.Errorf("%s: Find gives %d and %d, want %d", s.Name, im.Find(s.Addr), im.Find(s.Addr+Addr(s.Size)-1), i)
		case len(im.code(s.Addr, s.Addr+Addr(s.Size))) != int(s.Size):
			return fmt.Errorf("%s: its code cannot be read", s.Name)
		case slices.Contains(s.Aliases, s.Name) || !slices.IsSorted(s.Aliases):
			return fmt.Errorf("%s: aliases %q", s.Name, s.Aliases)
		}
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			if im.Lookup(name) < 0 {
				return fmt.Errorf("%s: Lookup finds nothing", name)
			}
		}
		off, ok := im.OffsetOf(s.Addr)
		if a, ok2 := im.AddrOf(off); !ok || !ok2 || a != s.Addr {
			return fmt.Errorf("%s: at offset %#x (%v), which is of %#x (%v)", s.Name, off, ok, a, ok2)
		}
		end = s.Addr + Addr(s.Size)
	}
	return nil
}

// mustOpen opens an image for a test that could not go on without it.
func mustOpen(t testing.TB, path string, opt Options) *Image {
	t.Helper()
	im, err := Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	if err := checkSymbols(im); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return im
}

// seed reads a binary of testdata/elf.
func seed(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "elf", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Offsets in the ELF header and in the headers of sections and segments.
const (
	ehPhoff, ehShoff, ehPhentsize, ehPhnum, ehShnum, ehShstrndx = 32, 40, 54, 56, 60, 62

	shType, shOffset, shSize, shLink     = 4, 24, 32, 40
	phOffset, phVaddr, phFilesz, phFlags = 8, 16, 32, 4
)

// put overwrites an integer of size bytes.
func put(b []byte, off, size int, v uint64) {
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], v)
	copy(b[off:off+size], w[:])
}

// sectionHeader returns the offset of the header of a named section.
func sectionHeader(t testing.TB, b []byte, name string) int {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range f.Sections {
		if s.Name == name {
			return int(binary.LittleEndian.Uint64(b[ehShoff:])) + 64*i
		}
	}
	t.Fatalf("no section %s", name)
	return 0
}

// codeSegment returns the offset of the program header of the first executable segment.
func codeSegment(t testing.TB, b []byte) int {
	phoff := int(binary.LittleEndian.Uint64(b[ehPhoff:]))
	for i := range int(binary.LittleEndian.Uint16(b[ehPhnum:])) {
		h := phoff + 56*i
		if elf.ProgType(binary.LittleEndian.Uint32(b[h:])) == elf.PT_LOAD && elf.ProgFlag(binary.LittleEndian.Uint32(b[h+phFlags:]))&elf.PF_X != 0 {
			return h
		}
	}
	t.Fatal("no executable segment")
	return 0
}

func TestOpenRefuses(t *testing.T) {
	good := seed(t, "x86.elf")
	section := func(name string, off, size int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte {
			put(b, sectionHeader(t, b, name)+off, size, v)
			return b
		}
	}
	header := func(off, size int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { put(b, off, size, v); return b }
	}
	segment := func(off int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { put(b, codeSegment(t, b)+off, 8, v); return b }
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	shoff := int(binary.LittleEndian.Uint64(good[ehShoff:]))
	for _, tt := range []struct {
		name   string
		change func([]byte) []byte
		is     error
		say    string
	}{
		{"empty", cut(0), ErrFormat, "offset 0: magic"},
		{"text", func([]byte) []byte {
			return []byte("#!/bin/sh\necho not a program, but longer than an ELF header would be\n")
		}, ErrFormat, "not an ELF file"},
		{"cut in the header", cut(40), ErrFormat, "offset 0x28: header: file ends"},
		{"cut in the program headers", cut(100), ErrFormat, "header"},
		{"cut in the code", func(b []byte) []byte {
			// Without section headers, so that it is the segment that is missed.
			put(b, ehShoff, 8, 0)
			put(b, ehShnum, 2, 0)
			put(b, ehShstrndx, 2, 0)
			return b[:binary.LittleEndian.Uint64(b[codeSegment(t, b)+phFilesz:])-1]
		}, ErrFormat, "bytes, file ends at"},
		{"cut before the section headers", cut(shoff), ErrFormat, "section headers"},
		{"cut in the section headers", cut(shoff + 100), ErrFormat, "section headers"},
		{"32 bits", header(offsetClass, 1, 1), ErrUnsupported, "offset 0x4: class: ELFCLASS32"},
		{"no class", header(offsetClass, 1, 9), ErrUnsupported, "offset 0x4: class"},
		{"big-endian", header(offsetData, 1, 2), ErrUnsupported, "offset 0x5: byte order: ELFDATA2MSB"},
		{"relocatable", header(offsetType, 2, uint64(elf.ET_REL)), ErrUnsupported, "offset 0x10: type: ET_REL"},
		{"core dump", header(offsetType, 2, uint64(elf.ET_CORE)), ErrUnsupported, "offset 0x10: type: ET_CORE"},
		{"RISC-V", header(offsetMachine, 2, uint64(elf.EM_RISCV)), ErrUnsupported, "offset 0x12: machine: EM_RISCV"},
		{"program headers beyond the end", header(ehPhoff, 8, 1<<40), ErrFormat, "section headers"},
		{"program headers too small", header(ehPhentsize, 2, 8), ErrFormat, "phentsize"},
		{"no section of names", header(ehShstrndx, 2, 0xfff0), ErrFormat, "shstrndx"},
		{"section headers beyond the end", header(ehShoff, 8, 1<<62), ErrFormat, "section headers"},
		{"segment beyond the end", segment(phOffset, 1<<40), ErrFormat, "offset 0x10000000000: segment 0"},
		{"segment longer than the file", segment(phFilesz, 1<<50), ErrFormat, "segment 0"},
		{"segment at the end of addresses", segment(phVaddr, 1<<64-8), ErrFormat, "wraps"},
		{"segments overlap", segment(phVaddr, 0x1f00), ErrFormat, "overlaps"},
		{"no segment executable", func(b []byte) []byte { put(b, codeSegment(t, b)+phFlags, 4, uint64(elf.PF_R)); return b }, ErrUnsupported, "no code"},
		{"symbol table beyond the end", section(".symtab", shOffset, 8, 1<<40), ErrFormat, ".symtab"},
		{"symbol table longer than the file", section(".symtab", shSize, 8, 1<<45), ErrFormat, ".symtab"},
		{"symbol table without names", section(".symtab", shLink, 4, 0), ErrFormat, ".symtab: link: no section 0"},
		{"symbol table with another's names", section(".symtab", shLink, 4, 1000), ErrFormat, ".symtab: link: no section 1000"},
		{"names too short", section(".strtab", shSize, 8, 3), ErrFormat, "name: offset"},
		{"names in no file", section(".strtab", shType, 4, uint64(elf.SHT_NOBITS)), ErrFormat, ".strtab"},
		{"dynamic symbols beyond the end", section(".dynsym", shOffset, 8, 1<<40), ErrFormat, ".dynsym"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := testtool.Write(t, t.TempDir(), "bad.so", tt.change(slices.Clone(good)))
			im, err := Open(path, Options{})
			if err == nil {
				im.Close()
				t.Fatal("opened")
			}
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.say) || !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("%v\nwant one that is %q, says %q and names the file", err, tt.is, tt.say)
			}
		})
	}
	if _, err := Open(t.TempDir(), Options{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Open("testdata/elf/none", Options{}); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrFormat) {
		t.Errorf("no file: %v", err)
	}
}

func TestOpen(t *testing.T) {
	for _, tt := range []struct {
		file    string
		arch    Arch
		symbols string // name, its aliases, and @section where it is not .text
	}{
		{"x86.elf", X86_64, "outside@plt@.plt never alias=__weak_alias=exported twice"},
		{"x86.ibt.elf", X86_64, "outside@plt@.plt.sec never alias=__weak_alias=exported twice"},
		{"x86.relr.elf", X86_64, "outside@plt@.plt never alias=__weak_alias=exported twice"},
		{"x86.stripped.elf", X86_64, "outside@plt@.plt fn alias=__weak_alias=exported fn"},
		{"arm.elf", AArch64, "outside@plt@.plt never alias=__weak_alias=exported twice"},
	} {
		im := mustOpen(t, filepath.Join("testdata", "elf", tt.file), Options{})
		var got []string
		for _, s := range im.Symbols() {
			name := strings.Join(append([]string{s.Name}, s.Aliases...), "=")
			if s.Name == fmt.Sprintf("fn_%x", uint64(s.Addr)) && s.Source == FromEhFrame {
				name = "fn"
			}
			if s.Section != ".text" {
				name += "@" + s.Section
			}
			got = append(got, name)
		}
		slices.Sort(got)
		want := strings.Fields(tt.symbols)
		slices.Sort(want)
		if !slices.Equal(got, want) || im.Arch != tt.arch {
			t.Errorf("%s: %v: %q\nwant %v: %q", tt.file, im.Arch, got, tt.arch, want)
		}
		if im.Lookup("alias") != im.Lookup("exported") || im.Lookup("none") != -1 {
			t.Errorf("%s: alias is symbol %d, exported %d, none %d", tt.file, im.Lookup("alias"), im.Lookup("exported"), im.Lookup("none"))
		}
	}
}

// TestRead compares what read and code give with the file, across chunks.
func TestRead(t *testing.T) {
	data := make([]byte, 3*chunkSize+100)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	const base = 0x400000
	im := &Image{
		segments: []*segment{newSegment(bytes.NewReader(data), base, uint64(len(data))-7, 7, true)},
		regions:  []region{{base + 10, base + 2*chunkSize, ".text"}},
	}
	for _, tt := range []struct {
		at  Addr
		n   int
		has bool
	}{
		{base, 0, true},
		{base, 1, true},
		{base, len(data) - 7, true},
		{base, len(data) - 6, false},
		{base + chunkSize - 1, 1, true},
		{base + chunkSize - 1, 2, true},
		{base + chunkSize, chunkSize, true},
		{base + chunkSize - 3, 2*chunkSize + 5, true},
		{base + 3*chunkSize, 93, true},
		{base + 3*chunkSize, 94, false},
		{base - 1, 1, false},
		{base + Addr(len(data)) - 7, 1, false},
		{base, -1, false},
	} {
		got := im.read(tt.at, tt.n)
		if !tt.has {
			if got != nil {
				t.Errorf("read(%#x, %d) gives %d bytes, want nil", tt.at, tt.n, len(got))
			}
		} else if want := data[tt.at-base+7:][:tt.n]; !bytes.Equal(got, want) {
			t.Errorf("read(%#x, %d) differs from the file", tt.at, tt.n)
		}
	}
	for _, tt := range []struct {
		lo, hi Addr
		has    bool
	}{
		{base + 10, base + 12, true},
		{base + 10, base + 2*chunkSize, true},
		{base + 9, base + 12, false},
		{base + 10, base + 2*chunkSize + 1, false},
		{base + 12, base + 11, false},
	} {
		if got := im.code(tt.lo, tt.hi); (got != nil) != tt.has || tt.has && len(got) != int(tt.hi-tt.lo) {
			t.Errorf("code(%#x, %#x) gives %d bytes, want any: %v", tt.lo, tt.hi, len(got), tt.has)
		}
	}
}

func TestAddrOf(t *testing.T) {
	im := &Image{segments: []*segment{
		newSegment(nil, 0x1000, 0x500, 0, false),
		newSegment(nil, 0x2400, 0x100, 0x400, true), // its bytes are in the first one too
		newSegment(nil, 0x5000, 0x10, 0x600, false),
	}}
	for _, tt := range []struct {
		off  sample.Offset
		want Addr
		ok   bool
	}{
		{0, 0x1000, true},
		{0x3ff, 0x13ff, true},
		{0x400, 0x2400, true},
		{0x4ff, 0x24ff, true},
		{0x500, 0, false},
		{0x60f, 0x500f, true},
		{0x610, 0, false},
		{1 << 63, 0, false},
	} {
		if got, ok := im.AddrOf(tt.off); got != tt.want || ok != tt.ok {
			t.Errorf("AddrOf(%#x) = %#x, %v, want %#x, %v", tt.off, got, ok, tt.want, tt.ok)
		}
	}
	if off, ok := im.OffsetOf(0x2450); off != 0x450 || !ok {
		t.Errorf("OffsetOf(0x2450) = %#x, %v", off, ok)
	}
	if off, ok := im.OffsetOf(0x1500); ok {
		t.Errorf("OffsetOf(0x1500) = %#x, want none", off)
	}
}

// TestConcurrent lets the race detector see all that is read when first asked for.
func TestConcurrent(t *testing.T) {
	im := mustOpen(t, "testdata/elf/x86.elf", Options{})
	im = mustOpen(t, im.Path, Options{}) // one whose caches are still empty but for what Open needs
	done := make(chan int)
	for range 4 {
		go func() {
			n := im.Lookup("twice")
			im.pointer(0x2000)
			s := im.Symbols()[n]
			done <- len(im.code(s.Addr, s.Addr+Addr(s.Size)))
		}()
	}
	first := <-done
	for range 3 {
		if n := <-done; n != first || n == 0 {
			t.Errorf("twice has %d bytes, and %d", first, n)
		}
	}
}

// FuzzOpen: any bytes give an error that says whose fault it is, or an image that keeps its promises.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"x86.elf", "x86.stripped.elf", "x86.ibt.elf", "x86.relr.elf", "arm.elf"} {
		f.Add(seed(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		im := &Image{Path: "fuzz", file: bytes.NewReader(b)}
		if err := im.open(int64(len(b)), Options{Root: "testdata"}); err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("neither malformed nor unsupported: %v", err)
			}
			return
		}
		if err := checkSymbols(im); err != nil {
			t.Fatal(err)
		}
		for _, r := range im.relocs().all {
			im.importAt(r.slot)
			im.pointer(r.slot)
		}
		im.callTargets()
	})
}

// TestFingerprint: a copy of a file is the same, and without a build ID each byte counts.
func TestFingerprint(t *testing.T) {
	print := func(text string) string {
		f, err := os.Open(testtool.Write(t, t.TempDir(), "f", text))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return Fingerprint(f)
	}
	mix := testtool.Read(t, "../../testdata/mix/mix")
	if of := print(mix); of == "" || print(mix) != of || print(mix+"\x00") == of {
		t.Errorf("of a program: %q, of a copy %q, of a longer one %q", of, print(mix), print(mix+"\x00"))
	}
	if of := print("a file"); of == "" || print("a file") != of || print("a fire") == of {
		t.Errorf("of a file: %q, of a copy %q, of another %q", of, print("a file"), print("a fire"))
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if of := Fingerprint(dir); of != "" {
		t.Errorf("of a directory: %q", of)
	}
}
