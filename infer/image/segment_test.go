package image

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
)

// TestSegmentKeeps: a segment of more chunks than are kept has the bytes of its file, whoever asks for what, and keeps no more.
func TestSegmentKeeps(t *testing.T) {
	const lo, past = 0x400000, 1000
	file := make([]byte, (keptChunks+40)*chunkSize+past)
	fill := rand.NewChaCha8([32]byte{1})
	fill.Read(file)
	s := newSegment(bytes.NewReader(file), lo, uint64(len(file)), 0, true)
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 2000 {
				at, n := r.IntN(len(file)), 1+r.IntN(2*chunkSize)
				n = min(n, len(file)-at)
				if got := s.bytes(lo+Addr(at), n); !bytes.Equal(got, file[at:at+n]) {
					t.Errorf("%d bytes at %#x differ", n, at)
					return
				}
			}
		})
	}
	all.Wait()
	kept := 0
	for i := range s.chunks {
		if s.chunks[i].Load() != nil {
			kept++
		}
	}
	if kept > keptChunks || kept < keptChunks/2 {
		t.Errorf("%d chunks are kept, of %d that may be", kept, keptChunks)
	}
}

// TestCallTargets: the targets of calls are the same whether code is decoded at once or window by window.
func TestCallTargets(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	im, err := Open(path, Options{})
	if err != nil {
		t.Skip(err) // of another system, or processor
	}
	defer im.Close()
	var want []Addr
	windows := 0
	for _, r := range im.regions {
		code := im.code(r.lo, r.hi)
		windows += len(code) / scanWindow
		var d x86
		for off := 0; off < len(code); {
			at := r.lo + Addr(off)
			in := d.inst(code[off:], at)
			if im.Arch == AArch64 {
				in = armInst(code[off:], at)
			}
			if in.Class&DirCall != 0 && im.executable(in.Target) {
				want = append(want, in.Target)
			}
			off += max(in.Len, 1)
		}
	}
	if windows == 0 {
		t.Skipf("%s has little code", path)
	}
	got := im.callTargets()
	for _, a := range sortedSet(want) {
		if _, ok := slices.BinarySearch(got, a); !ok {
			t.Fatalf("%#x is missing", a)
		}
	}
	const others = 8 // the entry point, and what initialises and ends the program
	if n := len(sortedSet(want)); len(got) > n+others {
		t.Errorf("%d targets, of calls are %d", len(got), n)
	}
}
