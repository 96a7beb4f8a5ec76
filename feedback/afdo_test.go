package feedback

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// errAFDO is wrapped by errors about bytes that are no .afdo file.
var errAFDO = errors.New("not an .afdo file")

// afdoNested is how many inlined bodies may be in one another: readers recurse.
const afdoNested = 256

// decodeAFDO reads what encodeAFDO writes. It allocates in proportion to the
// length of b, whatever b says.
func decodeAFDO(b []byte) (version uint32, funcs map[string]*function, err error) {
	r := &afdoReader{b: b}
	funcs = r.file()
	return r.version, funcs, r.err
}

// dumpAFDO lists the fields of a file for people to read: offset, bytes and
// meaning. It stops with a message where decodeAFDO would.
func dumpAFDO(b []byte) []byte {
	r := &afdoReader{b: b, dump: new(bytes.Buffer)}
	if r.file(); r.err != nil {
		fmt.Fprintln(r.dump, r.err)
	}
	return r.dump.Bytes()
}

// An afdoReader reads fields from b. The first failure sticks; after it, every
// number is 0.
type afdoReader struct {
	b       []byte
	off     int
	version uint32
	names   []string
	err     error
	dump    *bytes.Buffer // annotations, if they are asked for
	seen    int           // end of what has been annotated
}

// fail blames the field that starts at offset off.
func (r *afdoReader) fail(off int, field string) {
	if r.err == nil {
		r.err = fmt.Errorf("offset %#x: %s: %w", off, field, errAFDO)
	}
}

// note annotates the bytes read since the note before.
func (r *afdoReader) note(format string, args ...any) {
	if r.dump == nil || r.err != nil {
		return
	}
	const row = 12 // bytes in a line
	text := fmt.Sprintf(format, args...)
	for start := r.seen; start < r.off; start += row {
		line := fmt.Sprintf("%04x  %-*x  %s", start, 2*row, r.b[start:min(start+row, r.off)], text)
		r.dump.WriteString(strings.TrimRight(line, " ") + "\n")
		text = ""
	}
	r.seen = r.off
}

func (r *afdoReader) bytes(n int, field string) []byte {
	if r.err != nil || n > len(r.b)-r.off {
		r.fail(r.off, field)
		return nil
	}
	r.off += n
	return r.b[r.off-n : r.off]
}

