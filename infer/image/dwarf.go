package image

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A dwarfTab is the DWARF of an image, of which single units are read when
// somebody asks about their code.
type dwarfTab struct {
	im *Image
	entryTable
	addr    []byte     // .debug_addr
	line    []byte     // .debug_line
	str     []byte     // .debug_str
	lineStr []byte     // .debug_line_str
	pieces  []piece    // ids are indices into units
	ranges  []interval // as units have them, by address

	rangeLists []byte              // .debug_ranges
	split      map[string]*dwoFile // files that were looked for, by path

	// Of units that claim the same code the first one in the file has it, as in
	// LLVM, and flatten prefers the greatest: so they are in reverse order.
	units []*dwarfUnit

	mu     sync.Mutex // held while debug/dwarf reads
	budget int        // how much more may be read, see spend
	rows   int        // how many more rows of line tables may be read
	errs   []error
}

// A dwarfUnit is a compilation unit.
type dwarfUnit struct {
	Unit
	entry *dwarf.Entry // in the image
	split *skeleton    // nil if all is in the image

	from       *entryTable // has the unit's entries
	first, end dwarf.Offset
	code       atomic.Pointer[unitCode] // nil until somebody asks
}

// A unitCode is what a unit says of code.
type unitCode struct {
	scopes []scope
	pieces []piece // ids are indices into scopes
	rows   []lineRow
	files  []string
}

// A scope is a procedure or an inlined call.
type scope struct {
	decl
	parent int32  // scope that an inlined call is in; -1 for a procedure
	file   int32  // of an inlined call, in parent's code: index into files, line, discriminator
	line   int32  //
	disc   uint32 //
	depth  int32  // inlined calls around it
}

// maxInlined bounds the inlined calls that code is in: there is a frame of each for
// every instruction. Compilers give up at some dozens.
const maxInlined = 256

// fieldMemory is what debug/dwarf takes for a field of an entry, in bytes.
const fieldMemory = 64

// A decl is what the declaration of a function says.
type decl struct {
	linkage, name string
	line          int32
}

// Attributes that debug/dwarf has no names for.
const (
	attrMIPSLinkageName  = dwarf.Attr(0x2007)
	attrGNUDwoName       = dwarf.Attr(0x2130)
	attrGNUDiscriminator = dwarf.Attr(0x2136)
	attrDwoName          = dwarf.Attr(0x76)
)

