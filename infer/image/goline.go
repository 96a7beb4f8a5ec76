package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
)

// A goTable is pclntab, as the runtime uses it to find lines and inlined calls.
// The linker always writes it, stripped or not, and the profiles that a Go
// program makes of itself come from it: what it says is what `go build -pgo` will
// look for.
//
// Go 1.20 to 1.26 lay out alike what is read here (runtime/symtab.go,
// runtime/runtime2.go and runtime/symtabinl.go of the Go source); parsePclntab has
// the header.
type goTable struct {
	im      *Image
	names   []byte // of functions, NUL-terminated
	units   []byte // offsets of each compilation unit's files in files, 4 bytes each
	files   []byte // names, NUL-terminated
	values  []byte // tables that map code to values
	funcs   []byte // of each function, then of the end of the code: start, relative to text, and offset of its record; the records
	n       int    // functions
	quantum uint32 // bytes; lengths are multiples of it
	text    Addr   // start of all Go code
	inlined Addr   // go:func.*, which the inlined calls of functions lie in
	wrapper byte   // kind of functions that the compiler made up

	procs []atomic.Pointer[goProc] // by function; nil until somebody asks
}

const (
	pclntabHeader = 72
	goRecordSize  = 44 // of runtime._func without the arrays that follow it
	goCallSize    = 16 // of runtime.inlinedCall

	// Indices of internal/abi/symtab.go.
	pcdataInlTree   = 2
	funcdataInlTree = 3
)

var errNoPclntab = errors.New("no pclntab of Go 1.20 or later")

// readGoTable reads the image's pclntab.
func (im *Image) readGoTable() (*goTable, error) {
	a, b, err := im.pclntab()
	if err != nil {
		return nil, err
	}
	if version, ok := pclntabVersion(b); !ok || version != pclntab120 {
		return nil, errNoPclntab
	}
	if len(b) < pclntabHeader {
		return nil, fmt.Errorf("pclntab: header: section ends at %#x: %w", len(b), ErrFormat)
	}
	t := &goTable{im: im, quantum: uint32(b[6])}
	for i, part := range []*[]byte{&t.names, &t.units, &t.files, &t.values, &t.funcs} {
		at := 32 + 8*i
		off := binary.LittleEndian.Uint64(b[at:])
		if off > uint64(len(b)) {
			return nil, fmt.Errorf("pclntab: offset %#x: part %d at %#x, section ends at %#x: %w", at, i, off, len(b), ErrFormat)
		}
		*part = b[off:]
	}
	n := binary.LittleEndian.Uint64(b[8:])
	if n == 0 || n >= uint64(len(t.funcs)/8) {
		return nil, fmt.Errorf("pclntab: offset 0x8: number of functions: %d in %d bytes: %w", n, len(t.funcs), ErrFormat)
	}
	t.n = int(n)
	if err := t.findModule(a, b); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	t.procs = make([]atomic.Pointer[goProc], t.n)
	return t, nil
}

// Words of runtime.moduledata, the same from Go 1.20 to 1.26.
const (
	moduleNames  = 1 // slices take three words
	moduleUnits  = 4
	moduleFiles  = 7
	moduleValues = 10
	moduleFuncs  = 13
	moduleText   = 22
	moduleEtext  = 23
	moduleGofunc = 40
)

// findModule finds runtime.firstmoduledata, which knows where code and inlined
// calls start. It has a symbol, but stripped programs do not: so it is found as
// the place that points to this pclntab's header and to each of its parts.
func (t *goTable) findModule(a Addr, header []byte) error {
	for _, at := range t.im.pointersTo(a) {
		word := func(i int) Addr {
			p, _ := t.im.pointer(at + Addr(8*i))
			return p
		}
		ok := true
		for i, w := range []int{moduleNames, moduleUnits, moduleFiles, moduleValues, moduleFuncs} {
			ok = ok && word(w) == a+Addr(binary.LittleEndian.Uint64(header[32+8*i:]))
		}
		text, etext := word(moduleText), word(moduleEtext)
		if r := t.im.region(text); ok && r != nil && text < etext && etext <= r.hi {
			t.text, t.inlined = text, word(moduleGofunc)
			return nil
		}
	}
	return fmt.Errorf("pclntab at %#x: no moduledata refers to it: %w", a, ErrFormat)
}

// pointersTo returns the slots in writable sections that hold address a.
func (im *Image) pointersTo(a Addr) []Addr {
	var out []Addr
	for _, r := range im.relocs().all {
		if r.target == a {
			out = append(out, r.slot)
		}
	}
	want := binary.LittleEndian.AppendUint64(nil, uint64(a))
	for _, s := range im.elf.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_WRITE == 0 {
			continue
		}
		b, err := im.sectionData(s)
		if err != nil {
			continue
		}
		for off := 0; off+8 <= len(b); off += 8 {
			if bytes.Equal(b[off:off+8], want) {
				out = append(out, Addr(s.Addr)+Addr(off))
			}
		}
	}
	return out
}

