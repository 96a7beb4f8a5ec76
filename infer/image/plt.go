package image

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// A reloc is what the dynamic linker writes into a slot of 8 bytes.
type reloc struct {
	slot   Addr
	target Addr  // address in this image that the slot will hold; 0 if it is not known before run time
	sym    int32 // index into dynNames of the symbol whose address it is; -1 if it is none's
	ifunc  bool  // target is a resolver: its result is what the slot will hold
	jump   bool  // the slot is of a stub alone
	global bool  // the slot is one of the GOT
}

// relocAt returns the relocation of a slot.
func (im *Image) relocAt(slot Addr) (reloc, bool) {
	rs := im.relocs().all
	i, ok := slices.BinarySearchFunc(rs, slot, func(r reloc, a Addr) int { return cmp.Compare(r.slot, a) })
	if !ok {
		return reloc{}, false
	}
	return rs[i], true
}

// importAt returns the name of the dynamic symbol whose address the slot at that
// address will hold, without its version; for an indirect function, that of its
// resolver. It is "" if the slot will hold something else.
func (im *Image) importAt(slot Addr) string {
	r, ok := im.relocAt(slot)
	switch {
	case !ok:
		return ""
	case r.sym >= 0:
		return im.relocs().names[r.sym].Name
	case r.ifunc:
		if i := im.Find(r.target); i >= 0 && im.symbols[i].Addr == r.target {
			return im.symbols[i].Name
		}
	}
	return ""
}

// pointer returns the address that the 8-byte slot will hold if the image is
// loaded where it was linked, as far as that is known: relocated, or as in the file.
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

// relocations are those that the dynamic linker will apply, by slot.
type relocations struct {
	all       []reloc
	names     []Dynamic // of the dynamic symbols
	canonical []Dynamic // those of other images that a stub of this one stands for, wherever their addresses are taken
}

// readRelocs reads the relocations. What is malformed among them is left out:
// the code around it is then understood less, not wrongly.
func (im *Image) readRelocs() *relocations {
	rs := &relocations{}
	table, err := im.readTable(im.elf, elf.SHT_DYNSYM)
	if err != nil {
		return rs
	}
	versions := im.dynamicVersions()
	for i := range table {
		name, _, _ := strings.Cut(table[i].name, "@")
		version, _ := versions(i + 1)
		d := Dynamic{name, version}
		rs.names = append(rs.names, d)
		if table[i].index == elf.SHN_UNDEF && table[i].value != 0 {
			rs.canonical = append(rs.canonical, d)
		}
	}
	for _, s := range im.elf.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		switch s.Type {
		case elf.SHT_RELA:
			if b, err := im.sectionData(s); err == nil {
				rs.all = im.appendRela(rs.all, b, table)
			}
		case shtRELR:
			if b, err := im.sectionData(s); err == nil {
				rs.all = im.appendRelr(rs.all, b)
			}
		}
	}
	slices.SortStableFunc(rs.all, func(a, b reloc) int { return cmp.Compare(a.slot, b.slot) })
	return rs
}

const relaSize = 24 // of an Elf64_Rela

// appendRela reads a section of relocations that write 8 bytes.
//
//	offset  size  field
//	0       8     slot
//	8       8     index of the symbol << 32 | type
//	16      8     addend
func (im *Image) appendRela(out []reloc, b []byte, table []tableSymbol) []reloc {
	out = slices.Grow(out, len(b)/relaSize)
	for ; len(b) >= relaSize; b = b[relaSize:] {
		info := binary.LittleEndian.Uint64(b[8:])
		kind := relocKind(im.Arch, elf.R_TYPE64(info))
		if kind == otherReloc {
			continue
		}
		r := reloc{
			slot: Addr(binary.LittleEndian.Uint64(b)), target: Addr(binary.LittleEndian.Uint64(b[16:])),
			sym: -1, ifunc: kind == ifuncReloc, jump: kind == jumpReloc, global: kind == gotReloc,
		}
		if i := int(elf.R_SYM64(info)); kind >= symbolReloc && i > 0 {
			if i > len(table) {
				continue
			}
			r.sym = int32(i - 1) // the table is without its empty first entry
			sym := &table[i-1]
			switch {
			case sym.index == elf.SHN_UNDEF:
				r.target = 0
			default:
				r.target += sym.value
				r.ifunc = elf.ST_TYPE(sym.info) == elf.STT_GNU_IFUNC
			}
		}
		out = append(out, r)
	}
	return out
}

const (
	otherReloc    = iota // not an address in 8 bytes
	relativeReloc        // the addend
	ifuncReloc           // what the function at the addend returns
	symbolReloc          // a symbol's address plus the addend
	gotReloc             // the same, in a slot of the GOT
	jumpReloc            // the same, in the slot of a stub
)

func relocKind(arch Arch, typ uint32) int {
	if arch == AArch64 {
		switch elf.R_AARCH64(typ) {
		case elf.R_AARCH64_ABS64:
			return symbolReloc
		case elf.R_AARCH64_GLOB_DAT:
			return gotReloc
		case elf.R_AARCH64_JUMP_SLOT:
			return jumpReloc
		case elf.R_AARCH64_RELATIVE:
			return relativeReloc
		case elf.R_AARCH64_IRELATIVE:
			return ifuncReloc
		}
		return otherReloc
	}
	switch elf.R_X86_64(typ) {
	case elf.R_X86_64_64:
		return symbolReloc
	case elf.R_X86_64_GLOB_DAT:
		return gotReloc
	case elf.R_X86_64_JMP_SLOT:
		return jumpReloc
	case elf.R_X86_64_RELATIVE:
		return relativeReloc
	case elf.R_X86_64_IRELATIVE:
		return ifuncReloc
	}
	return otherReloc
}

