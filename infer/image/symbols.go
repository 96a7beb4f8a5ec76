package image

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"backfeed/sample/bound"
)

// readSymbols puts the symbols together. Each source adds what those before it
// do not cover:
//
//  1. .symtab, of the file or its debug file, and .dynsym
//  2. Go's function table
//  3. stubs of the procedure linkage table
//  4. ranges of .eh_frame, for stripped code
//  5. targets of calls, where even those are missing
func (im *Image) readSymbols() error {
	named, err := im.readTables()
	if err != nil {
		return err
	}
	frames, err := im.readFrames()
	if err != nil && len(named) == 0 {
		return err // with symbols, the file can do without
	}
	slices.SortFunc(frames, func(a, b frame) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi)) })
	im.frames = frames
	named = slices.DeleteFunc(named, func(c candidate) bool { return c.typ == elf.STT_OBJECT && im.frameAt(c.addr) == nil })
	funcs, err := im.goFuncs()
	if err != nil && len(named) == 0 {
		return err
	}
	symbols := im.bind(named)
	fromGo, err := im.goSymbols(funcs)
	if err != nil {
		return err
	}
	symbols = cover(symbols, slices.Values(fromGo))
	im.setSymbols(symbols) // stubs of indirect functions are named after symbols
	symbols = cover(symbols, slices.Values(im.stubs()))
	symbols = cover(symbols, im.frameSymbols())
	im.extend(symbols)
	if im.uncovered(symbols) > maxUncovered {
		symbols = splitGaps(symbols, im.regions, im.callTargets())
	}
	im.setSymbols(nameAll(symbols))
	return nil
}

// A candidate is a name of a place in code that may become a Symbol.
type candidate struct {
	name    string
	addr    Addr
	size    uint64
	bind    elf.SymBind
	typ     elf.SymType
	source  SymbolSource
	ordinal int
}

// readTables reads the names of code of .symtab and .dynsym. On the way it
// notes what is exported, and where AArch64 code has data in it.
func (im *Image) readTables() ([]candidate, error) {
	f := im.elf
	if f.SectionByType(elf.SHT_SYMTAB) == nil && im.debug != nil {
		f = im.debug
	}
	tab, err := im.readTable(f, elf.SHT_SYMTAB)
	if err != nil {
		return nil, err
	}
	dyn, err := im.readTable(im.elf, elf.SHT_DYNSYM)
	if err != nil {
		return nil, err
	}
	for i := range dyn {
		if s := &dyn[i]; s.index != elf.SHN_UNDEF && !s.local() {
			im.exports = append(im.exports, s.value)
		}
	}
	if im.Arch == AArch64 {
		im.data = dataRanges(tab, im.regions)
	}
	im.objects = objects(tab, dyn)
	out := im.candidates(tab, FromSymtab)
	return append(out, im.candidates(dyn, FromDynsym)...), nil
}

// A tableSymbol is an entry of .symtab or .dynsym.
type tableSymbol struct {
	name    string
	version string // of a dynamic symbol that is not the default one of its name
	value   Addr
	size    uint64
	info    byte
	section *elf.Section // nil if it is undefined, absolute or common
	index   elf.SectionIndex
}

func (s *tableSymbol) local() bool { return elf.ST_BIND(s.info) == elf.STB_LOCAL }

const symbolSize = 24 // of an Elf64_Sym

