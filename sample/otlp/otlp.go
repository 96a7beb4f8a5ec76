package otlp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"backfeed/sample"
	"backfeed/sample/bound"
)

// Options say what to take from profiles.
type Options struct {
	// StackDepth is how many frames of a call stack are kept, the sampled
	// instruction included: 0 is 8, a negative number is no stacks at all.
	StackDepth int

	// Warn, if set, is told at the end what the profiles cannot be trusted
	// in, one sentence a call.
	Warn func(msg string)

	// Offset, if set, returns where an address as linked is in the file of an image: it is asked where a
	// mapping does not tell.
	Offset func(id sample.ImageID, address uint64) (sample.Offset, bool)
}

const defaultStackDepth = 8

func (o Options) depth() int {
	switch {
	case o.StackDepth == 0:
		return defaultStackDepth
	case o.StackDepth > 0:
		return o.StackDepth
	}
	return 0
}

// maxMessage bounds a message in a file, in bytes. The collector begins another file at 100 MB. No file of
// messages with their lengths begins like a message, for this is less than the first byte of one can say.
const maxMessage = 128 << 20

// Read reads a file of profiles, as the collector's file exporter writes it, or the body of a request: in JSON,
// one message after another; in protobuf, one message, or any number with their lengths in front, as 4 bytes,
// big-endian. The file, or each message with a length, may be compressed with zstd, and the file with gzip.
//
// A file that ends in the middle of a message, but the first, is read up to there.
func Read(r io.Reader, opt Options) (*sample.Recording, error) {
	in, r := bound.Stream(r)
	f := &file{in: in, notes: &notes{}, all: &sample.Recording{}}
	f.converter = converter{opt: opt, depth: opt.depth(), all: f.all, notes: f.notes, named: &builds{}}
	err := f.read(bufio.NewReaderSize(r, 1<<16), true)
	if f.messages > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
		f.notes.cut, err = true, nil
	}
	if err != nil {
		return nil, fmt.Errorf("OTLP: %w", err)
	}
	if opt.Warn != nil {
		for _, msg := range f.notes.warnings() {
			opt.Warn(msg)
		}
	}
	if n := f.notes; n.profiles > 0 && n.rejected == n.profiles {
		return nil, fmt.Errorf("OTLP: %w, only of %s: want one whose sample type is samples/count", errNoProfile, strings.Join(sorted(n.others), ", "))
	}
	return sample.Merge(f.all), nil
}

// A file is one that is read.
type file struct {
	converter
	in       *bound.Input
	all      *sample.Recording
	notes    *notes
	m        profilesData // the last one
	messages int          // that were read
}

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// read reads what may be compressed, if packed is set.
func (f *file) read(r *bufio.Reader, packed bool) error {
	head, err := r.Peek(5)
	switch {
	case len(head) == 0 && err == io.EOF:
		return fmt.Errorf("offset 0x0: empty: %w", ErrFormat)
	case len(head) == 0:
		return err
	case packed && bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(r)
		if err != nil {
			return fmt.Errorf("gzip: %w: %w", err, ErrFormat)
		}
		return f.read(bufio.NewReaderSize(f.in.Unpack(unpacking{z, "gzip"}), 1<<16), false)
	case packed && bytes.HasPrefix(head, zstdMagic):
		z, err := newZstd(r)
		if err != nil {
			return err
		}
		defer z.Close()
		return f.read(bufio.NewReaderSize(f.in.Unpack(unpacking{z, "zstd"}), 1<<16), false)
	case isMessage(head):
		b, err := bound.ReadAll(r)
		if err != nil {
			return err
		}
		return f.message(b, 0)
	case bytes.ContainsRune([]byte("{ \t\r\n"), rune(head[0])):
		return f.lines(r, 0)
	}
	return f.lengths(r)
}

// isMessage reports whether a message in protobuf begins with head: with one of its two fields.
func isMessage(head []byte) bool { return head[0] == 1<<3|wireLen || head[0] == 2<<3|wireLen }

