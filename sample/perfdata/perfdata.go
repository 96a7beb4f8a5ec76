package perfdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"backfeed/sample"
	"backfeed/sample/unwind"
)

// ErrFormat is wrapped by every error that blames the bytes rather than the disk.
var ErrFormat = errors.New("malformed perf.data")

// Options say what to take from a recording.
type Options struct {
	// StackDepth is how many frames of a call stack are kept, the sampled
	// instruction included: 0 is 8, a negative number is no stacks at all.
	StackDepth int

	// Unwind, if set, returns what is known of an image, or nil: stacks that perf copied (--call-graph dwarf) are unwound
	// by it. Several goroutines call it.
	Unwind func(sample.ImageID) *unwind.Table

	// Warn, if set, is told at the end what the recording cannot be trusted
	// in, one sentence a call.
	Warn func(msg string)

	procs int // processors to use; 0 is GOMAXPROCS
}

// maxWorkers bounds the goroutines that count. What cuts and orders records keeps about four busy.
const maxWorkers = 8

// workers is how many goroutines count samples.
func (opt Options) workers() int {
	if opt.procs == 0 {
		return min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	return opt.procs
}

const defaultStackDepth = 8

// ReadFile reads the recording at path.
func ReadFile(path string, opt Options) (*sample.Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return nil, fmt.Errorf("%s: a directory, as perf record --threads makes: not supported; record without --threads", path)
	}
	rec, err := Read(f, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rec, nil
}

// Read reads a recording. One made for a pipe may come from any reader. One
// made as a file keeps parts of its description at its end, so r must be an
// io.ReaderAt and an io.Seeker as well.
func Read(r io.Reader, opt Options) (*sample.Recording, error) {
	f, seekable, err := section(r)
	if err != nil {
		return nil, err
	}
	if seekable {
		r = f
	}
	var start [16]byte
	if n, err := io.ReadFull(r, start[:]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("offset 0x0: header: cut off after %d bytes: %w", n, ErrFormat)
		}
		return nil, err
	}
	big, err := magic(start[:8])
	if err != nil {
		return nil, err
	}
	rd := newReader(opt, big)
	switch size := order(big).Uint64(start[8:]); {
	case size == pipeHeaderSize:
		err = rd.readPipe(r)
	case !seekable:
		return nil, errors.New("a perf.data file cannot be read from a pipe: only perf record -o - makes one that can")
	default:
		err = rd.readFile(f)
	}
	if err != nil {
		return nil, err
	}
	return rd.recording(), nil
}

// section returns all that is ahead of r for random access, if r allows that.
func section(r io.Reader) (*io.SectionReader, bool, error) {
	f, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !ok {
		return nil, false, nil
	}
	start, err := f.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe, although the type can seek
		return nil, false, nil
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, false, err
	}
	return io.NewSectionReader(f, start, end-start), true, nil
}

// magic tells the byte order of a recording by its first 8 bytes.
func magic(b []byte) (big bool, err error) {
	switch {
	case bytes.Equal(b, []byte("PERFILE2")):
		return false, nil
	case bytes.Equal(b, []byte("2ELIFREP")):
		return true, nil
	case bytes.HasPrefix(b, []byte("PERFFILE")):
		return false, fmt.Errorf("offset 0x0: magic: a file of perf before Linux 3.0: %w", ErrFormat)
	}
	return false, fmt.Errorf("offset 0x0: magic: %q is none of perf's: %w", b, ErrFormat)
}

// A cursor takes the fields of a record one by one. The first that is not there
// sticks in err, and reads as 0.
type cursor struct {
	b   []byte
	off int
	big bool
	err error
}

func order(big bool) binary.ByteOrder {
	if big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// has reports whether n more bytes are there.
func (c *cursor) has(n uint64, field string) bool {
	if left := uint64(len(c.b) - c.off); n > left {
		if c.err == nil {
			c.err = fmt.Errorf("%s: %d bytes, %d are left: %w", field, n, left, ErrFormat)
		}
		c.off = len(c.b)
		return false
	}
	return true
}

func (c *cursor) u64(field string) uint64 {
	if !c.has(8, field) {
		return 0
	}
	b := c.b[c.off:]
	c.off += 8
	if c.big {
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

func (c *cursor) u32(field string) uint32 {
	if !c.has(4, field) {
		return 0
	}
	b := c.b[c.off:]
	c.off += 4
	if c.big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

// bytes returns the next n bytes, or nil.
func (c *cursor) bytes(n uint64, field string) []byte {
	if !c.has(n, field) {
		return nil
	}
	b := c.b[c.off : c.off+int(n)]
	c.off += int(n)
	return b
}

// array returns the bytes of the next n elements of size bytes each, or nil.
func (c *cursor) array(n, size uint64, field string) []byte {
	if left := uint64(len(c.b) - c.off); n > left/size {
		if c.err == nil {
			c.err = fmt.Errorf("%s: %d entries of %d bytes, %d bytes are left: %w", field, n, size, left, ErrFormat)
		}
		c.off = len(c.b)
		return nil
	}
	return c.bytes(n*size, field)
}

// string returns a string that a zero ends.
func (c *cursor) string(field string) string {
	i := bytes.IndexByte(c.b[c.off:], 0)
	if i < 0 {
		if c.err == nil {
			c.err = fmt.Errorf("%s: no zero at its end: %w", field, ErrFormat)
		}
		c.off = len(c.b)
		return ""
	}
	s := string(c.b[c.off : c.off+i])
	c.off += i + 1
	return s
}