// readTable reads the symbol table of type typ, without its first, empty entry.
//
//	offset  size  field
//	0       4     offset of the name in the string table
//	4       1     type and binding
//	5       1     visibility
//	6       2     section
//	8       8     value
//	16      8     size
func (im *Image) readTable(f *elf.File, typ elf.SectionType) ([]tableSymbol, error) {
	s := f.SectionByType(typ)
	if s == nil || s.Size == 0 {
		return nil, nil
	}
	b, err := im.sectionData(s)
	if err != nil {
		return nil, err
	}
	names, err := im.linkedStrings(f, s)
	if err != nil {
		return nil, err
	}
	var versions func(int) string
	if typ == elf.SHT_DYNSYM {
		versions = im.oldVersions(f)
	}
	out := make([]tableSymbol, 0, len(b)/symbolSize)
	for i := 1; (i+1)*symbolSize <= len(b); i++ {
		e := b[i*symbolSize:]
		sym := tableSymbol{
			info: e[4], value: Addr(binary.LittleEndian.Uint64(e[8:])), size: binary.LittleEndian.Uint64(e[16:]),
			index: elf.SectionIndex(binary.LittleEndian.Uint16(e[6:])),
		}
		if i := int(sym.index); i > 0 && i < len(f.Sections) && sym.index < elf.SHN_LORESERVE {
			sym.section = f.Sections[i]
		}
		if f == im.elf {
			sym.value += im.shift
		}
		off := binary.LittleEndian.Uint32(e)
		if uint64(off) >= uint64(len(names)) {
			return nil, fmt.Errorf("section %s: symbol %d: name: offset %#x is outside the string table: %w", s.Name, i, off, ErrFormat)
		}
		sym.name, _, _ = strings.Cut(names[off:], "\x00")
		// Names are not copied, but each is looked at more than once.
		if err := im.bound.Hold(int64(len(sym.name))); err != nil {
			return nil, fmt.Errorf("offset %#x: section %s: symbol %d: name of %d bytes: %w: %w", s.Offset, s.Name, i, len(sym.name), err, ErrFormat)
		}
		if versions != nil {
			sym.version = versions(i)
		}
		out = append(out, sym)
	}
	return out, nil
}

// linkedStrings reads the string table of a section. It is one string, and the
// names are parts of it.
func (im *Image) linkedStrings(f *elf.File, s *elf.Section) (string, error) {
	if s.Link == 0 || int(s.Link) >= len(f.Sections) {
		return "", fmt.Errorf("section %s: link: no section %d: %w", s.Name, s.Link, ErrFormat)
	}
	b, err := im.sectionData(f.Sections[s.Link])
	return unsafe.String(unsafe.SliceData(b), len(b)), err // nobody else has b
}

// oldVersions returns the version of the i-th dynamic symbol if it is hidden: kept
// for programs that were linked long ago, while the name now means another
// function. The function is nil if the image has no versions.
func (im *Image) oldVersions(f *elf.File) func(i int) string {
	s := f.SectionByType(elf.SHT_GNU_VERSYM)
	if s == nil {
		return nil
	}
	versym, err := im.sectionData(s)
	if err != nil {
		return nil
	}
	names := im.definedVersions(f)
	return func(i int) string {
		if 2*i+2 > len(versym) {
			return ""
		}
		v := binary.LittleEndian.Uint16(versym[2*i:])
		const hidden, index = 0x8000, 0x7fff
		if v&hidden == 0 {
			return ""
		}
		return names[v&index]
	}
}

// definedVersions returns the names of the versions that an image defines, by index. The
// entries of the section (Elf64_Verdef) lead to each other, and to their names (Elf64_Verdaux):
//
//	offset  size  field            offset  size  field
//	0       2     version, 1       0       4     offset of the name in the string table
//	2       2     flags            4       4     next name, relative to this
//	4       2     index
//	6       2     number of names
//	8       4     hash of the name
//	12      4     names, relative to this entry
//	16      4     next entry, relative to this; 0 if there is none
func (im *Image) definedVersions(f *elf.File) map[uint16]string {
	s := f.SectionByType(elf.SHT_GNU_VERDEF)
	if s == nil {
		return nil
	}
	b, err := im.sectionData(s)
	if err != nil {
		return nil
	}
	strtab, err := im.linkedStrings(f, s)
	if err != nil {
		return nil
	}
	names := map[uint16]string{}
	for at := uint64(0); at+20 <= uint64(len(b)); {
		aux := at + uint64(binary.LittleEndian.Uint32(b[at+12:]))
		if aux+8 <= uint64(len(b)) {
			if off := uint64(binary.LittleEndian.Uint32(b[aux:])); off < uint64(len(strtab)) {
				names[binary.LittleEndian.Uint16(b[at+4:])], _, _ = strings.Cut(strtab[off:], "\x00")
			}
		}
		next := uint64(binary.LittleEndian.Uint32(b[at+16:]))
		if next < 20 { // 0, or entries that lie in each other
			break
		}
		at += next
	}
	return names
}

