package perfdata

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"backfeed/sample"
)

// A recording in a file begins with this header, all integers in the byte order
// of the machine that recorded (tools/perf/Documentation/perf.data-file-format.txt):
//
//	offset  size  field
//	0       8     magic "PERFILE2", "2ELIFREP" if big-endian
//	8       8     size of this header, 104
//	16      8     size of an entry of attrs
//	24      16    section attrs: offset and size in bytes
//	40      16    section data
//	56      16    section event types, not used any more
//	72      32    features: a bitmap of 64-bit numbers
//
// An entry of attrs is a perf_event_attr, then the section of its IDs; both come
// before the data, or else last (perf inject). Data are records. Right after the
// data comes a section for each feature, by bit.
//
// A recording for a pipe has the first 16 bytes, with 16 as the size, and then
// records; some of these take the place of attrs and features.
const (
	fileHeaderSize = 104
	oldHeaderSize  = 72 // without features
	pipeHeaderSize = 16
	sectionSize    = 16
)

// Bits of the features that are read.
const (
	featureBuildID   = 2
	featureHostname  = 3
	featureArch      = 6
	featureCPUDesc   = 8
	featureCPUID     = 9
	featureCmdline   = 11
	featureEventDesc = 12
	featureDir       = 24
	featureClockData = 29
	features         = 256
)

// maxFeature bounds the size of a feature that is read whole. A build ID takes
// about 100 bytes, the description of an event about 200 and 16 per processor.
const maxFeature = 64 << 20

// maxEvents bounds the number of events in a file. Each tracepoint is one; the
// kernel has some thousands.
const maxEvents = 1 << 16

// A span is a section of the file.
type span struct {
	off, size uint64
	what      string
}

func (c *cursor) span(what string) span { return span{c.u64(what), c.u64(what), what} }

// inside reports whether a section is within a file of that size.
func (sp span) inside(size int64) error {
	if sp.off > uint64(size) || sp.size > uint64(size)-sp.off {
		return fmt.Errorf("offset %#x: %s: %d bytes, past the end of the file at %#x: %w, broken off or changed since it was written", sp.off, sp.what, sp.size, size, ErrFormat)
	}
	return nil
}

func (sp span) overlaps(o span) error {
	if sp.size > 0 && o.size > 0 && sp.off < o.off+o.size && o.off < sp.off+sp.size {
		return fmt.Errorf("offset %#x: %s overlaps %s at %#x: %w", sp.off, sp.what, o.what, o.off, ErrFormat)
	}
	return nil
}

// read returns the bytes of a section that inside found good.
func (sp span) read(f io.ReaderAt) ([]byte, error) {
	b := make([]byte, sp.size)
	if _, err := f.ReadAt(b, int64(sp.off)); err != nil && (err != io.EOF || sp.size > 0) {
		return nil, fmt.Errorf("offset %#x: %s: %w", sp.off, sp.what, err)
	}
	return b, nil
}

// readPipe reads the records after the header of a pipe's recording.
func (r *reader) readPipe(in io.Reader) error {
	return r.run(newStream(in, r.big, pipeHeaderSize, -1))
}

// readFile reads a recording made as a file.
func (r *reader) readFile(f *io.SectionReader) error {
	size := f.Size()
	b := make([]byte, fileHeaderSize)
	if n, err := f.ReadAt(b, 0); n < oldHeaderSize {
		if err != io.EOF {
			return err
		}
		return fmt.Errorf("offset 0x0: header: cut off after %d bytes: %w", n, ErrFormat)
	}
	c := &cursor{b: b, off: 8, big: r.big}
	headerSize, entrySize := c.u64("size"), c.u64("attr_size")
	attrs, data := c.span("section attrs"), c.span("section data")
	c.span("section event types")
	if headerSize < oldHeaderSize || headerSize > uint64(size) {
		return fmt.Errorf("offset 0x8: header: size: %d: %w", headerSize, ErrFormat)
	}
	header := span{0, headerSize, "header"}
	for _, err := range []error{attrs.inside(size), data.inside(size), header.overlaps(attrs), header.overlaps(data), attrs.overlaps(data)} {
		if err != nil {
			return err
		}
	}
	if err := r.attrs(f, attrs, entrySize); err != nil {
		return err
	}
	end := data.off + data.size
	if data.size == 0 { // perf record was killed: it writes the size at its end
		end = uint64(size)
	} else if headerSize >= fileHeaderSize {
		if err := r.features(f, end, c.bytes(features/8, "features")); err != nil {
			return err
		}
	}
	in := io.NewSectionReader(f, int64(data.off), int64(end-data.off))
	return r.run(newStream(in, r.big, int64(data.off), int64(end)))
}

