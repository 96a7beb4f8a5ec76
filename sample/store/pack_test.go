package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// TestPack: the stored form depends on the plain bytes alone, not on what was
// compressed before, and reads them back; one that says it is of another size is
// refused.
func TestPack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	blocks := [][]byte{nil, {1}, bytes.Repeat([]byte{4, 1}, 100), make([]byte, 1<<20)}
	for _, n := range []int{100, 10_000, 3_000_000} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.ExpFloat64() * 8)
		}
		blocks = append(blocks, b)
	}
	first := make([][]byte, len(blocks))
	for i, b := range blocks {
		first[i] = pack(b)
		if len(first[i]) > len(b) || len(first[i]) < len(b)/maxRatio {
			t.Errorf("%d bytes are stored as %d", len(b), len(first[i]))
		}
		if got, err := unpack(first[i], len(b)); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes: %d come back, %v", len(b), len(got), err)
		}
		for _, n := range []int{len(b) - 1, len(b) + 1} {
			if n <= len(first[i]) {
				continue // it is no size of a compressed block
			}
			if _, err := unpack(first[i], n); !errors.Is(err, ErrFormat) {
				t.Errorf("%d bytes as %d: got error %v", len(b), n, err)
			}
		}
	}
	for range 20 {
		i := rnd.IntN(len(blocks))
		if !bytes.Equal(pack(blocks[i]), first[i]) {
			t.Errorf("%d bytes are stored otherwise than before", len(blocks[i]))
		}
	}
}
