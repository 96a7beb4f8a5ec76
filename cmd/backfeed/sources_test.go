package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// tinyPerf is the least that is a perf.data file: one event of the kind IP, TID,
// TIME, a mapping, and three samples in it. Layout: tools/perf/Documentation/
// perf.data-file-format.txt of Linux.
func tinyPerf() []byte {
	const headerSize, attrSize = 104, 112
	var data bytes.Buffer
	put := func(b *bytes.Buffer, vs ...any) {
		for _, v := range vs {
			binary.Write(b, binary.LittleEndian, v)
		}
	}
	name := []byte("/nowhere\x00\x00\x00\x00\x00\x00\x00\x00")
	put(&data, uint32(1), uint16(2), uint16(8+8+24+len(name)), uint32(7), uint32(7), uint64(0x400000), uint64(0x1000), uint64(0), name)
	for i := range uint64(3) {
		put(&data, uint32(9), uint16(2), uint16(32), uint64(0x400010), uint32(7), uint32(7), 1000+i)
	}
	attrs, start := uint64(headerSize), uint64(headerSize+attrSize+16)
	var b bytes.Buffer
	b.WriteString("PERFILE2")
	put(&b, uint64(headerSize), uint64(attrSize+16), attrs, uint64(attrSize+16), start, uint64(data.Len()), [6]uint64{})
	put(&b, uint32(1), uint32(attrSize), uint64(0), uint64(1000000), uint64(1|2|4), [attrSize - 32]byte{}, [2]uint64{})
	b.Write(data.Bytes())
	return b.Bytes()
}

// tinyPprof is a CPU profile with one sample in a mapping.
func tinyPprof(t *testing.T, compressed bool) []byte {
	t.Helper()
	m := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x401000, File: "/nowhere"}
	l := &profile.Location{ID: 1, Mapping: m, Address: 0x400010}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10000000,
		Sample:  []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{3, 30000000}}},
		Mapping: []*profile.Mapping{m}, Location: []*profile.Location{l},
	}
	var b bytes.Buffer
	write := p.Write
	if !compressed {
		write = p.WriteUncompressed
	}
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tinyOTLP is a message of OpenTelemetry's profiles with one sample of three times in a mapping, field by field as
// opentelemetry/proto/profiles/v1development/profiles.proto numbers them.
func tinyOTLP() []byte {
	field := func(number byte, parts ...[]byte) []byte {
		body := bytes.Join(parts, nil)
		return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(body))), body...)
	}
	number := func(number byte, v uint64) []byte { return binary.AppendUvarint([]byte{number << 3}, v) }
	var table []byte
	for _, s := range []string{"", "samples", "count", "cpu", "nanoseconds", "/nowhere"} {
		table = append(table, field(5, []byte(s))...)
	}
	return append(
		field(1, field(2, field(2, field(1, number(1, 1), number(2, 2)), field(2, number(1, 1), field(5, make([]byte, 24))), field(5, number(1, 3), number(2, 4)), number(6, 50e6)))),
		field(2, field(1), field(1, number(1, 0x400000), number(2, 0x401000), number(4, 5)), field(2), field(2, number(1, 1), number(2, 0x400010)), table, field(7), field(7, field(1, []byte{1})))...)
}

