package sample

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/pprof/profile"
)

// encodePprof returns a profile as it is stored: compressed and not.
func encodePprof(t testing.TB, p *profile.Profile) (zipped, plain []byte) {
	t.Helper()
	var z, b bytes.Buffer
	if err := p.Write(&z); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return z.Bytes(), b.Bytes()
}

func TestSniff(t *testing.T) {
	zipped, plain := encodePprof(t, cpuProfile())
	for _, tt := range []struct {
		name string
		b    []byte
		want Format
	}{
		{"recording", three().Encode(), FormatBackfeed},
		{"recording of another version", []byte("bfr1\x00\x00\x00\x00\x00"), FormatBackfeed},
		{"perf.data", []byte("PERFILE2\x68\x00\x00\x00\x00\x00\x00\x00\x90"), FormatPerf},
		{"perf.data of a big-endian machine", []byte("2ELIFREP\x00\x00\x00\x00\x00\x00\x00\x68\x00"), FormatPerf},
		{"perf.data, cut short", []byte("PERFILE2\x10"), FormatPerf},
		{"pipe", []byte("PERFILE2\x10\x00\x00\x00\x00\x00\x00\x00"), FormatPerfPipe},
		{"pipe of a big-endian machine", []byte("2ELIFREP\x00\x00\x00\x00\x00\x00\x00\x10"), FormatPerfPipe},
		{"pprof", zipped, FormatPprof},
		{"pprof, not compressed", plain, FormatPprof},
		{"empty", nil, FormatUnknown},
		{"text", []byte("\n# Overhead  Command\n"), FormatUnknown},
		{"JSON", []byte(`{"schema": "backfeed.counts/1"}`), FormatUnknown},
		{"ELF", []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), FormatUnknown},
		{"another proto", []byte("\x0a\x05hello\x10\x01"), FormatUnknown},
		{"compressed text", gzipped(t, []byte("hello, world")), FormatUnknown},
		{"gzip header alone", zipped[:10], FormatUnknown},
	} {
		if got := Sniff(tt.b); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestSniffPrefix: what follows the first SniffLen bytes does not matter.
func TestSniffPrefix(t *testing.T) {
	p := cpuProfile()
	for i := range 5000 {
		p.Comments = append(p.Comments, string(rune('a'+i%26))+string(bytes.Repeat([]byte{byte(i)}, i%60)))
	}
	zipped, plain := encodePprof(t, p)
	for _, b := range [][]byte{zipped, plain} {
		if got := Sniff(b[:min(len(b), SniffLen)]); got != FormatPprof {
			t.Errorf("first bytes of %d: %v, want %v", len(b), got, FormatPprof)
		}
		if _, err := ReadPprof(iotest.OneByteReader(bytes.NewReader(b))); err != nil {
			t.Error(err)
		}
	}
}

func FuzzSniff(f *testing.F) {
	zipped, plain := encodePprof(f, cpuProfile())
	f.Add(zipped)
	f.Add(plain)
	f.Add(three().Encode())
	f.Add([]byte("PERFILE2\x10\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := Sniff(b); got.String() == "" {
			t.Errorf("format %d has no name", got)
		}
	})
}

// TestSniffBroken: what is left of a profile in pprof's format is told as one, and its reader says where it is broken off.
func TestSniffBroken(t *testing.T) {
	whole := []byte("\x0a\x04\x08\x01\x10\x02\x12\x20half of a sample")
	zip := func(b []byte) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(b)
		w.Close()
		return z.Bytes()
	}
	cut := zip(append([]byte("\x0a\x04\x08\x01\x10\x02"), bytes.Repeat([]byte("\x32\x03abc"), 100)...))
	cut = cut[:len(cut)-9] // into the last block and what follows
	for name, tt := range map[string]struct {
		b    []byte
		want string
	}{
		"plain":          {whole, "offset 0x6: field of Profile: malformed recording, broken off or changed since it was written"},
		"packed":         {zip(whole), "offset 0x6: field of Profile: malformed recording, broken off or changed since it was written"},
		"packed and cut": {cut, fmt.Sprintf("offset %#x: gzip stream: unexpected EOF", len(cut))},
	} {
		_, err := ReadPprof(bytes.NewReader(tt.b))
		if got := Sniff(tt.b); got != FormatPprof || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, tt.want)
		}
	}
}