// sectionData reads a section, uncompressed.
func (im *Image) sectionData(s *elf.Section) (b []byte, err error) {
	defer caught(&err, "section "+s.Name)
	size := s.Size
	if strings.HasPrefix(s.Name, ".zdebug") { // "ZLIB", then the size: debug/elf looks at it no sooner than Data
		var h [12]byte
		if n, _ := s.ReadAt(h[:], 0); n == len(h) {
			size = binary.BigEndian.Uint64(h[4:])
		}
	}
	if size > s.FileSize {
		err = bound.Sized(int64(s.FileSize)).Unpacks(size)
		if err == nil {
			err = im.bound.Hold(int64(size))
		}
		if err != nil {
			return nil, fmt.Errorf("offset %#x: section %s: %w: %w", s.Offset, s.Name, err, ErrFormat)
		}
	}
	if b, err = s.Data(); err != nil {
		return nil, fmt.Errorf("offset %#x: section %s: %v: %w", s.Offset, s.Name, err, ErrFormat)
	}
	return b, nil
}

// candidates picks the symbols that name code.
func (im *Image) candidates(table []tableSymbol, source SymbolSource) []candidate {
	number := ordinals(table)
	out := make([]candidate, 0, len(table))
	for i := range table {
		s := &table[i]
		if !isCode(s) || isMarker(s) || !im.executable(s.value) {
			continue
		}
		c := candidate{
			name: unversioned(s), addr: s.value, size: s.size,
			bind: elf.ST_BIND(s.info), typ: elf.ST_TYPE(s.info), source: source,
		}
		if s.local() {
			c.ordinal = number[i]
		}
		out = append(out, c)
	}
	return out
}

// An object is a variable or a constant that has a name.
type object struct {
	name string
	extent
}

// objects picks the symbols that name data, by address: of .dynsym only where there is no
// .symtab. Names that lie within others are left out.
func objects(tables ...[]tableSymbol) []object {
	var out []object
	for _, table := range tables {
		for i := range table {
			s := &table[i]
			if elf.ST_TYPE(s.info) == elf.STT_OBJECT && s.section != nil && s.name != "" && s.size > 0 && s.size <= ^uint64(s.value) {
				out = append(out, object{unversioned(s), extent{s.value, s.value + Addr(s.size)}})
			}
		}
		if len(table) > 0 {
			break
		}
	}
	slices.SortFunc(out, func(a, b object) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi), cmp.Compare(a.name, b.name))
	})
	end := Addr(0)
	return slices.DeleteFunc(out, func(o object) bool {
		if o.lo < end {
			return true
		}
		end = o.hi
		return false
	})
}

// objectAt returns the named data that a lies in.
func (im *Image) objectAt(a Addr) (object, bool) {
	i, ok := slices.BinarySearchFunc(im.objects, a, func(o object, a Addr) int { return cmp.Compare(o.lo, a) })
	if !ok {
		i--
	}
	if i < 0 || a >= im.objects[i].hi {
		return object{}, false
	}
	return im.objects[i], true
}

// isCode reports whether a symbol is of code, in its own section: a symbol at the
// end of one (_etext) is at the start of the next by accident. Objects in sections of
// code are tables, or procedures of GHC's runtime.
func isCode(s *tableSymbol) bool {
	switch elf.ST_TYPE(s.info) {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_NOTYPE, elf.STT_OBJECT:
	default:
		return false
	}
	sec := s.section
	return sec != nil && sec.Flags&elf.SHF_EXECINSTR != 0 && uint64(s.value) >= sec.Addr && uint64(s.value)-sec.Addr < sec.Size
}