// TestSources: a good file of each kind is read, and ten bad ones each end with
// exit code 4 and a message that names the file and says what is wrong with it.
func TestSources(t *testing.T) {
	own := []byte(testtool.Read(t, recording(t, t.TempDir(), "own", sample.ImageID{Path: "/nowhere"})))
	perf, pprof, raw := tinyPerf(), tinyPprof(t, true), tinyPprof(t, false)
	otlp := tinyOTLP()
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(otlp))), otlp...)
	empty := (&sample.Recording{}).Encode()
	for _, kind := range []struct {
		name string
		good []byte
		bad  map[string][]byte
	}{
		{"recording", own, map[string][]byte{
			"cut in the magic":      own[:3],
			"magic alone":           own[:4],
			"cut in the checksum":   own[:6],
			"cut after it":          own[:8],
			"cut in the middle":     own[:len(own)/2],
			"last byte missing":     own[:len(own)-1],
			"a byte too many":       append(bytes.Clone(own), 0),
			"one bit flipped":       with(own, len(own)-3, own[len(own)-3]^1),
			"checksum flipped":      with(own, 5, own[5]^1),
			"of another version":    with(own, 3, '9'),
			"without samples":       empty,
			"two, one behind other": append(bytes.Clone(own), own...),
		}},
		{"perf.data", perf, map[string][]byte{
			"magic alone":           perf[:8],
			"cut in the header":     perf[:50],
			"cut in the attributes": perf[:150],
			"cut before the data":   perf[:232],
			"big-endian magic":      append([]byte("2ELIFREP"), perf[8:]...),
			"header size 0":         with(perf, 8, 0),
			"attribute size 0":      with(perf, 16, 0),
			"attributes elsewhere":  with(perf, 24+4, 0xff),
			"data elsewhere":        with(perf, 40+4, 0xff),
			"record of size 0":      with(perf, 232+6, 0),
			"no samples":            with(with(perf, 48, 56), 49, 0),
		}},
		{"pprof", pprof, map[string][]byte{
			"gzip magic alone":    pprof[:2],
			"cut in gzip header":  pprof[:8],
			"cut in the middle":   pprof[:len(pprof)/2],
			"checksum missing":    pprof[:len(pprof)-8],
			"one bit flipped":     with(pprof, 20, pprof[20]^1),
			"gzip of text":        zipped(t, []byte("these are not samples\n")),
			"gzip of nothing":     zipped(t, nil),
			"gzip of a recording": zipped(t, own),
			"raw, cut":            raw[:len(raw)/2],
			"raw, lying length":   with(raw, 1, 0x7f),
			"heap profile":        heapProfile(t),
		}},
		{"OTLP", otlp, map[string][]byte{
			"cut in the length":     framed[:3],
			"cut in the message":    framed[:len(framed)-1],
			"length of nothing":     make([]byte, 4),
			"cut in the middle":     otlp[:len(otlp)/2],
			"last byte missing":     otlp[:len(otlp)-1],
			"lying length":          with(otlp, 1, 0x7f),
			"another version":       []byte("\x0a\x08\x12\x06\x12\x04\x1a\x02\x01\x02"),
			"no dictionary":         []byte("\x0a\x08\x12\x06\x12\x04\x12\x02\x08\x01"),
			"JSON, cut":             []byte(`{"resourceProfiles":[{`),
			"JSON, not of profiles": []byte(`{"resourceProfiles":7}`),
			"zstd magic alone":      []byte("\x28\xb5\x2f\xfd"),
			"gzip, cut":             zipped(t, otlp)[:40],
		}},
		{"unknown", own, map[string][]byte{
			"empty":     nil,
			"text":      []byte("these are not samples\n"),
			"one byte":  {0x7f},
			"zeroes":    make([]byte, 4096),
			"an image":  tiny.ELF(sample.BuildID{1}),
			"JSON":      []byte(`{"schema": "backfeed.counts/1"}`),
			"callgrind": []byte("# callgrind format\nversion: 1\n"),
			"a script":  []byte("#!/bin/sh\nexit 0\n"),
			"UTF-16":    []byte("\xff\xfes\x00a\x00"),
			"archive":   []byte("!<arch>\n"),
		}},
	} {
		dir := t.TempDir()
		code, out, stderr := runCLI(t, "import", testtool.Write(t, dir, "good", string(kind.good)), "-o", "-")
		if rec, err := sample.Decode([]byte(out)); code != exitDone || err != nil || rec.Samples() != 3 {
			t.Errorf("%s: exit code %d, %s, %v", kind.name, code, stderr, err)
		}
		if len(kind.bad) < 10 {
			t.Errorf("%s: only %d bad inputs", kind.name, len(kind.bad))
		}
		for name, b := range kind.bad {
			path := testtool.Write(t, dir, strings.ReplaceAll(name, " ", "_"), string(b))
			code, out, stderr := runCLI(t, "import", path, "-o", "-")
			shape := regexp.MustCompile(`^backfeed: ` + regexp.QuoteMeta(path) + `: [^\n]+\n$`)
			if code != exitNothing || !shape.MatchString(stderr) || out != "" {
				t.Errorf("%s, %s: exit code %d, printed %q, message %q", kind.name, name, code, out, stderr)
			}
			says := regexp.MustCompile("broken off|[cC]ut off|left of|truncated")
			if strings.HasPrefix(name, "cut") && (kind.name == "recording" || kind.name == "perf.data" || kind.name == "pprof") && !says.MatchString(stderr) {
				t.Errorf("%s, %s: %s: want what it likely is", kind.name, name, stderr)
			}
			t.Logf("%s, %s: %s", kind.name, name, strings.TrimPrefix(stderr, "backfeed: "+path+": "))
		}
	}
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

// heapProfile is a profile that says nothing of what ran.
func heapProfile(t *testing.T) []byte {
	t.Helper()
	p, err := profile.ParseData(tinyPprof(t, true))
	if err != nil {
		t.Fatal(err)
	}
	p.SampleType = []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSourceIdle: of several sources, it is said which one has no samples, whatever reads them, and all else goes on.
func TestSourceIdle(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	idle := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10000000,
	}
	if err := idle.Write(&b); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "idle.pprof", b.String())
	testtool.Write(t, dir, "idle.bfr", string((&sample.Recording{}).Encode()))
	t.Chdir(dir)
	rec := recording(t, dir, "own", sample.ImageID{Path: "/nowhere"})
	for _, command := range []string{"images", "stats", "merge -o out", "merge --normalise -o out2"} {
		for _, name := range []string{"idle.pprof", "idle.bfr"} {
			// stats compares its sources: one without samples is an error.
			code, _, errs := runCLI(t, append(strings.Fields(command), rec, name)...)
			if want := name + ": no samples"; strings.Count(errs, want) != 1 || strings.Count(errs, ": no samples") != 1 || (code == exitDone) != (command != "stats") {
				t.Errorf("%s: exit code %d, want %q once: %s", command, code, want, errs)
			}
		}
	}
	many := []string{"images", rec}
	for range 12 {
		many = append(many, "idle.bfr")
	}
	if code, _, errs := runCLI(t, many...); code != exitDone || !strings.Contains(errs, "more of 13 sources have no samples") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if code, _, errs := runCLI(t, "images", rec); code != exitDone || strings.Contains(errs, "no samples") {
		t.Errorf("exit code %d of one source: %s", code, errs)
	}
}
