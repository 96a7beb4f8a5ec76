package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"

	"backfeed/sample"
)

// A segment is an immutable file that holds the samples of one epoch with one
// set of labels. An integer is a uvarint of encoding/binary in its shortest form,
// unless a size is given, which is then that of a little-endian one; a string is
// its length and so many bytes; a list is its length and so many entries.
//
//	offset  size  field
//	0       4     magic "bfs1"; the digit is the version of the format
//	4       -     blocks, one after another
//	-       -     directory
//	end-12  4     length of the directory, in bytes
//	end-8   4     CRC-32C of the directory
//	end-4   4     magic "bfs1"
//
// What a writer that was killed leaves behind has no end, and is recognised by
// that. The directory comes last so that a writer needs to hold one block at a
// time, and covers the file: what is before it is as long as its blocks are.
//
// Directory:
//
//	integer  start of the epoch, in seconds since 1970
//	integer  length of the epoch, in seconds (> 0)
//	list     labels by name: string, name; string, value
//	list     parts, of 16 bytes each, by their bytes
//	list     images by build ID, then path: 20 bytes build ID, zero-padded, zero is
//	         unknown; string, path
//	list     blocks by image, then kind, then page
//	string   summary: a recording in the form of package sample, which has the
//	         segment's processors, events, weights and losses, and all samples of
//	         all images at offset 0 of an image with the path "all"
//
// A part is the number that a segment drew when it was put into the store. That
// of a merged one has those of all that it was made of.
//
// Block:
//
//	integer  0 no image, else 1 + its index; minus that of the entry before
//	integer  kind: 1 samples, 2 flows; other kinds are kept for what else can be
//	         observed
//	integer  page: of flows, the offsets of their first places in MB; else 0
//	integer  samples in it; of flows, stacks' samples and records of branches and ranges
//	integer  entries in it: places; of flows, stacks, branches and ranges
//	integer  plain bytes
//	integer  stored bytes: fewer if compressed with zstd, else as many; at least
//	         a 256th
//	4        CRC-32C of the stored bytes
//
// Samples, of one image:
//
//	list     events, by index in the summary
//
// each of which is
//
//	integer  index, minus that of the entry before
//	integer  n, the number of places
//	integer  bytes of the n integers that follow
//	n integers  offset, minus that of the place before
//	integer  bytes of the n integers that follow
//	n integers  samples (> 0)
//
// Flows are what else is known of an image's samples, as a recording in the form
// of package sample: the stacks that were sampled in the image, the branches from
// it, or else to it, the ranges in it. Those of no image at all have a block of no
// image. There is a block for each MB of the image that a stack's sampled
// instruction, a branch's source or a range's start lies in, so that few of them
// are in memory at a time. Its samples are those of the stacks, which the image's
// block of samples has too. Images with a build ID have no path there.
//
// Neighbours in code are neighbours in the file, and offsets and samples stand
// apart, so that a place is a little over a byte once it is compressed.
const magic = "bfs1"

const trailerSize = 4 + 4 + 4

// pageShift makes a page of an offset.
const pageShift = 20

// Kinds of blocks.
const (
	kindSamples = 1
	kindFlows   = 2
)

const (
	maxDirectory = 64 << 20  // bytes; one of 10,000 images is 1 MB
	maxBlock     = 256 << 20 // bytes; one image of 2 million sampled places is 8 MB
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// ErrFormat is wrapped by every error that blames the bytes rather than the disk.
	ErrFormat = errors.New("malformed segment")
	// ErrTorn is wrapped by the error about a file whose end is missing: its writer
	// was stopped, or has not finished.
	ErrTorn = errors.New("unfinished file")
)

// A partID is drawn when a segment is put into the store.
type partID [16]byte

func compareIDs(a, b partID) int { return bytes.Compare(a[:], b[:]) }

// A directory says what is in a segment.
type directory struct {
	epoch   sample.Epoch
	labels  map[string]string
	parts   []partID
	images  []sample.ImageID
	blocks  []block
	summary *sample.Recording
}

