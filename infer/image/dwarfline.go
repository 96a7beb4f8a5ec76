package image

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"sort"
	"unsafe"
)

// A lineRow is the source position of the code up to the next row.
type lineRow struct {
	addr Addr
	file int32 // index into files, noFile if unknown, noCode if the code ends here
	line int32
	disc uint32
}

const (
	noFile = -1
	noCode = -2
)

// Rows draw memory so many at once: what each takes while a table is put together, with
// the slice that it outgrows.
const (
	rowsAtOnce = 1 << 12
	rowMemory  = 3 * int(unsafe.Sizeof(lineRow{}))
)

// readLines reads the line table of u.
func (t *dwarfTab) readLines(u *dwarfUnit, c *unitCode) error {
	var absolute map[int]string
	var listed map[int]bool
	if off, ok := u.entry.Val(dwarf.AttrStmtList).(int64); ok && off >= 0 && off < int64(len(t.line)) {
		cost, err := t.drawFiles(t.line[off:], u)
		if err != nil {
			return err
		}
		defer t.im.bound.Release(cost.held)
		absolute, listed = cost.absolute, cost.listed
	}
	lr, err := t.data.LineReader(u.entry)
	if err != nil || lr == nil {
		return err
	}
	var all [][]lineRow
	var seq []lineRow
	rows := 0 // that were kept
	defer func() { t.im.bound.Release(int64(rows / rowsAtOnce * rowsAtOnce * rowMemory)) }()
	files := fileIndex{reader: lr, index: map[*dwarf.LineFile]int32{}}
	for {
		var e dwarf.LineEntry
		if err := lr.Next(&e); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return err
		}
		if t.rows--; t.rows < 0 {
			return fmt.Errorf("line table: more rows than .debug_line has bytes: %w", ErrFormat)
		}
		row := lineRow{addr: Addr(e.Address), file: files.of(e.File), line: lineNumber(int64(e.Line)), disc: uint32(e.Discriminator)}
		if e.EndSequence {
			row = lineRow{addr: row.addr, file: noCode}
		} else if n := len(seq); n > 0 && seq[n-1].addr == row.addr {
			seq[n-1] = row // of several rows for an address, the last one counts
			continue
		}
		if rows++; rows%rowsAtOnce == 0 {
			if err := t.hold(rowsAtOnce*rowMemory, "rows of a line table"); err != nil {
				rows--
				return err
			}
		}
		seq = append(seq, row)
		if e.EndSequence {
			if t.im.executable(seq[0].addr) { // else the linker threw the code away
				all = append(all, seq)
			}
			seq = nil
		}
	}
	c.rows = joinRows(all)
	if err := t.hold(len(c.rows)*int(unsafe.Sizeof(lineRow{})), "rows of a line table"); err != nil {
		return err
	}
	dir, _ := u.entry.Val(dwarf.AttrCompDir).(string)
	for i, f := range lr.Files() {
		name := ""
		if f != nil {
			name = f.Name
		}
		if is := absolute[i]; is != "" && f != nil { // debug/dwarf puts the directory before these, too
			name = path.Clean(is)
		}
		// Since DWARF 5, debug/dwarf leaves directories relative to the unit's, which is relative itself in Debian's
		// packages, and then the first directory. What lies in that one has it in its name.
		if name != "" && name[0] != '/' && dir != "" && (dir[0] == '/' || listed[i]) {
			name = dir + "/" + name
		}
		if err := t.hold(len(name)+16, "names of files"); err != nil {
			return err
		}
		c.files = append(c.files, name)
	}
	return nil
}

// A fileIndex finds the index of a file in a table that the line program may
// still add files to.
type fileIndex struct {
	reader *dwarf.LineReader
	index  map[*dwarf.LineFile]int32
}

func (x *fileIndex) of(f *dwarf.LineFile) int32 {
	if f == nil {
		return noFile
	}
	if i, ok := x.index[f]; ok {
		return i
	}
	for i, f := range x.reader.Files() {
		x.index[f] = int32(i)
	}
	if i, ok := x.index[f]; ok {
		return i
	}
	return noFile
}

