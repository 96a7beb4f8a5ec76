package sample

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestReadELF: what is read of this test and of a library is what debug/elf reads.
func TestReadELF(t *testing.T) {
	for _, path := range []string{"/proc/self/exe", "/bin/sh"} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Skip(err)
		}
		want, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Skip(err)
		}
		got, err := ReadELF(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got.Class != want.Class || got.Machine != want.Machine || got.Type != want.Type || len(got.Segments) != len(want.Progs) {
			t.Errorf("%s: %+v, want %+v and %d segments", path, got, want.FileHeader, len(want.Progs))
		}
		for i, p := range want.Progs {
			if got.Segments[i] != p.ProgHeader {
				t.Errorf("%s: segment %d: %+v, want %+v", path, i, got.Segments[i], p.ProgHeader)
			}
		}
		if got.Go != (want.Section(".go.buildinfo") != nil) {
			t.Errorf("%s: of Go: %v", path, got.Go)
		}
		if s := want.Section(".note.gnu.build-id"); s != nil && got.Build.IsZero() {
			t.Errorf("%s: has a build ID, and none was found", path)
		}
	}
}

// A headerELF is an ELF file of n section headers that an attacker lays over each other:
// all bytes behind the header are those of one header, again and again.
type headerELF struct {
	header []byte
	one    []byte
	reads  int64
}

func (h *headerELF) ReadAt(b []byte, off int64) (int, error) {
	for i := range b {
		if at := off + int64(i); at < int64(len(h.header)) {
			b[i] = h.header[at]
		} else {
			b[i] = h.one[(at-int64(len(h.header)))%int64(len(h.one))]
		}
	}
	h.reads += int64(len(b))
	return len(b), nil
}

// TestReadELFBounds: an endless file of endless headers, each a note of a gigabyte or of a
// megabyte, is read for a few megabytes.
func TestReadELFBounds(t *testing.T) {
	le := binary.LittleEndian
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	le.PutUint16(header[16:], uint16(elf.ET_DYN))
	le.PutUint16(header[18:], uint16(elf.EM_X86_64))
	le.PutUint64(header[40:], 64) // section headers
	le.PutUint16(header[58:], 64)
	for _, tt := range []struct {
		name        string
		count       uint16
		first, note uint64 // sizes: of the first section, which may count the others
	}{
		{"65535 sections of 1 GB", 65535, 1 << 30, 1 << 30},
		{"65535 sections of 100 bytes", 65535, 100, 100},
		{"sections of 512 KB, whose number is in the first", 0, 1 << 19, 1 << 19},
		{"2^60 sections", 0, 1 << 60, 1 << 60},
	} {
		le.PutUint16(header[60:], tt.count)
		one := make([]byte, 64)
		le.PutUint32(one[4:], uint32(elf.SHT_NOTE))
		le.PutUint64(one[32:], tt.note)
		r := &headerELF{header: header, one: one}
		var e *ELF
		var err error
		n := testtool.Allocated(func() { e, err = ReadELF(r) })
		if err != nil || !e.Build.IsZero() {
			t.Errorf("%s: %v, %+v", tt.name, err, e)
		}
		if most := int64(maxSections*64 + maxNotes + 1<<12); r.reads > most {
			t.Errorf("%s: %d bytes read, want at most %d", tt.name, r.reads, most)
		}
		if n > 8<<20 {
			t.Errorf("%s: %d bytes allocated", tt.name, n)
		}
	}
	header = bytes.Clone(header)
	le.PutUint16(header[54:], 56) // program headers
	le.PutUint16(header[56:], 65535)
	if _, err := ReadELF(&headerELF{header: header, one: make([]byte, 64)}); !errors.Is(err, ErrELF) {
		t.Errorf("65535 segments: %v", err)
	}
}

// TestReadELFCut: a file that ends anywhere is an error or has no build ID, and the error
// says where.
func TestReadELFCut(t *testing.T) {
	b, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	for n := range 64 {
		if _, err := ReadELF(bytes.NewReader(b[:n])); !errors.Is(err, ErrELF) || !strings.Contains(err.Error(), "offset 0x") {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if _, err := ReadELF(bytes.NewReader(b[:200])); !errors.Is(err, ErrELF) {
		t.Errorf("within program headers: %v", err)
	}
	broken := errors.New("disk")
	if _, err := ReadELF(failing{broken}); !errors.Is(err, broken) || errors.Is(err, ErrELF) {
		t.Errorf("a disk that fails: %v", err)
	}
}

type failing struct{ error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.error }

var _ io.ReaderAt = failing{}
