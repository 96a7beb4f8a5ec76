package sample

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// An ELF is what a recorder reads of an ELF file: little, and bounded whatever the
// file says. Package debug/elf reads all headers and names, of which a hostile file
// has gigabytes.
type ELF struct {
	Class    elf.Class
	Order    binary.ByteOrder
	Type     elf.Type
	Machine  elf.Machine
	Segments []elf.ProgHeader
	Build    BuildID // zero if the file has none
	Go       bool    // its code is of Go's compiler, at least in part
}

// ErrELF is wrapped by errors that blame the bytes of an ELF file.
var ErrELF = errors.New("malformed ELF file")

// What is read of an ELF file at most. Linux executes nothing of more than 64 KB of
// program headers (fs/binfmt_elf.c, load_elf_phdrs); linked files have some dozens of
// sections; and the kernel looks for build IDs in the first page.
const (
	maxSegments = 1 << 10
	maxSections = 1 << 16
	maxNotes    = 1 << 20 // bytes, of all notes together
	maxNames    = 1 << 16 // bytes of the names of sections
)

// An elfLayout is where the fields of the headers of a class are (the ELF specification's
// Elf32_Ehdr, Elf64_Ehdr, and so on).
type elfLayout struct {
	header, segment, section int // sizes
	phoff, shoff             int // offsets in the file's header
	phentsize                int // then phnum, shentsize and shnum follow, 2 bytes each
	secFlags, secOff         int // offsets in a section's header
	secSize, secAddrAlign    int
}

var elfLayouts = map[elf.Class]elfLayout{
	elf.ELFCLASS32: {52, 32, 40, 28, 32, 42, 8, 16, 20, 32},
	elf.ELFCLASS64: {64, 56, 64, 32, 40, 54, 8, 24, 32, 48},
}

// elfReader reads words of one ELF file.
type elfReader struct {
	r     io.ReaderAt
	order binary.ByteOrder
	elfLayout
	wide bool
}

// word reads a field that has the size of an address.
func (e *elfReader) word(b []byte, off int) uint64 {
	if e.wide {
		return e.order.Uint64(b[off:])
	}
	return uint64(e.order.Uint32(b[off:]))
}

func (e *elfReader) at(off uint64, b []byte, field string) error {
	if off > math.MaxInt64-uint64(len(b)) {
		return fmt.Errorf("offset %#x: %s: %w", off, field, ErrELF)
	}
	n, err := e.r.ReadAt(b, int64(off))
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return fmt.Errorf("offset %#x: %s: file ends: %w", off+uint64(n), field, ErrELF)
	}
	return err
}

// ReadELF reads the segments and the GNU build ID of an ELF file of any class and
// byte order, and whether it is of Go. Its time and memory do not depend on the size of the file.
func ReadELF(r io.ReaderAt) (*ELF, error) {
	e := &elfReader{r: r}
	ident := make([]byte, elf.EI_NIDENT)
	if err := e.at(0, ident, "magic"); err != nil {
		return nil, err
	}
	f := &ELF{Class: elf.Class(ident[elf.EI_CLASS])}
	layout, known := elfLayouts[f.Class]
	switch {
	case string(ident[:4]) != elf.ELFMAG:
		return nil, fmt.Errorf("offset 0x0: magic: %w", ErrELF)
	case !known:
		return nil, fmt.Errorf("offset %#x: class: %v: %w", elf.EI_CLASS, f.Class, ErrELF)
	case elf.Data(ident[elf.EI_DATA]) == elf.ELFDATA2LSB:
		f.Order = binary.LittleEndian
	case elf.Data(ident[elf.EI_DATA]) == elf.ELFDATA2MSB:
		f.Order = binary.BigEndian
	default:
		return nil, fmt.Errorf("offset %#x: byte order: %v: %w", elf.EI_DATA, elf.Data(ident[elf.EI_DATA]), ErrELF)
	}
	e.order, e.elfLayout, e.wide = f.Order, layout, f.Class == elf.ELFCLASS64
	header := make([]byte, layout.header)
	if err := e.at(0, header, "header"); err != nil {
		return nil, err
	}
	f.Type, f.Machine = elf.Type(e.order.Uint16(header[16:])), elf.Machine(e.order.Uint16(header[18:]))
	var err error
	if f.Segments, err = e.segments(header); err != nil {
		return nil, err
	}
	f.Build, err = e.buildID(header, f.Segments)
	f.Go = e.hasSection(header, goSection)
	return f, err
}

// goSection is what Go's linker puts into all that it links, and neither -ldflags="-s -w -buildid=" nor strip
// takes out (cmd/link/internal/ld/data.go, buildinfo).
const goSection = ".go.buildinfo"

