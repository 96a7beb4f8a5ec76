package bound

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// ErrBeyond is wrapped by every error about a file that asks for more than its size
// justifies, or than the process has memory for.
var ErrBeyond = errors.New("out of proportion")

// The two rules. Real files stay far below both: gzip and zstd make a fourth to a
// tenth of what perf, pprof, callgrind and compilers write, where deflate can make a
// thousandth and zstd a 30,000th; pprof's parser, the greediest of readers, takes 8
// bytes for each byte of an uncompressed profile, which is 40 for one that gzip stored.
const (
	unpackFloor = 16 << 20
	unpackRate  = 64 // bytes for each byte of a file
	holdFloor   = 64 << 20
	holdRate    = 128 // bytes of memory for each byte of a file
)

// An Input is a file, or a part of one, that a reader reads. Its methods may be called
// from several goroutines at once. Nil has no bounds but the memory of the process.
type Input struct {
	size atomic.Int64 // bytes of the file, as far as they were seen
	held atomic.Int64 // bytes of memory for what it holds
	most int64        // of held, where that is not by the size of the file; 0 is none
}

// Sized is the Input of a file of so many bytes.
func Sized(size int64) *Input {
	in := &Input{}
	in.size.Store(size)
	return in
}

// Capped is the Input of a file of so many bytes, for which at most so many bytes of memory may be held.
func Capped(size, most int64) *Input {
	in := Sized(size)
	in.most = most
	return in
}

// Stream is the Input of a file whose size shows as it is read through the reader that
// Stream returns.
func Stream(r io.Reader) (*Input, io.Reader) {
	in := &Input{}
	return in, &counter{r, in}
}

type counter struct {
	r  io.Reader
	in *Input
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.in.size.Add(int64(n))
	return n, err
}

// Grow says that the file has n bytes more than was known.
func (in *Input) Grow(n int64) { in.size.Add(n) }

// Add says that o is read for the same purpose: its bytes justify what both hold.
func (in *Input) Add(o *Input) {
	in.size.Add(o.size.Load())
	in.held.Add(o.held.Load())
}

// Unpacked returns how many bytes the file may unpack to, as far as it was read.
func (in *Input) Unpacked() int64 { return scale(in.size.Load(), unpackRate, unpackFloor) }

// Unpacks refuses a size to unpack that a header claims, if it is out of proportion.
func (in *Input) Unpacks(size uint64) error {
	if size > uint64(in.Unpacked()) {
		return in.tooMuch("unpacked", int64(min(size, 1<<62)))
	}
	return nil
}

// Unpack returns a reader of what z, a decompressor of the file, unpacks: it fails where
// that is out of proportion.
func (in *Input) Unpack(z io.Reader) io.Reader { return &unpacker{z: z, in: in} }

type unpacker struct {
	z   io.Reader
	in  *Input
	off int64
}

func (u *unpacker) Read(b []byte) (int, error) {
	n, err := u.z.Read(b)
	if u.off += int64(n); u.off > u.in.Unpacked() {
		return 0, u.in.tooMuch("unpacked", u.off)
	}
	return n, err
}

// Hold draws n bytes of memory, before they are allocated.
func (in *Input) Hold(n int64) error {
	if in != nil {
		held := in.held.Add(n)
		most := in.most
		if most == 0 {
			most = scale(in.size.Load(), holdRate, holdFloor)
		}
		if held > most {
			in.held.Add(-n)
			return in.tooMuch("of memory", held)
		}
	}
	return Memory(n)
}

// Held returns the bytes of memory that were drawn.
func (in *Input) Held() int64 { return in.held.Load() }

// Release returns n bytes that were drawn and are held no more.
func (in *Input) Release(n int64) {
	if in != nil {
		in.held.Add(-n)
	}
}

func (in *Input) tooMuch(what string, n int64) error {
	return fmt.Errorf("%s %s for %s of the file: %w", Bytes(n), what, Bytes(in.size.Load()), ErrBeyond)
}

// scale is floor + rate*size, which sizes that a header claims do not make wrap.
func scale(size, rate, floor int64) int64 {
	if size > (1<<62)/rate {
		return 1 << 62
	}
	return floor + rate*max(size, 0)
}

// Bytes writes a number of bytes for people.
func Bytes(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// ReadAll is io.ReadAll, of no more than the process has memory for.
func ReadAll(r io.Reader) ([]byte, error) {
	size := int64(512)
	if f, ok := r.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			size = max(size, st.Size()+1) // with room to see its end
		}
	}
	if err := Memory(size); err != nil {
		return nil, err
	}
	b := make([]byte, 0, size)
	for {
		if len(b) == cap(b) {
			if err := Memory(2 * int64(cap(b))); err != nil {
				return nil, err
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
