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
	head := decoder{b: b[:len(magic)], dump: out}
	head.bytes(len(magic), "magic")
	head.note("magic")
	for _, bl := range dir.blocks {
		plain, err := readBlock(r, bl)
		if err != nil {
			return err
		}
		d := decoder{b: plain, base: bl.off, dump: out}
		switch {
		case bl.kind == kindSamples && bl.stored == bl.plain:
			fmt.Fprintf(out, "samples of %s\n", dir.image(bl))
			d.dumpSamples()
		default:
			d.b, d.off = b[bl.off:bl.off+int64(bl.stored)], bl.stored
			d.note("kind %d of %s, %d bytes", bl.kind, cmp.Or(dir.image(bl).String(), "no image"), bl.plain)
		}
		if d.err != nil {
			return d.err
		}
	}
	d := decoder{b: enc, base: r.Size() - trailerSize - int64(len(enc)), dump: out}
	fmt.Fprintln(out, "directory")
	d.directory()
	end := decoder{b: b[len(b)-trailerSize:], base: r.Size() - trailerSize, dump: out}
	for _, field := range []string{"length of the directory", "checksum of the directory", "magic"} {
		end.bytes(4, field)
		end.note("%s", field)
	}
	return nil
}

// dumpSamples annotates a block of samples that columns accepts.
func (d *decoder) dumpSamples() {
	event := 0
	for range d.list(4, "events") {
		event += int(d.uint(uint64(len(d.b)), "event"))
		d.note("event %d", event)
		n := d.uint(uint64(len(d.b)), "places")
		d.note("places: %d", n)
		d.list(1, "bytes of offsets")
		off := uint64(0)
		for range n {
			off += d.uint(math.MaxUint64, "offset")
			d.note("offset %#x", off)
		}
		d.list(1, "bytes of samples")
		for range n {
			count := d.uint(math.MaxUint64, "samples")
			d.note("%d samples", count)
		}
	}
}
