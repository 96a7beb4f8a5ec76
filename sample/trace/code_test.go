package trace

import (
	"testing"

	"backfeed/sample"
)

// Two images; of the first, an address has two operations, and one operation is no
// instruction. What is counted are branches.
func twoImages() []Image {
	return []Image{
		{ID: sample.ImageID{Path: "/a"}, Procs: [][]Inst{{
			{Addr: 0x401000, Off: 0x1000, Op: Op{Kind: X86Mov}},
			{Addr: 0x401003, Off: 0x1003, Op: Op{Kind: CondJump}, Target: 0x401010},
			{},
		}, {
			{Addr: 0x401010, Off: 0x1010, Op: Op{Kind: X86Mov}},
			{Addr: 0x401003, Off: 0x1003, Op: Op{Kind: CondJump}, Target: 0x401000},
			{Addr: 0x401012, Off: 0x1012, Op: Op{Kind: Jump}, Target: 0x500000},
		}}},
		{ID: sample.ImageID{Path: "/empty"}},
		{ID: sample.ImageID{Path: "/b"}, Procs: [][]Inst{{
			{Addr: 0x1400, Off: 0x400, Op: Op{Kind: Jump}, Target: 0x1300},
			{Addr: 0x1300, Off: 0x300, Op: Op{Kind: CondJump}, Target: 0x1400},
		}}},
	}
}

func TestNewCode(t *testing.T) {
	images := twoImages()
	c := NewCode(images)
	// at is what bpf/walker.c does to find an operation.
	at := func(image int, addr uint64) uint32 {
		r := &c.Ranges[image]
		p := (addr - r.First) / pageSize
		if p >= uint64(r.Many) {
			return 0
		}
		p = uint64(c.Pages[uint64(r.Pages)+p])
		if p == 0 {
			return 0
		}
		return c.Starts[p*pageSize+addr%pageSize]
	}
	for _, tt := range []struct {
		image int
		addr  uint64
		want  uint32
	}{
		{0, 0x401000, 1}, {0, 0x401003, 2}, {0, 0x401010, 4}, {0, 0x401012, 6},
		{0, 0x401001, 0}, {0, 0x400fff, 0}, {0, 0x402003, 0}, {2, 0x1fff, 0}, {2, 0x2300, 0}, {2, 0x300, 0},
		{2, 0x1400, 7}, {2, 0x1300, 8}, {2, 0x1301, 0}, {2, 0x1401, 0},
	} {
		if got := at(tt.image, tt.addr); got != tt.want {
			t.Errorf("image %d, %#x: operation %d, want %d", tt.image, tt.addr, got, tt.want)
		}
	}
	if len(c.Ops) != 9 || len(c.at) != len(c.Ops) {
		t.Fatalf("%d operations, %d places of them; want 9 of each", len(c.Ops), len(c.at))
	}
	for op, want := range []uint32{0, 0, 4, 0, 0, 1, 0, 8, 7} {
		if c.Ops[op].To != want {
			t.Errorf("operation %d goes to %d, want %d", op, c.Ops[op].To, want)
		}
	}
	for i, want := range []struct {
		lo, hi sample.Offset
		delta  uint64
	}{{0x1000, 0x1013, 0x400000}, {}, {0x300, 0x401, 0x1000}} {
		if r := c.Ranges[i]; r.Lo != want.lo || r.Hi != want.hi || r.Delta != want.delta {
			t.Errorf("image %d: offsets %#x to %#x, addresses %#x more; want %#x", i, r.Lo, r.Hi, r.Delta, want)
		}
	}
}
