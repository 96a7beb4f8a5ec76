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
	"slices"
	"sort"
	"strings"
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

// readLines reads the line table of u.
func (t *dwarfTab) readLines(u *dwarfUnit, c *unitCode) error {
	if off, ok := u.entry.Val(dwarf.AttrStmtList).(int64); ok && off >= 0 && off < int64(len(t.line)) {
		if err := checkFileCounts(t.line[off:]); err != nil {
			return err
		}
	}
	lr, err := t.data.LineReader(u.entry)
	if err != nil || lr == nil {
		return err
	}
	var all [][]lineRow
	var seq []lineRow
	files := fileIndex{reader: lr, index: map[*dwarf.LineFile]int32{}}
	for {
		var e dwarf.LineEntry
		if err := lr.Next(&e); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return err
		}
		row := lineRow{addr: Addr(e.Address), file: files.of(e.File), line: lineNumber(int64(e.Line)), disc: uint32(e.Discriminator)}
		if e.EndSequence {
			row = lineRow{addr: row.addr, file: noCode}
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
	dir, _ := u.entry.Val(dwarf.AttrCompDir).(string)
	for _, f := range lr.Files() {
		name := ""
		if f != nil {
			name = f.Name
		}
		// Since DWARF 5, debug/dwarf leaves directories relative to the unit's.
		if name != "" && name[0] != '/' && strings.HasPrefix(dir, "/") {
			name = dir + "/" + name
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

// row gives the position of the code at a.
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

// checkFileCounts makes sure that a line table of DWARF 5 has room for as many
// directories and files as it says it has. debug/dwarf would allocate them first. The header is
//
//	length          4, or 4 bytes all ones and 8 bytes
//	version         2
//	pointers        1
//	segments        1
//	header length   4, or 8 after the long length
//	5 parameters    1 each
//	opcodes         1
//	lengths         1 for each opcode but the last
//	then, of directories and again of files:
//	formats         1
//	for each format a type and a form, both uleb128
//	count           uleb128
//	for each entry, a value of each format
func checkFileCounts(b []byte) error {
	d := lineHeader{b: b}
	d.wide = 4
	if d.uint(4) == math.MaxUint32 {
		d.wide = 8
		d.uint(8)
	}
	if d.uint(2) != 5 || d.err {
		return nil
	}
	d.uint(2)
	d.uint(d.wide)
	d.uint(5)
	d.skip(d.uint(1) - 1)
	for _, what := range []string{"directories", "files"} {
		var forms []uint64
		for range d.uint(1) {
			d.uleb()
			forms = append(forms, d.uleb())
		}
		n := d.uleb()
		if n > uint64(len(d.b)) {
			return fmt.Errorf("line table: %d %s: %d bytes left: %w", n, what, len(d.b), ErrFormat)
		}
		for i := uint64(0); i < n && !d.err; i++ {
			for _, form := range forms {
				d.value(form)
			}
		}
	}
	return nil
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

// uint reads an integer of n bytes; of more than 8, it gives the first 8.
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

// value passes over a value of a form (DWARF 5, 7.5.6). Those that are missing
// are not for line tables, and debug/dwarf takes them to have no bytes.
func (d *lineHeader) value(form uint64) {
	switch form {
	case 0x08: // DW_FORM_string
		d.skip(uint64(bytes.IndexByte(d.b, 0) + 1))
	case 0x0e, 0x1d, 0x1f: // strp, strp_sup, line_strp
		d.skip(d.wide)
	case 0x0f, 0x1a: // udata, strx
		d.uleb()
	case 0x09: // block
		d.skip(d.uleb())
	case 0x0b, 0x25: // data1, strx1
		d.skip(1)
	case 0x05, 0x26: // data2, strx2
		d.skip(2)
	case 0x27: // strx3
		d.skip(3)
	case 0x06, 0x28: // data4, strx4
		d.skip(4)
	case 0x07: // data8
		d.skip(8)
	case 0x1e: // data16
		d.skip(16)
	}
}
