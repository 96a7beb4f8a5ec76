// Package wire reads and writes the fields that the files of package sample and
// of its store are made of, and what is kept of an inference. An integer is a uvarint of encoding/binary in its
// shortest form; a string is its length and so many bytes; a list is its length
// and so many entries. What the fields mean is said where they are put together.
package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Castagnoli is the table of the checksums, CRC-32C.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the checksum of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, Castagnoli) }

// Extend returns the checksum of what sum is of and b behind it.
func Extend(sum uint32, b []byte) uint32 { return crc32.Update(sum, Castagnoli, b) }

// A Writer appends fields to B.
type Writer struct{ B []byte }

func (w *Writer) Uint(v uint64)   { w.B = binary.AppendUvarint(w.B, v) }
func (w *Writer) Int(v int)       { w.Uint(uint64(v)) }
func (w *Writer) String(s string) { w.Int(len(s)); w.B = append(w.B, s...) }

// A Reader reads fields from B. The first failure sticks; after it, every number
// is 0 and every list is empty.
type Reader struct {
	B      []byte
	Off    int           // of the next field, in B
	Base   int64         // offset of B in the file, for people to read
	Format error         // what an error wraps that blames the bytes
	Err    error         // the first failure
	Dump   *bytes.Buffer // annotations, if they are asked for
	seen   int           // end of what has been annotated
}

// Left is the number of bytes that have not been read.
func (r *Reader) Left() int { return len(r.B) - r.Off }

// Fail blames the field that starts at offset off of B.
func (r *Reader) Fail(off int, field string) {
	if r.Err == nil {
		r.Err = fmt.Errorf("offset %#x: %s: %w", r.Base+int64(off), field, r.Format)
	}
}

// Dumps says whether Note has anything to do: its arguments cost more than what it annotates.
func (r *Reader) Dumps() bool { return r.Dump != nil }

// Note annotates the bytes read since the note before.
func (r *Reader) Note(format string, args ...any) {
	if r.Dump == nil || r.Err != nil {
		return
	}
	const row = 12 // bytes in a line
	text := fmt.Sprintf(format, args...)
	for start := r.seen; start < r.Off; start += row {
		line := fmt.Sprintf("%04x  %-*x  %s", r.Base+int64(start), 2*row, r.B[start:min(start+row, r.Off)], text)
		r.Dump.Write(append(bytes.TrimRight([]byte(line), " "), '\n'))
		text = ""
	}
	r.seen = r.Off
}

// Bytes reads n bytes; nil after a failure.
func (r *Reader) Bytes(n int, field string) []byte {
	if r.Err != nil || n > r.Left() {
		r.Fail(r.Off, field)
		return nil
	}
	r.Off += n
	return r.B[r.Off-n : r.Off]
}

// Uint reads one integer of at most limit.
func (r *Reader) Uint(limit uint64, field string) uint64 {
	if r.Err != nil {
		return 0
	}
	if r.Off < len(r.B) && r.B[r.Off] < 0x80 && uint64(r.B[r.Off]) <= limit { // as most are
		r.Off++
		return uint64(r.B[r.Off-1])
	}
	v, n := binary.Uvarint(r.B[r.Off:])
	if n <= 0 || v > limit || n > 1 && r.B[r.Off+n-1] == 0 { // the last: not the shortest form
		r.Fail(r.Off, field)
		return 0
	}
	r.Off += n
	return v
}

// Len reads the length of what has at least size bytes an entry.
func (r *Reader) Len(size int, field string) int {
	return int(r.Uint(uint64(r.Left()/size), field))
}

// List reads the length of a list whose entries are at least size bytes long.
func (r *Reader) List(size int, field string) int {
	n := r.Len(size, field)
	r.Note("%s: %d", field, n)
	return n
}

// String reads a string.
func (r *Reader) String(field string) string { return string(r.Bytes(r.Len(1, field), field)) }