// isMarker tells names of places from names of procedures: the assembler's
// local labels, the mapping symbols of AArch64's ABI, Go's ends of the text.
func isMarker(s *tableSymbol) bool {
	switch {
	case s.name == "", strings.HasPrefix(s.name, ".L"), strings.HasPrefix(s.name, "$"):
		return true
	}
	return s.size == 0 && (s.name == "runtime.text" || s.name == "runtime.etext")
}

// unversioned leaves the version out of a name. One that is not the default
// stays: memcpy@GLIBC_2.2.5 is not the function that memcpy is.
func unversioned(s *tableSymbol) string {
	if name, _, ok := strings.Cut(s.name, "@@"); ok && name != "" {
		return name
	}
	if s.version != "" {
		return s.name + "@" + s.version
	}
	return s.name
}

// ordinals numbers local symbols of the same name from 1, as BOLT does to tell
// them apart: it goes through the symbols of memory in the order of their
// addresses and, where those are equal, functions first, section symbols last,
// else in that of the table (RewriteInstance::discoverFileObjects,
// NameResolver::uniquify). Objects count too.
func ordinals(table []tableSymbol) []int {
	var order []int
	for i := range table {
		s := &table[i]
		if s.value != 0 && s.local() && elf.ST_TYPE(s.info) != elf.STT_FILE && inMemory(s) {
			order = append(order, i)
		}
	}
	rank := func(i int) int {
		switch elf.ST_TYPE(table[i].info) {
		case elf.STT_FUNC, elf.STT_GNU_IFUNC:
			return 0
		case elf.STT_SECTION:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(table[a].value, table[b].value), cmp.Compare(rank(a), rank(b)))
	})
	out := make([]int, len(table))
	count := map[string]int{}
	for _, i := range order {
		count[table[i].name]++
		out[i] = count[table[i].name]
	}
	return out
}

// inMemory reports whether BOLT counts a symbol: absolute, or inside its loaded section.
func inMemory(s *tableSymbol) bool {
	if s.index == elf.SHN_ABS {
		return true
	}
	sec := s.section
	return sec != nil && sec.Flags&elf.SHF_ALLOC != 0 &&
		uint64(s.value) >= sec.Addr && uint64(s.value)+s.size <= sec.Addr+sec.Size
}

// An extent is a range of addresses.
type extent struct{ lo, hi Addr }

// dataRanges returns the data inside AArch64 code, by address: from a mapping
// symbol $d to the next $x or the end of the section.
func dataRanges(table []tableSymbol, regions []region) []extent {
	type mark struct {
		at   Addr
		data bool
	}
	var marks []mark
	for i := range table {
		name, _, _ := strings.Cut(table[i].name, ".") // $d.17 is $d
		// lld keeps marks of sections that are not in memory: their addresses are offsets there.
		if (name == "$d" || name == "$x") && inMemory(&table[i]) {
			marks = append(marks, mark{table[i].value, name == "$d"})
		}
	}
	// Code and data marked at one address: the last byte of neither is known. Code it is.
	slices.SortFunc(marks, func(a, b mark) int {
		if c := cmp.Compare(a.at, b.at); c != 0 || a.data == b.data {
			return c
		}
		if a.data {
			return -1
		}
		return 1
	})
	var out []extent
	for _, r := range regions {
		i, _ := slices.BinarySearchFunc(marks, r.lo, func(m mark, a Addr) int { return cmp.Compare(m.at, a) })
		for ; i < len(marks) && marks[i].at < r.hi; i++ {
			end := r.hi
			if i+1 < len(marks) {
				end = min(end, marks[i+1].at)
			}
			if !marks[i].data || end == marks[i].at {
				continue
			}
			if n := len(out); n > 0 && out[n-1].hi == marks[i].at {
				out[n-1].hi = end
			} else {
				out = append(out, extent{marks[i].at, end})
			}
		}
	}
	return out
}

// dataIn returns the parts of [lo, hi) that the symbol table says are data, by
// address. Only AArch64 marks them.
func (im *Image) dataIn(lo, hi Addr) []extent {
	i, _ := slices.BinarySearchFunc(im.data, lo, func(s extent, a Addr) int {
		if s.hi <= a {
			return -1
		}
		return 1
	})
	var out []extent
	for ; i < len(im.data) && im.data[i].lo < hi; i++ {
		out = append(out, extent{max(lo, im.data[i].lo), min(hi, im.data[i].hi)})
	}
	return out
}

