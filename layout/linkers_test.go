package layout

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
)

var update = flag.Bool("update", false, "rewrite the golden files")

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
	for name, write := range map[string]func(io.Writer) error{
		"lld.order": s.order.WriteSymbols, "bolt.order": s.order.WriteBOLT,
		"gold.order": s.WriteGold, "ld.order": s.WriteLD, "ld-script.order": s.WriteScript,
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", golden, err, got.Bytes(), want)
		}
	}
}

// TestColdPart: the section of unlikely code is that of the cold part where there is
// one, else that of a function that is unlikely as a whole.
func TestColdPart(t *testing.T) {
	s := &Sections{order: &Order{same: map[string]int{"f": 1, "f.cold": 1, "g": 1}}}
	for name, want := range map[string]bool{"f": false, "g": true, "f.cold": true} {
		section := ".text.unlikely." + strings.TrimSuffix(name, ".cold")
		if got := slices.Contains(s.names(image.Symbol{Name: name}, map[string]bool{}), section); got != want {
			t.Errorf("%s of %s: %v, want %v", section, name, got, want)
		}
	}
}

// TestOrderedSections: GNU ld and gold find a section whose name is a pattern, and
// needs quotes, by the name that we write.
func TestOrderedSections(t *testing.T) {
	need(t, "clang-19", "ld.bfd", "ld.gold", "llvm-nm-19")
	const source = `
.macro function name
.section ".text.\name","ax",@progbits
.globl "\name"
.type "\name",@function
"\name": ret
.size "\name",1
.endm
function "first"
function "-[F bar:]"
function "-F bar:"
function "q?x"
function "qax"
function "s*t"
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f.s"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "clang-19", "--target=x86_64-linux-gnu", "-c", "f.s")
	want := []string{"s*t", "q?x", "-[F bar:]", "first"}
	o := &Order{}
	for _, name := range want {
		o.Symbols = append(o.Symbols, image.Symbol{Name: name})
	}
	s := &Sections{order: o}
	for _, tt := range []struct {
		linker, option string
		write          func(io.Writer) error
	}{
		{"ld.bfd", "-T", s.WriteScript},
		{"ld.gold", "--section-ordering-file", s.WriteGold},
	} {
		var file bytes.Buffer
		if err := tt.write(&file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "order"), file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, dir, tt.linker, "-shared", "f.o", "-o", "f.so", tt.option, "order")
		var got []string
		for _, line := range strings.Split(run(t, dir, "llvm-nm-19", "-n", "f.so"), "\n") {
			if _, name, ok := strings.Cut(line, " T "); ok && slices.Contains(want, name) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q by\n%s", tt.linker, got, want, file.Bytes())
		}
	}
}
