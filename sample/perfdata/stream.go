package perfdata

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"backfeed/sample/bound"
)

// Record types that are read, from include/uapi/linux/perf_event.h and
// tools/lib/perf/include/perf/event.h. Types from 64 on are perf's own.
const (
	recordMmap        = 1
	recordLost        = 2
	recordComm        = 3
	recordExit        = 4
	recordThrottle    = 5
	recordFork        = 7
	recordRead        = 8
	recordSample      = 9
	recordMmap2       = 10
	recordLostSamples = 13
	recordCgroup      = 19
	recordUser        = 64
	recordAttr        = 64
	recordTracingData = 66
	recordBuildID     = 67
	recordRound       = 68
	recordIDIndex     = 69
	recordAuxtrace    = 71
	recordStat        = 76
	recordEventUpdate = 78
	recordFeature     = 80
	recordCompressed  = 81
	recordCompressed2 = 83

	recordHeaderSize  = 8
	compressed2Header = 16
	maxRecordSize     = 1<<16 - 1
)

// A recordType is the type of a record, for error messages.
type recordType uint32

const anyRecord recordType = 1<<32 - 1 // its header could not be read

var recordNames = map[recordType]string{
	recordMmap: "MMAP", recordLost: "LOST", recordComm: "COMM", recordExit: "EXIT", recordThrottle: "THROTTLE",
	recordFork: "FORK", recordRead: "READ", recordSample: "SAMPLE", recordMmap2: "MMAP2", recordLostSamples: "LOST_SAMPLES", recordCgroup: "CGROUP",
	recordAttr: "HEADER_ATTR", recordTracingData: "HEADER_TRACING_DATA", recordBuildID: "HEADER_BUILD_ID",
	recordRound: "FINISHED_ROUND", recordIDIndex: "ID_INDEX", recordStat: "STAT", recordAuxtrace: "AUXTRACE", recordEventUpdate: "EVENT_UPDATE",
	recordFeature: "HEADER_FEATURE", recordCompressed: "COMPRESSED", recordCompressed2: "COMPRESSED2",
}

func (t recordType) String() string {
	if s := recordNames[t]; s != "" {
		return s + " record"
	}
	if t == anyRecord {
		return "record"
	}
	return fmt.Sprintf("record of type %d", uint32(t))
}

// A record is one entry of the data of a recording:
//
//	offset  size  field
//	0       4     type
//	4       2     misc: three bits of processor mode, the others depend on the type
//	6       2     size, these 8 bytes included
//	8       -     what the type says
type record struct {
	typ  recordType
	misc uint16
	body []byte // after the header; valid until the next record is asked for
	off  int64  // of the record in its stream
}

// What offsets are of, in messages.
const (
	offsetName = "offset"
	insideName = "decompressed offset"
)

// A stream cuts data into records.
type stream struct {
	br   *bufio.Reader
	big  bool
	off  int64  // of the next record
	end  int64  // of the data, or -1 if it goes on to the end of the reader
	what string // offsetName or insideName
	held int    // bytes of the record given last, which br still holds
}

func newStream(r io.Reader, big bool, off, end int64) *stream {
	return &stream{br: bufio.NewReaderSize(r, 4*(maxRecordSize+1)), big: big, off: off, end: end, what: offsetName}
}

func (s *stream) errorf(off int64, format string, args ...any) error {
	return fmt.Errorf("%s %#x: %w", s.what, off, fmt.Errorf(format, args...))
}

// all calls handle for each record of s and for those inside its COMPRESSED records, and
// passes over the data that follow some. At the end of s, it returns io.EOF.
func (s *stream) all(handle func(record, *around) error) error {
	for {
		rec, err := s.next()
		switch {
		case err != nil:
		case rec.typ == recordCompressed || rec.typ == recordCompressed2:
			err = inflate(s, rec, handle) // to the end of s
		default:
			err = s.one(rec, nil, handle)
		}
		if err != nil {
			return err
		}
	}
}