// before orders the names of one address: the first becomes the Symbol's. A
// function comes before a label; a name that is unique before one that may not
// be (global, weak, local); then, as perf does, the one with fewer underscores
// in front, write before __write; .symtab's before .dynsym's; the lesser string.
func (c *candidate) before(d *candidate) int {
	return cmp.Or(
		cmp.Compare(c.rank(), d.rank()),
		cmp.Compare(underscores(c.name), underscores(d.name)),
		cmp.Compare(c.source, d.source),
		strings.Compare(c.name, d.name),
		cmp.Compare(c.ordinal, d.ordinal),
	)
}

// rank is lower for the better kind of name.
func (c *candidate) rank() int {
	const label = 3 // more than any binding
	r := 0
	switch c.bind {
	case elf.STB_WEAK:
		r = 1
	case elf.STB_LOCAL:
		r = 2
	}
	if c.isLabel() {
		r += label
	}
	return r
}

// isLabel reports whether c may be of a place in a procedure, as its type is not that of one.
func (c *candidate) isLabel() bool { return c.typ == elf.STT_NOTYPE || c.typ == elf.STT_OBJECT }

func underscores(name string) int { return len(name) - len(strings.TrimLeft(name, "_")) }

// bind makes symbols of the names: one for each address, by address, none
// overlapping. A Size of 0 is one that is not known yet.
//
// A label inside a procedure is no symbol. Of two procedures that overlap, the
// first ends where the second begins; if the first goes on after the second
// (assembler code with a second entry), what is left counts as the second's.
func (im *Image) bind(cs []candidate) []Symbol {
	slices.SortFunc(cs, func(a, b candidate) int { return cmp.Compare(a.addr, b.addr) })
	out := make([]Symbol, 0, len(cs))
	var open, end Addr // procedure that a label may be inside of; end of all so far
	for len(cs) > 0 {
		n := 1
		for n < len(cs) && cs[n].addr == cs[0].addr {
			n++
		}
		s, label := im.symbolOf(cs[:n])
		cs = cs[n:]
		if label && (s.Addr < end || s.Local && s.Size == 0 && s.Addr < open) {
			continue
		}
		hi := s.Addr + Addr(s.Size)
		if s.Addr < end {
			prev := &out[len(out)-1]
			prev.Size = min(prev.Size, uint64(s.Addr-prev.Addr))
			hi = max(hi, end)
			s.Size = uint64(hi - s.Addr)
		}
		open, end = hi, hi
		if s.Size == 0 {
			// It may go on to the next procedure: a local label there is one of its own,
			// unless it has a size, as parts of a procedure do that clang split.
			open = im.region(s.Addr).hi
		}
		out = append(out, s)
	}
	return out
}

// symbolOf makes one symbol of the names of an address, and reports whether all
// of them are labels.
func (im *Image) symbolOf(cs []candidate) (s Symbol, label bool) {
	if len(cs) > 1 {
		slices.SortFunc(cs, func(a, b candidate) int { return a.before(&b) })
	}
	best := &cs[0]
	r := im.region(best.addr)
	s = Symbol{
		Name: best.name, Addr: best.addr, Source: best.source,
		Local: best.bind == elf.STB_LOCAL, Ordinal: best.ordinal, Section: r.name,
	}
	for i := range cs {
		s.Size = max(s.Size, min(cs[i].size, uint64(r.hi-s.Addr)))
		if cs[i].name != s.Name {
			s.Aliases = append(s.Aliases, cs[i].name)
		}
	}
	slices.Sort(s.Aliases)
	s.Aliases = slices.Compact(s.Aliases)
	return s, best.isLabel()
}

