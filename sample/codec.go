package sample

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
)

// A recording is stored as one file. An integer is a uvarint of encoding/binary
// in its shortest form; a string is its length and so many bytes; a list is its
// length and so many entries. Everything is sorted and nothing is written that
// says nothing, so equal recordings have equal bytes, and Decode refuses a file
// that Encode would have written otherwise.
//
//	offset  size  field
//	0       4     magic "bfr2"; the digit is the version of the format
//	4       4     CRC-32C of the rest of the file, little-endian
//	8       -     list of Counts by CPU, then Event, in the order of their fields
//
// Counts:
//
//	string   CPU: architecture
//	string   vendor
//	integer  family
//	integer  model
//	integer  stepping
//	string   name
//	integer  clock, in MHz; 0 is unknown
//	string   event: name
//	integer  period, in events per sample; 0 if it varied
//	string   unit of the period
//	integer  weight: sum of the periods of the samples delivered; 0 is unknown
//	list     losses by reason: string, reason; integer, samples (> 0)
//	list     images by build ID, then path
//	list     places in stacks, branches and ranges: unknown first, then by image
//	         and offset
//	list     stacks, by the places of their frames, then their tops
//	list     branches, by the places of source, then target
//	list     ranges, by the places of first, then last instruction
//
// Image:
//
//	20 bytes build ID, zero-padded; zero is unknown
//	string   path
//	list     samples by increasing offset: integer, offset minus that of the
//	         entry before; integer, samples (> 0)
//
// Place:
//
//	integer  0 unknown, else 1 + index of its image; minus that of the entry before
//	integer  offset, minus that of the entry before if it has the same image
//
// Stack:
//
//	list     index of each frame's place, the sampled instruction first
//	integer  index of the place that a word at the stack pointer named
//	integer  samples (> 0)
//
// Branch:
//
//	integer  index of the source's place, minus that of the entry before
//	integer  index of the target's place
//	integer  records (> 0)
//	integer  records that were mispredicted
//
// Range:
//
//	integer  index of the first instruction's place, minus that of the entry before
//	integer  index of the last instruction's place, minus that of the first
//	integer  records (> 0)
//
// Hot instructions are neighbours, so a sampled place is usually two or three
// bytes, and so is a frame of a stack.
const magic = "bfr2"

const headerSize = len(magic) + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrFormat is wrapped by every error that blames the bytes rather than the disk.
var ErrFormat = errors.New("malformed recording")

// isMagic tells whether a file that begins so is a recording, of whatever version.
func isMagic(b string) bool {
	n := len(magic) - 1
	return len(b) > n && b[:n] == magic[:n] && '0' <= b[n] && b[n] <= '9'
}

// Encode gives the stored form of r, whose Counts pass Check. It depends on what
// was added to r, not on the order.
func (r *Recording) Encode() []byte {
	r = Merge(r)
	e := encoder{b: make([]byte, headerSize)}
	e.int(len(r.Counts))
	for _, c := range r.Counts {
		e.counts(c)
	}
	return seal(e.b)
}

// seal writes the magic and the checksum over the first bytes of b.
func seal(b []byte) []byte {
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[len(magic):], crc32.Checksum(b[headerSize:], castagnoli))
	return b
}

type encoder struct{ b []byte }

func (e *encoder) uint(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int)       { e.uint(uint64(v)) }
func (e *encoder) string(s string) { e.int(len(s)); e.b = append(e.b, s...) }

func (e *encoder) counts(c *Counts) {
	e.string(c.CPU.Arch)
	e.string(c.CPU.Vendor)
	e.int(c.CPU.Family)
	e.int(c.CPU.Model)
	e.int(c.CPU.Stepping)
	e.string(c.CPU.Name)
	e.int(c.CPU.MHz)
	e.string(c.Event.Name)
	e.uint(c.Event.Period)
	e.string(c.Event.Unit)
	e.uint(c.Weight)
	e.int(len(c.Lost))
	for _, why := range slices.Sorted(maps.Keys(c.Lost)) {
		e.string(string(why))
		e.uint(c.Lost[why])
	}
	e.int(len(c.Images))
	for _, ic := range c.Images {
		e.image(ic)
	}
	index := e.places(c)
	e.stacks(c, index)
	e.branches(c, index)
	e.ranges(c, index)
}

