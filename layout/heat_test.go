package layout

import (
	"math"
	"slices"
	"testing"

	"backfeed/infer/image"
)

func TestLinkedHeat(t *testing.T) {
	// Blocks have 4 instructions: a and b share page 0x1000, b goes on in the next.
	ip := program([]string{"a 32 10 1", "b 8160 255 1", "never 64 0 0", "c 64 3 1"})
	h := LinkedHeat(ip)
	if want := []Extent{{0x1000, 0x1000 + 32 + 8160 + 128}}; !slices.Equal(h.Code, want) {
		t.Errorf("code %#x, want %#x", h.Code, want)
	}
	// 4 * 255 executed instructions in 8160 bytes are one in 8 bytes.
	if want := []Spot{{0x1000, 40 + (4096-32)/8}, {0x2000, 512}, {0x3000, 12}}; !slices.Equal(h.Pages, want) {
		t.Errorf("pages %v, want %v", h.Pages, want)
	}
	if n := len(h.Lines); n != 8192/64+1 || h.Lines[0] != (Spot{0x1000, 40 + 4}) || h.Lines[n-1] != (Spot{0x3040, 12}) {
		t.Errorf("%d lines, %v to %v", n, h.Lines[0], h.Lines[n-1])
	}
	for _, tt := range []struct {
		from, to image.Addr
		want     []string
	}{
		{0x1000, 0x2000, []string{"b", "a"}},
		{0x1000, 0x1040, []string{"a", "b"}},
		{0x2fff, 0x3000, []string{"b"}},
		{0x3000, 0x3040, nil}, // not of what never ran
		{0x3000, 0x4000, []string{"c"}},
		{0, 0x1000, nil},
		{0x4000, math.MaxUint64, nil},
	} {
		var got []string
		var sum float64
		for _, tenant := range h.Tenants(tt.from, tt.to) {
			got = append(got, tenant.Proc.Proc.Name)
			sum += tenant.N
		}
		var want float64
		for _, l := range h.Lines {
			if l.Addr >= tt.from && l.Addr < tt.to {
				want += l.N
			}
		}
		if !slices.Equal(got, tt.want) || tt.to-tt.from > 1 && math.Abs(sum-want) > 1e-9 {
			t.Errorf("tenants of [%#x, %#x) are %v with %v instructions, want %v with %v", tt.from, tt.to, got, sum, tt.want, want)
		}
	}
}

// TestPlacedHeat: what the placement lacks follows, what ran first.
func TestPlacedHeat(t *testing.T) {
	im, err := image.Open("../testdata/mix/mix", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	ip := program([]string{"a 64 1 1", "b 60 9 1", "c 8192 2 1"})
	ip.Image = im
	symbols := im.Symbols()
	for i, r := range ip.Procs {
		r.Proc.Index = i + 1
	}
	p := Place(ip.Procs[:2], []Part{{Proc: 1, Blocks: []int{0}}}, 0x401010, procAlign)
	h := PlacedHeat(ip, p)
	var rest uint64
	for i, s := range symbols {
		if i < 1 || i > 3 {
			rest += s.Size
		}
	}
	const known = 64 + 64 + 8192
	if len(h.Code) != 1 || h.Code[0].Start != 0x401010 {
		t.Fatalf("code %#x, want one range from 0x401010", h.Code)
	}
	// The linker's padding between procedures is there too.
	if n := uint64(h.Code[0].End - 0x401010 - known); n < rest || n > rest+uint64(len(symbols)*LineBytes) {
		t.Errorf("%d bytes behind the three procedures, want the %d of the others", n, rest)
	}
	if got := h.Tenants(0x401010+128, 0x401010+129); len(got) != 1 || got[0].Proc != ip.Procs[2] {
		t.Errorf("behind a and b is %v, want c", got)
	}
	var sum float64
	for _, s := range h.Pages {
		sum += s.N
	}
	if want := 4.0 * (1 + 9 + 2); math.Abs(sum-want) > 1e-9 || len(h.Pages) != 3 {
		t.Errorf("%v executed instructions in %d pages, want %v in 3", sum, len(h.Pages), want)
	}
}

// TestSpotsAtTheEnd: the last page of all addresses has an end.
func TestSpotsAtTheEnd(t *testing.T) {
	got := spots([]Piece{{Start: math.MaxUint64 - 0x1003, End: math.MaxUint64 - 3, N: 1024}}, PageBytes)
	if want := []Spot{{math.MaxUint64 - 0x1fff, 1}, {math.MaxUint64 - 0xfff, 1023}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
