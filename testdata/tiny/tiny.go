// Package tiny makes the smallest files and recordings that tests can tell apart. What they hold is
// never run.
package tiny

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// ELF returns the least that is an image: one loaded segment of x86-64 code with a return
// instruction, and a note with the build ID.
func ELF(id sample.BuildID) []byte {
	const headers = 64 + 2*56
	note := append([]byte{4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0}, id[:]...)
	size := uint64(headers + len(note) + 1)
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Entry: size - 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64,
	})
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Filesz: size, Memsz: size, Align: 0x1000})
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_NOTE), Flags: uint32(elf.PF_R), Off: headers, Vaddr: headers, Filesz: uint64(len(note)), Memsz: uint64(len(note)), Align: 4})
	b.Write(note)
	b.WriteByte(0xc3)
	return b.Bytes()
}

// Recording returns one that has so many samples at the start of each of the procedures of an image, which
// is said to lie at path, and some of the kernel.
func Recording(t testing.TB, im *image.Image, path string, procs map[string]uint64, kernel uint64) *sample.Recording {
	t.Helper()
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	i := c.Image(sample.ImageID{Build: im.Build, Path: path})
	for name, n := range procs {
		s := im.Lookup(name)
		if s < 0 {
			t.Fatalf("no symbol %s", name)
		}
		off, ok := im.OffsetOf(im.Symbols()[s].Addr)
		if !ok {
			t.Fatalf("%s is not in the file", name)
		}
		c.AddSample(i, off, n)
	}
	c.Lose(sample.LostKernel, kernel)
	rec := &sample.Recording{}
	rec.Add(c)
	return rec
}
