package image

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// A reloc is what the dynamic linker writes into a slot of 8 bytes.
type reloc struct {
	slot   Addr
	target Addr   // address in this image that the slot will hold; 0 if it is not known before run time
	name   string // dynamic symbol that the slot will hold the address of, unversioned
	ifunc  bool   // target is the resolver, whose result the slot will hold
}

// relocAt gives the relocation of a slot.
func (im *Image) relocAt(slot Addr) (reloc, bool) {
	rs := im.relocs()
	i, ok := slices.BinarySearchFunc(rs, slot, func(r reloc, a Addr) int { return cmp.Compare(r.slot, a) })
	if !ok {
		return reloc{}, false
	}
	return rs[i], true
}

// importAt gives the name of the dynamic symbol whose address the slot at that
// address will hold; "" if it will hold something else.
func (im *Image) importAt(slot Addr) string {
	r, _ := im.relocAt(slot)
	return r.name
}

// pointer gives the address that the 8-byte slot will hold once the image is
// loaded where it was linked, if that is known: relocated, or as the file has it.
func (im *Image) pointer(slot Addr) (Addr, bool) {
	if r, ok := im.relocAt(slot); ok {
		return r.target, r.target != 0 && !r.ifunc
	}
	b := im.read(slot, 8)
	if b == nil {
		return 0, false
	}
	return Addr(binary.LittleEndian.Uint64(b)), true
}

const relaSize = 24 // of an Elf64_Rela

// readRelocs gives the relocations that the dynamic linker will apply, by slot.
func (im *Image) readRelocs() []reloc {
	syms, _ := im.elf.DynamicSymbols()
	var out []reloc
	for _, s := range im.elf.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := sectionData(s)
		if err != nil {
			continue
		}
		for ; len(b) >= relaSize; b = b[relaSize:] {
			info := binary.LittleEndian.Uint64(b[8:])
			r := reloc{slot: Addr(binary.LittleEndian.Uint64(b))}
			addend := Addr(binary.LittleEndian.Uint64(b[16:]))
			if i := elf.R_SYM64(info); i > 0 && int(i) <= len(syms) {
				sym := syms[i-1]
				r.name, _, _ = strings.Cut(sym.Name, "@")
				if sym.Section != elf.SHN_UNDEF {
					r.target = Addr(sym.Value) + addend
				}
			} else {
				r.target = addend
			}
			r.ifunc = isIfunc(im.Arch, elf.R_TYPE64(info))
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b reloc) int { return cmp.Compare(a.slot, b.slot) })
	return out
}

func isIfunc(arch Arch, typ uint32) bool {
	if arch == AArch64 {
		return elf.R_AARCH64(typ) == elf.R_AARCH64_IRELATIVE
	}
	return elf.R_X86_64(typ) == elf.R_X86_64_IRELATIVE
}