func (e *encoder) image(ic *ImageCounts) {
	e.b = append(e.b, ic.ID.Build[:]...)
	e.string(ic.ID.Path)
	e.int(len(ic.At))
	last := Offset(0)
	for _, off := range slices.Sorted(maps.Keys(ic.At)) {
		e.uint(uint64(off - last))
		e.uint(ic.At[off])
		last = off
	}
}

// places writes the places that stacks, branches and ranges refer to and gives
// the index of each.
func (e *encoder) places(c *Counts) map[Frame]int {
	index := map[Frame]int{}
	for _, s := range c.Stacks {
		for _, f := range s.Frames {
			index[f] = 0
		}
		index[s.Top] = 0
	}
	for b := range c.Branches {
		index[b.From], index[b.To] = 0, 0
	}
	for r := range c.Ranges {
		index[r.first()], index[r.last()] = 0, 0
	}
	e.int(len(index))
	last := Frame{Image: Unknown}
	for i, f := range slices.SortedFunc(maps.Keys(index), compareFrames) {
		e.int(f.Image - last.Image)
		if f.Image != last.Image {
			last.Off = 0
		}
		e.uint(uint64(f.Off - last.Off))
		last, index[f] = f, i
	}
	return index
}

func (e *encoder) stacks(c *Counts, index map[Frame]int) {
	e.int(len(c.Stacks))
	for _, s := range c.Stacks {
		e.int(len(s.Frames))
		for _, f := range s.Frames {
			e.int(index[f])
		}
		e.int(index[s.Top])
		e.uint(s.N)
	}
}

func (e *encoder) branches(c *Counts, index map[Frame]int) {
	e.int(len(c.Branches))
	last := 0
	for _, b := range slices.SortedFunc(maps.Keys(c.Branches), compareBranches) {
		from := index[b.From]
		e.int(from - last)
		e.int(index[b.To])
		e.uint(c.Branches[b].N)
		e.uint(c.Branches[b].Mispredicted)
		last = from
	}
}

func (e *encoder) ranges(c *Counts, index map[Frame]int) {
	e.int(len(c.Ranges))
	last := 0
	for _, r := range slices.SortedFunc(maps.Keys(c.Ranges), compareRanges) {
		first := index[r.first()]
		e.int(first - last)
		e.int(index[r.last()] - first)
		e.uint(c.Ranges[r])
		last = first
	}
}

func (r Range) first() Frame { return Frame{r.Image, r.First} }
func (r Range) last() Frame  { return Frame{r.Image, r.Last} }

// Decode reads the stored form of a recording. It allocates in proportion to
// the length of b, whatever b says.
func Decode(b []byte) (*Recording, error) {
	d := decoder{b: b}
	return d.recording()
}

// Dump lists the fields of an encoded recording for people to read: offset,
// bytes and meaning. It stops with a message where Decode would.
func Dump(b []byte) []byte {
	d := decoder{b: b, dump: new(bytes.Buffer)}
	if _, err := d.recording(); err != nil {
		fmt.Fprintln(d.dump, err)
	}
	return d.dump.Bytes()
}

// A decoder reads fields from b. The first failure sticks; after it, every
// number is 0 and every list is empty.
type decoder struct {
	b    []byte
	off  int
	err  error
	dump *bytes.Buffer // annotations, if they are asked for
	seen int           // end of what has been annotated
}

// fail blames the field that starts at offset off.
func (d *decoder) fail(off int, field string) {
	if d.err == nil {
		d.err = fmt.Errorf("offset %#x: %s: %w", off, field, ErrFormat)
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
		line := fmt.Sprintf("%04x  %-*x  %s", start, 2*row, d.b[start:min(start+row, d.off)], text)
		d.dump.WriteString(string(bytes.TrimRight([]byte(line), " ")) + "\n")
		text = ""
	}
	d.seen = d.off
}

