package image

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// A candidate is a name or a range that may become a Symbol.
type candidate struct {
	name   string
	addr   Addr
	size   uint64
	bind   elf.SymBind
	typ    elf.SymType
	source SymbolSource
}

const symbolSize = 24 // of an Elf64_Sym

// sectionData reads a section, uncompressed.
func sectionData(s *elf.Section) ([]byte, error) {
	b, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("offset %#x: section %s: %v: %w", s.Offset, s.Name, err, ErrFormat)
	}
	return b, nil
}

// symbolTable reads the symbols of f's section of type typ that name code.
func (im *Image) symbolTable(f *elf.File, typ elf.SectionType, source SymbolSource) ([]candidate, error) {
	s := f.SectionByType(typ)
	if s == nil || s.Size == 0 {
		return nil, nil
	}
	b, err := sectionData(s)
	if err != nil {
		return nil, err
	}
	if s.Link == 0 || int(s.Link) >= len(f.Sections) {
		return nil, fmt.Errorf("section %s: link: no section %d: %w", s.Name, s.Link, ErrFormat)
	}
	strtab, err := sectionData(f.Sections[s.Link])
	if err != nil {
		return nil, err
	}
	names := string(strtab) // once: the names are parts of it
	var out []candidate
	for ; len(b) >= symbolSize; b = b[symbolSize:] {
		c := candidate{
			addr: Addr(binary.LittleEndian.Uint64(b[8:])), size: binary.LittleEndian.Uint64(b[16:]),
			bind: elf.ST_BIND(b[4]), typ: elf.ST_TYPE(b[4]), source: source,
		}
		shndx := elf.SectionIndex(binary.LittleEndian.Uint16(b[6:]))
		if shndx == elf.SHN_UNDEF || shndx == elf.SHN_ABS || !isCode(c.typ) || !im.executable(c.addr) {
			continue
		}
		off := binary.LittleEndian.Uint32(b)
		if uint64(off) >= uint64(len(names)) {
			return nil, fmt.Errorf("section %s: name at %#x: outside the string table: %w", s.Name, off, ErrFormat)
		}
		c.name, _, _ = strings.Cut(names[off:], "\x00")
		if !isLabel(c.name) {
			out = append(out, c)
		}
	}
	return out, nil
}

func isCode(t elf.SymType) bool {
	return t == elf.STT_FUNC || t == elf.STT_GNU_IFUNC || t == elf.STT_NOTYPE
}

// isLabel tells names of places inside procedures from names of procedures:
// assembler-local labels and the mapping symbols of AArch64's ABI.
func isLabel(name string) bool {
	return name == "" || strings.HasPrefix(name, ".L") || strings.HasPrefix(name, "$")
}

func (im *Image) readSymbols() error {
	all, err := im.symbolTable(im.elf, elf.SHT_SYMTAB, FromSymtab)
	if err != nil {
		return err
	}
	dyn, err := im.symbolTable(im.elf, elf.SHT_DYNSYM, FromDynsym)
	if err != nil {
		return err
	}
	im.symbols = im.merge(append(all, dyn...))
	return nil
}

// merge makes symbols of candidates: one for each address, none overlapping.
func (im *Image) merge(cs []candidate) []Symbol {
	slices.SortStableFunc(cs, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.bind, b.bind))
	})
	var out []Symbol
	for len(cs) > 0 {
		n := 1
		for n < len(cs) && cs[n].addr == cs[0].addr {
			n++
		}
		r := im.region(cs[0].addr)
		end := r.hi
		if n < len(cs) {
			end = min(end, cs[n].addr)
		}
		s := Symbol{Name: cs[0].name, Addr: cs[0].addr, Source: cs[0].source, Local: cs[0].bind == elf.STB_LOCAL, Section: r.name}
		for _, c := range cs[:n] {
			s.Size = max(s.Size, c.size)
			if c.name != s.Name && !slices.Contains(s.Aliases, c.name) {
				s.Aliases = append(s.Aliases, c.name)
			}
		}
		if room := uint64(end - s.Addr); s.Size == 0 || s.Size > room {
			s.Size = room
		}
		slices.Sort(s.Aliases)
		out = append(out, s)
		cs = cs[n:]
	}
	return out
}
