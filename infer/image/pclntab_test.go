package image

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// pclntabOf makes a table of two functions at text: one of 5 instructions at 0
// with padding behind it, one at 0x40 without stack depths, up to 0x60.
func pclntabOf(magic uint32, quantum byte, text uint64) []byte {
	word, header := 4, 8+8*8
	if magic == pclntab116 {
		word, header = 8, 8+7*8
	}
	names := []byte("\x00main.main\x00main.F[go.shape.int]\x00")
	tables := []byte{0, 2, 2, 16, 3, 0} // value +1 for 2 instructions, +8 for 3; the end
	var funcs []byte
	add := func(v uint64) {
		funcs = append(funcs, le64(v)[:word]...)
	}
	base := uint64(0)
	if magic == pclntab116 {
		base = text
	}
	first, size := uint64(5*word), uint64(word+16)
	for _, v := range []uint64{base, first, base + 0x40, first + size, base + 0x60} {
		add(v)
	}
	for _, r := range []struct {
		entry       uint64
		name, depth int32
	}{{base, 1, 1}, {base + 0x40, 11, 0}} {
		add(r.entry)
		funcs = append(funcs, le32(r.name, 0, 0, r.depth)...)
	}
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = append(b, 0, 0, quantum, 8)
	b = append(b, le64(2, 0)...)
	if magic != pclntab116 {
		b = append(b, le64(text)...)
	}
	at := uint64(header)
	b = append(b, le64(at, 0, 0, at+uint64(len(names)), at+uint64(len(names)+len(tables)))...)
	return slices.Concat(b, names, tables, funcs)
}

func TestParsePclntab(t *testing.T) {
	for _, tt := range []struct {
		name    string
		magic   uint32
		quantum byte
		size    Addr // of the first function
	}{
		{"Go 1.16", pclntab116, 1, 5},
		{"Go 1.18", pclntab118, 1, 5},
		{"Go 1.20", pclntab120, 1, 5},
		{"AArch64", pclntab120, 4, 20},
	} {
		want := []goFunc{{"main.main", 0x401000, 0x401000 + tt.size}, {"main.F[go.shape.int]", 0x401040, 0x401060}}
		got, err := parsePclntab(pclntabOf(tt.magic, tt.quantum, 0x401000), 0x401000)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v\nwant %v", tt.name, got, err, want)
		}
	}
}

func TestParsePclntabRefuses(t *testing.T) {
	good := pclntabOf(pclntab120, 1, 0x401000)
	const header = 8 + 8*8
	names, tables := header, header+32
	funcs := tables + 6
	at := func(off, size int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { put(b, off, size, v); return b }
	}
	for _, tt := range []struct {
		name   string
		change func([]byte) []byte
		say    string
	}{
		{"empty", func([]byte) []byte { return nil }, "offset 0: header"},
		{"Go 1.2", at(0, 4, 0xfffffffb), "header"},
		{"32-bit pointers", at(7, 1, 4), "header"},
		{"cut in the header", func(b []byte) []byte { return b[:20] }, "function names"},
		{"cut in the functions", func(b []byte) []byte { return b[:funcs+4] }, "number of functions: 2 in 4 bytes"},
		{"cut in a record", func(b []byte) []byte { return b[:len(b)-24] }, "stack depths: offset 0x24"},
		{"too many functions", at(8, 8, 1<<60), "number of functions: 1152921504606846976"},
		{"names outside", at(32, 8, 1<<40), "function names: offset 0x10000000000"},
		{"functions outside", at(64, 8, 1<<63), "functions: offset"},
		{"record outside", at(funcs+4, 4, 1<<31), "name: offset"},
		{"name outside", at(funcs+20+4, 4, 1<<31), "name: offset 0x80000000"},
		{"entries out of order", at(funcs+8, 4, 0x70), "entries out of order"},
		{"depths outside", at(funcs+20+16, 4, 1<<31), "stack depths"},
		{"depths without end", at(funcs+20+16, 4, uint64(len(good)-tables-1)), "stack depths"},
		{"depths for no code", at(tables+2, 1, 0), "stack depths"},
	} {
		_, err := parsePclntab(tt.change(slices.Clone(good)), 0x401000)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v, want one that says %q", tt.name, err, tt.say)
		}
	}
	if string(good[names+1:names+10]) != "main.main" {
		t.Error("the offsets above are not those of the table")
	}
}

// goProgram is a small Go program with generics, a method and a closure.
const goProgram = `package main

import "os"

type list[T any] struct{ v []T }

//go:noinline
func (l *list[T]) add(v T) { l.v = append(l.v, v) }

//go:noinline
func each(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

func main() {
	var l list[int]
	var s list[string]
	each(3, func(i int) { l.add(i); s.add("x") })
	os.Exit(len(l.v) - len(s.v))
}
`

