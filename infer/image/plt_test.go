package image

import (
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// unhex reads hexadecimal bytes with blanks between them.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestX86Stubs(t *testing.T) {
	const base = 0x1020
	for _, tt := range []struct {
		name, code string
		want       []stub
	}{
		{"lazy", "ff35e22f0000 ff25e42f0000 0f1f4000" + // the resolver's: push; jmp *0x4010
			"ff25e22f0000 6800000000 e9e0ffffff",
			[]stub{{extent{0x1030, 0x1040}, 0x4018}}},
		{"bound at start", "ff25da2f0000 6690", []stub{{extent{0x1020, 0x1026}, 0x4000}}},
		{"8 bytes each", "ff25da2f0000 6690 ff25d22f0000 6690", []stub{{extent{0x1020, 0x1026}, 0x4000}, {extent{0x1028, 0x102e}, 0x4000}}},
		{"ibt", "f30f1efa f2ff25d52f0000 0f1f440000 f30f1efa ff25d62f0000 660f1f440000",
			[]stub{{extent{0x1020, 0x102b}, 0x4000}, {extent{0x1030, 0x103a}, 0x4010}}},
		{"lazy half of ibt", "f30f1efa 6800000000 f2e9e1ffffff 90", nil},
		{"cut off", "ff25da2f", nil},
		{"after endbr64", "f30f1efa", nil},
		{"after bnd", "f30f1efa f2", nil},
	} {
		if got := x86Stubs(unhex(t, tt.code), base); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %x, want %x", tt.name, got, tt.want)
		}
	}
}

func TestArmStubs(t *testing.T) {
	const base = 0x3c0
	for _, tt := range []struct {
		name, code string
		want       []stub
	}{
		{"plain", "100000b0 11fe47f9 10e23f91 20021fd6", []stub{{extent{0x3c0, 0x3d0}, 0x1ff8}}},
		{"bti", "5f2403d5 100000b0 110240f9 10020091 20021fd6 1f2003d5", []stub{{extent{0x3c0, 0x3d4}, 0x1000}}},
		{"pac", "100000b0 110240f9 10020091 9f2103d5 20021fd6", []stub{{extent{0x3c0, 0x3d4}, 0x1000}}},
		{"the page before", "f0fffff0 110240f9 10020091 20021fd6", []stub{{extent{0x3c0, 0x3d0}, ^Addr(0) - 0xfff}}},
		{"no jump", "100000b0 11fe47f9 10e23f91 c0035fd6", nil},
		{"cut off", "100000b0 11fe47f9", nil},
	} {
		if got := armStubs(unhex(t, tt.code), base); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %x, want %x", tt.name, got, tt.want)
		}
	}
}

func TestAppendRelr(t *testing.T) {
	im := &Image{segments: []*segment{newSegment(strings.NewReader(strings.Repeat("\x01\x02\x03\x04\x00\x00\x00\x00", 0x200)), 0x10000, 0x1000, 0, false)}}
	words := func(ws ...uint64) []byte { return le64(ws...) }
	for _, tt := range []struct {
		name  string
		bytes []byte
		want  []Addr
	}{
		{"a slot", words(0x10010), []Addr{0x10010}},
		{"the first and the third after it", words(0x10010, 1<<1|1<<3|1), []Addr{0x10010, 0x10018, 0x10028}},
		{"two maps", words(0x10010, 1, 1<<1|1), []Addr{0x10010, 0x10018 + 63*8}},
		{"out of order", words(0x10010, 0x10000), []Addr{0x10010}},
		{"outside", words(0x20000, 3), nil},
		{"cut off", words(0x10010)[:7], nil},
	} {
		var got []Addr
		for _, r := range im.appendRelr(nil, tt.bytes) {
			got = append(got, r.slot)
			if r.target != 0x04030201 || r.sym != -1 {
				t.Errorf("%s: %+v", tt.name, r)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

// TestPointer asks for slots of every kind in binaries of the linkers at hand.
func TestPointer(t *testing.T) {
	const source = `
extern int outside(int);
static int f(int x) { return x; }
int g(int x) { return x + 1; }
static int chosen(int x) { return x; }
static int (*choose(void))(int) { return chosen; }
int indirect(int) __attribute__((ifunc("choose")));
int (*const table[])(int) = {f, g, outside, 0};
int use(int i) { return table[i](i) + outside(i) + indirect(i); }
`
	for _, tt := range []struct{ name, cc, flags string }{
		{"gcc, shared", "gcc", "-fPIC -shared"},
		{"gcc, packed relocations", "gcc", "-fPIC -shared -Wl,-z,pack-relative-relocs"},
		{"lld, shared", "clang-19", "-fPIC -shared -fuse-ld=lld-19"},
		{"lld, packed relocations", "clang-19", "-fPIC -shared -fuse-ld=lld-19 -Wl,--pack-dyn-relocs=relr"},
		{"AArch64", "aarch64-linux-gnu-gcc", "-fPIC -shared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			testtool.Write(t, dir, "p.c", source)
			testtool.Run(t, dir, append(append([]string{tt.cc, "-O1"}, strings.Fields(tt.flags)...), "p.c", "-o", "p.so")...)
			im := mustOpen(t, filepath.Join(dir, "p.so"), Options{})
			table, err := im.elf.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			var slot Addr
			for _, s := range table {
				if s.Name == "table" {
					slot = Addr(s.Value)
				}
			}
			for i, name := range []string{"f", "g"} {
				want := im.Symbols()[im.Lookup(name)].Addr
				if a, ok := im.pointer(slot + Addr(8*i)); !ok || a != want {
					t.Errorf("table[%d] is %#x, %v, want %s at %#x", i, a, ok, name, want)
				}
			}
			if a, ok := im.pointer(slot + 16); ok || im.importAt(slot+16) != "outside" {
				t.Errorf("table[2] is %#x, %v, imports %q", a, ok, im.importAt(slot+16))
			}
			if a, ok := im.pointer(slot + 24); !ok || a != 0 || im.importAt(slot+24) != "" {
				t.Errorf("table[3] is %#x, %v, imports %q", a, ok, im.importAt(slot+24))
			}
			if _, ok := im.pointer(1 << 40); ok {
				t.Error("a slot outside is known")
			}
			// clang sees through choose and calls chosen.
			if im.Lookup("outside@plt") < 0 || tt.cc != "clang-19" && im.Lookup("indirect@plt") < 0 {
				t.Errorf("stubs: %s", show(im.Symbols()))
			}
			relocated := false
			for _, r := range im.relocs().all {
				relocated = relocated || r.slot == slot && r.target == im.Symbols()[im.Lookup("f")].Addr
			}
			if !relocated {
				t.Errorf("the slot of f, %#x, is in no relocation", slot)
			}
		})
	}
}
