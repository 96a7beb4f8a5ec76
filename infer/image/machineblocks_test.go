package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// Maps of one function each.
var (
	blockMap2 = []byte{
		2, 0, // version, features
		0x00, 0x10, 0, 0, 0, 0, 0, 0, // address
		3,                // blocks
		0, 0, 0x0a, 0x08, // block 0 at 0x1000
		8, 0, 0x90, 0x01, 0x10, // block 8, 0x90 bytes
		1, 2, 0, 0x01, // block 1, two bytes further, without code
	}
	blockMap5 = []byte{
		5, 0x6f, 0, // version, features: all but mapNoBlocks and mapBranches, and that
		2, // parts
		0x00, 0x10, 0, 0, 0, 0, 0, 0,
		1,                   // blocks of the first part
		0, 0, 2, 5, 4, 7, 0, // block 0: calls that end at 5 and 9, 7 bytes more
		1, 2, 3, 4, 5, 6, 7, 8, // hash
		0x00, 0x20, 0, 0, 0, 0, 0, 0,
		1,
		3, 0, 0, 6, 1, // block 3: no calls, 6 bytes
		1, 2, 3, 4, 5, 6, 7, 8,
		99,             // entries
		100, 1, 3, 127, // block 0: frequency, one successor and its probability
		4, 0, // block 3
	}
)

func TestParseBlockMap(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
		want MachineFunc
	}{
		{"version 2", blockMap2, MachineFunc{[]Addr{0x1000}, []MachineBlock{{0, 0x1000, 0x100a, false, false}, {8, 0x100a, 0x109a, true, false}, {1, 0x109c, 0x109c, false, false}}}},
		{"version 5", blockMap5, MachineFunc{[]Addr{0x1000, 0x2000}, []MachineBlock{{0, 0x1000, 0x1010, false, false}, {3, 0x2000, 0x2006, false, false}}}},
	} {
		got, err := parseBlockMap(tt.b)
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
		for n := 1; n < len(tt.b); n++ {
			if _, err := parseBlockMap(tt.b[:n]); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), ".llvm_bb_addr_map: offset 0x") {
				t.Errorf("%s: the first %d bytes: %v, want ErrFormat and where", tt.name, n, err)
			}
		}
	}
	for why, b := range map[string][]byte{
		"version 3":       {3, 0},
		"features 0x80":   {2, 0x80},
		"features 0x8000": {5, 0, 0x80},
	} {
		if _, err := parseBlockMap(b); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestNoBlockMap(t *testing.T) {
	im := mustOpen(t, "testdata/elf/x86.elf", Options{})
	if _, err := im.MachineFuncs(); !errors.Is(err, ErrNoBlockMap) || !strings.Contains(err.Error(), "-fbasic-block-address-map") {
		t.Errorf("%v, want ErrNoBlockMap and the flag that makes one", err)
	}
}

// TestMachineFuncs holds the map of a program whose functions are in parts to
// what llvm-readobj reads in it.
func TestMachineFuncs(t *testing.T) {
	testtool.Need(t, "clang-19", "ld.lld-19", "llvm-readobj-19")
	path := filepath.Join(t.TempDir(), "words")
	testtool.Run(t, ".", "clang-19", "-O2", "-fbasic-block-address-map", "-fbasic-block-sections=all", "-fuse-ld=lld",
		"testdata/lines/words.c", "-o", path)
	_, text, _ := strings.Cut(testtool.Output(t, ".", "llvm-readobj-19", "--bb-addr-map", path), "BBAddrMap [")
	var want, got strings.Builder
	var base, id, off, size uint64
	for _, m := range regexp.MustCompile(`(Base Address|ID|Offset|Size): (0x[0-9A-F]+|\d+)`).FindAllStringSubmatch(text, -1) {
		v := map[string]*uint64{"Base Address": &base, "ID": &id, "Offset": &off, "Size": &size}[m[1]]
		if _, err := fmt.Sscanf(m[2], "%v", v); err != nil {
			t.Fatal(err)
		}
		if m[1] == "Size" {
			fmt.Fprintf(&want, "%d %#x-%#x\n", id, base+off, base+off+size)
		}
	}
	funcs, err := mustOpen(t, path, Options{}).MachineFuncs()
	if err != nil {
		t.Fatal(err)
	}
	parts := 0
	for _, f := range funcs {
		parts = max(parts, len(f.Parts))
		for _, b := range f.Blocks {
			fmt.Fprintf(&got, "%d %#x-%#x\n", b.ID, b.Start, b.End)
		}
	}
	if got.String() != want.String() || parts < 2 {
		t.Errorf("at most %d parts; blocks\n%s\nllvm-readobj has\n%s", parts, got.String(), want.String())
	}
}

// FuzzBlockMap: any bytes give an error, or no more blocks than fit.
func FuzzBlockMap(f *testing.F) {
	f.Add(blockMap2)
	f.Add(blockMap5)
	f.Add(append(blockMap2, blockMap5...))
	if b, err := os.ReadFile("testdata/blockmap.clang19"); err != nil {
		f.Fatal(err)
	} else {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		funcs, err := parseBlockMap(b)
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
		n := 0
		for _, f := range funcs {
			n += 4*len(f.Blocks) + 9*len(f.Parts)
		}
		if err == nil && n > len(b) {
			t.Fatalf("blocks and parts that need %d bytes, from %d", n, len(b))
		}
	})
}