// readDWARF finds the units of the image's DWARF and which code each has.
func (im *Image) readDWARF() (*dwarfTab, error) {
	f := im.elf
	if im.debug != nil && im.debug.Section(".debug_info") != nil {
		f = im.debug
	}
	var size int
	get := func(name string) ([]byte, error) {
		b, err := im.debugSection(f, name)
		size += len(b)
		return b, err
	}
	var first [5][]byte
	var err error
	for i, name := range []string{".debug_abbrev", ".debug_info", ".debug_line", ".debug_ranges", ".debug_str"} {
		if first[i], err = get(name); err != nil {
			return nil, err
		}
	}
	abbrev, info, line, ranges, str := first[0], first[1], first[2], first[3], first[4]
	if len(info) == 0 || len(line) == 0 {
		return nil, im.lacksLines()
	}
	units := unitOffsets(info)
	t := &dwarfTab{im: im, line: line, str: str, rangeLists: ranges, split: map[string]*dwoFile{}, entryTable: entryTable{decls: map[dwarf.Offset]decl{}}}
	err = guard(func() error {
		if err := im.checkAbbrevs(units, abbrev); err != nil {
			return err
		}
		if t.data, err = dwarf.New(abbrev, nil, nil, info, line, nil, ranges, str); err != nil {
			return err
		}
		var strOffsets []byte
		for _, name := range []string{".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists"} {
			b, err := get(name)
			if err != nil {
				return err
			}
			switch name {
			case ".debug_line_str":
				t.lineStr = b
			case ".debug_addr":
				t.addr = b
			case ".debug_str_offsets":
				strOffsets = b
			}
			if len(b) > 0 { // debug/dwarf reads older formats where a section is nil
				if err := t.data.AddSection(name, b); err != nil {
					return err
				}
			}
		}
		t.budget = 8*size + 1<<16
		t.rows = 4*len(line) + 1<<16
		if err := t.readBases(units, strOffsets); err != nil {
			return err
		}
		return t.readUnits(units)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// readBases has debug/dwarf note where the strings, addresses and ranges of each unit begin that it refers to by number. To find
// them it decodes the first entry of a unit as if all began at 0 of their sections. In .debug_str_offsets there is a header,
// which in DWARF of 64 bits is no offset of a string: the unit would be given up. So it reads zeros meanwhile.
func (t *dwarfTab) readBases(units []unitOffset, strOffsets []byte) error {
	if len(strOffsets) == 0 {
		return nil
	}
	const name = ".debug_str_offsets"
	if err := t.hold(len(strOffsets), name); err != nil {
		return err
	}
	defer t.im.bound.Release(int64(len(strOffsets)))
	if err := t.data.AddSection(name, make([]byte, len(strOffsets))); err != nil {
		return err
	}
	r := t.data.Reader()
	for _, off := range units {
		r.Seek(off.first)
		if e, err := r.Next(); err == nil && e != nil { // else readUnits says why
			if err := t.spendEntry(e); err != nil {
				return err
			}
		}
	}
	return t.data.AddSection(name, strOffsets)
}

// lacksLines is the error of an image without lines: which sections it lacks, and which file that may have them was not found.
func (im *Image) lacksLines() error {
	const sections = ".debug_info and .debug_line"
	if im.debug != nil {
		return fmt.Errorf("%w: no %s, nor in its debug file %s", ErrNoLines, sections, im.debugFile.Name())
	}
	if name, _, ok := im.debugLink(); ok {
		return fmt.Errorf("%w: no %s, and its debug file %s was not found", ErrNoLines, sections, name)
	}
	if !im.Build.IsZero() {
		id := im.Build.String()
		return fmt.Errorf("%w: no %s, and no debug file .build-id/%s/%s.debug", ErrNoLines, sections, id[:2], id[2:])
	}
	return fmt.Errorf("%w: no %s", ErrNoLines, sections)
}

// debugSection reads a section if f has it.
func (im *Image) debugSection(f *elf.File, name string) ([]byte, error) {
	s := f.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	return im.sectionData(s)
}

const (
	unitMemory   = 256 // what debug/dwarf takes for a unit, in bytes
	abbrevMemory = 16  // and for a byte of the abbreviations
)

// checkAbbrevs draws what the units and their abbreviations take, before debug/dwarf
// reads them. Many units may share one table of abbreviations, which is then read once.
// Tables that lie in each other would be read as often as there are units.
func (im *Image) checkAbbrevs(units []unitOffset, abbrev []byte) error {
	if err := im.bound.Hold(unitMemory*int64(len(units)) + abbrevMemory*int64(len(abbrev))); err != nil {
		return fmt.Errorf(".debug_info: %d units: %w: %w", len(units), err, ErrFormat)
	}
	seen := map[uint64]bool{}
	left := 4*len(abbrev) + 1<<16
	for _, u := range units {
		if seen[u.abbrevs] || u.abbrevs >= uint64(len(abbrev)) {
			continue
		}
		seen[u.abbrevs] = true
		if left -= abbrevTable(abbrev[u.abbrevs:]); left < 0 {
			return fmt.Errorf(".debug_abbrev: offset %#x: tables that lie in each other: %w", u.abbrevs, ErrFormat)
		}
	}
	return nil
}

// abbrevTable returns the size of the table of abbreviations that b begins with (DWARF 5, 7.5.3):
//
//	code        uleb128, 0 at the end of the table
//	tag         uleb128
//	children    1
//	attributes  pairs of uleb128, name and form, up to one of zeros; after the form
//	            DW_FORM_implicit_const there is the value, sleb128
func abbrevTable(b []byte) int {
	return abbrevForms(b, func(uint64, []byte) {})
}

// abbrevForms is abbrevTable that calls each with the forms, and the bytes that have them.
func abbrevForms(b []byte, each func(form uint64, b []byte)) int {
	const implicitConst = 0x21
	d := lineHeader{b: b}
	for !d.err && len(d.b) > 0 {
		if d.uleb() == 0 {
			break
		}
		d.uleb()
		d.skip(1)
		for !d.err {
			name := d.uleb()
			from := d.b
			form := d.uleb()
			each(form, from[:len(from)-len(d.b)])
			if form == implicitConst {
				d.uleb()
			}
			if name == 0 && form == 0 {
				break
			}
		}
	}
	return len(b) - len(d.b)
}

// guard calls f for debug/dwarf, which may panic on bytes that no compiler made.
func guard(f func() error) (err error) {
	defer func() {
		if recover() != nil { // its text is of Go's own checks
			err = fmt.Errorf("DWARF: inconsistent: %w", ErrFormat)
		}
	}()
	if err = f(); err != nil && !errors.Is(err, ErrFormat) {
		err = fmt.Errorf("DWARF: %w: %w", err, ErrFormat)
	}
	return err
}

// spend counts n fields or ranges as read. There is at least a byte for most of
// them: tables that refer to each other so that a small file goes on for hours are malformed.
func (t *dwarfTab) spend(n int) error {
	if t.budget -= n + 1; t.budget < 0 {
		return fmt.Errorf("more fields and ranges than the sections can hold: %w", ErrFormat)
	}
	return nil
}

// spendEntry counts the fields of an entry as read, and every few bytes of strings as
// a field: entries may share long ones, of which debug/dwarf makes a copy for each.
func (t *dwarfTab) spendEntry(e *dwarf.Entry) error {
	return t.spend(len(e.Field) + stringsOf(e)/16)
}

// stringsOf returns the bytes of the strings of an entry.
func stringsOf(e *dwarf.Entry) int {
	n := 0
	for i := range e.Field {
		s, _ := e.Field[i].Val.(string)
		n += len(s)
	}
	return n
}

// hold draws n bytes of memory for something of the DWARF.
func (t *dwarfTab) hold(n int, what string) error {
	if err := t.im.bound.Hold(int64(n)); err != nil {
		return fmt.Errorf("%s: %w: %w", what, err, ErrFormat)
	}
	return nil
}

// A unitOffset is where the first entry of a unit is, where the unit ends, and
// where its abbreviations are in their section.
type unitOffset struct {
	first, end dwarf.Offset
	abbrevs    uint64
	version    uint16
	wide       bool   // DWARF of 64 bits
	id         uint64 // of skeletons and split units since version 5
}

// unitOffsets returns the units of .debug_info, whose headers debug/dwarf has
// found to be sound but keeps to itself: reading on to the next unit would decode all of this one.
// A header (DWARF 5, 7.5.1) is
//
//	length      4, or 4 bytes all ones and 8 bytes; of what follows
//	version     2
//	type        1, since version 5
//	pointers    1, since version 5
//	abbrevs     4, or 8 after the long length
//	pointers    1, until version 4
//	more        since version 5, for skeletons and split units 8; for units of types, 8 and 4 or 8
func unitOffsets(info []byte) []unitOffset {
	var out []unitOffset
	for at := uint64(0); at+11 <= uint64(len(info)); {
		length, wide := uint64(binary.LittleEndian.Uint32(info[at:])), uint64(4)
		header := uint64(4)
		if length == math.MaxUint32 && at+23 <= uint64(len(info)) {
			length, wide = binary.LittleEndian.Uint64(info[at+4:]), 8
			header = 12
		}
		end := at + header + length
		if end > uint64(len(info)) || end < at {
			break
		}
		first := at + header + 2 + wide + 1
		abbrevs := at + header + 2
		u := unitOffset{version: binary.LittleEndian.Uint16(info[at+header:]), wide: wide == 8}
		if u.version >= 5 {
			first++
			abbrevs += 2
			switch info[at+header+2] {
			case 4, 5: // DW_UT_skeleton, DW_UT_split_compile
				if first+8 <= end {
					u.id = binary.LittleEndian.Uint64(info[first:])
				}
				first += 8
			case 2, 6: // DW_UT_type, DW_UT_split_type
				first += 8 + wide
			}
		}
		if first < end {
			off := uint64(binary.LittleEndian.Uint32(info[abbrevs:]))
			if wide == 8 {
				off = binary.LittleEndian.Uint64(info[abbrevs:])
			}
			u.first, u.end, u.abbrevs = dwarf.Offset(first), dwarf.Offset(end), off
			out = append(out, u)
		}
		at = end
	}
	return out
}

// readUnits reads the first entry of each unit. The code of a unit that does
// not say which code it has, or cannot say it all, is read at once.
func (t *dwarfTab) readUnits(offsets []unitOffset) error {
	slices.Reverse(offsets)
	var claims []interval
	r := t.data.Reader()
	for _, off := range offsets {
		r.Seek(off.first)
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil || e.Tag != dwarf.TagCompileUnit && e.Tag != dwarf.TagSkeletonUnit {
			continue // types, parts that others import
		}
		if err := t.spendEntry(e); err != nil {
			return err
		}
		if err := t.hold(fieldMemory*len(e.Field)+stringsOf(e), "entry of a unit"); err != nil {
			return err
		}
		u := &dwarfUnit{entry: e, split: skeletonOf(e, off), from: &t.entryTable, first: e.Offset, end: off.end}
		u.describe(e)
		id := int32(len(t.units))
		t.units = append(t.units, u)
		ranges, err := t.rangesOf(&t.entryTable, e)
		if err != nil {
			return err
		}
		t.ranges = append(t.ranges, ranges...)
		if len(ranges) == 0 {
			ranges = t.codeOf(u).claims()
		} else if off.version < 3 { // which has no ranges: of code in pieces, such as main's, a unit says the greatest
			ranges = append(ranges, t.codeOf(u).claims()...)
		}
		for _, x := range ranges {
			x.id = id
			claims = append(claims, x)
		}
	}
	t.pieces = flatten(claims)
	slices.SortFunc(t.ranges, func(a, b interval) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.hi, b.hi)) })
	return nil
}

