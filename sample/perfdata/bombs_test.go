package perfdata

import (
	"bytes"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"

	"backfeed/internal/testtool"
	"backfeed/sample/bound"
)

// forkBomb is a process with so many mappings and so many children, each of which maps
// one thing more.
func forkBomb(mappings, forks int) []byte {
	s := &synth{}
	a := s.plain()
	for i := range uint64(mappings) {
		s.mmap2(a, 1, i, 0x10000+i*0x1000, 0x1000, 0, nil, "/bin/a")
	}
	for i := range forks {
		pid := 2 + i
		s.task(a, recordFork, 0, pid, 1, pid, uint64(mappings+i))
		s.mmap2(a, pid, uint64(mappings+i), 0x1000, 0x1000, 0, nil, "/bin/b")
	}
	s.sample(a, synthSample{pid: 2, time: uint64(mappings + forks), ip: 0x10009})
	s.sample(a, synthSample{pid: 2, time: uint64(mappings + forks), ip: 0x1009})
	return s.pipe()
}

// TestForkBomb: a child's mappings cost what it changes of its parent's, not what they are.
func TestForkBomb(t *testing.T) {
	b := forkBomb(3000, 3000)
	used := testtool.Allocated(func() {
		rec, err := Read(bytes.NewReader(b), Options{})
		if err != nil {
			t.Fatal(err)
		}
		check(t, "fork bomb", rec)
		if n := len(rec.Counts[0].Images); n != 2 {
			t.Errorf("samples in %d images, want 2", n)
		}
	})
	if most := 50 * uint64(len(b)); used > most {
		t.Errorf("%d bytes allocated for a recording of %d, more than %d", used, len(b), most)
	}
}

// roundBomb is so many bytes of FINISHED_ROUND records, which zstd makes next to
// nothing of.
func roundBomb(size int) []byte {
	s := &synth{}
	s.plain()
	round := s.packRecord(recordRound, 0)
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	packed := z.EncodeAll(bytes.Repeat(round, size/len(round)), nil)
	for len(packed) > 0 {
		n := min(len(packed), 32<<10)
		s.record(recordCompressed, 0, raw(packed[:n]))
		packed = packed[n:]
	}
	return s.pipe()
}

func TestZstdBomb(t *testing.T) {
	b := roundBomb(100 << 20)
	_, err := Read(bytes.NewReader(b), Options{})
	if !errors.Is(err, bound.ErrBeyond) || !errors.Is(err, ErrFormat) {
		t.Fatalf("%d bytes that unpack to 100 MB: %v", len(b), err)
	}
	t.Log(err)
	if _, err := Read(bytes.NewReader(roundBomb(8<<20)), Options{}); err != nil {
		t.Errorf("8 MB: %v", err)
	}
}