// one calls handle for rec, and passes over the data that follow it.
func (s *stream) one(rec record, inside *around, handle func(record, *around) error) error {
	if err := handle(rec, inside); err != nil {
		return err
	}
	c := cursor{b: rec.body, big: s.big}
	var n uint64
	what := ""
	switch rec.typ {
	case recordTracingData: // in units of 8 bytes
		n, what = (uint64(c.u32("size"))+7)&^7, "tracing data"
	case recordAuxtrace:
		n, what = c.u64("size"), "AUX data"
	default:
		return nil
	}
	err := c.err
	if err == nil {
		err = s.skip(n, what)
	}
	if err != nil {
		return s.errorf(rec.off, "%s: %w", rec.typ, err)
	}
	return nil
}

// next returns the next record, or io.EOF at the end of the data.
func (s *stream) next() (record, error) {
	s.br.Discard(s.held) // cannot fail: it was peeked
	s.held = 0
	if s.off == s.end {
		return record{}, io.EOF
	}
	head, err := s.peek(recordHeaderSize, anyRecord)
	if err != nil {
		return record{}, err
	}
	c := cursor{b: head, big: s.big}
	rec := record{typ: recordType(c.u32("type")), off: s.off}
	bo := order(s.big)
	rec.misc = bo.Uint16(head[4:])
	size := int(bo.Uint16(head[6:]))
	if rec.typ == recordCompressed2 {
		if size, err = s.compressed2Size(size); err != nil {
			return record{}, err
		}
	}
	if size < recordHeaderSize {
		return record{}, s.errorf(s.off, "%s: size: %d, less than its header has: %w", rec.typ, size, ErrFormat)
	}
	b, err := s.peek(size, rec.typ)
	if err != nil {
		return record{}, err
	}
	rec.body = b[recordHeaderSize:]
	s.held = size
	s.off += int64(size)
	return rec, nil
}

// compressed2Size corrects the size of a COMPRESSED2 record. It is a multiple of
// 8, and when perf 6.16 rounded it up to 65536, 0 was what it wrote; nor did it
// write the padding.
func (s *stream) compressed2Size(size int) (int, error) {
	head, err := s.peek(compressed2Header, recordType(recordCompressed2))
	if err != nil {
		return 0, err
	}
	data := order(s.big).Uint64(head[8:])
	if size >= compressed2Header && data <= uint64(size-compressed2Header) {
		return size, nil
	}
	if size != 0 || data > maxRecordSize-compressed2Header {
		return 0, s.errorf(s.off, "%s: data_size: %d in a record of %d bytes: %w", recordType(recordCompressed2), data, size, ErrFormat)
	}
	return compressed2Header + int(data), nil
}

// peek returns the next n bytes without taking them.
func (s *stream) peek(n int, what recordType) ([]byte, error) {
	if s.end >= 0 && int64(n) > s.end-s.off {
		return nil, s.errorf(s.off, "%s: cut off: %d bytes, but the data end after %d: %w", what, n, s.end-s.off, ErrFormat)
	}
	b, err := s.br.Peek(n)
	switch {
	case err == nil:
		return b, nil
	case err != io.EOF:
		return nil, err
	case len(b) == 0 && s.end < 0:
		return nil, io.EOF
	}
	return nil, s.errorf(s.off, "%s: cut off after %d of %d bytes: %w", what, len(b), n, ErrFormat)
}