// TestGo builds a Go program in several ways, strips it and expects the same
// functions at the same addresses with the same names: those of pclntab are the
// linker's, but for the suffixes that it puts on ABIs.
func TestGo(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		args []string
	}{
		{"amd64", []string{"GOARCH=amd64", "CGO_ENABLED=0"}, nil},
		{"arm64", []string{"GOARCH=arm64", "CGO_ENABLED=0"}, []string{"-trimpath"}}, // as .ci/run has compiled the library
		{"position-independent", []string{"GOARCH=amd64", "CGO_ENABLED=0"}, []string{"-buildmode=pie"}},
		{"linked by gcc", []string{"GOARCH=amd64", "CGO_ENABLED=1"}, []string{"-ldflags=-linkmode=external"}},
		{"position-independent, linked by gcc", []string{"GOARCH=amd64", "CGO_ENABLED=1"}, []string{"-buildmode=pie", "-ldflags=-linkmode=external"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			testtool.Write(t, dir, "main.go", goProgram)
			for _, e := range append(tt.env, "GOFLAGS=", "GOWORK=off", "GO111MODULE=off", "GOTOOLCHAIN=local") {
				name, value, _ := strings.Cut(e, "=")
				t.Setenv(name, value)
			}
			if strings.Contains(tt.name, "gcc") {
				testtool.Run(t, dir, "gcc", "--version")
			}
			testtool.Run(t, dir, append(append([]string{"go", "build", "-o", "p"}, tt.args...), "main.go")...)
			strip := "strip"
			if tt.name == "arm64" {
				strip = "aarch64-linux-gnu-strip"
			}
			testtool.Run(t, dir, strip, "-o", "stripped", "p")
			im := mustOpen(t, filepath.Join(dir, "p"), Options{})
			sim := mustOpen(t, filepath.Join(dir, "stripped"), Options{})
			if !strings.HasPrefix(sim.Go, "go1.") || sim.Go != im.Go {
				t.Errorf("linked by Go %q, stripped %q", im.Go, sim.Go)
			}
			for _, name := range []string{"main.main", "main.each", "main.main.func1", "main.(*list[go.shape.int]).add"} {
				if i := sim.Lookup(name); i < 0 || sim.Symbols()[i].Source != FromPclntab {
					t.Errorf("%s is symbol %d of the stripped file", name, i)
				}
			}
			n := 0
			for _, got := range sim.Symbols() {
				if got.Source != FromPclntab || strings.HasPrefix(got.Name, "go:") {
					continue
				}
				n++
				want := im.Symbols()[im.Find(got.Addr)]
				name := strings.NewReplacer(".abi0", "", ".abiinternal", "").Replace(want.Name)
				if got.Addr != want.Addr || got.Size != want.Size || got.Name != name {
					t.Errorf("%s at %#x, %d bytes; in the symbol table %s at %#x, %d", got.Name, got.Addr, got.Size, want.Name, want.Addr, want.Size)
				}
			}
			if n < 1000 {
				t.Errorf("%d functions of a program with the runtime", n)
			}
		})
	}
}

// TestGoMerged finds the table in a file whose linker gave its section another name.
func TestGoMerged(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	if im, err := Open(exe, Options{}); err != nil || im.Go == "" {
		t.Skipf("this test is no ELF file on this host: %v", err)
	} else {
		im.Close()
	}
	dir := t.TempDir()
	testtool.Run(t, dir, "objcopy", "--strip-all", "--rename-section", ".gopclntab=.rodata.merged", exe, "p")
	im := mustOpen(t, filepath.Join(dir, "p"), Options{})
	if i := im.Lookup("backfeed/infer/image.TestGoMerged"); i < 0 || im.Symbols()[i].Source != FromPclntab {
		t.Errorf("this test is symbol %d of itself", i)
	}
}

// FuzzPclntab: any bytes give an error, or functions of positive size.
func FuzzPclntab(f *testing.F) {
	for _, magic := range []uint32{pclntab116, pclntab118, pclntab120} {
		f.Add(pclntabOf(magic, 1, 0x401000))
	}
	f.Add(pclntabOf(pclntab120, 4, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		funcs, err := parsePclntab(b, 0x1000)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for _, fn := range funcs {
			if fn.hi <= fn.lo {
				t.Fatalf("%s: [%#x, %#x)", fn.name, fn.lo, fn.hi)
			}
		}
	})
}
