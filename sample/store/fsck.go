package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"backfeed/sample"
	"backfeed/sample/wire"
)

// A Report is what Fsck found.
type Report struct {
	Segments   int      // that count
	Partly     int      // of them, those that are damaged, of which what is whole is used
	Samples    uint64   // in all that count, the lost ones included
	Copies     int      // of images
	Unfinished []string // files without an end: being written, or their writer was stopped
	Superseded []string // segments that were merged into others, and not removed yet
	Damaged    []error  // what was once whole and is not used any more, or only in part
	Removed    int      // files, of those unfinished and superseded
}

// Clean reports whether everything that was ever written is there and right. What a
// writer that was killed leaves behind is not damage.
func (r *Report) Clean() bool { return len(r.Damaged) == 0 }

// Fsck reads the whole store and checks all that can be checked. The index is asked only
// for what is not there any more. To repair is to remove what is unfinished and superseded and copies that
// are damaged, and to make the index anew; then it returns ErrBusy if another process removes files.
func (s *Dir) Fsck(repair bool) (*Report, error) {
	if !repair {
		return s.fsck(false)
	}
	var r *Report
	err := s.exclusive(func() (err error) {
		r, err = s.fsck(true)
		return err
	})
	return r, err
}

func (s *Dir) fsck(repair bool) (*Report, error) {
	known := s.openIndex().known // of what is not there
	ix := s.emptyIndex()
	l, err := s.listWith(ix)
	if err != nil {
		return nil, err
	}
	r := &Report{Damaged: s.gone()}
	remember := &index{known: known}
	lost := s.lost(remember, slices.Concat(l.live, l.superseded, l.overlap), l.bad, l)
	for _, err := range lost {
		r.Damaged = append(r.Damaged, err)
	}
	for _, e := range l.superseded {
		r.Superseded = append(r.Superseded, e.name)
	}
	for _, e := range l.overlap {
		r.Damaged = append(r.Damaged, &SegmentError{e.name, errOverlap})
	}
	for _, bad := range l.bad {
		switch {
		case remember.lost[bad.Name]:
		case errors.Is(bad, ErrTorn):
			r.Unfinished = append(r.Unfinished, bad.Name)
		default:
			r.Damaged = append(r.Damaged, bad)
		}
	}
	for _, e := range l.live {
		r.Segments++
		r.Samples = add(r.Samples, e.summary.Samples())
		if err := s.verify(e); err != nil {
			r.Damaged = append(r.Damaged, &SegmentError{e.name, err})
			r.Partly++
		}
	}
	if err := s.fsckCopies(r, repair); err != nil {
		return nil, err
	}
	if !repair {
		return r, nil
	}
	n, err := s.sweep(l)
	r.Removed += n
	if err != nil {
		return nil, err
	}
	n, err = s.sweepCopies()
	r.Removed += n
	if err != nil {
		return nil, err
	}
	return r, ix.rewrite()
}

// verify reads all of a segment. A segment that was removed meanwhile is right.
func (s *Dir) verify(e entry) error {
	f, err := sample.OpenRegular(filepath.Join(s.dir, segmentsDir, e.name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if want := name(e.epoch, e.parts); e.name != want {
		return fmt.Errorf("its epoch and parts are those of %s: %w", want, ErrFormat)
	}
	return e.directory.verify(f)
}

// verify reads all blocks of a segment.
func (d *directory) verify(r io.ReaderAt) error {
	var head [len(magic)]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return err
	}
	if string(head[:]) != d.magic() {
		return fmt.Errorf("offset 0x0: magic: %w", ErrFormat)
	}
	samples := make([]uint64, len(d.summary.Counts)) // of all images, by event
	for _, b := range d.blocks {
		plain, err := readBlock(r, b)
		if err != nil {
			return err
		}
		switch b.kind {
		case kindSamples:
			err = b.verifySamples(plain, samples)
		case kindFlows:
			err = b.verifyFlows(plain)
		case kindOff:
			err = b.verifyOff(plain)
		}
		if err != nil {
			return fmt.Errorf("block at %#x: %w", b.off, err)
		}
	}
	if d.piece {
		return nil
	}
	for i, c := range d.summary.Counts {
		if got, want := samples[i], inImages(c); got != want {
			return fmt.Errorf("%s: %d samples in all, but %d in blocks: %w", c.Event.Name, want, got, ErrFormat)
		}
	}
	// What flows promise of the samples is checked by those who add them up.
	_, err := toRecording(source{dir: d, plain: func(b block) ([]byte, error) { return readBlock(r, b) }}, nil, true)
	return err
}

func (b block) verifySamples(plain []byte, samples []uint64) error {
	cols, err := columns(plain, len(samples))
	if err != nil {
		return err
	}
	var n, entries uint64
	for _, c := range cols {
		err := mergeColumns([]column{c}, func(_, count uint64) {
			samples[c.event] = add(samples[c.event], count)
			n = add(n, count)
			entries++
		})
		if err != nil {
			return err
		}
	}
	return b.verifySums(n, entries)
}

func (b block) verifyFlows(plain []byte) error {
	rec, err := sample.Decode(plain)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrFormat)
	}
	return b.verifySums(flows(rec))
}

func (b block) verifySums(samples, entries uint64) error {
	if samples != b.samples || entries != b.entries {
		return fmt.Errorf("%d samples in %d entries, but the directory says %d in %d: %w", samples, entries, b.samples, b.entries, ErrFormat)
	}
	return nil
}

// fsckCopies reads the copies of images.
func (s *Dir) fsckCopies(r *Report, repair bool) error {
	files, err := os.ReadDir(filepath.Join(s.dir, imagesDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, f := range files {
		c, ok := parseCopy(f.Name())
		if !ok {
			continue
		}
		n, sum, err := checksum(filepath.Join(s.dir, imagesDir, c.name))
		switch {
		case errors.Is(err, os.ErrNotExist):
		case errors.Is(err, sample.ErrNotRegular):
			r.Damaged = append(r.Damaged, err)
		case err != nil:
			return err
		case n < c.size:
			r.Unfinished = append(r.Unfinished, c.name)
		case n != c.size || sum != c.sum:
			r.Damaged = append(r.Damaged, fmt.Errorf("%s: not the bytes that were copied", c.name))
			if repair { // or there would never be another
				if err := remove(filepath.Join(s.dir, imagesDir, c.name)); err != nil {
					return err
				}
				r.Removed++
			}
		default:
			r.Copies++
		}
	}
	return nil
}

func checksum(path string) (n int64, sum uint32, err error) {
	f, err := sample.OpenRegular(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	h := crc32.New(wire.Castagnoli)
	n, err = io.Copy(h, f)
	return n, h.Sum32(), err
}
