package perfdata

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// A synth writes recordings as perf would, of events and processors that the
// machine at hand need not have.
type synth struct {
	big   bool
	attrs []synthAttr
	data  []byte
	feat  map[int][]byte
	last  bool // IDs and attrs come last in the file
}

type synthAttr struct {
	attr
	size  uint32 // of the perf_event_attr; 0 is 128
	ids   []uint64
	label string // in EVENT_DESC
}

// raw are bytes that pack does not pad.
type raw []byte

// pack returns fields one after the other: integers by their size, strings with a
// zero and padding to 8 bytes.
func (s *synth) pack(fields ...any) []byte {
	var b []byte
	bo := order(s.big).(binary.AppendByteOrder)
	for _, f := range fields {
		switch f := f.(type) {
		case uint64:
			b = bo.AppendUint64(b, f)
		case int: // that has no better type
			b = bo.AppendUint64(b, uint64(f))
		case uint32:
			b = bo.AppendUint32(b, f)
		case uint16:
			b = bo.AppendUint16(b, f)
		case uint8:
			b = append(b, f)
		case raw:
			b = append(b, f...)
		case string:
			b = append(b, f...)
			b = append(b, make([]byte, 8-len(f)%8)...)
		}
	}
	return b
}

// counted returns a string with its size before it, as features have them.
func (s *synth) counted(str string) raw {
	padded := append([]byte(str), make([]byte, 64-len(str)%64)...)
	return raw(s.pack(uint32(len(padded)), raw(padded)))
}

func (s *synth) packRecord(typ uint32, misc uint16, fields ...any) []byte {
	body := s.pack(fields...)
	return s.pack(typ, misc, uint16(recordHeaderSize+len(body)), raw(body))
}

// record adds a record.
func (s *synth) record(typ uint32, misc uint16, fields ...any) {
	s.data = append(s.data, s.packRecord(typ, misc, fields...)...)
}

// sid returns the trailer of records that are not samples.
func (s *synth) sid(a *synthAttr, pid int, time uint64) raw {
	if !a.sampleIDAll() {
		return nil
	}
	id := uint64(0)
	if len(a.ids) > 0 {
		id = a.ids[0]
	}
	var b []byte
	for _, f := range []struct {
		bit    uint64
		fields []any
	}{
		{hasTID, []any{uint32(pid), uint32(pid)}}, {hasTime, []any{time}}, {hasID, []any{id}},
		{hasStreamID, []any{id}}, {hasCPU, []any{uint32(3), uint32(0)}}, {hasIdentifier, []any{id}},
	} {
		if a.sampleType&f.bit != 0 {
			b = append(b, s.pack(f.fields...)...)
		}
	}
	return b
}

func (s *synth) mmap2(a *synthAttr, pid int, time, addr, size, off uint64, build []byte, name string) {
	misc, file := uint16(modeUser), s.pack(uint32(8), uint32(1), uint64(4711), uint64(1))
	if build != nil {
		misc |= miscMapBuildID
		file = s.pack(uint8(len(build)), uint8(0), uint16(0), raw(build), raw(make([]byte, 20-len(build))))
	}
	s.record(recordMmap2, misc, uint32(pid), uint32(pid), addr, size, off, raw(file), uint32(5), uint32(2), name, s.sid(a, pid, time))
}

func (s *synth) comm(a *synthAttr, pid int, time uint64, misc uint16) {
	s.record(recordComm, misc, uint32(pid), uint32(pid), "prog", s.sid(a, pid, time))
}

func (s *synth) task(a *synthAttr, typ uint32, misc uint16, pid, parent, tid int, time uint64) {
	s.record(typ, misc, uint32(pid), uint32(parent), uint32(tid), uint32(parent), time, s.sid(a, pid, time))
}

// A synthSample has the fields of a SAMPLE record that tests set. The others,
// where an event asks for them, are filled with 0xee so that a reader that
// strays into them shows it.
type synthSample struct {
	misc     uint16
	pid      int
	time, ip uint64
	period   uint64
	chain    []uint64
	stack    []uint64 // from the stack pointer on
	regs     []uint64 // of the mask; nil is junk
	branches []synthBranch
	group    []uint64 // ID and value of each counter that was read; nil is junk
	times    []uint64 // enabled and running; nil is junk
	raw      []byte   // 4 bytes more than a multiple of 8; nil is 12 of 0xee
}

type synthBranch struct {
	from, to                       uint64
	mispredicted, abort, wrongPath bool
}

// flags returns the bit field of a branch entry as C lays it out.
func (s *synth) flags(b synthBranch) uint64 {
	var f uint64
	set := func(at, width int, v uint64) {
		if s.big {
			at = 64 - at - width
		}
		f |= v << at
	}
	one := map[bool]uint64{true: 1}
	set(0, 1, one[b.mispredicted])
	set(1, 1, one[!b.mispredicted])
	set(3, 1, one[b.abort])
	set(4, 16, 5)
	set(20, 4, 1)
	set(24, 2, one[b.wrongPath])
	if !b.wrongPath {
		set(24, 2, 2)
	}
	return f
}

