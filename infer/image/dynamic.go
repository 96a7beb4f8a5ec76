package image

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// A Dynamic is what the dynamic linker looks a function up by.
type Dynamic struct {
	Name    string
	Version string // "" if none is asked for, or defined
}

// Compare orders by name, then version.
func (d Dynamic) Compare(e Dynamic) int {
	return cmp.Or(cmp.Compare(d.Name, e.Name), cmp.Compare(d.Version, e.Version))
}

// An Export is a function that an image defines for others.
type Export struct {
	Dynamic
	Addr     Addr
	Old      bool // only those mean it who ask for its version
	Indirect bool // what is at Addr is a resolver: it returns which function is meant
}

// Exports returns the functions that other images can link with, as the dynamic symbol table has them. It is read anew
// each time.
func (im *Image) Exports() (all []Export) {
	table, err := im.readTable(im.elf, elf.SHT_DYNSYM)
	if err != nil {
		return nil
	}
	versions := im.dynamicVersions()
	for i := range table {
		s := &table[i]
		if s.index == elf.SHN_UNDEF || s.local() || !im.executable(s.value) {
			continue
		}
		version, old := versions(i + 1)
		all = append(all, Export{Dynamic{s.name, version}, s.value, old, elf.ST_TYPE(s.info) == elf.STT_GNU_IFUNC})
	}
	return all
}

// Means reports whether an image that asks for d is given e, where nothing else has the name: as the dynamic
// linker does it (do_lookup_x and check_match of glibc). What has no versions serves all who ask.
func (e *Export) Means(d Dynamic) bool {
	switch {
	case e.Name != d.Name:
		return false
	case d.Version == "":
		return !e.Old
	}
	return e.Version == d.Version || e.Version == ""
}

// Import returns what the dynamic linker looks up for c to call it: through a stub of the procedure
// linkage table, or a slot that holds an address. ok is false of other calls.
func (im *Image) Import(c *Call) (d Dynamic, ok bool) {
	slot := c.slot
	if slot == 0 {
		slot = im.stubSlot(c.To)
	}
	return im.dynamicAt(slot)
}

// Resolver returns the resolver of the indirect function that c calls through a stub for which no name is looked up: in static
// programs, and within the C library. ok is false of other calls.
func (im *Image) Resolver(c *Call) (resolver Addr, ok bool) { return im.resolverAt(im.stubSlot(c.To)) }

// resolverAt returns the resolver whose result the slot at that address will hold, where no name is looked up for it.
func (im *Image) resolverAt(slot Addr) (Addr, bool) {
	if r, ok := im.relocAt(slot); ok && r.ifunc && r.sym < 0 {
		return r.target, true
	}
	return 0, false
}

// Resolves returns the symbols whose addresses the resolver at an address computes: it returns one of them. They are sorted.
func (im *Image) Resolves(resolver Addr) []int32 {
	i := im.Find(resolver)
	if i < 0 || im.Symbols()[i].Addr != resolver {
		return nil
	}
	var all []int32
	for _, c := range im.references().chosen {
		if int(c.from) == i {
			all = append(all, c.to)
		}
	}
	return all
}

// Resolved reports whether a resolver of the image computes the address of symbol i, which AddressTaken says nothing of.
func (im *Image) Resolved(i int) bool { return im.references().resolved[int32(i)] }

// resolvers returns the addresses of all resolvers of indirect functions, sorted.
func (im *Image) resolvers() (all []Addr) {
	for _, r := range im.relocs().all {
		if r.ifunc {
			all = append(all, r.target)
		}
	}
	for _, e := range im.Exports() {
		// It lists all that resolvers may return, for the C library's own tests.
		if e.Indirect || e.Name == "__libc_ifunc_impl_list" {
			all = append(all, e.Addr)
		}
	}
	return sortedSet(all)
}

// A ResolverCall is of a procedure that calls what a resolver returns, through a stub for which no name is looked up.
type ResolverCall struct {
	Resolver Addr
	From     []int32 // symbols, sorted
}