// describe takes what the first entry of a unit says of it.
func (u *dwarfUnit) describe(e *dwarf.Entry) {
	u.Producer, _ = e.Val(dwarf.AttrProducer).(string)
	u.Name, _ = e.Val(dwarf.AttrName).(string)
	lang, _ := e.Val(dwarf.AttrLanguage).(int64)
	u.Lang = languages[lang]
}

// languages are values of DW_AT_language.
var languages = map[int64]string{
	0x01: "c", 0x02: "c", 0x0c: "c", 0x1d: "c", 0x2c: "c",
	0x04: "c++", 0x19: "c++", 0x1a: "c++", 0x21: "c++", 0x2b: "c++", 0x2e: "c++",
	0x16: "go", 0x1c: "rust", 0x31: "asm", 0x8001: "asm",
}

// rangesOf returns the code that e says it has. Code that the linker threw away
// keeps its DWARF, with addresses that hold no code.
func (t *dwarfTab) rangesOf(from *entryTable, e *dwarf.Entry) ([]interval, error) {
	if e.AttrField(dwarf.AttrRanges) == nil && e.AttrField(dwarf.AttrHighpc) == nil {
		return nil, nil
	}
	rs, err := from.rangesOf(e, t.spend)
	if err != nil {
		return nil, err
	}
	if err := t.spend(len(rs)); err != nil {
		return nil, err
	}
	if err := t.hold(int(unsafe.Sizeof(interval{}))*len(rs), "ranges"); err != nil {
		return nil, err
	}
	var out []interval
	for _, r := range rs {
		lo, hi := Addr(r[0]), Addr(r[1])
		if code := t.im.region(lo); code != nil && lo < hi && hi <= code.hi {
			out = append(out, interval{lo: lo, hi: hi})
		}
	}
	return out, nil
}