// joinRows makes one table of sequences of rows, each ending in a row with
// noCode. Where two sequences have the same code, the first one keeps it.
func joinRows(all [][]lineRow) []lineRow {
	for _, seq := range all {
		// Hand-written tables may go backwards. The end stays at the end.
		rows := seq[:len(seq)-1]
		byAddr := func(a, b lineRow) int { return cmp.Compare(a.addr, b.addr) }
		if !slices.IsSortedFunc(rows, byAddr) {
			slices.SortStableFunc(rows, byAddr)
		}
	}
	slices.SortStableFunc(all, func(a, b []lineRow) int { return cmp.Compare(a[0].addr, b[0].addr) })
	var out []lineRow
	for _, seq := range all {
		end := seq[len(seq)-1].addr
		if len(out) > 0 {
			if last := out[len(out)-1].addr; end <= last {
				continue
			} else if seq[0].addr < last {
				for len(seq) > 1 && seq[1].addr <= last {
					seq = seq[1:]
				}
				seq[0].addr = last
			}
		}
		for _, row := range seq {
			row.addr = min(row.addr, end)
			out = addRow(out, row)
		}
	}
	return slices.Clip(out)
}

// addRow appends a row. Of several rows for an address the last one counts, as
// in LLVM; a row that repeats the one before says nothing.
func addRow(rows []lineRow, row lineRow) []lineRow {
	if n := len(rows); n > 0 && rows[n-1].addr == row.addr {
		rows = rows[:n-1]
	}
	if n := len(rows); n > 0 {
		last := rows[n-1]
		if last.addr = row.addr; last == row {
			return rows
		}
	}
	return append(rows, row)
}

// row returns the position of the code at a.
func (c *unitCode) row(a Addr) (lineRow, bool) {
	i := sort.Search(len(c.rows), func(i int) bool { return c.rows[i].addr > a })
	if i == 0 || c.rows[i-1].file == noCode {
		return lineRow{file: noFile}, false
	}
	return c.rows[i-1], true
}

func (c *unitCode) file(i int32) string {
	if i < 0 || int(i) >= len(c.files) {
		return ""
	}
	return c.files[i]
}

// A fileCost draws what debug/dwarf allocates for the directories and files of a line
// table, before it does. Each file gets the name of its directory, and up to DWARF 4 each
// directory that of the unit: some may be long, and shared by all. The header is
//
//	length          4, or 4 bytes all ones and 8 bytes
//	version         2
//	pointers        1, since version 5
//	segments        1, since version 5
//	header length   4, or 8 after the long length
//	parameters      5 of 1 byte each, 4 before version 4
//	opcodes         1
//	lengths         1 for each opcode but the last
//	then, since version 5, of directories and again of files:
//	formats         1
//	for each format a type and a form, both uleb128
//	count           uleb128
//	for each entry, a value of each format
//	or, before that, directories, each ending in a zero, and a zero; then files, and a zero:
//	name            ending in a zero
//	directory, time, size   uleb128 each
type fileCost struct {
	lineHeader
	tab     *dwarfTab
	unit    int // bytes of the directory of the unit
	longest int // bytes of the longest directory
	held    int64
	failed  error

	// Of files of DWARF 5, by index:
	absolute map[int]string // names that need no directory
	listed   map[int]bool   // whether it is in another directory than the unit's, the first
}

// fileMemory is what debug/dwarf and fileIndex take for a file, without its name, in bytes.
const fileMemory = 144

// drawFiles returns what it drew.
func (t *dwarfTab) drawFiles(b []byte, u *dwarfUnit) (*fileCost, error) {
	dir, _ := u.entry.Val(dwarf.AttrCompDir).(string)
	c := &fileCost{lineHeader: lineHeader{b: b, wide: 4}, tab: t, unit: len(dir) + 1, longest: len(dir) + 1, absolute: map[int]string{}, listed: map[int]bool{}}
	c.read()
	if c.failed != nil {
		t.im.bound.Release(c.held)
		return nil, c.failed
	}
	return c, nil
}

func (c *fileCost) hold(n int) {
	if c.failed == nil {
		if c.failed = c.tab.hold(n, "names of files of a line table"); c.failed == nil {
			c.held += int64(n)
			return
		}
	}
	c.err = true
}

func (c *fileCost) read() {
	length := c.uint(4)
	if length == math.MaxUint32 {
		c.wide = 8
		length = c.uint(8)
	}
	c.b = c.b[:min(length, uint64(len(c.b)))]
	if c.failed = c.tab.spend(len(c.b) / 4); c.failed != nil { // units may share a table
		return
	}
	version := c.uint(2)
	if version == 5 {
		c.uint(2)
	}
	c.uint(c.wide)
	c.uint(4)
	if version >= 4 {
		c.uint(1)
	}
	c.skip(c.uint(1) - 1)
	if version == 5 {
		c.entries(func(_, n int, _ []byte, _ bool) { c.longest = max(c.longest, n) })
		c.entries(func(i, n int, name []byte, listed bool) {
			c.hold(fileMemory + c.longest)
			if len(name) > 0 && name[0] == '/' && !c.err {
				c.absolute[i] = string(name)
			} else if listed && !c.err {
				c.listed[i] = true
			}
		})
	} else {
		c.strings(func(n int) {
			c.hold(n + c.unit)
			c.longest = max(c.longest, n+c.unit)
		})
		c.strings(func(n int) {
			c.hold(fileMemory + n + c.longest)
			c.uleb()
			c.uleb()
			c.uleb()
		})
	}
	// The program may define more files: by a zero, a length and DW_LNE_define_file.
	// What looks like a definition is one, or a rare chance.
	for i := 0; i+2 < len(c.b) && !c.err; i++ {
		if c.b[i] == 0 && c.b[i+2] == 3 {
			c.hold(fileMemory + c.longest)
		}
	}
}