// none is the index of no image.
const none = -1

// A block is a part of a segment, which can be read alone.
type block struct {
	image   int // index into the directory's images; none if it is of no image
	kind    int
	page    int // of flows, the offsets of their first places in MB
	samples uint64
	entries uint64
	plain   int // bytes once decompressed
	stored  int // bytes in the file
	sum     uint32
	off     int64 // in the file
}

// image gives the image of a block, the zero one if it has none.
func (d *directory) image(b block) sample.ImageID {
	if b.image == none {
		return sample.ImageID{}
	}
	return d.images[b.image]
}

// known tells whether this package knows what the block is.
func (b block) known() bool { return b.kind == kindSamples || b.kind == kindFlows }

// compareBlocks orders the blocks of an image.
func compareBlocks(a, b block) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.page, b.page))
}

func compareImages(a, b sample.ImageID) int {
	return cmp.Or(bytes.Compare(a.Build[:], b.Build[:]), cmp.Compare(a.Path, b.Path))
}

// An encoder appends fields to b.
type encoder struct{ b []byte }

func (e *encoder) uint(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int)       { e.uint(uint64(v)) }
func (e *encoder) string(s string) { e.int(len(s)); e.b = append(e.b, s...) }

// encode gives the directory and the end of the segment.
func (d *directory) encode() []byte {
	var e encoder
	e.uint(uint64(d.epoch.Start))
	e.uint(uint64(d.epoch.Length))
	e.int(len(d.labels))
	for _, k := range slices.Sorted(maps.Keys(d.labels)) {
		e.string(k)
		e.string(d.labels[k])
	}
	e.int(len(d.parts))
	for _, p := range d.parts {
		e.b = append(e.b, p[:]...)
	}
	e.int(len(d.images))
	for _, id := range d.images {
		e.b = append(e.b, id.Build[:]...)
		e.string(id.Path)
	}
	e.int(len(d.blocks))
	last := none
	for _, b := range d.blocks {
		e.int(b.image - last)
		e.int(b.kind)
		e.int(b.page)
		e.uint(b.samples)
		e.uint(b.entries)
		e.int(b.plain)
		e.int(b.stored)
		e.b = binary.LittleEndian.AppendUint32(e.b, b.sum)
		last = b.image
	}
	e.string(string(d.summary.Encode()))
	return sealDirectory(e.b)
}

// sealDirectory appends the end of a segment to its directory.
func sealDirectory(b []byte) []byte {
	n, sum := uint32(len(b)), crc32.Checksum(b, castagnoli)
	b = binary.LittleEndian.AppendUint32(b, n)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return append(b, magic...)
}

// readDirectory reads the directory of a segment of that many bytes.
func readDirectory(r io.ReaderAt, size int64) (*directory, []byte, error) {
	if size < int64(len(magic))+trailerSize {
		return nil, nil, fmt.Errorf("%d bytes: %w", size, ErrTorn)
	}
	var end [trailerSize]byte
	if _, err := r.ReadAt(end[:], size-trailerSize); err != nil {
		return nil, nil, err
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[8:]) != magic || n > maxDirectory || n > size-int64(len(magic))+trailerSize {
		return nil, nil, fmt.Errorf("%d bytes: %w", size, ErrTorn)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-trailerSize-n); err != nil {
		return nil, nil, err
	}
	if binary.LittleEndian.Uint32(end[4:]) != crc32.Checksum(b, castagnoli) {
		return nil, nil, fmt.Errorf("checksum of the directory: %w", ErrFormat)
	}
	d, err := decodeDirectory(b, size)
	return d, b, err
}

// decodeDirectory reads the directory b of a segment of that many bytes.
func decodeDirectory(b []byte, size int64) (*directory, error) {
	d := decoder{b: b, base: size - trailerSize - int64(len(b))}
	dir := d.directory()
	if d.err == nil {
		if err := dir.check(); err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrFormat)
		}
	}
	return dir, d.err
}