// skip passes over n bytes that follow the record given last.
func (s *stream) skip(n uint64, field string) error {
	s.br.Discard(s.held)
	s.held = 0
	if s.end >= 0 && n > uint64(s.end-s.off) {
		return fmt.Errorf("%s: %d bytes follow, but the data end after %d: %w", field, n, s.end-s.off, ErrFormat)
	}
	for n > 0 {
		k, err := s.br.Discard(int(min(n, 1<<30)))
		s.off += int64(k)
		n -= uint64(k)
		if err == io.EOF {
			return fmt.Errorf("%s: cut off, %d bytes are missing: %w", field, n, ErrFormat)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxWindow is the largest window that a zstd level asks for (level 22; perf's
// own default is level 1, with 512 KB), and bounds the memory of the decoder.
const maxWindow = 128 << 20

// An around is the COMPRESSED record that a record came out of.
type around struct {
	off int64
	typ recordType
	err error // why there is no more after what it holds, if that was known by then; nil at the end
}

// blame returns the error about a record of s, or about one that was inside another.
func (s *stream) blame(inside *around, err error) error {
	switch {
	case err == nil || inside == nil:
		return err
	case inside.err != nil:
		return inside.err
	case err == io.EOF:
		return io.EOF
	case errors.Is(err, ErrFormat):
		return s.errorf(inside.off, "%s: %w", inside.typ, err)
	}
	return s.errorf(inside.off, "%s: zstd: %w: %w", inside.typ, err, ErrFormat)
}

// inflate hands on the records inside the COMPRESSED records of s, beginning
// with first, and the uncompressed ones between them, until s ends. Together the
// COMPRESSED records hold one zstd stream, which perf flushes at the end of each
// but never finishes; a record inside may begin in one and end in the next. At the
// end of s, inflate returns io.EOF.
func inflate(s *stream, first record, handle func(record, *around) error) error {
	p := &payloads{s: s, handle: handle}
	if err := p.take(first); err != nil {
		return err
	}
	in, packed := bound.Stream(p)
	// One decoder that works as it is asked to: by the time it wants the next
	// COMPRESSED record, everything of the one before has been handed on.
	dec, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer dec.Close()
	inner := newStream(in.Unpack(&inflater{dec, p}), s.big, 0, -1)
	inner.what = insideName
	for {
		rec, err := inner.next()
		if err == nil {
			err = inner.one(rec, p.at, handle)
		}
		if err != nil {
			return s.blame(p.at, err)
		}
	}
}

// payloads is the compressed stream, read from one COMPRESSED record after the other.
type payloads struct {
	s      *stream
	handle func(record, *around) error
	at     *around // that data is of
	data   []byte  // not read yet
	asked  int     // bytes read since something came out of the decoder
	err    error   // why there is no more
}

func (p *payloads) take(rec record) error {
	c := cursor{b: rec.body, big: p.s.big}
	n := uint64(len(rec.body))
	if rec.typ == recordCompressed2 {
		n = c.u64("data_size")
	}
	p.at, p.data = &around{off: rec.off, typ: rec.typ}, c.bytes(n, "data")
	if c.err != nil {
		return p.s.errorf(rec.off, "%s: %w", rec.typ, c.err)
	}
	return nil
}

func (p *payloads) Read(b []byte) (int, error) {
	for len(p.data) == 0 && p.err == nil {
		if p.err = p.advance(); p.err != nil && p.err != io.EOF {
			p.at = &around{p.at.off, p.at.typ, p.err} // records that were handed on keep theirs
		}
	}
	if p.err != nil {
		return 0, p.err
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	p.asked += n
	return n, nil
}

func (p *payloads) advance() error {
	rec, err := p.s.next()
	if err != nil {
		return err
	}
	if rec.typ == recordCompressed || rec.typ == recordCompressed2 {
		return p.take(rec)
	}
	return p.s.one(rec, nil, p.handle)
}

// inflater is the decompressed stream.
type inflater struct {
	dec *zstd.Decoder
	p   *payloads
}

func (f *inflater) Read(b []byte) (int, error) {
	n, err := f.dec.Read(b)
	if n > 0 {
		f.p.asked = 0
	}
	// No frame ends where perf stops, which the decoder finds unexpected. It is
	// an error only in the middle of a block.
	if err == io.ErrUnexpectedEOF && f.p.err == io.EOF && f.p.asked == 0 {
		err = io.EOF
	}
	return n, err
}
