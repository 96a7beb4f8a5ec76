package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"backfeed/sample"
	"backfeed/sample/wire"
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
//	integer  kind: 1 samples, 2 flows, 3 time off the processor; other kinds are kept
//	         for what else can be observed
//	integer  page: of flows, the offsets of their first places in MB; else 0
//	integer  samples in it; of flows, stacks' samples and records of branches and ranges;
//	         of time off the processor, microseconds
//	integer  entries in it: places; of flows, stacks, branches, ranges, paths, first touches
//	         and places with observed counts; of time off the processor, places and stacks
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
// it, or else to it, the ranges in it, the paths that begin with a branch from it, the first
// touches. Those of no image at all have a block of no
// image. There is a block for each MB of the image that a stack's sampled
// instruction, a branch's or a path's first source, a range's start or a touch lies in, so that
// few of them are in memory at a time. As many paths are kept of each block as of Counts; of
// what is read together, as many as of Counts in all. Its samples are those of the stacks, which the image's
// block of samples has too. Images with a build ID have no path there.
//
// Time off the processor is a recording in the form of package sample that has nothing else: of the waits that
// threads began in the image, with their stacks, without who waited and when. What has no place has a block of no image.
// The summary has nothing of it, so that nothing takes it for samples. Who does not know the kind leaves it out, and
// does not merge the segment.
//
// A bucket has parts of segments, too, which hold some of the images: see piece. They
// are the same but for the magic "bfp1" at both ends, and that no part is listed and the
// summary has no samples, weights and losses: what they are parts of is said elsewhere.
//
// Neighbours in code are neighbours in the file, and offsets and samples stand
// apart, so that a place is a little over a byte once it is compressed.
const (
	magic      = "bfs1"
	pieceMagic = "bfp1"
)

const trailerSize = 4 + 4 + 4

// pageShift makes a page of an offset.
const pageShift = 20

// Kinds of blocks.
const (
	kindSamples = 1
	kindFlows   = 2
	kindOff     = 3
)

const (
	maxDirectory = 64 << 20  // bytes; one of 10,000 images is 1 MB
	maxBlock     = 256 << 20 // bytes; one image of 2 million sampled places is 8 MB
)

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
	piece   bool // it is of a part of a segment, and has no parts
}

// magic is what a file of d begins and ends with.
func (d *directory) magic() string {
	if d.piece {
		return pieceMagic
	}
	return magic
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

// image returns the image of a block, the zero one if it has none.
func (d *directory) image(b block) sample.ImageID {
	if b.image == none {
		return sample.ImageID{}
	}
	return d.images[b.image]
}

// known reports whether this package knows what the block is.
func (b block) known() bool { return b.kind == kindSamples || b.kind == kindFlows || b.kind == kindOff }

// compareBlocks orders the blocks of an image.
func compareBlocks(a, b block) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.page, b.page))
}

// encode returns the directory and the end of the segment.
func (d *directory) encode() []byte {
	var e wire.Writer
	e.Uint(uint64(d.epoch.Start))
	e.Uint(uint64(d.epoch.Length))
	e.Int(len(d.labels))
	for _, k := range slices.Sorted(maps.Keys(d.labels)) {
		e.String(k)
		e.String(d.labels[k])
	}
	e.Int(len(d.parts))
	for _, p := range d.parts {
		e.B = append(e.B, p[:]...)
	}
	e.Int(len(d.images))
	for _, id := range d.images {
		e.B = append(e.B, id.Build[:]...)
		e.String(id.Path)
	}
	e.Int(len(d.blocks))
	last := none
	for _, b := range d.blocks {
		e.Int(b.image - last)
		e.Int(b.kind)
		e.Int(b.page)
		e.Uint(b.samples)
		e.Uint(b.entries)
		e.Int(b.plain)
		e.Int(b.stored)
		e.B = binary.LittleEndian.AppendUint32(e.B, b.sum)
		last = b.image
	}
	e.String(string(d.summary.Encode()))
	return sealDirectory(e.B, d.magic())
}

// sealDirectory appends the end of a segment to its directory.
func sealDirectory(b []byte, magic string) []byte {
	n, sum := uint32(len(b)), wire.Checksum(b)
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
	m := string(end[8:])
	if newer(m) {
		return nil, nil, fmt.Errorf("offset %#x: magic: version %q, this backfeed reads %q: %w: %w", size-int64(len(m)), m, magic, ErrNewer, ErrFormat)
	}
	if m != magic && m != pieceMagic || n > maxDirectory || n > size-int64(len(magic))+trailerSize {
		return nil, nil, fmt.Errorf("%d bytes: %w", size, ErrTorn)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-trailerSize-n); err != nil {
		return nil, nil, err
	}
	if binary.LittleEndian.Uint32(end[4:]) != wire.Checksum(b) {
		return nil, nil, fmt.Errorf("checksum of the directory: %w", ErrFormat)
	}
	d, err := decode(b, size, m == pieceMagic)
	return d, b, err
}

// newer reports whether a segment that ends so is of a version after this one's.
func newer(m string) bool {
	n := len(magic) - 1
	return m[:n] == magic[:n] && m[n] > magic[n] && (m[n] <= '9' || 'a' <= m[n] && m[n] <= 'z')
}

// decodeDirectory reads the directory b of a segment of that many bytes.
func decodeDirectory(b []byte, size int64) (*directory, error) { return decode(b, size, false) }

func decode(b []byte, size int64, piece bool) (*directory, error) {
	d := newDecoder(b, size-trailerSize-int64(len(b)))
	dir := d.directory(piece)
	if d.Err == nil {
		if err := dir.check(); err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrFormat)
		}
	}
	return dir, d.Err
}

// A decoder reads the parts of a segment.
type decoder struct{ wire.Reader }

