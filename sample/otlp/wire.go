package otlp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"backfeed/sample/bound"
)

// ErrFormat is wrapped by every error that blames the bytes rather than the disk.
var ErrFormat = errors.New("malformed OTLP profiles, or of another version than v1development of opentelemetry-proto 1.9 to 1.11")

// Types of fields on the wire (https://protobuf.dev/programming-guides/encoding).
const (
	wireVarint = 0
	wireI64    = 1
	wireLen    = 2
	wireI32    = 5
)

// A reader reads one message, in either encoding.
type reader struct {
	in      *bound.Input
	unknown map[string]uint64 // fields that no version known here has
}

// maxUnknown bounds the names of unknown fields that are kept: a hostile message has any number.
const maxUnknown = 16

func (r *reader) noteUnknown(field string) {
	if _, ok := r.unknown[field]; !ok && len(r.unknown) >= maxUnknown {
		field = "others"
	}
	if r.unknown == nil {
		r.unknown = map[string]uint64{}
	}
	r.unknown[field]++
}

// maxElements is the most that a list of integers may have: that of places in tables.
const maxElements = 1<<31 - 1

// proto reads b into m. path names m, base is where b begins in the file.
func (r *reader) proto(m node, b []byte, path string, base int64) error {
	for off := 0; off < len(b); {
		fail := func(field string, err error) error {
			if field != "" {
				field = path + "." + field
			} else {
				field = path
			}
			return fmt.Errorf("offset %#x: %s: %w: %w", base+int64(off), field, err, ErrFormat)
		}
		key, n := binary.Uvarint(b[off:])
		number := key >> 3
		if n <= 0 || number == 0 || number > 1<<29-1 {
			return fail("", errors.New("no number of a field"))
		}
		name, to := "", any(nil)
		if number <= uint64(m.fields()) {
			name, to = m.field(int(number))
		}
		if to == nil {
			name = fmt.Sprintf("field %d", number)
		}
		wire, start := key&7, off+n
		var value uint64
		var body []byte
		next := start
		switch wire {
		case wireVarint:
			if value, n = binary.Uvarint(b[start:]); n <= 0 {
				return fail(name, errors.New("cut off"))
			}
			next = start + n
		case wireI64, wireI32:
			size := 8
			if wire == wireI32 {
				size = 4
			}
			if len(b)-start < size {
				return fail(name, fmt.Errorf("%d bytes, %d are left", size, len(b)-start))
			}
			if next = start + size; size == 8 {
				value = binary.LittleEndian.Uint64(b[start:])
			}
		case wireLen:
			size, n := binary.Uvarint(b[start:])
			if n <= 0 {
				return fail(name, errors.New("cut off"))
			}
			if start += n; size > uint64(len(b)-start) {
				return fail(name, fmt.Errorf("%d bytes, %d are left", size, len(b)-start))
			}
			next = start + int(size)
			body = b[start:next]
		default:
			return fail(name, fmt.Errorf("no type of a field: %d", wire))
		}
		var err error
		switch to := to.(type) {
		case nil:
			r.noteUnknown(path + ", " + name)
		case skipped:
		case node:
			if wire == wireLen {
				err = r.proto(to, body, path+"."+name, base+int64(start))
				if err != nil {
					return err
				}
			} else {
				err = wrongWire(wire, wireLen)
			}
		case grower:
			if wire != wireLen {
				err = wrongWire(wire, wireLen)
				break
			}
			element, bad := to.grow(r.in)
			if bad != nil {
				return fail(name, bad)
			}
			if err := r.proto(element, body, path+"."+name, base+int64(start)); err != nil {
				return err
			}
		default:
			err = r.scalar(to, wire, value, body)
		}
		if err != nil {
			return fail(name, err)
		}
		off = next
	}
	return nil
}

func wrongWire(got, want uint64) error { return fmt.Errorf("type %d on the wire, want %d", got, want) }

// scalar reads a field that is no message.
func (r *reader) scalar(to any, wire, value uint64, body []byte) error {
	want := uint64(wireVarint)
	switch to := to.(type) {
	case *uint64:
		*to = value
	case *int64:
		*to = int64(value)
	case *int32:
		*to = int32(value)
	case *fixed64:
		want, *to = wireI64, fixed64(value)
	case *string:
		if want = wireLen; wire == want {
			if err := r.in.Hold(int64(len(body))); err != nil {
				return err
			}
			*to = string(body)
		}
	case *[]string:
		if want = wireLen; wire == want {
			if err := r.in.Hold(2*stringSize + int64(len(body))); err != nil {
				return err
			}
			*to = append(*to, string(body))
		}
	case *times: // packed or not
		switch {
		case wire == wireI64:
			*to++
		case wire == wireLen && len(body)%8 == 0:
			*to += times(len(body) / 8)
		default:
			return fmt.Errorf("type %d on the wire and %d bytes, want 8 for each", wire, len(body))
		}
		return nil
	case *[]int32:
		return integers(r.in, to, wire, value, body, 4)
	case *[]int64:
		return integers(r.in, to, wire, value, body, 8)
	}
	if wire != want {
		return wrongWire(wire, want)
	}
	return nil
}

const stringSize = 16 // bytes, without those of the string

// integers reads a list of them, packed or not.
func integers[T int32 | int64](in *bound.Input, to *[]T, wire, value uint64, body []byte, size int64) error {
	if wire == wireVarint {
		if err := in.Hold(2 * size); err != nil {
			return err
		}
		*to = append(*to, T(value))
		return nil
	}
	if wire != wireLen {
		return wrongWire(wire, wireLen)
	}
	n := 0
	for _, c := range body {
		if c < 0x80 {
			n++
		}
	}
	if err := in.Hold(int64(n) * size); err != nil {
		return err
	}
	if *to == nil {
		*to = make([]T, 0, n)
	}
	for len(body) > 0 {
		v, n := binary.Uvarint(body)
		if n <= 0 {
			return errors.New("cut off in a list")
		}
		*to = append(*to, T(v))
		body = body[n:]
	}
	return nil
}