// check makes sure that the functions are in order, lie in code and have
// records. From here on, entry and record need no checks.
func (t *goTable) check() error {
	r := t.im.region(t.text)
	for i := range t.n {
		lo, hi := t.entry(i), t.entry(i+1)
		if lo > hi || hi > r.hi {
			return fmt.Errorf("pclntab: function %d: [%#x, %#x): not in order, or outside the code: %w", i, lo, hi, ErrFormat)
		}
		off := uint64(binary.LittleEndian.Uint32(t.funcs[8*i+4:]))
		if off+goRecordSize > uint64(len(t.funcs)) {
			return fmt.Errorf("pclntab: function %d: record at %#x: section ends: %w", i, off, ErrFormat)
		}
		// In every version, FuncIDWrapper is the last of the enumeration, and
		// there is one: runtime.deferreturn.
		t.wrapper = max(t.wrapper, t.record(i).kind())
	}
	return nil
}

// entry returns the address of function i; of i == t.n, the end of the code.
func (t *goTable) entry(i int) Addr {
	return t.text + Addr(binary.LittleEndian.Uint32(t.funcs[8*i:]))
}

// find returns the index of the function at a, or -1.
func (t *goTable) find(a Addr) int {
	if a < t.entry(0) || a >= t.entry(t.n) {
		return -1
	}
	return sort.Search(t.n, func(i int) bool { return t.entry(i+1) > a })
}

// A goRecord is runtime._func:
//
//	offset  size  field
//	0       4     start, relative to the code
//	4       4     offset of the name
//	8       4     size of arguments
//	12      4     where deferred calls return to
//	16      4     offset of the table of stack depths
//	20      4     offset of the table of files
//	24      4     offset of the table of lines
//	28      4     np, the number of further tables
//	32      4     index of its unit's first file
//	36      4     line of the func keyword
//	40      1     kind
//	41      1     flags
//	42      1     zero
//	43      1     nf, the number of further data
//	44      4*np  offsets of the tables, 0 if there is none
//	-       4*nf  offsets of the data from go:func.*, all ones if there is none
type goRecord []byte

func (t *goTable) record(i int) goRecord {
	return t.funcs[binary.LittleEndian.Uint32(t.funcs[8*i+4:]):]
}

func (f goRecord) u32(off int) uint32 { return binary.LittleEndian.Uint32(f[off:]) }
func (f goRecord) name() uint32       { return f.u32(4) }
func (f goRecord) depths() uint32     { return f.u32(16) }
func (f goRecord) fileTable() uint32  { return f.u32(20) }
func (f goRecord) lineTable() uint32  { return f.u32(24) }
func (f goRecord) unit() uint32       { return f.u32(32) }
func (f goRecord) start() int         { return int(int32(f.u32(36))) }
func (f goRecord) kind() byte         { return f[40] }
func (f goRecord) setsSP() bool       { return f[41]&2 != 0 } // abi.FuncFlagSPWrite
func (f goRecord) asm() bool          { return f[41]&4 != 0 } // abi.FuncFlagAsm

// pcdata returns the offset of further table i, 0 if there is none.
func (f goRecord) pcdata(i uint32) uint32 {
	if off := goRecordSize + 4*int(i); i < f.u32(28) && off+4 <= len(f) {
		return f.u32(off)
	}
	return 0
}

// funcdata returns the offset of further datum i from go:func.*.
func (f goRecord) funcdata(i uint32) (uint32, bool) {
	off := goRecordSize + 4*(uint64(f.u32(28))+uint64(i))
	if i >= uint32(f[43]) || off+4 > uint64(len(f)) {
		return 0, false
	}
	v := f.u32(int(off))
	return v, v != ^uint32(0)
}

// cstring returns the NUL-terminated string at off, "" if there is none.
func cstring(b []byte, off uint32) string {
	if uint64(off) >= uint64(len(b)) {
		return ""
	}
	b = b[off:]
	if n := bytes.IndexByte(b[:min(len(b), maxGoName)], 0); n >= 0 {
		return string(b[:n])
	}
	return ""
}

// A goProc is what pclntab says of the code of one function, unpacked.
type goProc struct {
	goRecord
	entry Addr
	rows  []goRow // by end; each goes from the end of the one before
}

// A goRow is a stretch of code whose instructions have one source position.
type goRow struct {
	end    uint32 // relative to the entry of the function
	file   int32  // index into the unit's files, -1 if it is unknown
	line   int32  // -1 if it is unknown
	inline int32  // index of the innermost inlined call, -1 if it is the function itself
}