// bytes reads n bytes.
func (d *decoder) bytes(n int, field string) []byte {
	if d.err != nil || n > len(d.b)-d.off {
		d.fail(d.off, field)
		return make([]byte, min(n, len(BuildID{})))
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

// int reads an integer that an int holds on any machine.
func (d *decoder) int(field string) int { return int(d.uint(math.MaxInt32, field)) }

// count reads a number of samples or records; there is no entry without them.
func (d *decoder) count(field string) uint64 {
	off := d.off
	n := d.uint(math.MaxUint64, field)
	if n == 0 {
		d.fail(off, field)
	}
	return n
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

// after reads the difference to last of a number that is larger, or the number
// itself if it is the first.
func (d *decoder) after(last uint64, first bool, field string) uint64 {
	off := d.off
	v := d.uint(math.MaxUint64-last, field)
	if v == 0 && !first {
		d.fail(off, field)
	}
	return last + v
}

// place reads an index into places and marks it as used.
func (d *decoder) place(base int, places []place, field string) (int, Frame) {
	off := d.off
	i := base + int(d.uint(uint64(len(places)), field))
	if d.err != nil || i >= len(places) {
		d.fail(off, field)
		return 0, Frame{Image: Unknown}
	}
	places[i].used = true
	return i, places[i].Frame
}

// A place is a Frame, and whether anything refers to it yet.
type place struct {
	Frame
	used bool
}

func (d *decoder) recording() (*Recording, error) {
	switch m := string(d.bytes(len(magic), "magic")); {
	case m == magic:
	case isMagic(m):
		d.fail(0, fmt.Sprintf("version %q, want %q: record anew", m, magic))
	default:
		d.fail(0, "magic")
	}
	d.note("magic")
	sum := d.bytes(4, "checksum")
	if d.err == nil && binary.LittleEndian.Uint32(sum) != crc32.Checksum(d.b[d.off:], castagnoli) {
		d.fail(len(magic), "checksum")
	}
	d.note("checksum")
	r := &Recording{}
	for range d.list(17, "counts") {
		off := d.off
		c := d.counts()
		if n := len(r.Counts); n > 0 && compareCounts(r.Counts[n-1], c) >= 0 {
			d.fail(off, "order of counts")
		}
		if d.err != nil {
			break
		}
		if err := c.Check(); err != nil { // what Counts promise, beyond what their encoding does
			return nil, fmt.Errorf("offset %#x: %w: %w", off, err, ErrFormat)
		}
		r.Counts = append(r.Counts, c)
	}
	if d.off != len(d.b) {
		d.fail(d.off, "end of file")
	}
	if d.err != nil {
		return nil, d.err
	}
	return r, nil
}

func (d *decoder) counts() *Counts {
	c := NewCounts(d.cpu(), d.event())
	c.Weight = d.uint(math.MaxUint64, "weight")
	d.note("weight %d", c.Weight)
	d.losses(c)
	d.images(c)
	places := d.places(c)
	d.stacks(c, places)
	d.branches(c, places)
	d.ranges(c, places)
	for _, p := range places {
		if !p.used {
			d.fail(d.off, "place that nothing refers to")
		}
	}
	return c
}

func (d *decoder) cpu() CPU {
	cpu := CPU{
		Arch:     d.string("architecture"),
		Vendor:   d.string("vendor"),
		Family:   d.int("family"),
		Model:    d.int("model"),
		Stepping: d.int("stepping"),
		Name:     d.string("CPU name"),
		MHz:      d.int("clock"),
	}
	d.note("CPU %+v", cpu)
	return cpu
}

func (d *decoder) event() Event {
	ev := Event{
		Name:   d.string("event"),
		Period: d.uint(math.MaxUint64, "period"),
		Unit:   d.string("unit"),
	}
	d.note("event %+v", ev)
	return ev
}

func (d *decoder) losses(c *Counts) {
	last := Loss("")
	for i := range d.list(2, "losses") {
		off := d.off
		why := Loss(d.string("reason"))
		if i > 0 && why <= last {
			d.fail(off, "order of losses")
		}
		n := d.count("lost samples")
		d.note("%q: %d samples", string(why), n)
		c.Lose(why, n)
		last = why
		if d.err != nil {
			return
		}
	}
}

func (d *decoder) images(c *Counts) {
	n := d.list(len(BuildID{})+2, "images")
	c.Images = make([]*ImageCounts, 0, n)
	for i := range n {
		off := d.off
		id := ImageID{Build: BuildID(d.bytes(len(BuildID{}), "build ID")), Path: d.string("path")}
		d.note("image %d: %s", i, id)
		// An image that the list holds already would not become a new one.
		if c.Image(id) != i || i > 0 && compareImages(c.Images[i-1].ID, id) >= 0 {
			d.fail(off, "order of images")
		}
		d.samples(c, i)
		if d.err != nil {
			return
		}
	}
}

func (d *decoder) samples(c *Counts, image int) {
	off := uint64(0)
	for i := range d.list(2, "places with samples") {
		off = d.after(off, i == 0, "file offset")
		n := d.count("samples")
		if d.err != nil {
			return
		}
		d.note("%#x: %d samples", off, n)
		c.AddSample(image, Offset(off), n)
	}
}

func (d *decoder) places(c *Counts) []place {
	n := d.list(2, "places in stacks, branches and ranges")
	places := make([]place, 0, n)
	last := Frame{Image: Unknown}
	for i := range n {
		start := d.off
		step := int(d.uint(uint64(len(c.Images)), "image"))
		first := i == 0 || step > 0 // the first place of its image
		f := Frame{Image: last.Image + step}
		if f.Image >= len(c.Images) {
			d.fail(start, "image")
		}
		if first {
			last.Off = 0
		}
		f.Off = Offset(d.after(uint64(last.Off), first, "place"))
		if f.Image == Unknown && f.Off != 0 {
			d.fail(start, "place")
		}
		if d.err != nil {
			return nil
		}
		d.note("place %d: %v", i, f)
		places = append(places, place{Frame: f})
		last = f
	}
	return places
}

func (d *decoder) stacks(c *Counts, places []place) {
	n := d.list(4, "stacks")
	c.Stacks = make([]Stack, 0, n)
	for i := range n {
		start := d.off
		depth := int(d.uint(uint64(len(d.b)-d.off), "frames"))
		s := Stack{Frames: make([]Frame, 0, depth)}
		for range depth {
			_, f := d.place(0, places, "frame")
			s.Frames = append(s.Frames, f)
		}
		_, s.Top = d.place(0, places, "top")
		if i > 0 && compareStacks(c.Stacks[i-1], s) >= 0 {
			d.fail(start, "order of stacks")
		}
		s.N = d.count("samples of stack")
		if d.err != nil {
			return
		}
		d.note("%v, top %v: %d samples", s.Frames, s.Top, s.N)
		c.Stacks = append(c.Stacks, s)
	}
}

func (d *decoder) branches(c *Counts, places []place) {
	var last Branch
	index := 0
	for i := range d.list(4, "branches") {
		start := d.off
		var b Branch
		index, b.From = d.place(index, places, "source")
		_, b.To = d.place(0, places, "target")
		if i > 0 && compareBranches(last, b) >= 0 {
			d.fail(start, "order of branches")
		}
		n, missed := d.count("records"), d.uint(math.MaxUint64, "mispredicted")
		if d.err != nil {
			return
		}
		d.note("%v > %v: %d records, %d mispredicted", b.From, b.To, n, missed)
		c.AddBranch(b, n, missed)
		last = b
	}
}

func (d *decoder) ranges(c *Counts, places []place) {
	var last Range
	index := 0
	for i := range d.list(3, "ranges") {
		start := d.off
		var f, l Frame
		index, f = d.place(index, places, "first instruction")
		_, l = d.place(index, places, "last instruction")
		r := Range{f.Image, f.Off, l.Off}
		if f.Image != l.Image || i > 0 && compareRanges(last, r) >= 0 {
			d.fail(start, "range")
		}
		n := d.count("records")
		if d.err != nil {
			return
		}
		d.note("%v to %#x: %d records", f, uint64(l.Off), n)
		c.AddRange(r, n)
		last = r
	}
}
