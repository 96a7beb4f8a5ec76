package layout

import (
	"fmt"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

// TestHuge: hot procedures that are scattered over huge pages are put on as few as
// they need; fewer bytes than a page are no case for huge pages.
func TestHuge(t *testing.T) {
	for _, tt := range []struct {
		name           string
		size           uint64 // of each of ten hot procedures, which lie 2 MB apart
		linked, groups int
	}{
		{"small", 1000, 10, 0},
		{"five pages", 1 << 20, 10, 5},
		{"one to a page", 3 << 19, 10, 10},
	} {
		ip := &infer.ImageProfile{Image: &image.Image{}}
		order := &Order{}
		for i := range 10 {
			g := graph("a>b 100")
			g.Nodes[0].Size, g.Nodes[1].Size = 16, tt.size-16
			r := procedure(g, image.Addr(1<<22+i*hugePageSize))
			r.Proc.Name = fmt.Sprint("p", i)
			ip.Procs = append(ip.Procs, r)
			order.Symbols = append(order.Symbols, r.Proc.Symbol)
		}
		h := Huge(ip, order)
		if h.Linked.For999 != tt.linked || len(h.Groups) != tt.groups || h.Procs != 10*tt.size {
			t.Errorf("%s: %d pages as linked, %d groups of %d bytes, want %d, %d, %d", tt.name, h.Linked.For999, len(h.Groups), h.Procs, tt.linked, tt.groups, 10*tt.size)
		}
		n, share := 0, 0.0
		for _, g := range h.Groups {
			n += len(g.Symbols)
			share += g.Share
			if g.Bytes > hugePageSize {
				t.Errorf("%s: a group of %d bytes", tt.name, g.Bytes)
			}
		}
		if tt.groups > 0 && (n != 10 || share < 0.999 || share > 1.001) {
			t.Errorf("%s: groups of %d procedures with %g of execution", tt.name, n, share)
		}
		if len(h.Runs) != 1 || h.Runs[0].Start != 1<<22 || h.Runs[0].End != 1<<22+10*hugePageSize {
			t.Errorf("%s: runs %+v", tt.name, h.Runs)
		}
	}
}