// codeOf reads what u says of code, once. What it cannot read is unknown.
// readUnits calls it, before anybody else can, without the lock.
func (t *dwarfTab) codeOf(u *dwarfUnit) *unitCode {
	if c := u.code.Load(); c != nil {
		return c
	}
	c := &unitCode{}
	if err := guard(func() error { return t.readCode(u, c) }); err != nil {
		t.fail(u, err)
		c = &unitCode{}
	}
	u.code.Store(c)
	return c
}

func (t *dwarfTab) readCode(u *dwarfUnit, c *unitCode) error {
	if u.split != nil {
		if err := t.openSplit(u); err != nil { // its lines are known all the same, and maybe what the skeleton says of inlined calls
			t.fail(u, err)
		}
	}
	if err := t.readScopes(u, c); err != nil {
		return err
	}
	return t.readLines(u, c)
}

// fail notes what could not be read of u.
func (t *dwarfTab) fail(u *dwarfUnit, err error) {
	t.errs = append(t.errs, fmt.Errorf("unit at %#x: %s: %w", u.entry.Offset, u.Name, err))
}

// failures are the errors so far.
func (t *dwarfTab) failures() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.errs)
}

// claims returns the code of procedures and lines.
func (c *unitCode) claims() []interval {
	var out []interval
	for i, s := range c.pieces {
		if s.id >= 0 && i+1 < len(c.pieces) {
			out = append(out, interval{lo: s.lo, hi: c.pieces[i+1].lo})
		}
	}
	for i, r := range c.rows {
		if r.file != noCode && i+1 < len(c.rows) {
			out = append(out, interval{lo: r.addr, hi: c.rows[i+1].addr})
		}
	}
	return out
}

