package image

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/sample"
	"backfeed/sample/bound"
)

// With -gsplit-dwarf, the image has of a unit but a skeleton, with its code, its line table and the name of a .dwo
// file, which has the entries. dwp makes one file, IMAGE.dwp, of all of them, with an index of units. What the entries refer to by
// number, addresses and ranges of old versions, is in the image.

// An entryTable is where entries of units are: in the image, or in a file of split DWARF.
type entryTable struct {
	data  *dwarf.Data
	decls map[dwarf.Offset]decl

	split *splitLists // nil of units of the image
}

// splitLists are what ranges of a split unit are read by: some are relative to where the code of the unit begins, which only the
// skeleton says, and debug/dwarf takes 0 for.
type splitLists struct {
	ranges []byte // lists
	addrs  []byte // addresses by number
	base   uint64
	old    bool // as before DWARF 5
}

// A skeleton is what the image says of where the entries of a unit are.
type skeleton struct {
	name, dir string // of the .dwo file, and the directory that the name is relative to
	id        uint64
	addrs     int64 // where its addresses begin in .debug_addr
	ranges    int64 // where its ranges begin in .debug_ranges, before DWARF 5
	low       uint64
}

// Attributes of skeletons before DWARF 5 (GCC's DebugFission), and the forms of entries that refer to addresses and strings by number.
const (
	attrGNUDwoID      = dwarf.Attr(0x2131)
	attrGNURangesBase = dwarf.Attr(0x2132)
	attrGNUAddrBase   = dwarf.Attr(0x2133)
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formStrx          = 0x1a
	formAddrx         = 0x1b
	strOffsetsHeader  = 8  // of .debug_str_offsets.dwo since DWARF 5 (7.26)
	rangesHeader      = 12 // of .debug_rnglists.dwo (7.28)
	wideHeader        = 8  // more of both in DWARF of 64 bits
	indexHeader       = 16
	maxColumns        = 16 // of an index; there are 8 kinds of sections
	maxSplitName      = 4096
)

// skeletonOf returns what the first entry of a unit says of its split DWARF; nil if there is none.
func skeletonOf(e *dwarf.Entry, off unitOffset) *skeleton {
	name, ok := e.Val(attrDwoName).(string)
	if !ok {
		name, ok = e.Val(attrGNUDwoName).(string)
	}
	if !ok {
		return nil
	}
	s := &skeleton{name: name, id: splitID(e, off)}
	s.dir, _ = e.Val(dwarf.AttrCompDir).(string)
	s.low, _ = e.Val(dwarf.AttrLowpc).(uint64)
	if off.version >= 5 {
		s.addrs, _ = e.Val(dwarf.AttrAddrBase).(int64)
		return s
	}
	s.addrs, _ = e.Val(attrGNUAddrBase).(int64)
	s.ranges, _ = e.Val(attrGNURangesBase).(int64)
	return s
}

// splitID returns the number of a unit that its skeleton and its entries share: since DWARF 5, it is in the header.
func splitID(e *dwarf.Entry, off unitOffset) uint64 {
	if off.version >= 5 {
		return off.id
	}
	id, _ := e.Val(attrGNUDwoID).(int64)
	return uint64(id)
}

// openSplit finds the entries of u, of which the image has the skeleton.
func (t *dwarfTab) openSplit(u *dwarfUnit) error {
	packages, files := t.splitPaths(u.split)
	for _, path := range slices.Concat(packages, files) {
		f, err := t.openDWO(path)
		if err == nil && f != nil {
			err = t.readSplit(u, f)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if u.from != &t.entryTable {
			return nil
		}
	}
	return fmt.Errorf("split DWARF is missing: the unit %016x is in none of %s: %w", u.split.id, strings.Join(slices.Concat(files, packages), ", "), ErrNoLines)
}

// splitPaths returns where the entries of a unit may be: in one file for all, and in the unit's own.
func (t *dwarfTab) splitPaths(s *skeleton) (packages, files []string) {
	packages = []string{t.im.Path + ".dwp"}
	if t.im.debugFile != nil {
		packages = append(packages, t.im.debugFile.Name()+".dwp")
	}
	if s.name == "" || len(s.name)+len(s.dir) > maxSplitName {
		return packages, nil
	}
	path := s.name
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	files = []string{filepath.Join(t.im.root, path), filepath.Join(filepath.Dir(t.im.Path), filepath.Base(s.name))}
	return packages, slices.Compact(files)
}

// A dwoFile is an open file of split DWARF, with the sections that were read of it.
type dwoFile struct {
	elf      *elf.File
	sections map[string][]byte
	im       *Image
}

// openDWO opens the file at path, once; nil if there is none for the image's processor.
func (t *dwarfTab) openDWO(path string) (*dwoFile, error) {
	if f, ok := t.split[path]; ok {
		return f, nil
	}
	t.split[path] = nil
	open := t.im.openFile
	if open == nil {
		open = sample.OpenRegular
	}
	f, err := open(path)
	if err != nil {
		return nil, nil // it may be elsewhere
	}
	t.im.close = append(t.im.close, f)
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, nil
	}
	if arch, err := checkHeader(f, elf.ET_REL); err != nil || arch != t.im.Arch {
		return nil, nil
	}
	in := bound.Sized(st.Size())
	ef, err := newFile(f, in)
	if err != nil {
		return nil, err
	}
	t.im.bound.Add(in)
	t.split[path] = &dwoFile{ef, map[string][]byte{}, t.im}
	return t.split[path], nil
}