func (s *synth) sample(a *synthAttr, x synthSample) {
	const junk = uint64(0xeeeeeeeeeeeeeeee)
	id := uint64(0)
	if len(a.ids) > 0 {
		id = a.ids[len(a.ids)-1]
	}
	if x.misc == 0 {
		x.misc = modeUser
	}
	var b []byte
	put := func(bit uint64, fields ...any) {
		if a.sampleType&bit != 0 {
			b = append(b, s.pack(fields...)...)
		}
	}
	words := func(list []uint64) raw {
		var r raw
		for _, w := range list {
			r = append(r, s.pack(w)...)
		}
		return r
	}
	put(hasIdentifier, id)
	put(hasIP, x.ip)
	put(hasTID, uint32(x.pid), uint32(x.pid))
	put(hasTime, x.time)
	put(hasAddr, junk)
	put(hasID, id)
	put(hasStreamID, junk)
	put(hasCPU, uint32(3), uint32(0))
	put(hasPeriod, x.period)
	put(hasRead, s.read(a, x.time, x.group, x.times...))
	put(hasCallchain, len(x.chain), words(x.chain))
	if x.raw == nil {
		x.raw = bytes.Repeat([]byte{0xee}, 12)
	}
	put(hasRaw, uint32(len(x.raw)), raw(x.raw))
	put(hasBranches, len(x.branches))
	if a.branchType&branchHwIndex != 0 {
		put(hasBranches, junk)
	}
	for _, br := range x.branches {
		put(hasBranches, br.from, br.to, s.flags(br))
	}
	if a.branchType&branchCounters != 0 {
		put(hasBranches, words(slices.Repeat([]uint64{junk}, len(x.branches))))
	}
	if x.regs == nil {
		x.regs = slices.Repeat([]uint64{junk}, bits.OnesCount64(a.regsUser))
	}
	put(hasRegsUser, 2, words(x.regs))
	if x.stack == nil {
		x.stack = []uint64{junk, junk}
	}
	put(hasStackUser, 8*len(x.stack), words(x.stack))
	if len(x.stack) > 0 {
		put(hasStackUser, 8*len(x.stack))
	}
	put(hasWeight|hasWeightStruct, junk)
	put(hasDataSrc, junk)
	put(hasTransaction, junk)
	put(hasRegsIntr, 2, words(slices.Repeat([]uint64{junk}, bits.OnesCount64(a.regsIntr))))
	put(hasPhysAddr, junk)
	put(hasCgroup, junk)
	put(hasDataPageSize, 4096)
	put(hasCodePageSize, 4096)
	put(hasAux, 8, junk)
	s.record(recordSample, x.misc, raw(b))
}

// read returns the counters of a sample, in the layout of read_format. Of a group,
// perf knows the first. Without times, these are junk.
func (s *synth) read(a *synthAttr, value uint64, group []uint64, times ...uint64) raw {
	const junk = uint64(0xeeeeeeeeeeeeeeee)
	var b []byte
	one := func(value, id uint64) {
		b = append(b, s.pack(value)...)
		if a.readFormat&readID != 0 {
			b = append(b, s.pack(id)...)
		}
		if a.readFormat&readLost != 0 {
			b = append(b, s.pack(junk)...)
		}
	}
	spell := raw(bytes.Repeat([]byte{0xee}, 8*bits.OnesCount64(a.readFormat&(readEnabled|readRunning))))
	if len(times) > 0 {
		spell = s.pack(times[0], times[1])
	}
	if a.readFormat&readGroup != 0 && group != nil {
		b = s.pack(len(group)/2, spell)
		for i := 0; i < len(group); i += 2 {
			one(group[i+1], group[i])
		}
		return b
	}
	if a.readFormat&readGroup != 0 {
		b = s.pack(3, spell)
		one(value, a.ids[0])
		one(junk, junk)
		one(junk, junk)
		return b
	}
	b = s.pack(value, spell)
	if a.readFormat&readID != 0 {
		b = append(b, s.pack(a.ids[0])...)
	}
	if a.readFormat&readLost != 0 {
		b = append(b, s.pack(junk)...)
	}
	return b
}

// threadEnded writes what the kernel does of a thread that ends: how long a counter of it was enabled, and ran.
func (s *synth) threadEnded(a *synthAttr, id uint64, tid int, time, enabled, running uint64) {
	of := *a
	of.ids = []uint64{id}
	s.record(recordRead, 0, uint32(1), uint32(tid), s.read(&of, 4711, nil, enabled, running), s.sid(&of, 1, time))
}

// index writes where counters count: ID, processor and thread of each.
func (s *synth) index(entries ...[3]uint64) {
	var b raw
	for i, e := range entries {
		b = append(b, s.pack(e[0], i, e[1], e[2])...)
	}
	s.record(recordIDIndex, 0, len(entries), b)
}

