package image

import (
	"os"
	"slices"
	"testing"

	"backfeed/sample/trace"
)

// TestWalkSymbol: code taken from its start to its end has what that of blocks has, instruction by instruction, and leads to where its
// calls and jumps do.
func TestWalkSymbol(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{self, "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/aarch64-linux-gnu/lib/libc.so.6"} {
		if _, err := os.Stat(path); err != nil {
			t.Logf("not compared: %v", err)
			continue
		}
		im := openTest(t, path)
		step := max(1, len(im.Symbols())/2000)
		straight, all := 0, 0
		for i := 0; i < len(im.Symbols()); i += step {
			p, err := im.Proc(i)
			if err != nil {
				continue
			}
			all++
			insts, to, ok := im.walkStraight(i)
			if !ok {
				continue
			}
			straight++
			at := map[uint64]int{}
			for k, in := range insts {
				at[in.Addr] = k
			}
			for k, in := range im.WalkInsts(p) {
				if in.Addr == 0 {
					continue
				}
				if j, ok := at[in.Addr]; !ok || insts[j] != in {
					t.Errorf("%s: %s: instruction %d at %#x is %v of blocks, and %v straight", path, p.Name, k, in.Addr, in, insts[j])
				}
			}
			for _, c := range p.Calls {
				if outside := c.To < p.Addr || c.To >= p.Addr+Addr(p.Size); c.To != 0 && outside && c.slot == 0 && !c.Tail && !slices.Contains(to, c.To) {
					t.Errorf("%s: %s: calls %#x, which is not in %#x", path, p.Name, c.To, to)
				}
			}
		}
		if straight < all*9/10 || all == 0 {
			t.Errorf("%s: %d of %d procedures are straight", path, straight, all)
		}
		t.Logf("%s: %d of %d", path, straight, all)
	}
}

// BenchmarkWalkSymbol decodes the code of an image for walks, from start to end and by its blocks.
func BenchmarkWalkSymbol(b *testing.B) {
	for _, how := range []struct {
		name   string
		decode func(im *Image, i int) []trace.Inst
	}{
		{"straight", func(im *Image, i int) []trace.Inst { insts, _, _ := im.WalkSymbol(i); return insts }},
		{"blocks", func(im *Image, i int) []trace.Inst {
			p, err := im.Proc(i)
			if err != nil {
				return nil
			}
			return im.WalkInsts(p)
		}},
	} {
		b.Run(how.name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				im := openTest(b, "/usr/lib/x86_64-linux-gnu/libc.so.6")
				for i := range im.Symbols() {
					n += len(how.decode(im, i))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/inst")
		})
	}
}
