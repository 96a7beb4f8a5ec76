package sample

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"backfeed/sample/bound"
)

// Fields of profile.proto that ask for a look before the parser of pprof sees them.
const (
	pprofSampleType = 1 // of Profile
	pprofSample     = 2
	pprofLocation   = 4
	pprofLocationID = 1 // of Sample
	pprofValue      = 2
	pprofLabel      = 3
	pprofLine       = 4 // of Location
	pprofString     = 6 // of Profile
	pprofLabelKey   = 1 // of Label
)

// What the parser takes of memory, in bytes, with what becomes of it here.
const (
	pprofMessage = 192 // a message
	pprofField   = 24  // a field of one, or a value
	pprofFrame   = 16  // a location of a sample, for each of the values of a sample and itself
	pprofLabels  = 512 // the maps of a sample that has a label, by string and by number
)

const (
	maxPprofTypes = 256 // values of a sample: a pair for each event
	maxPprofLines = 256 // calls that are inlined at a place: compilers give up at some dozens

	maxPprofLabels = 2 // of one key, of a sample: enough to see that there are several
)

// ParseProfile reads a profile in pprof's format, compressed or not, without the labels
// of its samples. A profile that would take more memory than its size justifies is refused
// before it does.
func ParseProfile(r io.Reader) (*profile.Profile, error) { return parseProfile(r, "") }

// parseProfile is ParseProfile with the labels of samples that have one key, at most
// maxPprofLabels each; "" is none.
func parseProfile(r io.Reader, label string) (*profile.Profile, error) {
	in, r := bound.Stream(r)
	read := &counter{r: r}
	br := bufio.NewReader(read)
	r = br
	if head, _ := br.Peek(len(gzipMagic)); bytes.Equal(head, gzipMagic) {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w: %w", err, ErrFormat)
		}
		r = in.Unpack(z)
	}
	b, err := bound.ReadAll(r)
	if errors.Is(err, io.ErrUnexpectedEOF) { // the file ends within the stream
		err = fmt.Errorf("offset %#x: gzip stream: %w", read.n, err)
	}
	if err == nil {
		b, err = prunePprof(b, in, label)
	}
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseUncompressed(b)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	return p, nil
}

// A counter counts the bytes that were read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// prunePprof leaves the labels out of a profile, but for those of one key ("" is none), and
// draws from in what the rest will take. It writes over b.
func prunePprof(b []byte, in *bound.Input, label string) ([]byte, error) {
	d := pruner{all: b, out: b[:0], in: in}
	if label != "" { // the strings come last, as runtime/pprof writes them
		d.findKey(b, label)
	}
	for rest := b; len(rest) > 0 && d.err == nil; {
		f, next, ok := protoField(rest)
		d.off = len(b) - len(rest)
		if !ok {
			return nil, fmt.Errorf("offset %#x: field of Profile: %w, broken off or changed since it was written", d.off, ErrFormat)
		}
		if f.number == pprofSampleType {
			d.types++
		}
		if d.types > maxPprofTypes {
			d.fail("sample_type", fmt.Errorf("more than %d", maxPprofTypes))
		}
		d.field(f, rest[:len(rest)-len(next)])
		rest = next
	}
	return d.out, d.err
}

// A pruner goes through the fields of a profile. What it keeps takes no more room than
// it had, so that out is the beginning of all.
type pruner struct {
	all, out []byte
	in       *bound.Input
	off      int // of the field in all
	types    int64
	scratch  []byte
	keys     map[uint64]bool // the indexes of the string that labels have to have as key
	err      error
}

// findKey looks for the key of labels among the strings.
func (d *pruner) findKey(b []byte, label string) {
	d.keys = map[uint64]bool{}
	for n := uint64(0); len(b) > 0 && d.err == nil; {
		f, next, ok := protoField(b)
		if !ok {
			return // which prunePprof says
		}
		if f.number == pprofString && !f.isInt {
			if string(f.body) == label {
				d.hold(pprofMessage, "string")
				d.keys[n] = true
			}
			n++
		}
		b = next
	}
}

// isAsked reports whether a label has the key that is asked for.
func (d *pruner) isAsked(label []byte) bool {
	key := uint64(0)
	for len(label) > 0 {
		f, next, ok := protoField(label)
		if !ok {
			return false
		}
		if f.number == pprofLabelKey && f.isInt {
			key = f.value
		}
		label = next
	}
	return d.keys[key]
}

func (d *pruner) fail(field string, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("offset %#x: %s: %w: %w", d.off, field, err, ErrFormat)
	}
}

func (d *pruner) hold(n int64, field string) {
	if err := d.in.Hold(n); err != nil {
		d.fail(field, err)
	}
}

// field takes a field of the profile, whose bytes are whole.
func (d *pruner) field(f protoEntry, whole []byte) {
	switch {
	case f.isInt:
		d.hold(pprofField, "integer")
	case f.number == pprofSample:
		d.sample(f.body)
		return
	case f.number == pprofString:
		d.hold(2*pprofField+int64(len(f.body)), "string")
	default:
		d.message(f)
	}
	d.out = append(d.out, whole...)
}

// message draws for a message or a packed list that is kept as it is.
func (d *pruner) message(f protoEntry) {
	fields, lines := int64(0), 0
	for b := f.body; len(b) > 0; {
		sub, next, ok := protoField(b)
		if !ok {
			fields += int64(len(b)) // packed, or not a message at all: the parser will say
			break
		}
		if fields++; f.number == pprofLocation && sub.number == pprofLine {
			fields += 2
			lines++
		}
		b = next
	}
	if lines > maxPprofLines {
		d.fail("location", fmt.Errorf("%d lines, more than %d", lines, maxPprofLines))
	}
	d.hold(pprofMessage+pprofField*fields, "message")
}

// sample keeps the places and values of a sample, and the labels that are asked for.
func (d *pruner) sample(body []byte) {
	d.scratch = d.scratch[:0]
	var frames, values, labels int64
	for len(body) > 0 && d.err == nil {
		f, next, ok := protoField(body)
		if !ok {
			d.fail("sample", fmt.Errorf("malformed field"))
			return
		}
		switch n := varints(f); f.number {
		case pprofLocationID:
			frames += n
		case pprofValue:
			values += n
		}
		keep := f.number == pprofLocationID || f.number == pprofValue
		if f.number == pprofLabel && labels < maxPprofLabels && d.isAsked(f.body) {
			if labels++; labels == 1 {
				d.hold(pprofLabels, "label")
			}
			d.hold(pprofMessage, "label")
			keep = true
		}
		if keep {
			d.scratch = append(d.scratch, body[:len(body)-len(next)]...)
		}
		body = next
	}
	if values > maxPprofTypes { // before the types are known, if they come last
		d.fail("sample", fmt.Errorf("%d values, more than %d", values, maxPprofTypes))
	}
	d.hold(pprofMessage+pprofField*values+pprofFrame*frames*(1+max(values, d.types)), "sample")
	head := binary.AppendUvarint([]byte{pprofSample<<3 | 2}, uint64(len(d.scratch)))
	d.out = append(append(d.out, head...), d.scratch...)
}

// varints returns how many integers a field has: one, or those that are packed in it.
func varints(f protoEntry) int64 {
	if f.isInt {
		return 1
	}
	n := int64(0)
	for _, c := range f.body {
		if c < 0x80 {
			n++
		}
	}
	return n
}
