package feedback

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"backfeed/sample/bound"
)

const (
	flagCompressed = 1       // of any section: it is its size, its size compressed, and what zlib made of it
	flagMD5        = 1 << 32 // of the names: each is a uleb128, the hash of a name
	flagFixedMD5   = 2 << 32 // each is 8 bytes, the hash of a name

	// knownSummary are the flags of a summary that leave functions as they are: that
	// the profile is partial, flagFS, and that its inlining was chosen beforehand.
	knownSummary = flagCompressed | 1<<32 | flagFS | 16<<32

	maxGrowth  = 100 // bytes of all sections, decompressed, for each byte of the file; a profile of SQLite has 1.9
	maxInlined = 256 // calls that a body is inlined through; compilers give up at some dozens
)

// readLLVMBinary reads the functions that have counts. It reads them one after the
// other, as LLVM's tools do: the table of where each begins is for compilers,
// which read those that they compile.
func readLLVMBinary(b []byte) (map[string]*function, error) {
	d := &llvmDecoder{b: b, in: bound.Sized(int64(len(b))), room: maxGrowth * uint64(len(b))}
	if kind := d.uvarint("magic") & 0xff; kind != llvmMagic&0xff {
		return nil, fmt.Errorf("offset 0x0: magic: binary of another kind, %#x; llvm-profdata merge --sample --extbinary converts it: %w", kind, ErrUnfit)
	}
	if v := d.uvarint("version"); v != llvmVersion {
		d.fail("version %d, want %d", v, llvmVersion)
	}
	n := d.fixed("number of sections")
	d.atMost(n, 32, "sections")
	sections := map[uint64][]*llvmDecoder{}
	for range n {
		kind, flags := d.fixed("section's type"), d.fixed("section's flags")
		if s := d.section(kind, flags); s != nil {
			sections[kind] = append(sections[kind], s)
		}
		if d.err != nil {
			return nil, d.err
		}
	}
	if d.err == nil && len(sections[secBodies]) == 0 {
		d.fail("no section of functions")
	}
	r := llvmReader{funcs: map[string]*function{}}
	stages := []struct {
		kind uint64
		read func(*llvmDecoder)
	}{{secSummary, r.summary}, {secNames, r.nameTable}, {secBodies, r.functions}}
	for _, stage := range stages {
		for _, s := range sections[stage.kind] {
			if d.err != nil {
				return nil, d.err
			}
			stage.read(s)
			d.err = s.err
		}
	}
	return r.funcs, d.err
}

// An llvmReader adds what is in sections.
type llvmReader struct {
	names []string
	funcs map[string]*function
}

// summary refuses profiles whose functions are written otherwise.
func (r *llvmReader) summary(d *llvmDecoder) {
	if unknown := d.flags &^ knownSummary; unknown != 0 {
		d.fail("flags %#x of the summary: not a profile by function (has calling contexts or types)", unknown)
	}
}

func (r *llvmReader) nameTable(d *llvmDecoder) {
	least := uint64(1)
	if d.flags&flagFixedMD5 != 0 {
		least = 8
	}
	n := d.uvarint("number of names")
	d.atMost(n, least, "names")
	for range n {
		if d.err != nil {
			return
		}
		switch {
		case d.flags&flagFixedMD5 != 0:
			r.names = append(r.names, strconv.FormatUint(d.fixed("name's hash"), 10))
		case d.flags&flagMD5 != 0:
			r.names = append(r.names, strconv.FormatUint(d.uvarint("name's hash"), 10))
		default:
			r.names = append(r.names, d.str("name"))
		}
	}
}

func (r *llvmReader) functions(d *llvmDecoder) {
	for d.err == nil && d.off < len(d.b) {
		head := d.uvarint("entries")
		f := childOf(r.funcs, r.name(d, "function"))
		f.head = addCounts(f.head, head)
		d.hold(functionMemory, "function")
		r.body(d, f, 0, 0)
	}
}

// body reads a function after its name, or a body that was inlined so deep, by calls
// whose names are so long.
func (r *llvmReader) body(d *llvmDecoder, f *function, depth, path int) {
	if depth > maxInlined {
		d.fail("calls inlined through more than %d", maxInlined)
		return
	}
	f.total = addCounts(f.total, d.uvarint("total"))
	for lines := d.uvarint("number of lines"); lines > 0 && d.err == nil; lines-- {
		at := d.spot()
		d.hold(lineMemory, "line")
		f.body[at] = addCounts(f.body[at], d.uvarint("count"))
		for calls := d.uvarint("number of targets"); calls > 0 && d.err == nil; calls-- {
			callee := r.name(d, "target")
			d.hold(targetMemory, "target")
			f.addCall(at, callee, d.uvarint("target's count"))
		}
	}
	for calls := d.uvarint("number of inlined calls"); calls > 0 && d.err == nil; calls-- {
		c := inlinedCall{d.spot(), r.name(d, "inlined function")}
		path := path + len(c.callee) + pathStep
		if d.hold(functionMemory+2*path, "path of an inlined call"); d.err != nil {
			return
		}
		r.body(d, childOf(f.inlined, c), depth+1, path)
	}
}

