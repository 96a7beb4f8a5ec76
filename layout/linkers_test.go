package layout

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

// oddOrder has the names that need care: cold parts, other parts, aliases, local
// functions of one name in several files, and what linkers take for patterns.
func oddOrder() *Sections {
	local := func(name string, addr image.Addr) image.Symbol {
		return image.Symbol{Name: name, Addr: addr, Local: true, Ordinal: int(addr % 16)}
	}
	o := &Order{
		Symbols: []image.Symbol{
			{Name: "main", Addr: 0x10},
			local("twin", 0x21), // src/a/util.c
			{Name: "work", Addr: 0x30},
			local("twin", 0x42), // src/b/util.c
			local("scale.constprop.0", 0x51),
			local("stray", 0x62), // of no known file
			local("work.cold", 0x71),
			{Name: "_ZN1AC1Ev", Aliases: []string{"_ZN1AC2Ev"}, Addr: 0x80},
			local("-[Foo bar:]", 0x91),
			{Name: "main.__part.1", Addr: 0xa0},
			{Name: "a\nb", Addr: 0xb0},
			{Name: `# "c`, Addr: 0xb8},
			local("twin", 0xc3), // of no known file
		},
		same: map[string]int{"main": 1, "twin": 4, "work": 1, "work.cold": 1, "stray": 2},
	}
	return &Sections{
		order: o,
		units: map[image.Addr]string{0x21: "src/a/util.c", 0x42: "src/b/util.c", 0xd4: "src/x.c"},
		files: map[string][]string{"twin": {"src/a/util.c", "src/b/util.c", "src/x.c"}},
	}
}

// TestFormats pins what linkers are given.
func TestFormats(t *testing.T) {
	s := oddOrder()
	for target, unfit := range map[string]int{"lld": 2, "bolt": 1, "gold": 1, "ld": 2, "ld-script": 2} {
		f, ok := s.Format(target)
		var got bytes.Buffer
		if err := f.Write(&got); err != nil || !ok {
			t.Fatal(err)
		}
		if f.Unfit != unfit {
			t.Errorf("%s: %d names left out, want %d", target, f.Unfit, unfit)
		}
		testtool.Golden(t, filepath.Join("testdata", target+".order"), got.Bytes())
	}
}

// TestColdPart: the section of unlikely code is that of the cold part where there is
// one, else that of a function that is unlikely as a whole.
func TestColdPart(t *testing.T) {
	s := &Sections{order: &Order{same: map[string]int{"f": 1, "f.cold": 1, "g": 1}}}
	for name, want := range map[string]bool{"f": false, "g": true, "f.cold": true} {
		section := ".text.unlikely." + strings.TrimSuffix(name, ".cold")
		if got := slices.Contains(s.names(image.Symbol{Name: name}, fitsGold, map[string]bool{}), section); got != want {
			t.Errorf("%s of %s: %v, want %v", section, name, got, want)
		}
	}
}

// TestOrderedSections: linkers find functions whose names have patterns, quotes, spaces and the like
// in them by what we write, and those are left out that would be something else.
func TestOrderedSections(t *testing.T) {
	testtool.Need(t, "clang-19", "ld.bfd", "ld.gold", "ld.lld-19")
	names := []string{
		"first", "-[F bar:]", "-F bar:", "q?x", "qax", "s*t", `b\[s`, `b\s`, `q"t`, "n\nfirst\n", "cr\r", " lead", "#no", "t\tb",
		"e){}\n", "\x1b[31m", "trail ", "{}*()", "/*c*/", "\xff\xfe", "ü",
	}
	dir := t.TempDir()
	var source strings.Builder
	for i, name := range names {
		in := standIn(i, len(name))
		fmt.Fprintf(&source, ".section .text.%s,\"ax\",@progbits\n.globl %s\n.type %s,@function\n%s: ret\n.size %s,1\n", in, in, in, in, in)
	}
	if err := os.WriteFile(filepath.Join(dir, "f.s"), []byte(source.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	testtool.Run(t, dir, "clang-19", "--target=x86_64-linux-gnu", "-c", "f.s")
	object, err := os.ReadFile(filepath.Join(dir, "f.o"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		object = bytes.ReplaceAll(object, []byte(standIn(i, len(name))+"\x00"), []byte(name+"\x00"))
	}
	if err := os.WriteFile(filepath.Join(dir, "f.o"), object, 0o644); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(names)
	slices.Reverse(want)
	o := &Order{}
	for _, name := range want {
		o.Symbols = append(o.Symbols, image.Symbol{Name: name})
	}
	for _, tt := range []struct {
		linker, option, target string
		left                   []string
	}{
		{"ld.bfd", "-T", "ld-script", []string{`b\[s`, `b\s`, `q"t`, "n\nfirst\n", "cr\r", "t\tb", "e){}\n", "\x1b[31m"}},
		{"ld.gold", "--section-ordering-file", "gold", []string{"n\nfirst\n", "cr\r", "e){}\n"}},
		{"ld.lld-19", "--symbol-ordering-file", "lld", []string{"n\nfirst\n", "cr\r", " lead", "#no", "trail ", "e){}\n"}},
	} {
		f, ok := (&Sections{order: o}).Format(tt.target)
		if !ok || f.Unfit != len(tt.left) {
			t.Errorf("%s: %d names left out, want %q", tt.target, f.Unfit, tt.left)
		}
		var file bytes.Buffer
		if err := f.Write(&file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "order"), file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		log := testtool.Run(t, dir, tt.linker, "-shared", "f.o", "-o", "f.so", tt.option, "order")
		if strings.Contains(log, "warning") {
			t.Errorf("%s: %s by\n%s", tt.linker, log, file.Bytes())
		}
		got := slices.DeleteFunc(symbolsByAddr(t, filepath.Join(dir, "f.so"), names), func(name string) bool { return slices.Contains(tt.left, name) })
		fit := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return slices.Contains(tt.left, name) })
		if !slices.Equal(got, fit) {
			t.Errorf("%s: %q, want %q by\n%s", tt.linker, got, fit, file.Bytes())
		}
	}
}

// standIn is a name of n bytes, at least two, that an assembler takes.
func standIn(i, n int) string {
	return (string(rune('A'+i)) + strings.Repeat("_", n))[:n]
}

// symbolsByAddr returns those of the symbols of a file that are in names.
func symbolsByAddr(t *testing.T, path string, names []string) (got []string) {
	t.Helper()
	symbols := testtool.Symbols(t, path)
	slices.SortFunc(symbols, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	for _, s := range symbols {
		if slices.Contains(names, s.Name) {
			got = append(got, s.Name)
		}
	}
	return got
}