// newDecoder returns a decoder of what is at offset base of a segment.
func newDecoder(b []byte, base int64) *decoder {
	return &decoder{wire.Reader{B: b, Base: base, Format: ErrFormat}}
}

func (d *decoder) directory(piece bool) *directory {
	dir := &directory{labels: map[string]string{}, piece: piece}
	dir.epoch.Start = int64(d.Uint(math.MaxInt64/2, "start of the epoch"))
	dir.epoch.Length = int64(d.Uint(math.MaxInt64/2, "length of the epoch"))
	if dir.epoch.Length == 0 {
		d.Fail(d.Off, "length of the epoch")
	}
	d.Note("epoch %s", dir.epoch)
	d.labels(dir)
	d.parts(dir)
	d.images(dir)
	d.blocks(dir)
	start := d.Off
	b := d.Bytes(d.Len(1, "summary"), "summary")
	if d.Err != nil {
		return nil
	}
	d.Note("summary")
	var err error
	if dir.summary, err = sample.Decode(b); err != nil {
		d.Err = fmt.Errorf("offset %#x: summary: %w: %w", d.Base+int64(start), err, ErrFormat)
	}
	if d.Off != len(d.B) {
		d.Fail(d.Off, "end of the directory")
	}
	return dir
}

func (d *decoder) labels(dir *directory) {
	last := ""
	for i := range d.List(2, "labels") {
		off := d.Off
		k, v := d.String("name of label"), d.String("label")
		if i > 0 && k <= last {
			d.Fail(off, "order of labels")
		}
		if d.Err != nil {
			return
		}
		d.Note("%s=%s", k, v)
		dir.labels[k] = v
		last = k
	}
}

func (d *decoder) parts(dir *directory) {
	for i := range d.List(len(partID{}), "parts") {
		off := d.Off
		var p partID
		copy(p[:], d.Bytes(len(p), "part"))
		if i > 0 && compareIDs(dir.parts[i-1], p) >= 0 {
			d.Fail(off, "order of parts")
		}
		if d.Err != nil {
			return
		}
		d.Note("part")
		dir.parts = append(dir.parts, p)
	}
	if (len(dir.parts) == 0) != dir.piece {
		d.Fail(d.Off, "parts")
	}
}

func (d *decoder) images(dir *directory) {
	for i := range d.List(len(sample.BuildID{})+1, "images") {
		off := d.Off
		var id sample.ImageID
		copy(id.Build[:], d.Bytes(len(id.Build), "build ID"))
		id.Path = d.String("path")
		if id == (sample.ImageID{}) || i > 0 && dir.images[i-1].Key().Compare(id.Key()) >= 0 {
			d.Fail(off, "order of images")
		}
		if d.Err != nil {
			return
		}
		d.Note("%s", id)
		dir.images = append(dir.images, id)
	}
}

func (d *decoder) blocks(dir *directory) {
	last := block{image: none}
	at := int64(len(magic))
	for i := range d.List(11, "blocks") {
		off := d.Off
		b := block{off: at}
		b.image = last.image + int(d.Uint(uint64(len(dir.images)), "image of block"))
		b.kind = int(d.Uint(math.MaxInt32, "kind of block"))
		b.page = int(d.Uint(math.MaxUint64>>pageShift, "page of block"))
		b.samples = d.Uint(math.MaxUint64, "samples of block")
		b.entries = d.Uint(math.MaxUint64, "entries of block")
		b.plain = int(d.Uint(maxBlock, "plain bytes of block"))
		b.stored = int(d.Uint(uint64(b.plain), "stored bytes of block"))
		if b.stored < b.plain/maxRatio {
			d.Fail(off, "stored bytes of block")
		}
		if sum := d.Bytes(4, "checksum of block"); sum != nil {
			b.sum = binary.LittleEndian.Uint32(sum)
		}
		if b.image >= len(dir.images) ||
			i > 0 && cmp.Or(cmp.Compare(last.image, b.image), compareBlocks(last, b)) >= 0 {
			d.Fail(off, "order of blocks")
		}
		if d.Err != nil {
			return
		}
		d.Note("block of image %d, kind %d, page %d: %d samples, %d entries, %d bytes stored as %d at %#x",
			b.image, b.kind, b.page, b.samples, b.entries, b.plain, b.stored, b.off)
		dir.blocks = append(dir.blocks, b)
		at += int64(b.stored)
		last = b
	}
	if d.Err == nil && at != d.Base {
		d.Fail(d.Off, "length of all blocks")
	}
}

// check reports what is wrong with a directory whose fields are well-formed.
func (d *directory) check() error {
	for _, c := range d.summary.Counts {
		if len(c.Images) > 1 || len(c.Images) == 1 && c.Images[0].ID != everything ||
			len(c.Stacks)+len(c.Branches)+len(c.Ranges)+len(c.Paths)+len(c.Targets) > 0 {
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
	if d.piece {
		if len(d.summary.Counts) > 0 && d.summary.Samples() > 0 {
			return errors.New("part of a segment with a sum")
		}
		return nil
	}
	if sum != want {
		return fmt.Errorf("%d %w, but %d in blocks", want, errSum, sum)
	}
	return nil
}

// errSum says that the summary is not of what is in the blocks.
var errSum = errors.New("samples in all")

// everything is the image that has all samples in a summary.
var everything = sample.ImageID{Path: "all"}

// summarise returns the summary of rec.
func summarise(rec *sample.Recording) *sample.Recording {
	sum := &sample.Recording{}
	for _, c := range rec.Counts {
		s := sample.NewCounts(c.CPU, c.Event)
		s.Measure(c)
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

// add returns a+b, or the largest uint64 where that is larger still, as all sums of
// samples are made.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
