package collect

import (
	"encoding/binary"
	"strings"
	"testing"
)

// thatLayout is that of AVX-512 on most processors.
var thatLayout = xsaveLayout{576, 1088, 1152, 1664}

// xsaveArea is an area of a processor with so many components, of which some are in use. Each byte of those is the
// low one of its place.
func xsaveArea(has, used uint64) []byte {
	b := make([]byte, 2688)
	for i := range b {
		b[i] = byte(i)
	}
	binary.LittleEndian.PutUint32(b[xsaveMxcsr:], 0x1f80)
	binary.LittleEndian.PutUint64(b[xsaveHas:], has)
	binary.LittleEndian.PutUint64(b[xsaveUsed:], used)
	return b
}

func TestXstate(t *testing.T) {
	const all = KnownLow | KnownHigh | KnownMasks | KnownWide | KnownMore
	for _, tt := range []struct {
		name      string
		has, used uint64
		layout    xsaveLayout
		known     VectorParts
		high      byte // of byte 16 of register 1, and below
		wide      byte // 32 of 1
		more      byte // 5 of 17
		mask      byte // lowest of 2
	}{
		{"SSE", 3, 3, xsaveLayout{}, KnownLow, 0, 0, 0, 0},
		{"AVX", 7, 7, thatLayout, KnownLow | KnownHigh, 0x50, 0, 0, 0},
		{"AVX in its initial state", 7, 3, thatLayout, KnownLow | KnownHigh, 0, 0, 0, 0},
		{"AVX-512", 0xe7, 0xe7, thatLayout, all, 0x50, 0xa0, 0xc5, 0x50},
		{"AVX-512, no wide ones in use", 0xe7, 0x27, thatLayout, all, 0x50, 0, 0, 0x50},
		{"a processor that does not say where", 7, 7, xsaveLayout{}, KnownLow, 0, 0, 0, 0},
	} {
		var v Vectors
		v.R[3][40] = 1 // of a thread before
		if err := tt.layout.decode(xsaveArea(tt.has, tt.used), &v); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if v.Known != tt.known || v.Control != 0x1f80 || v.R[1][5] != 0xb5 {
			t.Errorf("%s: known %#x, control %#x, byte 5 of register 1 %#x", tt.name, v.Known, v.Control, v.R[1][5])
		}
		if v.R[1][16] != tt.high || v.R[1][32] != tt.wide || v.R[17][5] != tt.more || byte(v.Masks[2]) != tt.mask {
			t.Errorf("%s: %#x, %#x, %#x, mask %#x", tt.name, v.R[1][16], v.R[1][32], v.R[17][5], v.Masks[2])
		}
		if tt.known&KnownWide == 0 && v.R[3][40] != 0 {
			t.Errorf("%s: what is not known is not zero", tt.name)
		}
	}
	for _, tt := range []struct {
		size   int
		layout xsaveLayout
		want   string
	}{
		{512, thatLayout, "512 bytes, want 576"},
		{600, thatLayout, "component 2 at 0x240 of 600 bytes"},
		{2688, xsaveLayout{100}, "component 2 at 0x64"},
	} {
		if err := tt.layout.decode(xsaveArea(7, 7)[:tt.size], new(Vectors)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d bytes: %v, want %q", tt.size, err, tt.want)
		}
	}
}

// FuzzXstate: any bytes are an error, or vectors of which the unknown parts are zero.
func FuzzXstate(f *testing.F) {
	f.Add(xsaveArea(0xe7, 0xe7), 576, 1088)
	f.Add(xsaveArea(7, 3)[:832], 576, 0)
	f.Fuzz(func(t *testing.T, b []byte, at, masks int) {
		l := xsaveLayout{at & 0xffff, masks & 0xffff, 1152, 1664}
		var v Vectors
		if l.decode(b, &v) != nil {
			return
		}
		for i, r := range v.R {
			for k, x := range r {
				known := KnownLow
				switch {
				case i >= 16:
					known = KnownMore
				case k >= 32:
					known = KnownWide
				case k >= 16:
					known = KnownHigh
				}
				if x != 0 && v.Known&known == 0 {
					t.Fatalf("byte %d of register %d is %#x, and is not known", k, i, x)
				}
			}
		}
	})
}