func (r *llvmReader) name(d *llvmDecoder, field string) string {
	i := d.uvarint(field)
	if i >= uint64(len(r.names)) {
		d.fail("%s: name %d of %d", field, i, len(r.names))
		return ""
	}
	return r.names[i]
}

// An llvmDecoder reads the fields of a file or section. Its first failure sticks.
type llvmDecoder struct {
	b     []byte // up to the end of what is decoded
	off   int    // of the next field in b
	flags uint64 // of the section
	room  uint64 // bytes that this section and those after it may have
	where string // " in section 2, decompressed", if offsets are not the file's
	in    *bound.Input
	err   error
}

func (d *llvmDecoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("offset %#x%s: %s: %w", d.off, d.where, fmt.Sprintf(format, args...), ErrUnfit)
	}
}

// hold draws what something takes of memory.
func (d *llvmDecoder) hold(n int, field string) {
	if err := d.in.Hold(int64(n)); err != nil && d.err == nil {
		d.err = fmt.Errorf("offset %#x%s: %s: %w: %w", d.off, d.where, field, err, ErrUnfit)
	}
}

// atMost refuses a number of things that the bytes left, of so many each, cannot hold.
func (d *llvmDecoder) atMost(n, bytes uint64, what string) {
	if room := uint64(len(d.b)-d.off) / bytes; n > room {
		d.fail("%d %s, there is room for %d", n, what, room)
	}
}

func (d *llvmDecoder) uvarint(field string) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 {
		d.fail("%s: cut off or too large", field)
		return 0
	}
	d.off += n
	return v
}

func (d *llvmDecoder) fixed(field string) uint64 {
	if d.err != nil {
		return 0
	}
	if len(d.b)-d.off < 8 {
		d.fail("%s: cut off", field)
		return 0
	}
	d.off += 8
	return binary.LittleEndian.Uint64(d.b[d.off-8:])
}

func (d *llvmDecoder) str(field string) string {
	i := bytes.IndexByte(d.b[d.off:], 0)
	if i < 0 {
		d.fail("%s: no zero at its end", field)
		return ""
	}
	d.off += i + 1
	return string(d.b[d.off-i-1 : d.off-1])
}

func (d *llvmDecoder) spot() spot {
	offset := d.uvarint("line")
	if offset > 1<<16-1 {
		d.fail("line %d is beyond 65535", offset)
	}
	return spot{offset: uint16(offset), disc: uint32(d.uvarint("discriminator"))}
}

// section reads where a section is, and returns it, decompressed; nil if it is empty.
func (d *llvmDecoder) section(kind, flags uint64) *llvmDecoder {
	at, size := d.fixed("section's offset"), d.fixed("section's size")
	if at > uint64(len(d.b)) || size > uint64(len(d.b))-at {
		d.fail("section of type %d: %d bytes at %#x, the file has %d", kind, size, at, len(d.b))
	}
	if d.err != nil || size == 0 {
		return nil
	}
	s := &llvmDecoder{b: d.b[:at+size], off: int(at), flags: flags, in: d.in, room: d.room}
	if flags&flagCompressed != 0 {
		s.inflate(kind)
	} else {
		s.occupy(size)
	}
	d.room, d.err = s.room, s.err
	return s
}

// occupy refuses sections that are many times the file: they lie in each other, or
// are made to fill memory.
func (d *llvmDecoder) occupy(size uint64) {
	if size > d.room {
		d.fail("%d bytes in a section, there is room for %d", size, d.room)
		return
	}
	d.room -= size
}

// inflate decompresses a section.
func (d *llvmDecoder) inflate(kind uint64) {
	size, packed := d.uvarint("size"), d.uvarint("compressed size")
	d.atMost(packed, 1, "compressed bytes")
	d.occupy(size)
	d.hold(int(min(size, 1<<40)), "size")
	if d.err != nil {
		return
	}
	var out bytes.Buffer
	z, err := zlib.NewReader(bytes.NewReader(d.b[d.off : d.off+int(packed)]))
	if err == nil {
		_, err = io.Copy(&out, io.LimitReader(z, int64(size)+1))
	}
	if err == nil && uint64(out.Len()) != size {
		err = fmt.Errorf("not the %d bytes that it says", size)
	}
	if err != nil {
		d.fail("section of type %d: %v", kind, err)
		return
	}
	d.b, d.off, d.where = out.Bytes(), 0, fmt.Sprintf(" in section %d, decompressed", kind)
}