// shtRELR is the type of a section of relative relocations whose addends are in
// their slots; debug/elf has no name for it.
const shtRELR = elf.SectionType(19)

// appendRelr reads a section of 8-byte words. An even one is a slot. An odd one
// is a map of the 63 slots after the last one that was dealt with: bit n+1 is
// set if slot n is relocated.
func (im *Image) appendRelr(out []reloc, b []byte) []reloc {
	var next Addr
	add := func(slot Addr) {
		if v := im.read(slot, 8); v != nil {
			out = append(out, reloc{slot: slot, target: Addr(binary.LittleEndian.Uint64(v)), sym: -1})
		}
	}
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		if w&1 == 0 {
			// Linkers write the slots in order. So is the output no longer than the image.
			if Addr(w) < next {
				return out
			}
			add(Addr(w))
			next = Addr(w) + 8
			continue
		}
		for n := range 63 {
			if w>>(n+1)&1 != 0 {
				add(next + Addr(8*n))
			}
		}
		next += 8 * 63
	}
	return out
}

// isStubs reports whether a section holds stubs of the procedure linkage table:
// .plt, .plt.sec, .plt.got, .iplt.
func isStubs(section string) bool {
	return section == ".plt" || section == ".iplt" || strings.HasPrefix(section, ".plt.")
}

// stubs finds the stubs, by address, and names them after what they lead to.
// Those that lead nowhere known (the resolver's at the top of .plt, the lazy
// halves of .plt.sec's) are left out.
func (im *Image) stubs() []Symbol {
	var out []Symbol
	for _, r := range im.regions {
		if !isStubs(r.name) {
			continue
		}
		b := im.code(r.lo, r.hi)
		found := x86Stubs(b, r.lo)
		if im.Arch == AArch64 {
			found = armStubs(b, r.lo)
		}
		for _, s := range found {
			im.stubSlots = append(im.stubSlots, s)
			if name := im.importAt(s.slot); name != "" {
				out = append(out, Symbol{Name: name + "@plt", Addr: s.lo, Size: uint64(s.hi - s.lo), Source: FromPLT, Section: r.name})
			}
		}
	}
	return out
}

// A stub is code that jumps to where a slot points.
type stub struct {
	extent
	slot Addr
}

// x86Stubs finds the stubs in b, which begins at base. They are aligned to 8 or
// 16 bytes, and each ends where the next one or the padding begins. The forms
// that ld, lld and Go's linker write differ in what is around the jump:
//
//	[endbr64] [bnd] jmp *slot(%rip)
//	[push $index; jmp resolver] | [nop]
func x86Stubs(b []byte, base Addr) []stub {
	var out []stub
	for off := 0; off < len(b); off += 8 {
		i := off
		if bytes.HasPrefix(b[i:], []byte{0xf3, 0x0f, 0x1e, 0xfa}) { // endbr64
			i += 4
		}
		if i < len(b) && b[i] == 0xf2 { // bnd
			i++
		}
		if i+6 > len(b) || b[i] != 0xff || b[i+1] != 0x25 { // jmp *disp32(%rip)
			continue
		}
		end := i + 6
		slot := base + Addr(end) + Addr(int32(binary.LittleEndian.Uint32(b[i+2:])))
		if end+10 <= len(b) && b[end] == 0x68 && b[end+5] == 0xe9 { // push imm32; jmp rel32
			end += 10
		}
		out = append(out, stub{extent{base + Addr(off), base + Addr(end)}, slot})
	}
	return out
}

// armStubs finds the stubs in b, which begins at base:
//
//	[bti c]
//	adrp x16, page(slot)
//	ldr x17, [x16, #offset(slot)]
//	add x16, x16, #offset(slot)
//	[autia1716]
//	br x17
func armStubs(b []byte, base Addr) []stub {
	const btiC, brX17 = 0xd503245f, 0xd61f0220
	word := func(off int) uint32 {
		if off < 0 || off+4 > len(b) {
			return 0
		}
		return binary.LittleEndian.Uint32(b[off:])
	}
	var out []stub
	for off := 0; off+4 <= len(b); off += 4 {
		adrp, ldr := word(off), word(off+4)
		if adrp&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
			continue
		}
		end := off + 12
		for end < off+24 && word(end) != brX17 {
			end += 4
		}
		if word(end) != brX17 {
			continue
		}
		page := int64(int32(adrp>>5&0x7ffff<<13|adrp>>29&3<<11)) << 1 // 21 bits, sign-extended, times 4096
		slot := (base+Addr(off))&^0xfff + Addr(page) + Addr(ldr>>10&0xfff*8)
		start := off
		if word(off-4) == btiC {
			start -= 4
		}
		out = append(out, stub{extent{base + Addr(start), base + Addr(end+4)}, slot})
		off = end
	}
	return out
}