// ResolverCallers returns who calls what resolvers return, as Resolver tells of calls, in the order of stubs.
func (im *Image) ResolverCallers() (all []ResolverCall) {
	for _, s := range im.stubSlots {
		if r, ok := im.resolverAt(s.slot); ok {
			if j := im.Find(s.lo); j >= 0 {
				all = append(all, ResolverCall{r, im.Callers(j)})
			}
		}
	}
	return all
}

// IsProgram reports whether the image is one that the kernel executes, as far as it says so: no library, though some of these can be
// executed too.
func (im *Image) IsProgram() bool {
	if im.elf.Type == elf.ET_EXEC {
		return true
	}
	flags, err := im.elf.DynValue(elf.DT_FLAGS_1)
	return err == nil && slices.ContainsFunc(flags, func(f uint64) bool { return elf.DynFlag1(f)&elf.DF_1_PIE != 0 })
}

// Needed returns the names of the libraries that the image is linked with, in the order in which the dynamic linker asks them.
func (im *Image) Needed() []string {
	names, err := im.elf.DynString(elf.DT_NEEDED)
	if err != nil {
		return nil
	}
	return names
}

// SoName returns the name that others need the image by; "" if it has none.
func (im *Image) SoName() string {
	names, err := im.elf.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 {
		return ""
	}
	return names[0]
}

// IsStub reports whether a is the start of a stub of the procedure linkage table.
func (im *Image) IsStub(a Addr) bool { return im.stubSlot(a) != 0 }

// stubSlot returns the slot through which the stub at a jumps; 0 if there is none.
func (im *Image) stubSlot(a Addr) Addr {
	i, ok := slices.BinarySearchFunc(im.stubSlots, a, func(s stub, a Addr) int { return cmp.Compare(s.lo, a) })
	if !ok {
		return 0
	}
	return im.stubSlots[i].slot
}

// dynamicAt returns what the dynamic linker looks up to fill a slot.
func (im *Image) dynamicAt(slot Addr) (Dynamic, bool) {
	if r, ok := im.relocAt(slot); ok && r.sym >= 0 {
		return im.relocs().names[r.sym], true
	}
	return Dynamic{}, false
}

// ImportsTaken returns the functions whose addresses the image has the dynamic linker look up for other purposes
// than calls that Import knows, sorted: those it defines itself too.
func (im *Image) ImportsTaken() []Dynamic {
	var all []Dynamic
	rs := im.relocs()
	loaded := im.references().loaded
	for _, r := range rs.all {
		if r.sym < 0 || r.jump {
			continue
		}
		if _, ok := slices.BinarySearch(loaded, r.slot); ok || !im.onlyCalls(r) {
			all = append(all, rs.names[r.sym])
		}
	}
	// A program at a fixed address has its own stub stand for a function whose address it takes.
	all = append(all, rs.canonical...)
	slices.SortFunc(all, Dynamic.Compare)
	return slices.Compact(all)
}

// Imports returns what the image has the dynamic linker look up, to call it or for other purposes, sorted: functions and
// data, those it defines itself too.
func (im *Image) Imports() []Dynamic {
	rs := im.relocs()
	all := slices.Clone(rs.canonical)
	for _, r := range rs.all {
		if r.sym >= 0 {
			all = append(all, rs.names[r.sym])
		}
	}
	slices.SortFunc(all, Dynamic.Compare)
	return slices.Compact(all)
}

// onlyCalls reports whether what the slot of r holds is of no use but to calls and jumps through it, unless an
// instruction loads it: data cannot be told from here, nor is it where code is not scanned for loads.
func (im *Image) onlyCalls(r reloc) bool { return r.jump || r.global && im.Arch == X86_64 }

// A slotRef is a call of a symbol, or a jump, through a slot.
type slotRef struct {
	slot Addr
	from int32
}

// globalSlots is where the slots of the GOT lie that hold addresses of functions, and perhaps others.
func (im *Image) globalSlots() (e extent) {
	for _, r := range im.relocs().all {
		if r.global {
			if e.hi == 0 {
				e.lo = r.slot
			}
			e.hi = r.slot + 8
		}
	}
	return e
}

// readSlot notes that symbol i calls or jumps through a slot, or reads it otherwise.
func (c *codeRefs) readSlot(im *Image, i int, slot Addr, calls bool) {
	if slot < c.got.lo || slot >= c.got.hi {
		return
	}
	r, ok := im.relocAt(slot)
	switch {
	case !ok || !r.global:
	case !calls:
		c.loaded = append(c.loaded, slot)
	case !isStubs(im.Symbols()[i].Section):
		c.through = append(c.through, slotRef{slot, int32(i)})
	}
}

