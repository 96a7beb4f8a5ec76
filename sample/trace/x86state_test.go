package trace

import (
	"encoding/binary"
	"strings"
	"testing"
)

// xsaveArea is the state of a processor with so many components, of which some are in use. Each byte of those is the
// low one of its place.
func xsaveArea(size int, has, used uint64) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i)
	}
	binary.LittleEndian.PutUint32(b[24:], 0x1f80)
	binary.LittleEndian.PutUint64(b[464:], has)
	binary.LittleEndian.PutUint64(b[512:], used)
	return b
}

func TestXState(t *testing.T) {
	const intel, amd = 2696, 2440 // bytes, with the protection keys that follow
	at := func(off int) uint64 {  // a word of an area
		return binary.LittleEndian.Uint64(xsaveArea(intel, 0, 0)[off:])
	}
	for _, tt := range []struct {
		name                        string
		size                        int
		has, used                   uint64
		words                       uint8
		low, high, wide, more, mask uint64 // words 1, 2 and 4 of register 1, word 3 of register 17, mask 2
	}{
		{"SSE", 576, 3, 3, 2, at(184), 0, 0, 0, 0},
		{"SSE in its initial state", 576, 3, 1, 2, 0, 0, 0, 0, 0},
		{"AVX", 832, 7, 7, 4, at(184), at(592), 0, 0, 0},
		{"AVX in its initial state", 832, 7, 3, 4, at(184), 0, 0, 0, 0},
		{"AVX-512 of Intel", intel, 0xe7, 0xe7, 8, at(184), at(592), at(1184), at(1752), at(1104)},
		{"AVX-512 of AMD", amd, 0xe7, 0xe7, 8, at(184), at(592), at(928), at(1496), at(848)},
		{"AVX-512, of which masks alone are in use", intel, 0xe7, 0x23, 8, at(184), 0, 0, 0, at(1104)},
	} {
		st := State{PC: 5}
		st.Vectors[3][5] = 1 // of a thread before
		if err := st.SetXState(xsaveArea(tt.size, tt.has, tt.used)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		v := &st.Vectors
		if st.Words != tt.words || st.MXCSR != 0x1f80 || st.PC != 5 {
			t.Errorf("%s: %d words, MXCSR %#x, PC %d", tt.name, st.Words, st.MXCSR, st.PC)
		}
		if v[1][1] != tt.low || v[1][2] != tt.high || v[1][4] != tt.wide || v[17][3] != tt.more || st.Masks[2] != tt.mask {
			t.Errorf("%s: %#x, %#x, %#x, %#x, mask %#x", tt.name, v[1][1], v[1][2], v[1][4], v[17][3], st.Masks[2])
		}
		if tt.wide == 0 && v[3][5] != 0 {
			t.Errorf("%s: a word of a thread before is there still", tt.name)
		}
	}
	for size, want := range map[int]string{500: "500 bytes, want at least 512", 1000: "1000 bytes, want at least 2432"} {
		if err := new(State).SetXState(xsaveArea(2696, 0xe7, 0xe7)[:size]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}

// FuzzXState: any bytes are an error, or vectors of which no more words are set than are known.
func FuzzXState(f *testing.F) {
	f.Add(xsaveArea(2696, 0xe7, 0xe7))
	f.Add(xsaveArea(2440, 0xe7, 0x27))
	f.Add(xsaveArea(832, 7, 7))
	f.Add(xsaveArea(832, 7, 7)[:512])
	f.Fuzz(func(t *testing.T, b []byte) {
		var st State
		if st.SetXState(b) != nil {
			return
		}
		for r, v := range st.Vectors {
			for i, word := range v {
				if word != 0 && (i >= int(st.Words) || r >= 16 && st.Words < 8) {
					t.Fatalf("word %d of register %d is %#x, and %d are known", i, r, word, st.Words)
				}
			}
		}
	})
}