// hasSection reports whether a section has that name, as far as the names can be read. Only the names are looked at,
// not which section has them: the table of sections may be long.
func (e *elfReader) hasSection(header []byte, name string) bool {
	index := e.order.Uint16(header[e.phentsize+8:])
	h := make([]byte, e.section)
	if index == 0 || index >= uint16(elf.SHN_LORESERVE) || e.at(e.word(header, e.shoff)+uint64(index)*uint64(e.section), h, "section header") != nil {
		return false
	}
	b := make([]byte, min(e.word(h, e.secSize), maxNames))
	return e.at(e.word(h, e.secOff), b, "names of sections") == nil && bytes.Contains(b, []byte("\x00"+name+"\x00"))
}

// count reads the size and the number of entries of a table of headers.
func (e *elfReader) count(header []byte, off, size int, field string) (int, error) {
	n := int(e.order.Uint16(header[off+2:]))
	if have := int(e.order.Uint16(header[off:])); n > 0 && have != size {
		return 0, fmt.Errorf("offset %#x: %s: %d, want %d: %w", off, field, have, size, ErrELF)
	}
	return n, nil
}

func (e *elfReader) segments(header []byte) ([]elf.ProgHeader, error) {
	n, err := e.count(header, e.phentsize, e.segment, "size of a program header")
	if err != nil || n == 0 {
		return nil, err
	}
	if n > maxSegments {
		return nil, fmt.Errorf("offset %#x: %d segments, more than %d: %w", e.phentsize+2, n, maxSegments, ErrELF)
	}
	b := make([]byte, n*e.segment)
	if err := e.at(e.word(header, e.phoff), b, "program headers"); err != nil {
		return nil, err
	}
	out := make([]elf.ProgHeader, n)
	for i := range out {
		h := b[i*e.segment:]
		p := elf.ProgHeader{Type: elf.ProgType(e.order.Uint32(h))}
		if e.wide {
			p.Flags = elf.ProgFlag(e.order.Uint32(h[4:]))
			p.Off, p.Vaddr, p.Paddr = e.word(h, 8), e.word(h, 16), e.word(h, 24)
			p.Filesz, p.Memsz, p.Align = e.word(h, 32), e.word(h, 40), e.word(h, 48)
		} else {
			p.Flags = elf.ProgFlag(e.order.Uint32(h[24:]))
			p.Off, p.Vaddr, p.Paddr = e.word(h, 4), e.word(h, 8), e.word(h, 12)
			p.Filesz, p.Memsz, p.Align = e.word(h, 16), e.word(h, 20), e.word(h, 28)
		}
		out[i] = p
	}
	return out, nil
}

// buildID looks for the note. Sections come first: in a separate debug file, the
// segments' offsets are still those of the file that it was split from. And Go's
// linker (1.26) leaves the note out of the note segments, where the kernel looks.
func (e *elfReader) buildID(header []byte, segments []elf.ProgHeader) (BuildID, error) {
	room := uint64(maxNotes)
	note := func(off, size, align uint64) BuildID {
		if size > room || size == 0 {
			return BuildID{}
		}
		room -= size
		b := make([]byte, size)
		if e.at(off, b, "notes") != nil {
			return BuildID{}
		}
		return findBuildID(b, e.order, align)
	}
	id, err := e.noteSections(header, note)
	for _, p := range segments {
		if !id.IsZero() {
			break
		}
		if p.Type == elf.PT_NOTE {
			id = note(p.Off, p.Filesz, p.Align)
		}
	}
	return id, err
}

// noteSections passes the sections of notes to note until one has a build ID. A table
// that is cut off has those that are there.
func (e *elfReader) noteSections(header []byte, note func(off, size, align uint64) BuildID) (BuildID, error) {
	n, err := e.count(header, e.phentsize+4, e.section, "size of a section header")
	off := e.word(header, e.shoff)
	if err != nil || off == 0 {
		return BuildID{}, err
	}
	if n == 0 { // of more than 65279 sections, the first one's size has the number
		h := make([]byte, e.section)
		if e.at(off, h, "section headers") != nil {
			return BuildID{}, nil
		}
		n = int(min(e.word(h, e.secSize), maxSections))
	}
	const chunk = 1 << 10
	b := make([]byte, min(n, chunk)*e.section)
	for i := 0; i < n; i += chunk {
		b = b[:min(n-i, chunk)*e.section]
		if e.at(off+uint64(i*e.section), b, "section headers") != nil {
			break
		}
		for h := b; len(h) > 0; h = h[e.section:] {
			if elf.SectionType(e.order.Uint32(h[4:])) != elf.SHT_NOTE || elf.SectionFlag(e.word(h, e.secFlags))&elf.SHF_COMPRESSED != 0 {
				continue
			}
			if id := note(e.word(h, e.secOff), e.word(h, e.secSize), e.word(h, e.secAddrAlign)); !id.IsZero() {
				return id, nil
			}
		}
	}
	return BuildID{}, nil
}
