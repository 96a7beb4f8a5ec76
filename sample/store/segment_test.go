package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/wire"
)

// three is a recording with one of everything.
func three() *sample.Recording {
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 5000000, Unit: "ns"})
	libc := c.Image(sample.ImageID{Build: sample.BuildID{0xb9, 0x22}, Path: "/lib/libc.so.6"})
	app := c.Image(sample.ImageID{Path: "/usr/bin/app"})
	c.AddSample(libc, 0x1139, 7)
	c.AddSample(libc, 0x1140, 300)
	c.AddSample(app, 0x40, 1)
	c.AddStack([]sample.Frame{{Image: libc, Off: 0x1139}, {Image: app, Off: 0x44}}, 5)
	c.AddBranch(sample.Branch{From: sample.Frame{Image: sample.Unknown}, To: sample.Frame{Image: sample.Unknown}}, 2, 1)
	c.Lose(sample.LostKernel, 4)
	c.Weight = 312 * 5000000
	return &sample.Recording{Counts: []*sample.Counts{c}}
}

// segmentOf returns the bytes of a segment with that number as its only part.
func segmentOf(t testing.TB, rec *sample.Recording, labels map[string]string, part byte) []byte {
	t.Helper()
	src := fromRecording(rec)
	src.dir.parts = []partID{{part}}
	b := []byte(magic)
	dir, err := merge([]source{src}, all, pack, func(p packed) error {
		b = append(b, p.bytes...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dir.epoch, dir.labels = hour, labels
	return append(b, dir.encode()...)
}

// TestDump pins the format byte by byte.
func TestDump(t *testing.T) {
	testtool.Golden(t, "testdata/three.dump", Dump(segmentOf(t, three(), map[string]string{"host": "a"}, 0xaa)))
}

// drop puts bytes into a store as a segment that says it has that part.
func drop(t testing.TB, s *Dir, b []byte, part byte) string {
	t.Helper()
	path := filepath.Join(s.dir, segmentsDir, name(hour, []partID{{part}}))
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// quiet returns a store that counts its warnings.
func quiet(t testing.TB) (s *Dir, warnings *int) {
	t.Helper()
	warnings = new(int)
	s, err := CreateDir(t.TempDir(), Options{Warn: func(error) { *warnings++ }})
	if err != nil {
		t.Fatal(err)
	}
	return s, warnings
}

func samplesIn(t testing.TB, s Store, q Query) uint64 {
	t.Helper()
	rec, err := s.Read(q)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Samples()
}

// TestTorn: no beginning of a segment is one, nor is it damage; the segments
// beside it count.
func TestTorn(t *testing.T) {
	whole := segmentOf(t, three(), nil, 1)
	s, warnings := quiet(t)
	drop(t, s, segmentOf(t, three(), nil, 2), 2)
	want := three().Samples()
	for n := range whole {
		if d, _, err := readDirectory(bytes.NewReader(whole), int64(n)); !errors.Is(err, ErrTorn) {
			t.Errorf("first %d bytes of %d: %v, %v", n, len(whole), d, err)
		}
		if n%37 != 0 && n != len(whole)-1 {
			continue // the disk is slow
		}
		*warnings = 0
		path := drop(t, s, whole[:n], 1)
		if got := samplesIn(t, s, Query{}); got != want || *warnings != 1 {
			t.Fatalf("first %d bytes of %d: %d samples, %d warnings", n, len(whole), got, *warnings)
		}
		r, err := s.Fsck(true)
		if err != nil || !r.Clean() || r.Segments != 1 || len(r.Unfinished) != 1 || r.Removed != 1 {
			t.Fatalf("first %d bytes of %d: fsck: %+v, %v", n, len(whole), r, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("first %d bytes of %d: not removed: %v", n, len(whole), err)
		}
	}
}

// TestFlipped: each byte of a segment matters, and what it breaks is told.
func TestFlipped(t *testing.T) {
	whole := segmentOf(t, three(), nil, 1)
	s, warnings := quiet(t)
	drop(t, s, segmentOf(t, three(), nil, 2), 2)
	want := three().Samples()
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0x10
		r := bytes.NewReader(b)
		if d, _, err := readDirectory(r, r.Size()); err == nil && d.verify(r) == nil {
			t.Errorf("byte %#x: not found", i)
		}
		if i%17 != 0 {
			continue // the disk is slow
		}
		path := drop(t, s, b, 1)
		os.Remove(filepath.Join(s.dir, indexName)) // it would know better
		*warnings = 0
		got := samplesIn(t, s, Query{})
		if i >= len(magic) && (got != want || *warnings == 0) {
			t.Errorf("byte %#x: %d samples, %d warnings", i, got, *warnings)
		}
		report, err := s.Fsck(false)
		if err != nil || report.Clean() && len(report.Unfinished) == 0 {
			t.Errorf("byte %#x: fsck: %+v, %v", i, report, err)
		}
		os.Remove(path)
	}
}

// TestOtherKinds: a segment with blocks of a kind of later is read without them,
// and never merged into one that would not have them.
func TestOtherKinds(t *testing.T) {
	src := fromRecording(three())
	src.dir.parts = []partID{{1}}
	b := []byte(magic)
	dir, err := merge([]source{src}, all, pack, func(p packed) error { b = append(b, p.bytes...); return nil })
	if err != nil {
		t.Fatal(err)
	}
	dir.epoch = hour
	later := []byte("later block")
	dir.blocks = append(dir.blocks, block{image: len(dir.images) - 1, kind: 99, samples: 1, entries: 1,
		plain: len(later), stored: len(later), sum: wire.Checksum(later)})
	s := open(t)
	drop(t, s, append(append(b, later...), dir.encode()...), 1)
	drop(t, s, segmentOf(t, three(), nil, 2), 2)
	drop(t, s, segmentOf(t, three(), nil, 3), 3)
	if n, err := s.Compact(hour.To()); n != 2 || err != nil {
		t.Errorf("%d segments merged, %v", n, err)
	}
	if got, want := samplesIn(t, s, Query{}), 3*three().Samples(); got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
	if r, err := s.Fsck(false); err != nil || !r.Clean() || r.Segments != 2 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

// reseal makes the checksums of a segment right where its lengths make sense, so
// that the fuzzer gets past them.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < len(magic)+trailerSize {
		return b
	}
	copy(b, magic)
	n := int(binary.LittleEndian.Uint32(b[len(b)-trailerSize:]) % uint32(len(b)-len(magic)-trailerSize+1))
	enc := bytes.Clone(b[len(b)-trailerSize-n : len(b)-trailerSize])
	d := newDecoder(enc, 0)
	dir := &directory{labels: map[string]string{}}
	d.Uint(math.MaxInt64, "start of the epoch")
	d.Uint(math.MaxInt64, "length of the epoch")
	d.labels(dir)
	d.parts(dir)
	d.images(dir)
	at := len(magic)
	for range d.List(11, "blocks") {
		for _, field := range []string{"image", "kind", "page", "samples", "entries", "plain bytes"} {
			d.Uint(math.MaxInt64, field)
		}
		stored := int(d.Uint(uint64(len(b)), "stored bytes"))
		sum := d.Bytes(4, "checksum")
		if d.Err != nil || at+stored > len(b) {
			break
		}
		binary.LittleEndian.PutUint32(sum, wire.Checksum(b[at:at+stored]))
		at += stored
	}
	return append(b[:len(b)-trailerSize-n], sealDirectory(enc, magic)...)
}

// FuzzSegment: any bytes give an error, or a recording that survives a round trip.
func FuzzSegment(f *testing.F) {
	f.Add(segmentOf(f, three(), map[string]string{"host": "a"}, 1))
	f.Add(segmentOf(f, &sample.Recording{}, nil, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(reseal(b))
		dir, _, err := readDirectory(r, r.Size())
		if err != nil || dir.verify(r) != nil {
			return
		}
		rec, err := toRecording(source{dir: dir, plain: func(b block) ([]byte, error) { return readBlock(r, b) }}, paths([]entry{{directory: dir}}), true)
		if err != nil {
			t.Fatalf("verified, but: %v", err)
		}
		again := bytes.NewReader(segmentOf(t, rec, nil, 1))
		dir2, _, err := readDirectory(again, again.Size())
		if err != nil {
			t.Fatal(err)
		}
		if err := dir2.verify(again); err != nil {
			t.Fatal(err)
		}
		rec2, err := toRecording(source{dir: dir2, plain: func(b block) ([]byte, error) { return readBlock(again, b) }}, paths([]entry{{directory: dir2}}), true)
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, "again", rec2, rec)
	})
}