// ImportCallers returns, by what they have the dynamic linker look up, the symbols that call it through slots or
// through the stubs that they call, in the order of addresses.
func (im *Image) ImportCallers() map[Dynamic][]int32 {
	r := im.references()
	callers := map[Dynamic][]int32{}
	for _, c := range r.through {
		if d, ok := im.dynamicAt(c.slot); ok {
			callers[d] = append(callers[d], c.from)
		}
	}
	for _, s := range im.stubSlots {
		d, ok := im.dynamicAt(s.slot)
		if j := im.Find(s.lo); ok && j >= 0 {
			callers[d] = append(callers[d], im.Callers(j)...)
		}
	}
	for d, from := range callers {
		slices.Sort(from)
		callers[d] = slices.Compact(from)
	}
	return callers
}

// dynamicVersions returns the version of the i-th dynamic symbol, counting from 1, defined or
// asked for, and whether it is one that is only for those who ask for it.
func (im *Image) dynamicVersions() func(i int) (version string, old bool) {
	none := func(int) (string, bool) { return "", false }
	s := im.elf.SectionByType(elf.SHT_GNU_VERSYM)
	if s == nil {
		return none
	}
	versym, err := im.sectionData(s)
	if err != nil {
		return none
	}
	names := im.neededVersions()
	for i, name := range im.definedVersions(im.elf) {
		if i > versionBase { // that is the name of the image
			names[i] = name
		}
	}
	return func(i int) (string, bool) {
		if 2*i+2 > len(versym) {
			return "", false
		}
		v := binary.LittleEndian.Uint16(versym[2*i:])
		return names[v&versionIndex], v&versionHidden != 0
	}
}

const (
	versionBase   = 1 // VER_NDX_GLOBAL
	versionIndex  = 0x7fff
	versionHidden = 0x8000
)

// neededVersions returns the names of the versions that an image asks for, by index. The
// entries of the section (Elf64_Verneed), one for each image that it needs, lead to each other, and to a list
// of versions (Elf64_Vernaux):
//
//	offset  size  field            offset  size  field
//	0       2     version, 1       0       4     hash of the name
//	2       2     number of them   4       2     flags
//	4       4     name of the file 6       2     index
//	8       4     the first of the versions, relative to this entry
//	                               8       4     offset of the name in the string table
//	12      4     next entry       12      4     next version, relative to this; 0 if there is none
func (im *Image) neededVersions() map[uint16]string {
	names := map[uint16]string{}
	s := im.elf.SectionByType(elf.SHT_GNU_VERNEED)
	if s == nil {
		return names
	}
	b, err := im.sectionData(s)
	if err != nil {
		return names
	}
	strtab, err := im.linkedStrings(im.elf, s)
	if err != nil {
		return names
	}
	left := len(b) / versionEntry // as many as there is room for, lest lists share entries
	versionChain(b, 0, &left, func(entry []byte, at uint64) {
		versionChain(b, at+uint64(binary.LittleEndian.Uint32(entry[8:])), &left, func(aux []byte, _ uint64) {
			if off := uint64(binary.LittleEndian.Uint32(aux[8:])); off < uint64(len(strtab)) {
				names[binary.LittleEndian.Uint16(aux[6:])&versionIndex], _, _ = strings.Cut(strtab[off:], "\x00")
			}
		})
	})
	return names
}

const versionEntry = 16 // size of an Elf64_Verneed, and of an Elf64_Vernaux

// versionChain calls f with entries of b from at on, no more than left, each of which ends in how far behind it the next
// one is.
func versionChain(b []byte, at uint64, left *int, f func(entry []byte, at uint64)) {
	for ; *left > 0 && at+versionEntry <= uint64(len(b)); *left-- {
		entry := b[at:][:versionEntry]
		f(entry, at)
		step := uint64(binary.LittleEndian.Uint32(entry[versionEntry-4:]))
		if step < versionEntry { // 0, or entries that lie in each other
			return
		}
		at += step
	}
}
