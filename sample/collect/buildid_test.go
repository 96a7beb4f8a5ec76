package collect

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

// note encodes one note, with name and descriptor padded to align.
func note(align int, name string, typ uint32, desc string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.LittleEndian.AppendUint32(b, typ)
	for _, s := range []string{name, desc} {
		b = append(b, s...)
		for len(b)%align != 0 {
			b = append(b, 0)
		}
	}
	return b
}

func TestFindBuildID(t *testing.T) {
	gnu := note(4, "GNU\x00", 3, "\xab\xcd\xef")
	lying := bytes.Clone(gnu)
	binary.LittleEndian.PutUint32(lying[4:], 1<<31)
	for _, tt := range []struct {
		name  string
		notes []byte
		align uint64
		want  string // "" is none
	}{
		{"alone", gnu, 4, "abcdef0000000000"},
		{"behind Go's", append(note(4, "Go\x00\x00", 4, "seven77"), gnu...), 4, "abcdef0000000000"},
		{"aligned to 8", append(note(8, "GNU\x00", 5, "1234"), note(8, "GNU\x00", 3, "\xab\xcd\xef")...), 8, "abcdef0000000000"},
		{"longer than any", note(4, "GNU\x00", 3, "abcdefghijklmnopqrstuvwxyz"), 4, "6162636465666768696a6b6c6d6e6f7071727374"},
		{"empty descriptor", note(4, "GNU\x00", 3, ""), 4, ""},
		{"another owner", note(4, "Go\x00\x00", 3, "abc"), 4, ""},
		{"another type", note(4, "GNU\x00", 1, "abc"), 4, ""},
		{"no notes", nil, 4, ""},
		{"cut", gnu[:13], 4, ""},
		{"lying length", lying, 4, ""},
	} {
		id, ok := findBuildID(bytes.NewReader(tt.notes), uint64(len(tt.notes)), tt.align, binary.LittleEndian)
		got := ""
		if ok {
			got = id.String()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzReadBuildID(f *testing.F) {
	if b, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(b[:min(len(b), 1<<12)])
	}
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		readBuildID(bytes.NewReader(b)) // must not panic
	})
}