// readScopes reads the procedures and inlined calls of u.
func (t *dwarfTab) readScopes(u *dwarfUnit, c *unitCode) error {
	r := u.from.data.Reader()
	r.Seek(u.first)
	var code []interval
	var outer []int32 // scopes that the open entries are in
	in := int32(-1)   // scope that the next entry is in
	for {
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil || e.Offset >= u.end {
			break
		}
		if err := t.spendEntry(e); err != nil {
			return err
		}
		if e.Tag == 0 {
			if len(outer) == 0 {
				break
			}
			in, outer = outer[len(outer)-1], outer[:len(outer)-1]
			continue
		}
		own := in
		if e.Tag == dwarf.TagSubprogram || e.Tag == dwarf.TagInlinedSubroutine {
			rs, err := t.rangesOf(u.from, e)
			if err != nil {
				return err
			}
			// An inlined call in code that the linker threw away has no caller. One in code that is there counts without code of its
			// own: the calls in it may have some, as where DWARF 2, which has no ranges, tells of code in pieces.
			if e.Tag == dwarf.TagInlinedSubroutine && in >= 0 || e.Tag == dwarf.TagSubprogram && len(rs) > 0 {
				own = int32(len(c.scopes))
				s := t.scope(u.from, e, in)
				if s.parent >= 0 {
					s.depth = c.scopes[s.parent].depth + 1
				}
				if s.depth > maxInlined {
					return fmt.Errorf("entry at %#x: calls inlined through more than %d: %w", e.Offset, maxInlined, ErrFormat)
				}
				if err := t.hold(int(unsafe.Sizeof(s))+len(s.linkage)+len(s.name), "names of functions"); err != nil {
					return err
				}
				c.scopes = append(c.scopes, s)
				for _, x := range rs {
					x.id = own
					code = append(code, x)
				}
			}
		}
		if e.Children {
			// A sibling lies ahead, or the walk would go round in circles.
			if next, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset); ok && isType(e.Tag) && next > e.Offset && next < u.end {
				r.Seek(next)
				continue
			}
			outer = append(outer, in)
			in = own
		}
		if len(outer) == 0 {
			break
		}
	}
	c.pieces = flatten(code)
	return nil
}

// isType tells the entries that hold declarations but no code.
func isType(t dwarf.Tag) bool {
	switch t {
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType, dwarf.TagEnumerationType, dwarf.TagSubroutineType:
		return true
	}
	return false
}

// scope makes a scope of entry e, in scope in.
func (t *dwarfTab) scope(from *entryTable, e *dwarf.Entry, in int32) scope {
	s := scope{decl: t.declOf(from, e, 0), parent: -1}
	if e.Tag == dwarf.TagInlinedSubroutine {
		file, _ := e.Val(dwarf.AttrCallFile).(int64)
		line, _ := e.Val(dwarf.AttrCallLine).(int64)
		disc, _ := e.Val(attrGNUDiscriminator).(int64)
		s.parent, s.file, s.line, s.disc = in, lineNumber(file), lineNumber(line), uint32(disc)
	}
	return s
}