// strings calls f with the lengths of strings up to an empty one.
func (c *fileCost) strings(f func(n int)) {
	for !c.err {
		n := bytes.IndexByte(c.b, 0)
		c.skip(uint64(n + 1))
		if n <= 0 {
			break
		}
		f(n)
	}
}

// entries draws the strings of the entries of DWARF 5, and calls f with how long they are
// in each, with its name, and with whether it has the index of a directory other than the first.
func (c *fileCost) entries(f func(i, n int, name []byte, listed bool)) {
	const isPath, isDir = 1, 2 // DW_LNCT_path, DW_LNCT_directory_index
	type format struct{ is, form uint64 }
	var formats []format
	for range c.uint(1) {
		is := c.uleb()
		formats = append(formats, format{is, c.uleb()})
	}
	n := c.uleb()
	if n > uint64(len(c.b)) && c.failed == nil { // debug/dwarf would allocate them first
		c.failed = fmt.Errorf("line table: %d directories or files: %d bytes left: %w", n, len(c.b), ErrFormat)
		c.err = true
	}
	for i := uint64(0); i < n && !c.err; i++ {
		all, name, listed := 0, []byte(nil), false
		for _, is := range formats {
			before := c.b
			b := c.value(is.form)
			if is.is == isDir { // of form udata, data1 or data2, in each of which zero is of zeros
				listed = bytes.ContainsFunc(before[:len(before)-len(c.b)], func(r rune) bool { return r != 0 })
			}
			c.hold(len(b))
			all += len(b)
			if is.is == isPath {
				name = b
			}
		}
		f(int(i), all, name, listed)
	}
}

// value passes over a value of a form (DWARF 5, 7.5.6), and returns it if it is a
// string. Those that are missing are not for line tables, and debug/dwarf takes them
// to have no bytes.
func (c *fileCost) value(form uint64) []byte {
	switch form {
	case 0x08: // DW_FORM_string
		s, _, ok := bytes.Cut(c.b, []byte{0})
		if !ok {
			return nil
		}
		c.skip(uint64(len(s) + 1))
		return s
	case 0x0e: // strp
		return c.shared(c.tab.str)
	case 0x1f: // line_strp
		return c.shared(c.tab.lineStr)
	case 0x1d: // strp_sup
		c.skip(c.wide)
	case 0x0f, 0x1a: // udata, strx
		c.uleb()
	case 0x09: // block
		c.skip(c.uleb())
	case 0x0b, 0x25: // data1, strx1
		c.skip(1)
	case 0x05, 0x26: // data2, strx2
		c.skip(2)
	case 0x27: // strx3
		c.skip(3)
	case 0x06, 0x28: // data4, strx4
		c.skip(4)
	case 0x07: // data8
		c.skip(8)
	case 0x1e: // data16
		c.skip(16)
	}
	return nil
}

// shared returns a string of another section.
func (c *fileCost) shared(strings []byte) []byte {
	off := c.uint(c.wide)
	if off >= uint64(len(strings)) {
		return nil
	}
	s, _, ok := bytes.Cut(strings[off:], []byte{0})
	if !ok {
		return nil
	}
	return s
}

// A lineHeader is what is left to read of a line table's header. debug/dwarf
// will say what is wrong where this fails.
type lineHeader struct {
	b    []byte
	wide uint64 // bytes of an offset
	err  bool
}

func (d *lineHeader) skip(n uint64) {
	if n > uint64(len(d.b)) {
		d.err, n = true, uint64(len(d.b))
	}
	d.b = d.b[n:]
}

// uint reads an integer of n bytes; of more than 8, it returns the first 8.
func (d *lineHeader) uint(n uint64) uint64 {
	var v [8]byte
	copy(v[:], d.b[:min(n, uint64(len(d.b)))])
	d.skip(n)
	return binary.LittleEndian.Uint64(v[:])
}

func (d *lineHeader) uleb() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.err, n = true, len(d.b)
	}
	d.b = d.b[n:]
	return v
}