// attrs reads the events of a file.
func (r *reader) attrs(f *io.SectionReader, attrs span, entrySize uint64) error {
	if entrySize < minAttrSize+sectionSize || entrySize > maxAttrSize+sectionSize || attrs.size%entrySize != 0 {
		return fmt.Errorf("offset 0x10: header: attr_size: %d, in a section of %d bytes: %w", entrySize, attrs.size, ErrFormat)
	}
	if n := attrs.size / entrySize; n > maxEvents {
		return fmt.Errorf("offset 0x20: header: section attrs: %d events, more than %d: %w", n, maxEvents, ErrFormat)
	}
	idsLeft := min(f.Size(), maxFeature)
	for off := attrs.off; off < attrs.off+attrs.size; off += entrySize {
		b, err := span{off, entrySize, "attr"}.read(f)
		if err != nil {
			return err
		}
		at := b[:entrySize-sectionSize]
		if n := attrSize(at, r.big); n < minAttrSize || n > maxAttrSize {
			return fmt.Errorf("offset %#x: attr: size: %d: %w", off, n, ErrFormat)
		}
		c := cursor{b: b, off: len(at), big: r.big}
		ids := c.span("section of IDs")
		if err := ids.inside(f.Size()); err != nil {
			return err
		}
		// All IDs together are part of the file: entries that share a section
		// would make much of little.
		if idsLeft -= int64(ids.size); idsLeft < 0 || ids.size%8 != 0 {
			return fmt.Errorf("offset %#x: attr: section of IDs: %d bytes: %w", off, ids.size, ErrFormat)
		}
		list, err := r.idList(f, ids)
		if err != nil {
			return err
		}
		r.addEvent(decodeAttr(at, r.big), list)
	}
	return nil
}

func (r *reader) idList(f io.ReaderAt, ids span) ([]uint64, error) {
	b, err := ids.read(f)
	if err != nil {
		return nil, err
	}
	c := cursor{b: b, big: r.big}
	list := make([]uint64, len(b)/8)
	for i := range list {
		list[i] = c.u64("id")
	}
	return list, nil
}

// features reads those features of a file that tell something. Their sections
// are listed at off.
func (r *reader) features(f *io.SectionReader, off uint64, bitmap []byte) error {
	set := r.featureBits(bitmap)
	table := span{off, 0, "feature sections"}
	for _, has := range set {
		if has {
			table.size += sectionSize
		}
	}
	if err := table.inside(f.Size()); err != nil {
		return err
	}
	b, err := table.read(f)
	if err != nil {
		return err
	}
	c := cursor{b: b, big: r.big}
	for id, has := range set {
		if !has {
			continue
		}
		sp := c.span(fmt.Sprintf("feature %d", id))
		if err := sp.inside(f.Size()); err != nil {
			return err
		}
		switch id {
		case featureDir:
			return errors.New("the file is part of a directory, as perf record --threads makes: not supported; record without --threads")
		case featureBuildID, featureHostname, featureArch, featureCPUDesc, featureCPUID, featureCmdline, featureEventDesc, featureClockData:
		default:
			continue
		}
		if err := sp.overlaps(table); err != nil {
			return err
		}
		if sp.size > maxFeature {
			return fmt.Errorf("offset %#x: %s: %d bytes, more than %d: %w", sp.off, sp.what, sp.size, maxFeature, ErrFormat)
		}
		b, err := sp.read(f)
		if err != nil {
			return err
		}
		if err := r.feature(uint64(id), b); err != nil {
			return fmt.Errorf("offset %#x: %s: %w", sp.off, sp.what, err)
		}
	}
	return nil
}

// featureBits returns the features that a bitmap has set. It is one of C's
// unsigned longs: on a big-endian machine of 32 bits, the halves of each number
// are the other way round. perf knows these by the host name, which it always writes.
func (r *reader) featureBits(bitmap []byte) (set [features]bool) {
	c := cursor{b: bitmap, big: r.big}
	for i := 0; i < features; i += 64 {
		word := c.u64("features")
		for bit := range 64 {
			set[i+bit] = word>>bit&1 != 0
		}
	}
	if r.big && !set[featureHostname] && set[featureHostname+32] {
		for i := 0; i < features; i += 64 {
			for bit := range 32 {
				set[i+bit], set[i+bit+32] = set[i+bit+32], set[i+bit]
			}
		}
	}
	return set
}

// feature reads one feature, of a file or in a record of a pipe's recording.
func (r *reader) feature(id uint64, b []byte) error {
	c := &cursor{b: b, big: r.big}
	switch id {
	case featureBuildID:
		return r.buildIDTable(c)
	case featureArch:
		r.cpu.Arch = arch(c.counted("arch"))
	case featureCPUDesc:
		r.cpu.Name = c.counted("cpudesc")
		r.cpu.MHz = nominalMHz(r.cpu.Name)
	case featureCPUID:
		setCPUID(&r.cpu, c.counted("cpuid"))
	case featureHostname:
		r.origin.host = c.counted("host name")
	case featureCmdline:
		r.origin.commandLine(c)
	case featureClockData:
		r.origin.clockData(c)
	case featureEventDesc:
		return r.eventDesc(c)
	}
	return c.err
}

