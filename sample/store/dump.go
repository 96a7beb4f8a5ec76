package store

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
)

// Dump lists the fields of a segment for people to read: offset, bytes and
// meaning. It stops with a message where the bytes make no sense.
func Dump(b []byte) []byte {
	out := &bytes.Buffer{}
	if err := dump(out, b); err != nil {
		fmt.Fprintln(out, err)
	}
	return out.Bytes()
}

func dump(out *bytes.Buffer, b []byte) error {
	r := bytes.NewReader(b)
	dir, enc, err := readDirectory(r, r.Size())
	if err != nil {
		return err
	}
	part := func(b []byte, base int64) *decoder {
		d := newDecoder(b, base)
		d.Dump = out
		return d
	}
	head := part(b[:len(magic)], 0)
	head.Bytes(len(magic), "magic")
	head.Note("magic")
	for _, bl := range dir.blocks {
		plain, err := readBlock(r, bl)
		if err != nil {
			return err
		}
		d := part(plain, bl.off)
		switch {
		case bl.kind == kindSamples && bl.stored == bl.plain:
			fmt.Fprintf(out, "samples of %s\n", dir.image(bl))
			d.dumpSamples()
		default:
			d.B, d.Off = b[bl.off:bl.off+int64(bl.stored)], bl.stored
			d.Note("kind %d of %s, %d bytes", bl.kind, cmp.Or(dir.image(bl).String(), "no image"), bl.plain)
		}
		if d.Err != nil {
			return d.Err
		}
	}
	fmt.Fprintln(out, "directory")
	part(enc, r.Size()-trailerSize-int64(len(enc))).directory(dir.piece)
	end := part(b[len(b)-trailerSize:], r.Size()-trailerSize)
	for _, field := range []string{"length of the directory", "checksum of the directory", "magic"} {
		end.Bytes(4, field)
		end.Note("%s", field)
	}
	return nil
}

// dumpSamples annotates a block of samples that columns accepts.
func (d *decoder) dumpSamples() {
	event := 0
	for range d.List(4, "events") {
		event += int(d.Uint(uint64(len(d.B)), "event"))
		d.Note("event %d", event)
		n := d.Uint(uint64(len(d.B)), "places")
		d.Note("places: %d", n)
		d.List(1, "bytes of offsets")
		off := uint64(0)
		for range n {
			off += d.Uint(math.MaxUint64, "offset")
			d.Note("offset %#x", off)
		}
		d.List(1, "bytes of samples")
		for range n {
			count := d.Uint(math.MaxUint64, "samples")
			d.Note("%d samples", count)
		}
	}
}