// section reads a section, once; nil if there is none.
func (f *dwoFile) section(name string) ([]byte, error) {
	if b, ok := f.sections[name]; ok {
		return b, nil
	}
	b, err := f.im.debugSection(f.elf, name)
	if err == nil {
		f.sections[name] = b
	}
	return b, err
}

// readSplit takes the entries of u from a file, if they are there.
func (t *dwarfTab) readSplit(u *dwarfUnit, f *dwoFile) error {
	const info, abbrev, strOffsets, ranges = 0, 1, 2, 3
	names := []string{".debug_info.dwo", ".debug_abbrev.dwo", ".debug_str_offsets.dwo", ".debug_rnglists.dwo", ".debug_str.dwo", ".debug_cu_index"}
	s := make([][]byte, len(names))
	for i, name := range names {
		var err error
		if s[i], err = f.section(name); err != nil {
			return err
		}
	}
	str, index := s[4], s[5]
	if len(index) > 0 {
		parts, ok, err := splitIndex(index, u.split.id)
		if !ok || err != nil {
			return err
		}
		for i, x := range parts {
			if uint64(x.off)+uint64(x.size) > uint64(len(s[i])) {
				return fmt.Errorf("%s: the index has %d bytes at %#x of %#x: %w", names[i], x.size, x.off, len(s[i]), ErrFormat)
			}
			s[i] = s[i][x.off:][:x.size]
		}
	}
	offsets := unitOffsets(s[info])
	if len(offsets) == 0 {
		return nil
	}
	old := offsets[0].version < 5
	if old {
		s[abbrev] = withKnownForms(s[abbrev])
	} else { // numbers count from behind the headers, which split units do not name
		wide := int64(0)
		if offsets[0].wide {
			wide = wideHeader
		}
		s[strOffsets], s[ranges] = behind(s[strOffsets], strOffsetsHeader+wide), behind(s[ranges], rangesHeader+wide)
	}
	if err := t.im.checkAbbrevs(offsets, s[abbrev]); err != nil {
		return err
	}
	data, err := dwarf.New(s[abbrev], nil, nil, s[info], nil, nil, nil, str)
	if err != nil {
		return err
	}
	addrs := behind(t.addr, u.split.addrs)
	for name, b := range map[string][]byte{".debug_str_offsets": s[strOffsets], ".debug_rnglists": s[ranges], ".debug_addr": addrs} {
		if len(b) > 0 {
			data.AddSection(name, b)
		}
	}
	t.budget += 8 * (len(s[info]) + len(s[abbrev]) + len(s[strOffsets]) + len(s[ranges]))
	for _, off := range offsets {
		r := data.Reader()
		r.Seek(off.first)
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil || e.Tag != dwarf.TagCompileUnit || splitID(e, off) != u.split.id {
			continue
		}
		if err := t.spendEntry(e); err != nil {
			return err
		}
		lists := &splitLists{s[ranges], addrs, u.split.low, old}
		if old {
			lists.ranges = behind(t.rangeLists, u.split.ranges)
		}
		u.from, u.first, u.end = &entryTable{data, map[dwarf.Offset]decl{}, lists}, off.first, off.end
		u.describe(e)
		return nil
	}
	return nil
}

// behind returns what follows n bytes of b.
func behind(b []byte, n int64) []byte {
	if n < 0 || n > int64(len(b)) {
		return nil
	}
	return b[n:]
}

// withKnownForms returns abbreviations in which the two forms of old split units have the codes of DWARF 5, which are of
// the same meaning and length, if the number has a byte of zeros.
func withKnownForms(abbrev []byte) []byte {
	out := slices.Clone(abbrev)
	for at := 0; at < len(out); {
		n := abbrevForms(out[at:], func(form uint64, b []byte) {
			if len(b) != 2 {
				return
			}
			switch form {
			case formGNUAddrIndex:
				b[0], b[1] = formAddrx|0x80, 0
			case formGNUStrIndex:
				b[0], b[1] = formStrx|0x80, 0
			}
		})
		if n == 0 {
			break
		}
		at += n
	}
	return out
}

// A splitPart is what of a section of a .dwp file is of one unit.
type splitPart struct{ off, size uint32 }

