package perfdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// input returns one of the recordings, little-endian.
func input(t testing.TB, name string) []byte {
	var found []byte
	each(func(n string, b []byte) {
		if n == name+"-le" {
			found = b
		}
	})
	if found == nil {
		t.Fatalf("no recording %s", name)
	}
	return found
}

// TestErrors changes recordings and wants to be told what is wrong, and where.
func TestErrors(t *testing.T) {
	le := binary.LittleEndian
	set16 := func(at int, v uint16) func(b []byte) []byte {
		return func(b []byte) []byte { le.PutUint16(b[at:], v); return b }
	}
	set64 := func(at int, v uint64) func(b []byte) []byte {
		return func(b []byte) []byte { le.PutUint64(b[at:], v); return b }
	}
	cut := func(n int) func(b []byte) []byte { return func(b []byte) []byte { return b[:n] } }
	// "modes" has its attr at 112, its data at 256: an MMAP2 record of 104
	// bytes, then more. "pipe" has features first.
	const attrAt, dataAt = 112, 256
	for _, tt := range []struct {
		name, input string
		change      func(b []byte) []byte
		want        string
	}{
		{"empty", "modes", cut(0), "offset 0x0: header: cut off after 0 bytes"},
		{"cut in the magic", "modes", cut(5), "offset 0x0: header: cut off after 5 bytes"},
		{"cut in the header", "modes", cut(60), "offset 0x0: header: cut off after 60 bytes"},
		{"text", "modes", func([]byte) []byte { return []byte("a text file, surely not a recording") }, `offset 0x0: magic: "a text f"`},
		{"ELF", "modes", func([]byte) []byte { return []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00") }, "offset 0x0: magic:"},
		{"first version of perf", "modes", func(b []byte) []byte { return append([]byte("PERFFILE"), b[8:]...) }, "before Linux 3.0"},
		{"header too small", "modes", set64(8, 24), "offset 0x8: header: size: 24"},
		{"header larger than the file", "modes", set64(8, 1<<60), "offset 0x8: header: size: 1152921504606846976"},
		{"entries of attrs of no size", "modes", set64(16, 0), "offset 0x10: header: attr_size: 0"},
		{"entries of attrs too large", "modes", set64(16, 1<<40), "offset 0x10: header: attr_size: 1099511627776"},
		{"attrs past the end", "modes", set64(24, 1<<62), "section attrs: 144 bytes, past the end"},
		{"attrs of absurd size", "modes", set64(32, 1<<63), "section attrs: 9223372036854775808 bytes, past the end"},
		{"attrs in the header", "modes", set64(24, 8), "offset 0x0: header overlaps section attrs at 0x8"},
		{"data past the end", "modes", set64(48, 1<<40), "offset 0x100: section data: 1099511627776 bytes, past the end"},
		{"data wrap around", "modes", set64(40, 1<<64-8), "section data: 1368 bytes, past the end"},
		{"data in the attrs", "modes", set64(40, attrAt+8), "section attrs overlaps section data at 0x78"},
		{"data without an event", "modes", set64(32, 0), "offset 0x100: MMAP2 record: no event was described before it"},
		{"attr too small", "modes", set16(attrAt+4, 63), "offset 0x70: attr: size: 63"},
		{"IDs past the end", "modes", set64(attrAt+128, 1<<40), "section of IDs: 8 bytes, past the end"},
		{"IDs of absurd size", "modes", set64(attrAt+136, 1<<40), "section of IDs: 1099511627776 bytes, past the end"},
		{"IDs of odd size", "modes", set64(attrAt+136, 7), "offset 0x70: attr: section of IDs: 7 bytes"},
		{"record of no size", "modes", set16(dataAt+6, 0), "offset 0x100: MMAP2 record: size: 0, less than its header has"},
		{"record too small", "modes", set16(dataAt+6, 7), "offset 0x100: MMAP2 record: size: 7"},
		{"record too large", "modes", set16(dataAt+6, 65535), "offset 0x100: MMAP2 record: cut off: 65535 bytes, but the data end after 1368"},
		{"record with half a trailer", "modes", set16(dataAt+6, 16), "offset 0x100: MMAP2 record: sample_id: 16 bytes, 8 are left"},
		{"record without a name", "modes", set16(dataAt+6, 88), "offset 0x100: MMAP2 record: filename: no zero at its end"},
		{"mapping wraps around", "modes", set64(dataAt+24, 1<<64-1), "offset 0x100: MMAP2 record: length: 0xffffffffffffffff bytes at 0x400000"},
		{"file cut in the data", "killed", func(b []byte) []byte { return b[:len(b)-3] }, "SAMPLE record: cut off: 32 bytes, but the data end after 29"},
		{"file cut in a record's header", "killed", func(b []byte) []byte { return b[:len(b)-30] }, "record: cut off: 8 bytes, but the data end after 2"},
		{"pipe cut in a record", "pipe", func(b []byte) []byte { return b[:len(b)-1] }, "HEADER_BUILD_ID record: cut off after 43 of 44 bytes"},
		{"pipe cut in its tracing data", "pipe", func(b []byte) []byte { return b[:bytes.Index(b, []byte{0xee})+2] }, "HEADER_TRACING_DATA record: tracing data: cut off, 14 bytes are missing"},
		{"AUX data of absurd size", "pipe", func(b []byte) []byte {
			at := bytes.Index(b, []byte{recordAuxtrace, 0, 0, 0})
			le.PutUint64(b[at+8:], 1<<63)
			return b
		}, "AUXTRACE record: AUX data: cut off"},
		{"feature table past the end", "features", func(b []byte) []byte { return set64(72, 1<<64-1)(set64(80, 1<<64-1)(b)) }, "feature sections: 2048 bytes, past the end"},
		{"feature past the end", "features", func(b []byte) []byte { return set64(int(le.Uint64(b[40:])+le.Uint64(b[48:])), 1<<50)(b) }, "feature 2: 88 bytes, past the end"},
		{"feature in its own table", "features", func(b []byte) []byte {
			end := le.Uint64(b[40:]) + le.Uint64(b[48:])
			return set64(int(end), end)(b)
		}, "feature 2 overlaps feature sections"},
		{"build IDs of no size", "features", func(b []byte) []byte {
			end := le.Uint64(b[40:]) + le.Uint64(b[48:])
			return set16(int(le.Uint64(b[end:]))+6, 0)(b)
		}, "feature 2: at 0x0: size: 0"},
		{"string longer than its feature", "features", func(b []byte) []byte {
			end := le.Uint64(b[40:]) + le.Uint64(b[48:])
			return set16(int(le.Uint64(b[end+2*sectionSize:]))+2, 0xffff)(b)
		}, "feature 6: arch: 4294901824 bytes, 64 are left"},
		{"names of more events than there are", "events", func(b []byte) []byte {
			end := le.Uint64(b[40:]) + le.Uint64(b[48:])
			return set16(int(le.Uint64(b[end:]))+2, 0xffff)(b)
		}, "feature 12: attr: 128 bytes, 0 are left"},
		{"callchain longer than its record", "reads", func(b []byte) []byte {
			at := bytes.LastIndex(b, []byte{0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
			return set64(at-8, 1<<61)(b)
		}, "SAMPLE record: callchain: 2305843009213693952 entries of 8 bytes, 24 bytes are left"},
		{"branch stack longer than its record", "branches", func(b []byte) []byte {
			at := bytes.LastIndex(b, le.AppendUint64(nil, 11))
			return set64(at, 1<<62)(b)
		}, "SAMPLE record: branch stack: 4611686018427387904 entries of 24 bytes"},
		{"not zstd", "compressed", set64(dataAt+8, 0x1234567812345678), "offset 0x100: COMPRESSED record: zstd: invalid input"},
		{"cut in a zstd block", "compressed", func(b []byte) []byte {
			le.PutUint64(b[48:], 70)
			le.PutUint16(b[dataAt+6:], 70)
			return append(b[:dataAt+70:dataAt+70], make([]byte, 512)...)
		}, "offset 0x100: COMPRESSED record: zstd: unexpected EOF"},
		{"cut in a record inside", "compressed", func(b []byte) []byte {
			n := uint64(le.Uint16(b[dataAt+6:]))
			le.PutUint64(b[48:], n) // the next COMPRESSED record is left out
			return slices.Concat(b[:dataAt+n], make([]byte, 512))
		}, "COMPRESSED record: decompressed offset 0x60: record: cut off after 4 of 8 bytes"},
		{"compressed data longer than its record", "compressed2", func(b []byte) []byte {
			at := bytes.Index(b, []byte{recordCompressed2, 0, 0, 0})
			return set64(at+8, 1<<40)(b)
		}, "COMPRESSED2 record: data_size: 1099511627776 in a record"},
	} {
		b := tt.change(slices.Clone(input(t, tt.input)))
		_, err := Read(bytes.NewReader(b), Options{})
		if err == nil {
			t.Errorf("%s: no error, want %q", tt.name, tt.want)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %q, want %q", tt.name, err, tt.want)
		}
	}
}

// TestCutAnywhere: wherever a recording is cut, it is read or refused, and not
// as if it were whole.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	each(func(name string, b []byte) {
		whole, err := Read(bytes.NewReader(b), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range b {
			rec, err := Read(bytes.NewReader(b[:n]), Options{})
			switch {
			case err != nil && !errors.Is(err, ErrFormat):
				t.Errorf("%s: cut after %d bytes: %v, which is no ErrFormat", name, n, err)
			case err == nil && rec.Samples() > whole.Samples():
				t.Errorf("%s: cut after %d bytes: %d samples, the whole has %d", name, n, rec.Samples(), whole.Samples())
			case err == nil && !cuttable(name):
				t.Errorf("%s: cut after %d bytes: no error", name, n)
			}
		}
	})
}

// cuttable reports whether a recording may end after any record.
func cuttable(name string) bool {
	for _, rec := range recordings {
		if strings.HasPrefix(name, rec.name) && rec.pipe {
			return true
		}
	}
	return strings.HasPrefix(name, "killed")
}

// TestReadError: what the disk or a peer does wrong is not blamed on the bytes.
func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	for _, name := range []string{"pipe", "compressed2"} {
		b := input(t, name)
		for _, n := range []int{3, 16, 20, 600, len(b)} {
			_, err := Read(io.MultiReader(bytes.NewReader(b[:min(n, len(b))]), iotest.ErrReader(broken)), Options{})
			if !errors.Is(err, broken) || errors.Is(err, ErrFormat) {
				t.Errorf("%s: broken after %d bytes: error %v", name, n, err)
			}
		}
	}
}

// TestSlowReader: a pipe hands over bytes as they come.
func TestSlowReader(t *testing.T) {
	for _, name := range []string{"pipe", "events-pipe", "compressed2"} {
		b := input(t, name)
		want, err := Read(bytes.NewReader(b), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(iotest.OneByteReader(bytes.NewReader(b)), Options{})
		if err != nil || dump(got) != dump(want) {
			t.Errorf("%s: %v\ngot:\n%swant:\n%s", name, err, dump(got), dump(want))
		}
	}
}

func TestFileFromPipe(t *testing.T) {
	_, err := Read(iotest.OneByteReader(bytes.NewReader(input(t, "modes"))), Options{})
	if err == nil || !strings.Contains(err.Error(), "cannot be read from a pipe") {
		t.Errorf("error %v", err)
	}
}

// TestDamaged overwrites numbers in recordings at random: whatever comes of it,
// there is an error, or counts that keep their promises.
func TestDamaged(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	values := []uint64{0, 1, 7, 8, 16, 24, 0xffff, 1 << 31, 1<<32 - 1, 1 << 40, 1 << 63, 1<<64 - 8, 1<<64 - 512, 1<<64 - 1}
	refused := 0
	const rounds = 300
	each(func(name string, whole []byte) {
		for range rounds {
			b := slices.Clone(whole)
			for range 1 + r.IntN(3) {
				at := 16 + r.IntN(len(b)-24)
				v := values[r.IntN(len(values))]
				switch bo := order(strings.HasSuffix(name, "-be")); r.IntN(4) {
				case 0:
					b[at] = byte(v)
				case 1:
					bo.PutUint16(b[at&^1:], uint16(v))
				case 2:
					bo.PutUint32(b[at&^3:], uint32(v))
				case 3:
					bo.PutUint64(b[at&^7:], v)
				}
			}
			rec, err := Read(bytes.NewReader(b), Options{})
			if err == nil {
				check(t, name, rec)
				continue
			}
			refused++
			if !errors.Is(err, ErrFormat) && !strings.Contains(err.Error(), "not supported") {
				t.Errorf("%s: %v, which is no ErrFormat", name, err)
			}
		}
	})
	if refused < rounds {
		t.Errorf("only %d of all damaged recordings were refused", refused)
	}
}
