package infer

import (
	"os"
	"testing"

	"backfeed/infer/image"
)

// TestReturned: samples at which a system call returns are samples of the procedure, and not time of its code; those around
// them are both.
func TestReturned(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	im, err := image.Open(exe, image.Options{})
	if err != nil {
		t.Skipf("this test is no ELF file: %v", err)
	}
	defer im.Close()
	sym := im.Lookup("runtime.futex") // of Linux: a system call and little else
	if sym < 0 {
		sym = im.Lookup("runtime.futex.abi0")
	}
	if sym < 0 {
		t.Skip("no runtime.futex here")
	}
	p, err := im.Proc(sym)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for b := range p.Blocks {
		for _, after := range im.AfterSystemCalls(&p.Blocks[b]) {
			calls++
			r, lost := resultOf(im, sym, []hit{{addr: p.Blocks[b].Start, n: 3}, {addr: after, n: 5}})
			if lost != 0 || r.Samples != 8 || r.BlockSamples[b] < 3 {
				t.Fatalf("%d samples, %d lost, %v by block", r.Samples, lost, r.BlockSamples)
			}
			if got := r.system.held[b]; got != 5 {
				t.Errorf("%d samples are the kernel's, want 5", got)
			}
			par := outOfOrder
			for timed, want := range map[bool]float64{true: 3, false: 8} {
				par.timed = timed
				pr := &posed{par: &par, costOf: func(*Result) func(*image.Block) float64 {
					return func(*image.Block) float64 { return 1 }
				}}
				if got := sumOf(pr.pose(r).samples); got != want {
					t.Errorf("timed %v: %g samples of its code, want %g", timed, got, want)
				}
			}
		}
	}
	if calls != 1 {
		t.Errorf("%d system calls in runtime.futex, want 1", calls)
	}
}
