package sample

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/bound"
)

// field returns a field of a protocol buffer message that holds bytes.
func field(number uint64, body ...byte) []byte {
	b := binary.AppendUvarint(binary.AppendUvarint(nil, number<<3|2), uint64(len(body)))
	return append(b, body...)
}

// bombProfile is a profile of samples/count, compressed, with so many samples of one place, whose
// message is body and so many repetitions of more.
func bombProfile(samples int, body, more []byte, times int) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	z.Write(field(1, 0x08, 1, 0x10, 2))                         // samples/count
	z.Write(field(3, 0x08, 1, 0x10, 0x10, 0x18, 0x20, 0x28, 3)) // a mapping of a at [0x10, 0x20)
	z.Write(field(4, 0x08, 1, 0x10, 1, 0x18, 0x11))             // a location in it
	for _, s := range []string{"", "samples", "count", "a"} {
		z.Write(field(6, []byte(s)...))
	}
	sample := field(2, append(bytes.Clone(body), bytes.Repeat(more, times)...)...)
	for range samples {
		z.Write(sample)
	}
	z.Close()
	return out.Bytes()
}

// TestPprofBombs are profiles that are little when compressed.
func TestPprofBombs(t *testing.T) {
	one := append(field(1, 1), field(2, 1)...)
	label := field(3, 0x08, 1, 0x10, 2)
	for _, tt := range []struct {
		name  string
		b     []byte
		field string // no field: it is read
	}{
		{"labels", bombProfile(500, one, label, 5000), ""},
		{"more labels", bombProfile(2000, one, label, 5000), "unpacked"},
		{"stacks", bombProfile(200, field(2, 1), field(1, bytes.Repeat([]byte{1}, 10_000)...), 7), "sample"},
		{"zeros", bombProfile(1, field(1, 1), field(2, make([]byte, 10<<20)...), 1), "values"},
		{"strings", bombProfile(1, one, nil, 0), ""},
		{"labels that are asked for", bombProfile(500, one, field(3, 0x08, 3, 0x10, 2), 5000), ""},
		{"few stacks", bombProfile(5, field(2, 1), field(1, bytes.Repeat([]byte{1}, 1000)...), 7), ""},
	} {
		var rec *Recording
		var err error
		used := testtool.Allocated(func() { rec, err = ReadPprof(bytes.NewReader(tt.b)) }) >> 20
		t.Logf("%s: %d bytes: %d MiB allocated: %v", tt.name, len(tt.b), used, err)
		switch {
		case used > 150:
			t.Errorf("%s: %d MiB allocated for %d bytes", tt.name, used, len(tt.b))
		case tt.field == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.field == "" && rec.Samples() == 0:
			t.Errorf("%s: no samples", tt.name)
		case tt.field != "" && (err == nil || !bytes.Contains([]byte(err.Error()), []byte(tt.field))):
			t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.field)
		case tt.name == "more labels" && !errors.Is(err, bound.ErrBeyond):
			t.Errorf("%s: %v", tt.name, err)
		}
		used = testtool.Allocated(func() { _, err = ReadPprofLabel(bytes.NewReader(tt.b), "a") }) >> 20
		t.Logf("%s, by label: %d MiB allocated: %v", tt.name, used, err)
		if used > 150 || tt.field != "" && (err == nil || !bytes.Contains([]byte(err.Error()), []byte(tt.field))) {
			t.Errorf("%s, by label: %d MiB allocated for %d bytes: %v", tt.name, used, len(tt.b), err)
		}
	}
}