// counted reads a string with its size (u32) before it, padded with zeros.
func (c *cursor) counted(field string) string {
	b := c.bytes(uint64(c.u32(field)), field)
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// eventDesc reads the names of events:
//
//	u32 number of events, u32 size of a perf_event_attr
//	of each: the perf_event_attr, u32 number of IDs, its name, u64 IDs
func (r *reader) eventDesc(c *cursor) error {
	n, size := c.u32("events"), c.u32("attr size")
	for i := range n {
		c.bytes(uint64(size), "attr")
		ids := c.u32("number of IDs")
		name := c.counted("name")
		list := cursor{b: c.array(uint64(ids), 8, "IDs"), big: c.big}
		if c.err != nil {
			return c.err
		}
		if ids == 0 && uint64(i) < uint64(len(r.events)) { // in the order of attrs
			r.events[i].label = name
		}
		for list.off < len(list.b) {
			if ev := r.byID[list.u64("id")]; ev != nil {
				ev.label = name
			}
		}
	}
	return c.err
}

// buildIDTable reads the build IDs of all images that had samples. The first one
// is of the kernel; between Linux 2.6.34 and 2.6.35 perf left out its pid, and
// that of all others.
func (r *reader) buildIDTable(c *cursor) error {
	const chopped = "nel.kallsyms]"
	withPID := true
	if at := recordHeaderSize + buildIDName; len(c.b) >= at+len(chopped) && string(c.b[at:at+len(chopped)]) == chopped {
		withPID = false
	}
	for c.off < len(c.b) {
		start := c.off
		c.u32("type")
		b := c.bytes(4, "misc, size")
		if c.err != nil {
			return c.err
		}
		misc, size := order(c.big).Uint16(b), order(c.big).Uint16(b[2:])
		if size < recordHeaderSize {
			return fmt.Errorf("at %#x: size: %d: %w", start, size, ErrFormat)
		}
		body := c.bytes(uint64(size-recordHeaderSize), "build ID")
		if c.err != nil {
			return c.err
		}
		if !withPID {
			body = append(make([]byte, 4), body...)
		}
		if err := r.buildID(&cursor{b: body, big: c.big}, misc); err != nil {
			return fmt.Errorf("at %#x: %w", start, err)
		}
	}
	return nil
}

// buildID reads the build ID of an image, after the header of its record:
//
//	offset  size  field
//	0       4     pid of the machine: -1, or that of a virtual one
//	4       20    build ID
//	24      1     its size, if miscBuildIDSize is set
//	28      -     file name
func (r *reader) buildID(c *cursor, misc uint16) error {
	c.u32("pid")
	b := c.bytes(24, "build ID")
	name := c.string("filename")
	if c.err != nil {
		return c.err
	}
	switch misc & miscModeMask {
	case modeKernel, modeHypervisor, modeGuestKernel, modeGuestUser:
		return nil
	}
	var id sample.BuildID
	n := len(id)
	if misc&miscBuildIDSize != 0 {
		if n = int(b[20]); n > len(id) {
			return fmt.Errorf("build ID: %d bytes, more than %d: %w", n, len(id), ErrFormat)
		}
	}
	copy(id[:n], b)
	r.buildIDs[name] = id
	r.late = r.late || r.began
	return nil
}

const buildIDName = 28

// arch returns the processor's architecture as uname -m of 64-bit Linux does.
func arch(s string) string {
	switch s {
	case "arm64":
		return "aarch64"
	case "amd64":
		return "x86_64"
	}
	return s
}

// setCPUID reads perf's identification of a processor: "GenuineIntel,6,207,2"
// on x86, the MIDR register in hexadecimal on AArch64.
func setCPUID(cpu *sample.CPU, s string) {
	if part := strings.Split(s, ","); len(part) == 4 {
		cpu.Vendor = part[0]
		for i, field := range []*int{&cpu.Family, &cpu.Model, &cpu.Stepping} {
			if n, err := strconv.ParseUint(part[i+1], 10, 16); err == nil {
				*field = int(n)
			}
		}
		return
	}
	if midr, err := strconv.ParseUint(s, 0, 64); err == nil && strings.HasPrefix(s, "0x") {
		cpu.Vendor = fmt.Sprintf("%#02x", midr>>24&0xff)
		cpu.Model = int(midr >> 4 & 0xfff)
		cpu.Stepping = int(midr>>20&0xf<<4 | midr&0xf)
	}
}

var clockRate = regexp.MustCompile(`@ *([0-9]+(?:\.[0-9]+)?) *([GM])Hz`)

// nominalMHz returns the clock that a processor's brand string promises, or 0.
func nominalMHz(name string) int {
	m := clockRate.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if m[2] == "G" {
		f *= 1000
	}
	if err != nil || f > 1e6 {
		return 0
	}
	return int(math.Round(f))
}