// cover adds those symbols of more to symbols that begin where there is none
// yet, cut where the next one begins. Both are by address. Where one of more
// begins with a symbol of unknown size, it takes its size.
func cover(symbols []Symbol, more iter.Seq[Symbol]) []Symbol {
	var added []Symbol
	n := 0 // symbols that do not begin behind m
	for m := range more {
		for n < len(symbols) && symbols[n].Addr <= m.Addr {
			n++
		}
		cut := m.Size
		if n < len(symbols) {
			cut = min(cut, uint64(symbols[n].Addr-m.Addr))
		}
		var last *Symbol // before m, or where it begins
		if n > 0 {
			last = &symbols[n-1]
		}
		if k := len(added); k > 0 && (last == nil || last.Addr < added[k-1].Addr) {
			last = &added[k-1]
		}
		if last != nil {
			if last.Addr == m.Addr && last.Size == 0 {
				last.Size = cut
			}
			if m.Addr < last.Addr+Addr(max(last.Size, 1)) {
				continue
			}
		}
		// A signal frame's range begins a byte early, for unwinders that look up
		// the byte before the return address.
		if cut == 1 && m.Size > 1 {
			continue
		}
		m.Size = cut
		added = append(added, m)
	}
	if len(added) == 0 {
		return symbols
	}
	out := make([]Symbol, 0, len(symbols)+len(added))
	for _, m := range added {
		i, _ := slices.BinarySearchFunc(symbols, m.Addr, func(s Symbol, a Addr) int { return cmp.Compare(s.Addr, a) })
		out = append(append(out, symbols[:i]...), m)
		symbols = symbols[i:]
	}
	return append(out, symbols...)
}

// goSymbols makes symbols of Go's functions.
func (im *Image) goSymbols(funcs []goFunc) ([]Symbol, error) {
	var out []Symbol
	for i, f := range funcs {
		if err := im.bound.Hold(int64(len(f.name))); err != nil {
			return nil, fmt.Errorf("pclntab: function %d: name of %d bytes: %w: %w", i, len(f.name), err, ErrFormat)
		}
		if r := im.region(f.lo); r != nil && f.name != "" && f.hi <= r.hi {
			name := strings.ReplaceAll(f.name, "\u00b7", ".") // as Go's linker does in a symbol table
			out = append(out, Symbol{Name: name, Addr: f.lo, Size: uint64(f.hi - f.lo), Source: FromPclntab, Section: r.name})
		}
	}
	slices.SortStableFunc(out, func(a, b Symbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return out, nil
}

// frameSymbols makes symbols of the frames. The linkage table has one frame for
// all its stubs, which is none of them.
func (im *Image) frameSymbols() iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		for _, f := range im.frames {
			if r := im.region(f.lo); !isStubs(r.name) && !yield(Symbol{Addr: f.lo, Size: uint64(f.hi - f.lo), Source: FromEhFrame, Section: r.name}) {
				return
			}
		}
	}
}

// extend returns a size to the symbols that have none: to the end of the frame
// that they are in, else to the next symbol or the end of the section.
func (im *Image) extend(symbols []Symbol) {
	for i := range symbols {
		s := &symbols[i]
		if s.Size != 0 {
			continue
		}
		end := im.region(s.Addr).hi
		if i+1 < len(symbols) {
			end = min(end, symbols[i+1].Addr)
		}
		if f := im.frameAt(s.Addr); f != nil {
			end = min(end, f.hi)
		}
		s.Size = uint64(end - s.Addr)
	}
}

// frameAt returns the frame that contains a, or nil.
func (im *Image) frameAt(a Addr) *frame {
	i, _ := slices.BinarySearchFunc(im.frames, a+1, func(f frame, a Addr) int { return cmp.Compare(f.lo, a) })
	if i == 0 || im.frames[i-1].hi <= a {
		return nil
	}
	return &im.frames[i-1]
}

// nameAll names the symbols whose names are lost after their addresses.
func nameAll(symbols []Symbol) []Symbol {
	for i := range symbols {
		if symbols[i].Name == "" {
			symbols[i].Name = "fn_" + strconv.FormatUint(uint64(symbols[i].Addr), 16)
		}
	}
	return symbols
}

