package sample

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

func TestFindBuildID(t *testing.T) {
	note := func(order binary.AppendByteOrder, typ uint32, name, desc string) []byte {
		b := order.AppendUint32(nil, uint32(len(name)))
		b = order.AppendUint32(b, uint32(len(desc)))
		b = order.AppendUint32(b, typ)
		b = append(b, name...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		b = append(b, desc...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	le, be := binary.LittleEndian, binary.BigEndian
	abi := note(le, 1, "GNU\x00", "0123456789abcdef")
	property := note(le, 5, "GNU\x00", "0123456789abcdef")
	for _, tt := range []struct {
		name  string
		bytes []byte
		order binary.ByteOrder
		align uint64
		want  BuildID
	}{
		{"none", nil, le, 4, BuildID{}},
		{"alone", note(le, 3, "GNU\x00", "abc"), le, 4, BuildID{'a', 'b', 'c'}},
		{"big-endian", note(be, 3, "GNU\x00", "abc"), be, 4, BuildID{'a', 'b', 'c'}},
		{"after another", append(abi, note(le, 3, "GNU\x00", "abc")...), le, 4, BuildID{'a', 'b', 'c'}},
		{"after a property", append(property, note(le, 3, "GNU\x00", "abc")...), le, 8, BuildID{'a', 'b', 'c'}},
		{"another's", note(le, 3, "Go\x00\x00", "abc"), le, 4, BuildID{}},
		{"longer than 20 bytes", note(le, 3, "GNU\x00", "abcdefghijklmnopqrstuvwxyz"), le, 4, BuildID([]byte("abcdefghijklmnopqrst"))},
		{"name too long", []byte("\xff\xff\xff\xff\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00abcd"), le, 4, BuildID{}},
		{"descriptor too long", []byte("\x04\x00\x00\x00\xff\xff\xff\xff\x03\x00\x00\x00GNU\x00abcd"), le, 4, BuildID{}},
		{"cut off", note(le, 3, "GNU\x00", "abc")[:18], le, 4, BuildID{}},
	} {
		if got := findBuildID(tt.bytes, tt.order, tt.align); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func FuzzReadELF(f *testing.F) {
	if b, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(b[:min(len(b), 1<<12)])
	}
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ReadELF(bytes.NewReader(b)) // must not panic
	})
}