// splitIndex looks a unit up in .debug_cu_index (DWARF 5, 7.3.5.3; version 2 is of GCC's DebugFission):
//
//	version    4; of version 5, 2 and 2 of padding
//	columns    4, c
//	units      4, u
//	slots      4, s
//	signatures s of 8 bytes
//	rows       s of 4 bytes, 0 of a free slot
//	sections   c of 4 bytes
//	offsets    u times c of 4 bytes
//	sizes      u times c of 4 bytes
//
// The parts are those of the entries, their abbreviations, offsets of strings and lists of ranges.
func splitIndex(b []byte, id uint64) (parts [4]splitPart, ok bool, err error) {
	malformed := func(field string) error { return fmt.Errorf(".debug_cu_index: %s: %w", field, ErrFormat) }
	le := binary.LittleEndian
	if len(b) < indexHeader {
		return parts, false, malformed("header")
	}
	version, columns, units, slots := le.Uint16(b), uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])), uint64(le.Uint32(b[12:]))
	if version != 2 && version != 5 {
		return parts, false, malformed(fmt.Sprintf("version %d", version))
	}
	rows := indexHeader + slots*8
	sections := rows + slots*4
	offsets := sections + columns*4
	if columns > maxColumns || slots > math.MaxUint32 || offsets+2*units*columns*4 > uint64(len(b)) {
		return parts, false, malformed("tables behind the end of the section")
	}
	for i := range slots {
		row := uint64(le.Uint32(b[rows+4*i:]))
		if row == 0 || le.Uint64(b[indexHeader+8*i:]) != id {
			continue
		}
		if row > units {
			return parts, false, malformed(fmt.Sprintf("row %d of %d", row, units))
		}
		for c := range columns {
			at := offsets + ((row-1)*columns+c)*4
			x := splitPart{le.Uint32(b[at:]), le.Uint32(b[at+units*columns*4:])}
			if i := slices.Index([]uint32{1, 3, 6, 8}, le.Uint32(b[sections+4*c:])); i >= 0 && (i < 3 || version == 5) {
				parts[i] = x
			}
		}
		return parts, true, nil
	}
	return parts, false, nil
}

// rangesOf returns the code that e says it has, as it says.
func (from *entryTable) rangesOf(e *dwarf.Entry, spend func(int) error) ([][2]uint64, error) {
	if from.split == nil {
		return from.data.Ranges(e)
	}
	switch off := e.Val(dwarf.AttrRanges).(type) {
	case int64:
		if from.split.old {
			return from.split.oldRanges(off, spend)
		}
	case uint64: // by number, which debug/dwarf has looked up
		return from.split.newRanges(int64(min(off, math.MaxInt64)), spend)
	}
	return from.data.Ranges(e)
}

// oldRanges reads a list of ranges of before DWARF 5 (DWARF 4, 2.17.3): pairs of addresses that are relative to the base, up
// to one of zeros; one that begins with all ones has the next base.
func (l *splitLists) oldRanges(off int64, spend func(int) error) (out [][2]uint64, err error) {
	base := l.base
	for b := behind(l.ranges, off); len(b) >= 16; b = b[16:] {
		lo, hi := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		switch {
		case lo == 0 && hi == 0:
			return out, nil
		case lo == math.MaxUint64:
			base = hi
		default:
			if err := spend(1); err != nil {
				return nil, err
			}
			out = append(out, [2]uint64{lo + base, hi + base})
		}
	}
	return nil, fmt.Errorf(".debug_ranges: offset %#x: a list without an end: %w", off, ErrFormat)
}

// newRanges reads a list of ranges of DWARF 5 (2.17.3, 7.25): entries, each of a byte that says its kind and what this has.
func (l *splitLists) newRanges(off int64, spend func(int) error) (out [][2]uint64, err error) {
	const endOfList, baseAddressx, startxEndx, startxLength, offsetPair, baseAddress, startEnd, startLength = 0, 1, 2, 3, 4, 5, 6, 7
	d := lineHeader{b: behind(l.ranges, off)}
	addr := func() uint64 {
		n := d.uleb()
		if n >= uint64(len(l.addrs)/8) {
			d.err = true
			return 0
		}
		return binary.LittleEndian.Uint64(l.addrs[8*n:])
	}
	for base := l.base; len(d.b) > 0 && !d.err; {
		var lo, hi uint64
		switch d.uint(1) {
		case endOfList:
			return out, nil
		case baseAddressx:
			base = addr()
			continue
		case baseAddress:
			base = d.uint(8)
			continue
		case startxEndx:
			lo, hi = addr(), addr()
		case startxLength:
			lo = addr()
			hi = lo + d.uleb()
		case offsetPair:
			lo, hi = base+d.uleb(), base+d.uleb()
		case startEnd:
			lo, hi = d.uint(8), d.uint(8)
		case startLength:
			lo = d.uint(8)
			hi = lo + d.uleb()
		default:
			d.err = true
		}
		if err := spend(1); err != nil {
			return nil, err
		}
		out = append(out, [2]uint64{lo, hi})
	}
	return nil, fmt.Errorf(".debug_rnglists.dwo: offset %#x: %w", off, ErrFormat)
}