// A decoder reads fields from b. The first failure sticks; after it, every
// number is 0 and every list is empty.
type decoder struct {
	b    []byte
	off  int
	base int64 // offset of b in the file
	err  error
	dump *bytes.Buffer // annotations, if they are asked for
	seen int           // end of what has been annotated
}

// fail blames the field that starts at offset off of b.
func (d *decoder) fail(off int, field string) {
	if d.err == nil {
		d.err = fmt.Errorf("offset %#x: %s: %w", d.base+int64(off), field, ErrFormat)
	}
}

// note annotates the bytes read since the note before.
func (d *decoder) note(format string, args ...any) {
	if d.dump == nil || d.err != nil {
		return
	}
	const row = 12 // bytes in a line
	text := fmt.Sprintf(format, args...)
	for start := d.seen; start < d.off; start += row {
		line := fmt.Sprintf("%04x  %-*x  %s", d.base+int64(start), 2*row, d.b[start:min(start+row, d.off)], text)
		d.dump.Write(append(bytes.TrimRight([]byte(line), " "), '\n'))
		text = ""
	}
	d.seen = d.off
}

// bytes reads n bytes into at most that many.
func (d *decoder) bytes(n int, field string) []byte {
	if d.err != nil || n > len(d.b)-d.off {
		d.fail(d.off, field)
		return nil
	}
	d.off += n
	return d.b[d.off-n : d.off]
}

// uint reads one integer of at most limit.
func (d *decoder) uint(limit uint64, field string) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 || v > limit || n > 1 && d.b[d.off+n-1] == 0 { // the last: not the shortest form
		d.fail(d.off, field)
		return 0
	}
	d.off += n
	return v
}

// list reads the length of a list whose entries are at least size bytes long.
func (d *decoder) list(size int, field string) int {
	n := int(d.uint(uint64(len(d.b)-d.off)/uint64(size), field))
	d.note("%s: %d", field, n)
	return n
}

func (d *decoder) string(field string) string {
	return string(d.bytes(int(d.uint(uint64(len(d.b)-d.off), field)), field))
}

func (d *decoder) directory() *directory {
	dir := &directory{labels: map[string]string{}}
	dir.epoch.Start = int64(d.uint(math.MaxInt64/2, "start of the epoch"))
	dir.epoch.Length = int64(d.uint(math.MaxInt64/2, "length of the epoch"))
	if dir.epoch.Length == 0 {
		d.fail(d.off, "length of the epoch")
	}
	d.note("epoch %s", dir.epoch)
	d.labels(dir)
	d.parts(dir)
	d.images(dir)
	d.blocks(dir)
	start := d.off
	b := d.bytes(int(d.uint(uint64(len(d.b)-d.off), "summary")), "summary")
	if d.err != nil {
		return nil
	}
	d.note("summary")
	var err error
	if dir.summary, err = sample.Decode(b); err != nil {
		d.err = fmt.Errorf("offset %#x: summary: %w: %w", d.base+int64(start), err, ErrFormat)
	}
	if d.off != len(d.b) {
		d.fail(d.off, "end of the directory")
	}
	return dir
}

func (d *decoder) labels(dir *directory) {
	last := ""
	for i := range d.list(2, "labels") {
		off := d.off
		k, v := d.string("name of label"), d.string("label")
		if i > 0 && k <= last {
			d.fail(off, "order of labels")
		}
		if d.err != nil {
			return
		}
		d.note("%s=%s", k, v)
		dir.labels[k] = v
		last = k
	}
}

func (d *decoder) parts(dir *directory) {
	for i := range d.list(len(partID{}), "parts") {
		off := d.off
		var p partID
		copy(p[:], d.bytes(len(p), "part"))
		if i > 0 && compareIDs(dir.parts[i-1], p) >= 0 {
			d.fail(off, "order of parts")
		}
		if d.err != nil {
			return
		}
		d.note("part")
		dir.parts = append(dir.parts, p)
	}
	if len(dir.parts) == 0 {
		d.fail(d.off, "parts")
	}
}

