package gcov

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"backfeed/sample/bound"
)

// ErrFormat is wrapped by every error that blames the bytes of a file rather than the disk.
var ErrFormat = errors.New("malformed")

// ErrVersion is wrapped where a version of gcc has another format than can be read or written.
var ErrVersion = errors.New("not of this version of gcc")

// A Version is that of the gcc whose files these are, as they have it: four characters, the first of
// which is the most significant byte. "B22*" is 12.2: tens of the major version from 'A' on, its ones,
// the minor version, and what kind of release it is (gcov-iov.c).
type Version uint32

// Versions in which a format changed.
const (
	oldest        = 8  // blocks by number, not by flags; columns
	sinceCwd      = 9  // notes have the directory; data have one summary (gcov.cc)
	sinceZeros    = 11 // counters that are all zero are not written (libgcov-driver.c)
	sinceBytes    = 12 // lengths in bytes; a checksum behind the stamp
	sinceMangling = 9  // data of -fprofile-use=DIR have the whole path in their name (coverage.cc)
)

// Major returns the major version: 12 of "B22*". It is 0 where the characters make no version.
func (v Version) Major() int {
	tens, ones := int(v>>24), int(v>>16&0xff)
	if tens < 'A' || tens > 'Z' || ones < '0' || ones > '9' {
		return 0
	}
	return 10*(tens-'A') + ones - '0'
}

// String returns the version as people write it: "12.2".
func (v Version) String() string {
	minor := v >> 8 & 0xff
	if v.Major() == 0 || minor < '0' || minor > '9' {
		return fmt.Sprintf("%#08x", uint32(v))
	}
	return fmt.Sprintf("%d.%c", v.Major(), minor)
}

// bytes reports whether lengths are in bytes.
func (v Version) bytes() bool { return v.Major() >= sinceBytes }

// The magic numbers of files, whose order of bytes is that of the file.
const (
	magicNotes = 0x67636e6f // "gcno"
	magicData  = 0x67636461 // "gcda"
)

// Tags of records.
const (
	tagFunction = 0x01000000
	tagBlocks   = 0x01410000
	tagArcs     = 0x01430000
	tagLines    = 0x01450000
	tagCounters = 0x01a10000 // of the first kind; each further one is 1<<17 more
	tagSummary  = 0xa1000000
)

// A cursor reads a file. The first failure sticks, and says where and which field.
type cursor struct {
	path    string
	b       []byte
	off     int
	end     int // of what may be read: the file or one record
	order   binary.ByteOrder
	version Version
	names   map[string]string // strings that were read, each once
	in      *bound.Input
	err     error
}

// open reads a file as far as its stamp.
func open(r io.Reader, path string, magic uint32, what string) (c *cursor, stamp uint32, err error) {
	b, err := bound.ReadAll(r)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	c = &cursor{path: path, b: b, end: len(b), names: map[string]string{}, in: bound.Sized(int64(len(b)))}
	switch {
	case len(b) >= 4 && binary.LittleEndian.Uint32(b) == magic:
		c.order = binary.LittleEndian
	case len(b) >= 4 && binary.BigEndian.Uint32(b) == magic:
		c.order = binary.BigEndian
	default:
		return nil, 0, c.fail(0, "magic", "not a file of %s of gcc", what)
	}
	c.off = 4
	c.version = Version(c.u32("version"))
	switch major := c.version.Major(); {
	case c.err != nil:
		return nil, 0, c.err
	case major == 0 || major < oldest:
		return nil, 0, fmt.Errorf("%s: offset 0x4: version %s: files of gcc %d and later can be read: %w", path, c.version, oldest, ErrVersion)
	}
	return c, c.u32("stamp"), c.err
}

// fail records what is wrong with a field; the first one counts.
func (c *cursor) fail(off int, field, format string, args ...any) error {
	if c.err == nil {
		c.err = fmt.Errorf("%s: offset %#x: %s: %s: %w", c.path, off, field, fmt.Sprintf(format, args...), ErrFormat)
	}
	return c.err
}

// left returns how many bytes there are.
func (c *cursor) left() int { return c.end - c.off }

func (c *cursor) u32(field string) uint32 {
	if c.err != nil {
		return 0
	}
	if c.left() < 4 {
		c.fail(c.off, field, "4 bytes, and %d are left", c.left())
		return 0
	}
	n := c.order.Uint32(c.b[c.off:])
	c.off += 4
	return n
}

// number reads one that has to fit an int32: a line, a column, a number of a block.
func (c *cursor) number(field string) int {
	off := c.off
	n := c.u32(field)
	if n >= 1<<31 {
		c.fail(off, field, "%d is too large", n)
		return 0
	}
	return int(n)
}

// i64 reads a counter: the low half comes first in either order of bytes.
func (c *cursor) i64(field string) int64 {
	low := c.u32(field)
	return int64(c.u32(field))<<32 | int64(low)
}

// str reads a string, which is its length and its bytes, padded with NULs.
func (c *cursor) str(field string) string {
	off := c.off
	n := int64(c.u32(field))
	if !c.version.bytes() {
		n *= 4
	}
	if c.err != nil || n == 0 {
		return ""
	}
	if n > int64(c.left()) {
		c.fail(off, field, "a string of %d bytes, and %d are left", n, c.left())
		return ""
	}
	b := c.b[c.off : c.off+int(n)]
	c.off += int(n)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	if s, ok := c.names[string(b)]; ok {
		return s
	}
	s := string(b)
	c.names[s] = s
	return s
}

// A record is a tag and as many bytes as its length says.
type record struct {
	tag   uint32
	off   int // of the tag
	bytes int
	zeros int // bytes of counters that are all zero and not there
}

// record reads the head of the next record and confines the cursor to it; done ends it. It returns
// false at the end of the file, at a tag of 0 and where the cursor has failed.
func (c *cursor) record() (record, bool) {
	c.end = len(c.b)
	if c.err != nil || c.left() == 0 {
		return record{}, false
	}
	r := record{off: c.off, tag: c.u32("tag")}
	if c.err != nil || r.tag == 0 {
		return record{}, false
	}
	at := c.off
	n := int64(int32(c.u32("length")))
	if !c.version.bytes() {
		n *= 4
	}
	switch {
	case n < 0 && counterOf(r.tag) >= 0 && c.version.Major() >= sinceZeros:
		r.zeros = int(-n)
		n = 0
	case n < 0 || n > int64(c.left()):
		c.fail(at, fmt.Sprintf("length of record %#08x", r.tag), "%d bytes, and %d are left", n, c.left())
	}
	if c.err != nil {
		return record{}, false
	}
	r.bytes = int(n)
	c.end = c.off + r.bytes
	return r, true
}

// done goes to the end of a record, of which later versions may have more than was read.
func (c *cursor) done() {
	if c.err == nil {
		c.off = c.end
	}
}
