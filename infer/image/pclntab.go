package image

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
)

// Magic numbers of Go's table of functions and lines, from debug/gosym: each is
// the first release whose layout it stands for. What is older is long out of
// support.
const (
	pclntab116 = 0xfffffffa
	pclntab118 = 0xfffffff0
	pclntab120 = 0xfffffff1
)

// maxGoName bounds the search for the end of a name. The compiler hashes what is
// longer than some hundred bytes, type arguments may add to that.
const maxGoName = 1 << 16

// A goFunc is an entry of Go's function table.
type goFunc struct {
	name   string
	lo, hi Addr
}

// pclntab finds Go's function table, by section or by symbol; nil if there is none.
func (im *Image) pclntab() (Addr, []byte, error) {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := im.elf.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			b, err := im.sectionData(s)
			return Addr(s.Addr), b, err
		}
	}
	return im.searchPclntab()
}

// searchPclntab looks for the table where a linker script or an external linker
// has merged its section into another one: at its alignment, with the header
// that the linker writes.
func (im *Image) searchPclntab() (Addr, []byte, error) {
	if im.Go == "" {
		return 0, nil, nil
	}
	for _, s := range im.elf.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) != elf.SHF_ALLOC {
			continue
		}
		b, err := im.sectionData(s)
		if err != nil {
			return 0, nil, err
		}
		for off := 0; off+8 <= len(b); off += 8 {
			if _, ok := pclntabVersion(b[off:]); ok {
				return Addr(s.Addr) + Addr(off), b[off:], nil
			}
		}
	}
	return 0, nil, nil
}

// pclntabVersion reports whether b begins with the header of a table for the
// processors that we know: magic, two zeros, the least instruction length, and
// pointers of 8 bytes.
func pclntabVersion(b []byte) (uint32, bool) {
	if len(b) < 8 {
		return 0, false
	}
	magic := binary.LittleEndian.Uint32(b)
	ok := magic == pclntab116 || magic == pclntab118 || magic == pclntab120
	return magic, ok && b[4] == 0 && b[5] == 0 && (b[6] == 1 || b[6] == 4) && b[7] == 8
}

// goFuncs reads Go's function table, if there is one.
func (im *Image) goFuncs() ([]goFunc, error) {
	addr, b, err := im.pclntab()
	if b == nil || err != nil {
		return nil, err
	}
	return parsePclntab(b, im.goText(addr))
}

// goText returns the address that the entries of the table at pclntab are
// relative to, that of runtime.text. It need not be where .text begins: an
// external linker puts the C runtime's start-up code first.
func (im *Image) goText(pclntab Addr) Addr {
	// Go 1.26 and later have no address in the table, but a section with the
	// runtime's moduledata. Its field text comes after a pointer, six slices
	// and three more pointers, as it has since Go 1.16 (runtime/symtab.go).
	const text = 8 + 6*24 + 3*8
	if s := im.elf.Section(".go.module"); s != nil {
		if a, ok := im.pointer(Addr(s.Addr) + text); ok && im.executable(a) {
			return a
		}
	}
	if a, ok := im.pointer(pclntab + 8 + 2*8); ok && im.executable(a) {
		return a
	}
	if s := im.elf.Section(".text"); s != nil {
		return Addr(s.Addr)
	}
	return 0
}

// parsePclntab reads the function table of a pclntab.
//
//	offset  size  field
//	0       4     magic
//	4       2     0
//	6       1     least instruction length: 1, or 4 for AArch64
//	7       1     size of a pointer: 8
//	8       8     number of functions
//	16      8     number of files
//	24      8     text, the address that entries are relative to; 0 from Go 1.26; absent before 1.18
//	then    8*5   offsets of function names, units, files, pc-value tables, functions
//
// The functions are pairs (entry, offset of its record), and one more entry that
// ends the last function; 4 bytes each, relative to text and to the functions.
// Before Go 1.18 they had 8 bytes each, and the entries were absolute. A record
// starts with
//
//	0       4     entry; 8 bytes before Go 1.18, all that follows being 4 further on
//	4       4     offset of its name in the function names
//	8       4     size of arguments and results
//	12      4     where it calls deferreturn
//	16      4     offset of its stack depths in the pc-value tables
func parsePclntab(b []byte, text Addr) ([]goFunc, error) {
	t := &pcln{b: b, text: text, word: 4}
	magic, ok := pclntabVersion(b)
	if !ok {
		return nil, fmt.Errorf("pclntab: offset 0: header: %w", ErrFormat)
	}
	t.quantum = uint64(b[6])
	offsets := 8 + 3*8
	if magic == pclntab116 {
		t.word, t.text = 8, 0
		offsets = 8 + 2*8
	}
	n := t.uint(b, 8, 8, "number of functions")
	t.names = string(t.part(offsets, "function names")) // once: the names are parts of it
	t.tables = t.part(offsets+3*8, "pc-value tables")
	t.funcs = t.part(offsets+4*8, "functions")
	if t.err != nil {
		return nil, t.err
	}
	if n > uint64(len(t.funcs)/(2*t.word)) {
		return nil, fmt.Errorf("pclntab: offset 0x8: number of functions: %d in %d bytes: %w", n, len(t.funcs), ErrFormat)
	}
	out := make([]goFunc, 0, n)
	for i := range int(n) {
		f := t.function(i)
		if t.err != nil {
			return nil, t.err
		}
		if f.hi > f.lo {
			out = append(out, f)
		}
	}
	return out, nil
}