func (d *decoder) images(dir *directory) {
	for i := range d.list(len(sample.BuildID{})+1, "images") {
		off := d.off
		var id sample.ImageID
		copy(id.Build[:], d.bytes(len(id.Build), "build ID"))
		id.Path = d.string("path")
		if id == (sample.ImageID{}) || i > 0 && compareImages(dir.images[i-1].Key(), id.Key()) >= 0 {
			d.fail(off, "order of images")
		}
		if d.err != nil {
			return
		}
		d.note("%s", id)
		dir.images = append(dir.images, id)
	}
}

func (d *decoder) blocks(dir *directory) {
	last := block{image: none}
	at := int64(len(magic))
	for i := range d.list(11, "blocks") {
		off := d.off
		b := block{off: at}
		b.image = last.image + int(d.uint(uint64(len(dir.images)), "image of block"))
		b.kind = int(d.uint(math.MaxInt32, "kind of block"))
		b.page = int(d.uint(math.MaxUint64>>pageShift, "page of block"))
		b.samples = d.uint(math.MaxUint64, "samples of block")
		b.entries = d.uint(math.MaxUint64, "entries of block")
		b.plain = int(d.uint(maxBlock, "plain bytes of block"))
		b.stored = int(d.uint(uint64(b.plain), "stored bytes of block"))
		if b.stored < b.plain/maxRatio {
			d.fail(off, "stored bytes of block")
		}
		if sum := d.bytes(4, "checksum of block"); sum != nil {
			b.sum = binary.LittleEndian.Uint32(sum)
		}
		if b.image >= len(dir.images) ||
			i > 0 && cmp.Or(cmp.Compare(last.image, b.image), compareBlocks(last, b)) >= 0 {
			d.fail(off, "order of blocks")
		}
		if d.err != nil {
			return
		}
		d.note("block of image %d, kind %d, page %d: %d samples, %d entries, %d bytes stored as %d at %#x",
			b.image, b.kind, b.page, b.samples, b.entries, b.plain, b.stored, b.off)
		dir.blocks = append(dir.blocks, b)
		at += int64(b.stored)
		last = b
	}
	if d.err == nil && at != d.base {
		d.fail(d.off, "length of all blocks")
	}
}

// check tells what is wrong with a directory whose fields are well-formed.
func (d *directory) check() error {
	for _, c := range d.summary.Counts {
		if len(c.Images) > 1 || len(c.Images) == 1 && c.Images[0].ID != everything ||
			len(c.Stacks)+len(c.Branches)+len(c.Ranges) > 0 {
			return errors.New("summary with places")
		}
	}
	var sum, want uint64
	for _, c := range d.summary.Counts {
		want = add(want, inImages(c))
	}
	for _, b := range d.blocks {
		if b.kind == kindSamples {
			sum = add(sum, b.samples)
		}
	}
	if sum != want {
		return fmt.Errorf("%d samples in all, but %d in blocks", want, sum)
	}
	return nil
}

// everything is the image that has all samples in a summary.
var everything = sample.ImageID{Path: "all"}

// summarise gives the summary of rec.
func summarise(rec *sample.Recording) *sample.Recording {
	sum := &sample.Recording{}
	for _, c := range rec.Counts {
		s := sample.NewCounts(c.CPU, c.Event)
		s.Weight = c.Weight
		if n := inImages(c); n > 0 {
			s.AddSample(s.Image(everything), 0, n)
		}
		for why, n := range c.Lost {
			s.Lose(why, n)
		}
		sum.Counts = append(sum.Counts, s)
	}
	return sample.Merge(sum)
}

// inImages is the number of samples that are not lost.
func inImages(c *sample.Counts) uint64 {
	var n uint64
	for _, ic := range c.Images {
		n = add(n, ic.Samples())
	}
	return n
}

// add gives a+b, or the largest uint64 where that is larger still, as all sums of
// samples are made.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
