package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"backfeed/sample/bound"
)

// sectionMemory is what debug/elf takes for a section, without its name, in bytes.
const sectionMemory = 512

// A layout says where the fields of headers lie that lead to the names of sections:
// in a file of 64 bits, and of 32.
type layout struct {
	word                              int // bytes of an offset or size
	tableOff, entrySize, count, names int // in the header of the file: e_shoff, e_shentsize, e_shnum, e_shstrndx
	header                            int // bytes of a section header
	flags, off, size, link            int // in it
}

var (
	layout64 = layout{8, 0x28, 0x3a, 0x3c, 0x3e, 64, 8, 24, 32, 40}
	layout32 = layout{4, 0x20, 0x2e, 0x30, 0x32, 40, 8, 16, 20, 24}
)

// A headerReader reads fields of an ELF file, of any class and byte order.
type headerReader struct {
	layout
	r  io.ReaderAt
	bo binary.ByteOrder
}

// at reads n bytes, and adds what lies there to an error.
func (h *headerReader) at(off, n int64, field string) ([]byte, error) {
	b := make([]byte, n)
	if _, err := h.r.ReadAt(b, off); err != nil {
		return nil, fmt.Errorf("offset %#x: %s: %w: %w", off, field, err, ErrFormat)
	}
	return b, nil
}

// uint reads an offset or a size.
func (h *headerReader) uint(b []byte) int64 {
	if h.word == 4 {
		return int64(h.bo.Uint32(b))
	}
	return int64(h.bo.Uint64(b))
}

// checkSections draws from in what the section headers of a file will take of memory
// with all their names, before debug/elf reads them: it makes a copy of the name for each,
// and any number of sections may have the same long one. What else is wrong with headers
// is for debug/elf to say.
func checkSections(r io.ReaderAt, in *bound.Input) error {
	h := headerReader{r: r, bo: binary.LittleEndian, layout: layout64}
	head := make([]byte, headerSize)
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	}
	if elf.Class(head[offsetClass]) == elf.ELFCLASS32 {
		h.layout = layout32
	}
	if elf.Data(head[offsetData]) == elf.ELFDATA2MSB {
		h.bo = binary.BigEndian
	}
	table, entry := h.uint(head[h.tableOff:]), int64(h.bo.Uint16(head[h.entrySize:]))
	count, names := int64(h.bo.Uint16(head[h.count:])), int64(h.bo.Uint16(head[h.names:]))
	if table <= 0 || entry < int64(h.header) {
		return nil
	}
	if count == 0 || names == int64(elf.SHN_XINDEX) { // too many for the header: the first section has them
		first, err := h.at(table, int64(h.header), "first section")
		if err != nil {
			return err
		}
		if count == 0 {
			count = h.uint(first[h.size:])
		}
		if names == int64(elf.SHN_XINDEX) {
			names = int64(h.bo.Uint32(first[h.link:]))
		}
	}
	if count < 0 || count > 1<<32 {
		return fmt.Errorf("offset %#x: first section: size: %d sections: %w", table, count, ErrFormat)
	}
	if err := in.Hold(count * sectionMemory); err != nil {
		return fmt.Errorf("offset %#x: %d sections: %w: %w", table, count, err, ErrFormat)
	}
	if names == 0 || names >= count {
		return nil
	}
	strings, err := h.strings(table+names*entry, in)
	if err != nil {
		return err
	}
	return h.checkNames(table, entry, count, strings, in)
}

// strings reads the names of sections, whose section has its header at off.
func (h *headerReader) strings(off int64, in *bound.Input) ([]byte, error) {
	b, err := h.at(off, int64(h.header), "section of section names")
	if err != nil {
		return nil, err
	}
	flags, at, size := h.uint(b[h.flags:]), h.uint(b[h.off:]), h.uint(b[h.size:])
	if elf.SectionFlag(flags)&elf.SHF_COMPRESSED != 0 {
		return nil, fmt.Errorf("offset %#x: section names: compressed, as no linker does: %w", at, ErrFormat)
	}
	if at < 0 || size < 0 {
		return nil, fmt.Errorf("offset %#x: section names: %#x bytes: %w", at, size, ErrFormat)
	}
	if err := in.Hold(2 * size); err != nil { // debug/elf reads them too
		return nil, fmt.Errorf("offset %#x: section names: %w: %w", at, err, ErrFormat)
	}
	return h.at(at, size, "section names")
}

// checkNames draws what the names of count sections take, each with a copy of its own.
func (h *headerReader) checkNames(table, entry, count int64, strings []byte, in *bound.Input) error {
	offs := make([]uint32, 0, min(count, 1<<16))
	sections := io.NewSectionReader(h.r, table, entry*count)
	chunk := make([]byte, entry*max(1, 1<<16/entry))
	for {
		n, err := io.ReadFull(sections, chunk)
		for b := chunk[:n]; len(b) >= int(entry); b = b[entry:] {
			offs = append(offs, h.bo.Uint32(b))
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(offs)
	// From the last name to the first: many names end at the same zero.
	end, next := int64(len(strings)), int64(len(strings))
	for _, off := range slices.Backward(offs) {
		at := int64(off)
		if at >= int64(len(strings)) {
			continue // no name
		}
		if i := bytes.IndexByte(strings[at:next], 0); i >= 0 {
			end = at + int64(i)
		}
		next = at
		if err := in.Hold(end - at); err != nil {
			return fmt.Errorf("offset %#x: names of %d sections, one of them of %d bytes: %w: %w", table, count, end-at, err, ErrFormat)
		}
	}
	return nil
}