func (s *synth) packAttr(a *synthAttr) []byte {
	size := a.size
	if size == 0 {
		size = 128
	}
	flags := a.flags
	if s.big {
		flags = bits.Reverse64(flags)
	}
	b := s.pack(a.typ, size, a.config, a.period, a.sampleType, a.readFormat, flags, 0,
		a.bpAddr, 0, a.branchType, a.regsUser, 0, a.regsIntr)
	if pad := int(size) - len(b); pad > 0 {
		b = append(b, make([]byte, pad)...)
	}
	return b[:size]
}

// buildID returns an entry of the feature of build IDs, with its size in it or not.
func (s *synth) buildID(name string, id []byte, withSize bool) []byte {
	misc, size := uint16(modeUser), uint8(0)
	if withSize {
		misc, size = misc|miscBuildIDSize, uint8(len(id))
	}
	return s.packRecord(recordBuildID, misc, ^uint32(0), raw(id), raw(make([]byte, 20-len(id))), size, uint8(0), uint16(0), name)
}

// describe returns the feature EVENT_DESC.
func (s *synth) describe() []byte {
	b := s.pack(uint32(len(s.attrs)), uint32(128))
	for i := range s.attrs {
		a := &s.attrs[i]
		full := *a
		full.size = 128
		b = append(b, s.pack(raw(s.packAttr(&full)), uint32(len(a.ids)), s.counted(a.label))...)
		for _, id := range a.ids {
			b = append(b, s.pack(id)...)
		}
	}
	return b
}

// file returns the recording as a file.
func (s *synth) file() []byte {
	idSize := 0
	entrySize := 0
	for i := range s.attrs {
		idSize += 8 * len(s.attrs[i].ids)
		entrySize = len(s.packAttr(&s.attrs[i])) + sectionSize
	}
	dataAt := fileHeaderSize + idSize + len(s.attrs)*entrySize
	if s.last {
		dataAt = fileHeaderSize
	}
	bitmap, features := s.features(dataAt + len(s.data))
	idsAt := fileHeaderSize
	if s.last {
		idsAt = dataAt + len(s.data) + len(features)
	}
	var ids, entries []byte
	for i := range s.attrs {
		a := &s.attrs[i]
		entries = append(entries, s.pack(raw(s.packAttr(a)), idsAt+len(ids), 8*len(a.ids))...)
		for _, id := range a.ids {
			ids = append(ids, s.pack(id)...)
		}
	}
	head := append(s.magic(), s.pack(fileHeaderSize, entrySize, idsAt+len(ids), len(entries), dataAt, len(s.data), 0, 0,
		bitmap[0], bitmap[1], bitmap[2], bitmap[3])...)
	if s.last {
		return slices.Concat(head, s.data, features, ids, entries)
	}
	return slices.Concat(head, ids, entries, s.data, features)
}

// features returns the bitmap of the features, their table and what it lists.
func (s *synth) features(at int) (bitmap [4]uint64, b []byte) {
	at += sectionSize * len(s.feat)
	var bodies []byte
	for _, id := range slices.Sorted(maps.Keys(s.feat)) {
		bitmap[id/64] |= 1 << (id % 64)
		b = append(b, s.pack(at+len(bodies), len(s.feat[id]))...)
		bodies = append(bodies, s.feat[id]...)
	}
	return bitmap, append(b, bodies...)
}

func (s *synth) magic() []byte {
	if s.big {
		return []byte("2ELIFREP")
	}
	return []byte("PERFILE2")
}

// pipe returns the recording as perf writes it to a pipe.
func (s *synth) pipe() []byte {
	b := append(s.magic(), s.pack(pipeHeaderSize)...)
	for _, id := range slices.Sorted(maps.Keys(s.feat)) {
		b = append(b, s.packRecord(recordFeature, 0, id, raw(s.feat[id]))...)
	}
	for i := range s.attrs {
		a := &s.attrs[i]
		body := s.packAttr(a)
		for _, id := range a.ids {
			body = append(body, s.pack(id)...)
		}
		b = append(b, s.packRecord(recordAttr, 0, raw(body))...)
		if a.label != "" && len(a.ids) > 0 {
			b = append(b, s.packRecord(recordEventUpdate, 0, 2, a.ids[0], a.label)...)
		}
	}
	return append(b, s.data...)
}

// compress puts the data so far into COMPRESSED records, of at most size
// decompressed bytes each: records are cut wherever that comes.
func (s *synth) compress(typ uint32, size int) {
	var out bytes.Buffer
	enc, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(64<<10))
	if err != nil {
		panic(err)
	}
	var data []byte
	for part := range slices.Chunk(s.data, size) {
		if _, err := enc.Write(part); err != nil {
			panic(err)
		}
		enc.Flush()
		body := slices.Clone(out.Bytes())
		if typ == recordCompressed2 {
			body = s.pack(len(body), raw(body), raw(make([]byte, -len(body)&7)))
		}
		data = append(data, s.packRecord(typ, 0, raw(body))...)
		data = append(data, s.packRecord(recordRound, 0)...)
		out.Reset()
	}
	s.data = data
}
