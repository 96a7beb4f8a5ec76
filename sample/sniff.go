package sample

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
)

// A Format is what a file of samples is written in.
type Format uint8

const (
	FormatUnknown  Format = iota
	FormatBackfeed        // a Recording
	FormatPerf            // perf.data, as a file
	FormatPerfPipe        // perf.data, as written to a pipe
	FormatPprof           // a profile of google/pprof, compressed or not
	FormatOTLP            // profiles of OpenTelemetry, in JSON or protobuf, compressed or not
)

func (f Format) String() string {
	return [...]string{"unknown", "backfeed recording", "perf.data", "perf.data pipe", "pprof", "OTLP"}[f]
}

// SniffLen is the number of bytes that Sniff looks at, at most.
const SniffLen = 4096

// Sniff tells the format of a file from its first SniffLen bytes, or all of them
// if there are fewer.
func Sniff(b []byte) Format {
	b = b[:min(len(b), SniffLen)]
	switch {
	case isMagic(string(b[:min(len(b), len(magic))])):
		return FormatBackfeed
	case bytes.HasPrefix(b, []byte("PERFILE2")):
		return sniffPerf(b, binary.LittleEndian)
	case bytes.HasPrefix(b, []byte("2ELIFREP")):
		return sniffPerf(b, binary.BigEndian)
	case bytes.HasPrefix(b, gzipMagic):
		return sniffGzip(b)
	case sniffPprof(b, len(b) == SniffLen):
		return FormatPprof
	case sniffOTLP(b), bytes.HasPrefix(b, zstdMagic): // nothing else that is read begins with zstd
		return FormatOTLP
	case sniffPprof(b, true): // it is broken off, of which its reader says more
		return FormatPprof
	}
	return FormatUnknown
}

// sniffPerf tells apart the forms of perf.data: the header that a pipe begins
// with is its magic and size alone (struct perf_pipe_file_header of
// tools/perf/util/header.h).
func sniffPerf(b []byte, order binary.ByteOrder) Format {
	if len(b) >= 16 && order.Uint64(b[8:]) == 16 {
		return FormatPerfPipe
	}
	return FormatPerf
}

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// sniffGzip looks at what b holds compressed, which is usually cut off.
func sniffGzip(b []byte) Format {
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return FormatUnknown
	}
	plain := make([]byte, SniffLen)
	n, _ := io.ReadFull(zr, plain) // of what is cut off, all there is
	if sniffPprof(plain[:n], n == SniffLen || len(b) == SniffLen) {
		return FormatPprof
	}
	if sniffOTLP(plain[:n]) {
		return FormatOTLP
	}
	if sniffPprof(plain[:n], true) {
		return FormatPprof
	}
	return FormatUnknown
}

// sniffOTLP reports whether b is, or begins, a message ProfilesData of OpenTelemetry, in JSON or protobuf, or such messages
// with their lengths in front, as the collector's file exporter writes them. Nothing has a magic.
func sniffOTLP(b []byte) bool {
	if text := bytes.TrimLeft(b, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		text = bytes.TrimLeft(text[1:], " \t\r\n")
		return bytes.HasPrefix(text, []byte(`"resourceProfiles"`)) || bytes.HasPrefix(text, []byte(`"dictionary"`)) && bytes.Contains(text, []byte(`Table"`))
	}
	if sniffProfiles(b) {
		return true
	}
	const mostLength = 128 << 20
	if len(b) < 5 || binary.BigEndian.Uint32(b) > mostLength {
		return false
	}
	b = b[4:min(int64(len(b)), 4+int64(binary.BigEndian.Uint32(b)))]
	return bytes.HasPrefix(b, zstdMagic) || len(b) > 0 && b[0] == '{' && sniffOTLP(b) || sniffProfiles(b)
}

// sniffProfiles reports whether b is, or begins, a ProfilesData of opentelemetry/proto/profiles/v1development: resource_profiles
// = 1, whose fields 1 to 3 are messages and strings, and dictionary = 2, whose fields 1 to 7 are.
func sniffProfiles(b []byte) bool {
	found := false
	for len(b) > 0 {
		key, body, rest, ok := protoBody(b)
		if !ok || key > 2 {
			return false
		}
		for last := map[uint64]uint64{1: 3, 2: 7}[key]; len(body) > 0; {
			sub, _, next, ok := protoBody(body)
			if !ok || sub > last {
				return false
			}
			found, body = true, next
		}
		b = rest
	}
	return found
}

// protoBody cuts the first field off a message that may itself be cut off, if it is one with a length.
func protoBody(b []byte) (number uint64, body, rest []byte, ok bool) {
	key, n := binary.Uvarint(b)
	if n <= 0 || key&7 != 2 || key>>3 == 0 {
		return 0, nil, nil, false
	}
	size, m := binary.Uvarint(b[n:])
	if m < 0 || m == 0 && len(b) > n {
		return 0, nil, nil, false
	}
	body = b[n+max(m, 0):]
	size = min(size, uint64(len(body)))
	return key >> 3, body[:size], body[size:], true
}

// pprofInts are the fields of message Profile in profile.proto that are plain
// integers; all others up to pprofLast are messages, strings or packed lists.
const (
	pprofInts = 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<12 | 1<<13 | 1<<14 | 1<<15
	pprofList = 13 // comment: integers, packed or not
	pprofLast = 15
)

// sniffPprof reports whether b is a Profile of profile.proto, or the beginning of
// one if it is cut off. The format has no magic, but each writer puts the types
// of the samples before them: field 1, a message of two small integers.
func sniffPprof(b []byte, cut bool) bool {
	typed := false
	for len(b) > 0 {
		f, rest, ok := protoField(b)
		if !ok {
			return typed && cut
		}
		isInt := pprofInts>>f.number&1 == 1
		if f.number < 1 || f.number > pprofLast || f.isInt != isInt && f.number != pprofList {
			return false
		}
		if f.number == 1 {
			if !sniffValueType(f.body) {
				return false
			}
			typed = true
		}
		b = rest
	}
	return typed
}

// sniffValueType reports whether b is a message ValueType: type = 1, unit = 2.
func sniffValueType(b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := protoField(b)
		if !ok || f.number < 1 || f.number > 2 || !f.isInt {
			return false
		}
		b = rest
	}
	return true
}

// A protoEntry is a field of a protocol buffer message, of the two kinds that
// profile.proto has: integers, and bytes with a length.
type protoEntry struct {
	number uint64
	isInt  bool
	value  uint64 // of an integer
	body   []byte
}

// protoField cuts the first field off a message.
func protoField(b []byte) (f protoEntry, rest []byte, ok bool) {
	key, n := binary.Uvarint(b)
	if n <= 0 {
		return protoEntry{}, nil, false
	}
	v, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return protoEntry{}, nil, false
	}
	rest = b[n+m:]
	f = protoEntry{number: key >> 3, isInt: key&7 == 0}
	switch {
	case f.isInt:
		f.value = v
		return f, rest, true
	case key&7 == 2 && v <= uint64(len(rest)):
		f.body = rest[:v]
		return f, rest[v:], true
	}
	return protoEntry{}, nil, false
}
