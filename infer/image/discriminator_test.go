package image

import "testing"

func TestDiscriminator(t *testing.T) {
	// Most values are from an unrolled loop that clang 19 compiled.
	for _, tt := range []struct{ raw, base, copies uint32 }{
		{0, 0, 1},
		{2, 1, 1},
		{4, 2, 1},
		{17, 0, 4},
		{1026, 1, 4},
		{1028, 2, 4},
		{31 << 1, 31, 1},
		{0xc2, 33, 1}, // 5 bits, a bit that says that 7 bits follow, those
		{0x3ffe, 4095, 1},
		{0x103400c2, 33, 40},
		{0x81bffe, 4095, 3}, // the second copy
		{0xe8a, 5, 1},       // 0 copies, as for most blocks, is no factor; the seventh copy
	} {
		if b, n := BaseDiscriminator(tt.raw), DuplicationFactor(tt.raw); b != tt.base || n != tt.copies {
			t.Errorf("%#x: base %d, %d copies, want %d, %d", tt.raw, b, n, tt.base, tt.copies)
		}
	}
}