func (r *afdoReader) u32(field string) uint32 {
	if b := r.bytes(4, field); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *afdoReader) u64(field string) uint64 {
	if b := r.bytes(8, field); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// list reads the length of a list whose entries are at least size bytes long.
func (r *afdoReader) list(size int, field string) int {
	off := r.off
	n := uint64(r.u32(field))
	if n > uint64(len(r.b)-r.off)/uint64(size) {
		r.fail(off, field)
		return 0
	}
	return int(n)
}

// tag reads the tag of a section and its length, which nobody needs.
func (r *afdoReader) tag(want uint32, field string) {
	off := r.off
	if r.u32(field) != want {
		r.fail(off, field)
	}
	r.u32(field)
	r.note("%s", field)
}

func (r *afdoReader) file() map[string]*function {
	if r.u32("magic") != afdoMagic {
		r.fail(0, "magic")
	}
	r.version = r.u32("version")
	if r.version != 2 && r.version != 3 {
		r.fail(4, "version")
	}
	r.u32("header")
	r.note(".afdo file, version %d", r.version)
	if r.version == 3 {
		r.summary()
	}
	r.readNames()
	funcs := map[string]*function{}
	r.tag(afdoFunctions, "functions")
	n := r.list(20, "functions")
	r.note("%d functions", n)
	for range n {
		off := r.off
		head := r.u64("head count")
		if r.version == 3 {
			r.u64("timestamp")
		}
		r.note("entered %d times", head)
		name, f := r.function(0)
		if r.err != nil {
			return nil
		}
		if funcs[name] != nil {
			r.fail(off, "function "+name+" again")
		}
		f.head = head
		funcs[name] = f
	}
	r.tag(afdoModules, "modules")
	if r.u32("modules") != 0 {
		r.fail(r.off-4, "modules")
	}
	r.note("none")
	r.tag(afdoWorkingSet, "working set")
	r.bytes(12*afdoWorkingSets, "working set")
	if r.off < len(r.b) {
		r.fail(r.off, "end")
	}
	if r.err != nil {
		return nil
	}
	return funcs
}

// summary skips what can be computed from the rest.
func (r *afdoReader) summary() {
	off := r.off
	if r.u32("summary") != afdoSummary {
		r.fail(off, "summary")
	}
	r.note("summary")
	for _, field := range []string{"total", "largest count", "largest head count", "counts", "functions"} {
		n := r.u64(field)
		r.note("%s: %d", field, n)
	}
	off = r.off
	n := r.u64("cutoffs")
	if n > uint64(len(r.b)-r.off)/20 {
		r.fail(off, "cutoffs")
		return
	}
	r.note("%d cutoffs", n)
	for range n {
		cutoff, least, positions := r.u32("cutoff"), r.u64("cutoff"), r.u64("cutoff")
		r.note("%d of 1000000: %d counts of %d and more", cutoff, positions, least)
	}
}

func (r *afdoReader) readNames() {
	r.tag(afdoNames, "names")
	if r.version == 3 {
		n := r.list(5, "files")
		r.note("%d files", n)
		for range n {
			r.note("%s", r.string())
		}
	}
	n := r.list(5, "names")
	r.note("%d names", n)
	for i := range n {
		r.names = append(r.names, r.string())
		if r.version == 3 {
			r.u32("file")
		}
		r.note("%d: %q", i, r.names[i])
	}
}

// string reads a string with its length and the NUL that ends it.
func (r *afdoReader) string() string {
	off := r.off
	b := r.bytes(r.list(1, "string"), "string")
	n := bytes.IndexByte(b, 0)
	if n < 0 || n != len(b)-1 {
		r.fail(off, "string")
		return ""
	}
	return string(b[:n])
}

// name returns the name with an index that was read at off.
func (r *afdoReader) name(off int, i uint64) string {
	if i == 0 || i >= uint64(len(r.names)) || r.names[i] == "" {
		r.fail(off, "name")
		return ""
	}
	return r.names[i]
}

func (r *afdoReader) function(depth int) (name string, f *function) {
	if depth > afdoNested {
		r.fail(r.off, "inlined bodies in one another")
	}
	name = r.name(r.off, uint64(r.u32("name")))
	spots, sites := r.list(16, "positions"), r.list(16, "inlined calls")
	r.note("%s: %d positions, %d inlined calls", name, spots, sites)
	f = newFunction()
	for i := 0; i < spots && r.err == nil; i++ {
		r.position(f)
	}
	for i := 0; i < sites && r.err == nil; i++ {
		off := r.off
		at := r.spot()
		r.note("inlined at %v", at)
		callee, g := r.function(depth + 1)
		if f.inlined[inlinedCall{at, callee}] != nil {
			r.fail(off, "inlined call again")
		}
		f.inlined[inlinedCall{at, callee}] = g
	}
	return name, f
}

// position reads the count of a line and the targets of its calls.
func (r *afdoReader) position(f *function) {
	off := r.off
	at := r.spot()
	if _, ok := f.body[at]; ok {
		r.fail(off, "position again")
	}
	targets := r.list(20, "targets")
	f.body[at] = r.u64("count")
	r.note("%v: %d", at, f.body[at])
	if targets > 0 {
		f.calls[at] = map[string]uint64{}
	}
	for range targets {
		off := r.off
		if r.u32("histogram") != afdoIndirect {
			r.fail(off, "histogram")
		}
		callee := r.name(r.off, r.u64("target"))
		if _, ok := f.calls[at][callee]; ok {
			r.fail(off, "target again")
		}
		f.calls[at][callee] = r.u64("target")
		r.note("  %s: %d", callee, f.calls[at][callee])
		if r.err != nil {
			return
		}
	}
}

func (r *afdoReader) spot() spot {
	n := r.u32("position")
	return spot{offset: uint16(n >> 16), disc: n & 0xffff}
}

// depths has a call through a pointer on a line of several blocks, bodies inlined
// in one another, a constructor, copies that gcc made, and code of nobody.
const depths = sieve + `
func in@90
func deep@95
func _ZN1AC4Ev@70
proc outer@80 x100
block x100
	deep:96<in:91.4<outer:81
	in:92<outer:81.4
	ptr2=outer:82.1 call ? x9
	outer:83 call last x8
	_ZN1AC4Ev:71<outer:83
block x40
	outer:82.2
	_ZN1AC4Ev:72<outer:83
block x0
	outer:84.2
proc outer.part.0@80 x3
block x3
	outer.part.0:85
`

// gccFile returns the .afdo file of a program.
func gccFile(t *testing.T, p *program, gcc int) ([]byte, GCCStats) {
	t.Helper()
	p.producer = fmt.Sprintf("GNU C17 %d.2.0 -O2", gcc)
	var out bytes.Buffer
	st, err := writeGCC(&out, p.view, gcc)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), st
}

// TestAFDODump pins both versions of the format byte by byte.
func TestAFDODump(t *testing.T) {
	for gcc, name := range map[int]string{12: "depths.v2.afdo.dump", 16: "depths.v3.afdo.dump"} {
		p := newProgram(t, depths)
		p.branch(2, 0, "ptr", "helper")
		p.branch(5, 0, "ptr2", "last")
		b, _ := gccFile(t, p, gcc)
		testtool.Golden(t, filepath.Join("testdata", name), dumpAFDO(b))
		version, funcs, err := decodeAFDO(b)
		if err != nil {
			t.Fatal(err)
		}
		if again := encodeAFDO(version, funcs); !bytes.Equal(again, b) {
			t.Errorf("version %d does not survive a round trip:\n%s", version, dumpAFDO(again))
		}
	}
}

// FuzzDecodeAFDO: any bytes give an error, or a tree that survives a round trip.
func FuzzDecodeAFDO(f *testing.F) {
	p := newProgram(f, depths)
	p.branch(2, 0, "ptr", "helper")
	t := newTree()
	t.image(p.view, gccDialect(16))
	f.Add(encodeAFDO(2, t.funcs))
	f.Add(encodeAFDO(3, t.funcs))
	f.Fuzz(func(t *testing.T, b []byte) {
		version, funcs, err := decodeAFDO(b)
		if err != nil {
			if !errors.Is(err, errAFDO) {
				t.Fatal(err)
			}
			return
		}
		_, again, err := decodeAFDO(encodeAFDO(version, funcs))
		if err != nil || !reflect.DeepEqual(funcs, again) {
			t.Fatalf("round trip of %v: %v, %v", funcs, again, err)
		}
	})
}
