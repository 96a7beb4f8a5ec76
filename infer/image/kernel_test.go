package image

import (
	"bytes"
	"errors"
	"testing"

	"backfeed/sample"
)

// FuzzKernel: any bytes that are taken for a kernel give an error that says whose fault it is, or procedures that keep their
// promises, and offsets that lead to addresses and back. The seed is what TestKernelIdioms of package input decodes.
func FuzzKernel(f *testing.F) {
	f.Add(seed(f, "kernel.elf"), uint64(5))
	f.Add(seed(f, "x86.elf"), uint64(0))
	f.Add(seed(f, "arm.elf"), uint64(1<<63))
	f.Fuzz(func(t *testing.T, b []byte, off uint64) {
		im := &Image{Path: "fuzz", file: bytes.NewReader(b)}
		if err := im.open(int64(len(b)), Options{Root: "testdata", Kernel: true}); err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("neither malformed nor unsupported: %v", err)
			}
			return
		}
		if err := checkSymbols(im); err != nil {
			t.Fatal(err)
		}
		if a, ok := im.AddrOf(sample.Offset(off)); ok {
			if back, ok := im.OffsetOf(a); !ok || uint64(back) != off {
				t.Fatalf("offset %#x is at %#x, whose offset is %#x, %v", off, uint64(a), uint64(back), ok)
			}
		}
		for i := range im.Symbols()[:min(8, len(im.Symbols()))] {
			if p, err := im.Proc(i); err == nil {
				if err := p.Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