// A pcln is a pclntab that is being read. The first failure sticks.
type pcln struct {
	b       []byte
	names   string
	tables  []byte // pc-value tables
	funcs   []byte
	text    Addr
	word    int    // bytes of an entry of the table
	quantum uint64 // least instruction length
	err     error
}

func (t *pcln) fail(field string, off uint64) {
	if t.err == nil {
		t.err = fmt.Errorf("pclntab: %s: offset %#x: %w", field, off, ErrFormat)
	}
}

// uint reads size bytes at off of a part of the table.
func (t *pcln) uint(part []byte, off uint64, size int, field string) uint64 {
	if off > uint64(len(part)) || uint64(len(part))-off < uint64(size) {
		t.fail(field, off)
		return 0
	}
	if size == 4 {
		return uint64(binary.LittleEndian.Uint32(part[off:]))
	}
	return binary.LittleEndian.Uint64(part[off:])
}

// part returns the table from the offset on that the header has at off.
func (t *pcln) part(off int, field string) []byte {
	at := t.uint(t.b, uint64(off), 8, field)
	if at > uint64(len(t.b)) {
		t.fail(field, at)
		return nil
	}
	return t.b[at:]
}

// function reads the i-th function.
func (t *pcln) function(i int) goFunc {
	at := uint64(2 * t.word * i)
	entry := t.uint(t.funcs, at, t.word, "entry")
	record := t.uint(t.funcs, at+uint64(t.word), t.word, "record")
	next := t.uint(t.funcs, at+uint64(2*t.word), t.word, "next entry")
	if next < entry {
		t.fail("entries out of order", at)
	}
	record += uint64(t.word) // past its entry
	name := t.uint(t.funcs, record, 4, "name")
	if name >= uint64(len(t.names)) {
		t.fail("name", name)
	}
	if t.err != nil {
		return goFunc{}
	}
	size := next - entry
	// Up to the next entry there may be padding. The stack depths end with the
	// code; a function without any keeps the padding.
	if depths := t.uint(t.funcs, record+12, 4, "stack depths"); depths != 0 {
		if n := t.codeSize(depths, size); n > 0 {
			size = n
		}
	}
	s, _, _ := strings.Cut(t.names[name:min(name+maxGoName, uint64(len(t.names)))], "\x00")
	lo := t.text + Addr(entry)
	return goFunc{s, lo, lo + Addr(size)}
}

// codeSize adds up the lengths of the ranges of a pc-value table: pairs of
// uvarints, the change of the value (0 ends the table, unless it is the first)
// and the length in instructions of the least length. It returns 0 if they are
// more than limit.
func (t *pcln) codeSize(table, limit uint64) uint64 {
	if table >= uint64(len(t.tables)) {
		t.fail("stack depths", table)
		return 0
	}
	b := t.tables[table:]
	var size uint64
	for first := true; ; first = false {
		change, n := binary.Uvarint(b)
		if n <= 0 {
			t.fail("stack depths", table)
			return 0
		}
		if change == 0 && !first {
			return size
		}
		length, m := binary.Uvarint(b[n:])
		if m <= 0 || length == 0 {
			t.fail("stack depths", table)
			return 0
		}
		b = b[n+m:]
		if length > limit/t.quantum || size > limit-length*t.quantum {
			return 0
		}
		size += length * t.quantum
	}
}