// proc unpacks function i, once.
func (t *goTable) proc(i int) *goProc {
	if p := t.procs[i].Load(); p != nil {
		return p
	}
	f := t.record(i)
	p := &goProc{goRecord: f, entry: t.entry(i)}
	size := uint32(t.entry(i+1) - p.entry)
	var ends []uint32
	var tables [3][]goValue
	for k, off := range []uint32{f.fileTable(), f.lineTable(), f.pcdata(pcdataInlTree)} {
		tables[k] = t.unpack(off, size)
		for _, v := range tables[k] {
			ends = append(ends, v.end)
		}
	}
	slices.Sort(ends)
	for _, end := range slices.Compact(ends) {
		p.rows = append(p.rows, goRow{end, valueAt(tables[0], end), valueAt(tables[1], end), valueAt(tables[2], end)})
	}
	t.procs[i].Store(p)
	return p
}

// A goValue is what a table says from the end of the value before to its own.
type goValue struct {
	end   uint32
	value int32
}

// valueAt returns the value of what ends at end or after it, -1 if there is none.
func valueAt(table []goValue, end uint32) int32 {
	i := sort.Search(len(table), func(i int) bool { return table[i].end >= end })
	if i == len(table) {
		return -1
	}
	return table[i].value
}

// unpack reads a table of values at off, for a function of size bytes: pairs of
// the value's change, zigzag, and the bytes it holds for; a change of 0 ends it,
// unless it is the first (runtime.step). A malformed table ends where it errs.
func (t *goTable) unpack(off, size uint32) []goValue {
	if off == 0 || uint64(off) >= uint64(len(t.values)) {
		return nil
	}
	var out []goValue
	var end uint32
	value := int32(-1)
	for b := t.values[off:]; end < size; {
		change, n := binary.Uvarint(b)
		if n <= 0 || change == 0 && len(out) > 0 {
			break
		}
		length, m := binary.Uvarint(b[n:])
		if m <= 0 || length == 0 || length > uint64((size-end)/t.quantum) {
			break
		}
		b = b[n+m:]
		value += int32(-(uint32(change) & 1) ^ uint32(change)>>1)
		end += uint32(length) * t.quantum
		out = append(out, goValue{end, value})
	}
	return out
}

// row returns the position of the code at a.
func (p *goProc) row(a Addr) (goRow, bool) {
	off := uint64(a - p.entry)
	i := sort.Search(len(p.rows), func(i int) bool { return uint64(p.rows[i].end) > off })
	if i == len(p.rows) {
		return goRow{}, false
	}
	return p.rows[i], true
}

// file returns the name of a file of p's unit, "" if it is unknown.
func (t *goTable) file(p *goProc, i int32) string {
	at := 4 * (uint64(p.unit()) + uint64(uint32(i)))
	if i < 0 || at+4 > uint64(len(t.units)) {
		return ""
	}
	return cstring(t.files, binary.LittleEndian.Uint32(t.units[at:]))
}

// maxInline bounds the inlined calls at one place. The compiler inlines some
// dozens deep, but its tables of large package initialisers may go round in circles (seen
// from Go 1.23): there each call has its position at an instruction inside itself.
const maxInline = 256

// A goFrame is a Frame, and whether the compiler made its function up.
type goFrame struct {
	Frame
	wrapper bool
}

// frames returns the inlined calls of function i at a, innermost first, as
// runtime.inlineUnwinder does.
func (t *goTable) frames(i int, a Addr) []goFrame {
	p := t.proc(i)
	tree, hasTree := p.funcdata(funcdataInlTree)
	var out []goFrame
	for len(out) < maxInline {
		row, ok := p.row(a)
		f := goFrame{wrapper: p.kind() == t.wrapper}
		f.Func, f.StartLine = cstring(t.names, p.name()), p.start()
		if ok && row.file >= 0 && row.line >= 0 {
			f.File, f.Line = t.file(p, row.file), int(row.line)
		}
		if !ok || row.inline < 0 || !hasTree {
			return append(out, f)
		}
		// An inlined call is kind (1 byte), 3 bytes, offset of the name, an offset
		// in this function that has the position of the call, line of the func keyword.
		c := t.im.read(t.inlined+Addr(tree)+goCallSize*Addr(row.inline), goCallSize)
		if c == nil {
			return nil
		}
		f.wrapper = c[0] == t.wrapper
		f.Func = cstring(t.names, binary.LittleEndian.Uint32(c[4:]))
		f.StartLine = int(int32(binary.LittleEndian.Uint32(c[12:])))
		out = append(out, f)
		a = p.entry + Addr(binary.LittleEndian.Uint32(c[8:]))
	}
	return nil
}

// unit describes the source of function i.
func (t *goTable) unit(i int) Unit {
	p := t.proc(i)
	u := Unit{Producer: strings.TrimSpace("Go cmd/compile " + t.im.Go), Lang: "go"}
	if p.asm() {
		u.Producer, u.Lang = strings.TrimSpace("Go cmd/asm "+t.im.Go), "asm"
	}
	if row, ok := p.row(p.entry); ok {
		u.Name = t.file(p, row.file)
	}
	return u
}