// maxWindow bounds what zstd holds of what it has unpacked.
const maxWindow = 64 << 20

func newZstd(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// unpacking says of errors that they are of what is unpacked, and blame the bytes.
type unpacking struct {
	io.Reader
	what string
}

func (u unpacking) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	var disk interface{ Timeout() bool } // all errors of files and connections have it
	if err != nil && err != io.EOF && !errors.As(err, &disk) {
		err = fmt.Errorf("%s: %w: %w", u.what, err, ErrFormat)
	}
	return n, err
}

// lines reads messages in JSON. They begin at base of the file.
func (f *file) lines(r io.Reader, base int64) error {
	j := jsonReader{reader: reader{in: f.in}, dec: json.NewDecoder(r), base: base}
	j.dec.UseNumber()
	defer func() { f.learn(j.unknown) }()
	for {
		f.m = profilesData{}
		start := j.dec.InputOffset()
		held := f.in.Held()
		if err := j.next(&f.m, "profiles"); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := f.add(&f.m, base+start); err != nil {
			return err
		}
		f.in.Release(f.in.Held() - held)
	}
}

// message reads one message in protobuf, which begins at base of the file.
func (f *file) message(b []byte, base int64) error {
	f.m = profilesData{}
	r := reader{in: f.in}
	held := f.in.Held()
	defer func() {
		f.learn(r.unknown)
		f.in.Release(f.in.Held() - held)
	}()
	if err := r.proto(&f.m, b, "profiles", base); err != nil {
		return err
	}
	return f.add(&f.m, base)
}

func (f *file) learn(unknown map[string]uint64) {
	for _, name := range sorted(unknown) {
		count(&f.notes.unknown, name, unknown[name])
	}
}

// add counts what a message at base of the file says.
func (f *file) add(m *profilesData, base int64) error {
	if err := f.converter.message(m); err != nil {
		return fmt.Errorf("message at offset %#x: %w", base, err)
	}
	f.messages++
	return nil
}

// lengths reads messages that have their lengths in front of them.
func (f *file) lengths(r io.Reader) error {
	var buf bytes.Buffer
	for off := int64(0); ; {
		var head [4]byte
		if n, err := io.ReadFull(r, head[:]); err == io.EOF {
			return nil
		} else if err == io.ErrUnexpectedEOF {
			return fmt.Errorf("offset %#x: length: %d bytes, want 4: %w: %w", off, n, err, ErrFormat)
		} else if err != nil {
			return err
		}
		size := int64(binary.BigEndian.Uint32(head[:]))
		if size == 0 || size > maxMessage {
			return fmt.Errorf("offset %#x: length: %d bytes, want 1 to %d: %w", off, size, maxMessage, ErrFormat)
		}
		off += int64(len(head))
		if err := bound.Memory(2 * size); err != nil {
			return err
		}
		buf.Reset()
		if n, err := io.CopyN(&buf, r, size); err == io.EOF {
			return fmt.Errorf("offset %#x: message: %d bytes, %d are left: %w: %w", off, size, n, io.ErrUnexpectedEOF, ErrFormat)
		} else if err != nil {
			return err
		}
		b, err := buf.Bytes(), error(nil)
		if bytes.HasPrefix(b, zstdMagic) {
			if b, err = f.inflate(b); err != nil {
				return fmt.Errorf("offset %#x: %w", off, err)
			}
		}
		if len(b) > 0 && b[0] == '{' {
			err = f.lines(bytes.NewReader(b), off)
		} else {
			err = f.message(b, off)
		}
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) { // of a message that is whole
				err = fmt.Errorf("%s: %w", err, ErrFormat)
			}
			return err
		}
		off += size
	}
}

// inflate unpacks one message.
func (f *file) inflate(b []byte) ([]byte, error) {
	z, err := newZstd(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return bound.ReadAll(f.in.Unpack(unpacking{z, "zstd"}))
}