// lineNumber returns 0, unknown, for what is no line of any file.
func lineNumber(n int64) int32 {
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

// maxOrigins bounds how many entries the declaration of a function is spread
// over: an inlined copy, the abstract function, its declaration in a class.
const maxOrigins = 16

// declOf returns what e, the entry it is a copy of and the one that it completes
// say of a function: the nearest has precedence, one by one.
func (t *dwarfTab) declOf(from *entryTable, e *dwarf.Entry, depth int) decl {
	var d decl
	d.name, _ = e.Val(dwarf.AttrName).(string)
	if d.linkage, _ = e.Val(dwarf.AttrLinkageName).(string); d.linkage == "" {
		d.linkage, _ = e.Val(attrMIPSLinkageName).(string)
	}
	line, _ := e.Val(dwarf.AttrDeclLine).(int64)
	d.line = lineNumber(line)
	if depth == maxOrigins {
		return d
	}
	for _, attr := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		off, ok := e.Val(attr).(dwarf.Offset)
		if !ok {
			continue
		}
		o := t.declAt(from, off, depth+1)
		if d.linkage == "" {
			d.linkage = o.linkage
		}
		if d.name == "" {
			d.name = o.name
		}
		if d.line == 0 {
			d.line = o.line
		}
	}
	return d
}

// declAt is declOf the entry at off, once. An entry that is its own origin ends
// the chain: so does one that cannot be read.
func (t *dwarfTab) declAt(from *entryTable, off dwarf.Offset, depth int) decl {
	if d, ok := from.decls[off]; ok {
		return d
	}
	from.decls[off] = decl{}
	r := from.data.Reader()
	r.Seek(off)
	if e, err := r.Next(); err == nil && e != nil && t.spendEntry(e) == nil {
		if d := t.declOf(from, e, depth); t.hold(len(d.linkage)+len(d.name), "names of functions") == nil {
			from.decls[off] = d
		}
	}
	return from.decls[off]
}

// unit returns the unit of a, or nil.
func (t *dwarfTab) unit(a Addr) *dwarfUnit {
	id := pieceAt(t.pieces, a)
	if id < 0 {
		return nil
	}
	return t.units[id]
}

// lockedCodeOf is codeOf for who does not hold the lock.
func (t *dwarfTab) lockedCodeOf(u *dwarfUnit) *unitCode {
	if c := u.code.Load(); c != nil {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.codeOf(u)
}

// frames returns the inlined calls at a, innermost first.
func (t *dwarfTab) frames(a Addr) []Frame {
	u := t.unit(a)
	if u == nil {
		return nil
	}
	c := t.lockedCodeOf(u)
	row, known := c.row(a)
	i := pieceAt(c.pieces, a)
	if i < 0 && !known {
		return nil
	}
	f := Frame{File: c.file(row.file), Line: int(row.line), Disc: row.disc}
	var out []Frame
	for ; i >= 0 && c.scopes[i].parent >= 0; i = c.scopes[i].parent {
		s := &c.scopes[i]
		f.Func, f.Name, f.StartLine = cmp.Or(s.linkage, s.name), s.name, int(s.decl.line)
		if f.Func == "" {
			return nil // dwz moved the name to another file
		}
		out = append(out, f)
		f = Frame{File: c.file(s.file), Line: int(s.line), Disc: s.disc}
	}
	var d decl
	if i >= 0 {
		d = c.scopes[i].decl
	}
	f.Name, f.StartLine = d.name, int(d.line)
	if f.Func = t.procName(u, d, a); f.Func == "" {
		return nil // padding between procedures
	}
	return append(out, f)
}

// procName returns the name of the procedure at a, whose declaration is d. What
// is assembled has lines but no declaration, and a C++ function that is local to a file no
// linkage name in GCC's DWARF: then it is the symbol table that knows.
func (t *dwarfTab) procName(u *dwarfUnit, d decl, a Addr) string {
	i := t.im.Find(a)
	if d.name != "" && (d.linkage != "" || u.Lang != "c++") || i < 0 {
		return cmp.Or(d.linkage, d.name)
	}
	sym := &t.im.symbols[i]
	if d.name == "" {
		return cmp.Or(d.linkage, sym.Name)
	}
	if sym.Source >= FromEhFrame {
		return d.name
	}
	name, _, _ := strings.Cut(sym.Name, ".") // without the suffix of a part or a clone
	return cmp.Or(name, d.name)
}