// maxUncovered is the share of code without symbols from which on it is worth
// decoding all of it for the targets of calls. Padding is below it, a stripped
// program without .eh_frame at nearly 1.
const maxUncovered = 0.1

// uncovered is the share of the code that is in gaps.
func (im *Image) uncovered(symbols []Symbol) float64 {
	var missing, all Addr
	for _, r := range im.regions {
		if isStubs(r.name) {
			continue
		}
		all += r.hi - r.lo
		for _, g := range gaps(symbols, r) {
			missing += g.hi - g.lo
		}
	}
	return float64(missing) / float64(max(all, 1))
}

// longestInst is the most bytes of an instruction, of x86-64.
const longestInst = 15

// callTargets returns where the direct calls of the image lead to, its entry point
// and its initial and final functions, by address. It decodes each section end
// to end: what it makes of data in between is unlikely to be a call to code.
func (im *Image) callTargets() []Addr {
	targets := []Addr{Addr(im.elf.Entry)}
	for _, s := range im.elf.Sections {
		if s.Type == elf.SHT_INIT_ARRAY || s.Type == elf.SHT_FINI_ARRAY {
			for off := uint64(0); off+8 <= min(s.Size, s.FileSize); off += 8 {
				if a, ok := im.pointer(Addr(s.Addr + off)); ok {
					targets = append(targets, a)
				}
			}
		}
	}
	var d x86
	var b []byte
	for _, r := range im.regions {
		for lo := r.lo; lo < r.hi; {
			if b = im.peek(lo, min(scanWindow, r.hi-lo), b); len(b) == 0 {
				break
			}
			whole := len(b) // of the instructions that are in b
			if lo+Addr(whole) < r.hi {
				whole -= longestInst
			}
			off := 0
			for off < whole {
				at := lo + Addr(off)
				inst := im.inst(&d, b[off:], at)
				if inst.Class&DirCall != 0 {
					targets = append(targets, inst.Target)
				}
				off += max(inst.Len, 1)
			}
			lo += Addr(off)
		}
	}
	slices.Sort(targets)
	targets = slices.Compact(targets)
	return slices.DeleteFunc(targets, func(a Addr) bool { return !im.executable(a) })
}

// splitGaps adds symbols for code that has none: [the target of a call, the next
// one or the end of the gap). What comes before the first target starts at the
// alignment of functions: main is in no call. Both arguments are by address.
func splitGaps(symbols []Symbol, regions []region, targets []Addr) []Symbol {
	var found []Symbol
	for _, r := range regions {
		if isStubs(r.name) {
			continue
		}
		for _, g := range gaps(symbols, r) {
			add := func(lo, hi Addr) {
				found = append(found, Symbol{Addr: lo, Size: uint64(hi - lo), Source: FromCall, Section: r.name})
			}
			at := g.lo
			if at != r.lo {
				at = (at + alignment - 1) &^ (alignment - 1)
			}
			i, _ := slices.BinarySearch(targets, g.lo)
			for ; i < len(targets) && targets[i] < g.hi; i++ {
				if targets[i] > at {
					add(at, targets[i])
				}
				at = targets[i]
			}
			if at < g.hi {
				add(at, g.hi)
			}
		}
	}
	return nameAll(cover(symbols, slices.Values(found)))
}

// alignment is that of functions by gcc and clang, for both processors.
const alignment = 16

// minGap is more than what is between functions for alignment: to 16 bytes by
// gcc and clang, to 32 by Go and around hot loops.
const minGap = 32

// gaps returns the parts of r that are in no symbol.
func gaps(symbols []Symbol, r region) []extent {
	var out []extent
	at := r.lo
	add := func(hi Addr) {
		if hi > at && hi-at >= minGap {
			out = append(out, extent{at, hi})
		}
	}
	i, _ := slices.BinarySearchFunc(symbols, r.lo, func(s Symbol, a Addr) int { return cmp.Compare(s.Addr, a) })
	for ; i < len(symbols) && symbols[i].Addr < r.hi; i++ {
		add(symbols[i].Addr)
		at = symbols[i].Addr + Addr(symbols[i].Size)
	}
	add(r.hi)
	return out
}
