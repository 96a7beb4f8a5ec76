package input

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// codeFile is an executable whose code is linked at an address and lies at an offset of its file.
func codeFile(t *testing.T, addr, off, size uint64) *image.Image {
	t.Helper()
	var b bytes.Buffer
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(head.Ident[:], elf.ELFMAG)
	head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA], head.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	prog := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: off, Vaddr: addr, Paddr: addr, Filesz: size, Memsz: size, Align: 0x1000}
	for _, part := range []any{&head, &prog} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	b.Write(make([]byte, off+size-uint64(b.Len())))
	im, err := image.Open(testtool.Write(t, t.TempDir(), "code", b.Bytes()), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// TestPlaceIn: whether addresses are as linked or offsets in the file is told by the program headers, where they tell.
func TestPlaceIn(t *testing.T) {
	for _, tt := range []struct {
		name            string
		addr, off, size uint64
		addrs           []uint64
		want            sample.Offset // of the first
		told, refused   bool
	}{
		{"as linked", 0x401000, 0x1000, 0x2000, []uint64{0x401010, 0x402fff}, 0x1010, true, false},
		{"offsets", 0x401000, 0x1000, 0x2000, []uint64{0x1010, 0x2fff}, 0x1010, true, false},
		{"both are the same", 0x1000, 0x1000, 0x2000, []uint64{0x1010}, 0x1010, true, false},
		{"both fit and differ", 0x2000, 0x1000, 0x2000, []uint64{0x2010}, 0x1010, false, false},
		{"one address tells", 0x2000, 0x1000, 0x2000, []uint64{0x2010, 0x3010}, 0x1010, true, false},
		{"one address tells the other way", 0x2000, 0x1000, 0x2000, []uint64{0x2010, 0x1010}, 0x2010, true, false},
		{"neither", 0x401000, 0x1000, 0x2000, []uint64{0x7f0000001000}, 0, false, true},
	} {
		place, told, err := placeIn(codeFile(t, tt.addr, tt.off, tt.size), tt.addrs)
		if (err != nil) != tt.refused || told != tt.told {
			t.Errorf("%s: told %v, %v", tt.name, told, err)
		}
		if err == nil {
			if off, ok := place(tt.addrs[0]); !ok || off != tt.want {
				t.Errorf("%s: %#x lies at %#x, %v; want %#x", tt.name, tt.addrs[0], off, ok, tt.want)
			}
		}
	}
}
