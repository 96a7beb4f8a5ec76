package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"backfeed/sample"
)

// outboxDir has segments that are on their way to a bucket. They count there or nowhere: they are
// no longer of the store, whose segments would be merged with what comes later.
const outboxDir = "outbox"

// A Parcel is a segment in an outbox.
type Parcel struct {
	Name  string
	Epoch sample.Epoch
	Bytes int64
	path  string
}

// Ship moves the segments of epochs that ended by then to the outbox; a zero time is all. What is moved
// keeps its name from there on, so that to send it again changes nothing.
func (s *Dir) Ship(by time.Time) (shipped int, err error) {
	out := filepath.Join(s.dir, outboxDir)
	if err := os.MkdirAll(out, dirMode); err != nil {
		return 0, err
	}
	err = s.tidy(func(l *listing) error {
		for _, e := range l.live {
			if !over(e.epoch, by) {
				continue
			}
			from := filepath.Join(s.dir, segmentsDir, e.name)
			data, err := os.ReadFile(from)
			if err != nil {
				return err
			}
			to := filepath.Join(out, path.Base(rawName{e.epoch, sumOfBytes(data)}.key()))
			if err := os.Rename(from, to); err != nil {
				return err
			}
			shipped++
		}
		if shipped == 0 {
			return nil
		}
		return errors.Join(syncDir(out), syncDir(filepath.Join(s.dir, segmentsDir)))
	})
	return shipped, err
}

// Outbox lists what is to be sent, the oldest first.
func (s *Dir) Outbox() (all []Parcel, err error) {
	files, err := os.ReadDir(filepath.Join(s.dir, outboxDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files { // by name, which begins with the time
		start, _, _ := strings.Cut(f.Name(), "-")
		at, err := time.Parse(nameTime, start)
		if err != nil {
			continue
		}
		n, ok := parseRaw(newDir + at.Format("20060102") + "/" + f.Name())
		st, err := f.Info()
		if !ok || err != nil || !st.Mode().IsRegular() {
			continue
		}
		all = append(all, Parcel{f.Name(), n.epoch, st.Size(), filepath.Join(s.dir, outboxDir, f.Name())})
	}
	return all, nil
}

// Open returns the bytes of a parcel, and how many samples are in it. The error wraps ErrFormat or ErrTorn where the
// disk did not keep them.
func (p Parcel) Open() (data []byte, samples uint64, err error) {
	if data, err = os.ReadFile(p.path); err != nil {
		return nil, 0, err
	}
	dir, err := checkSegment(data)
	if n, ok := parseRaw(newDir + p.Name[:len("20060102")] + "/" + p.Name); err == nil && (!ok || n.sum != sumOfBytes(data)) {
		err = fmt.Errorf("not the bytes that its name is of: %w", ErrFormat)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", p.Name, err)
	}
	return data, dir.summary.Samples(), nil
}

// Remove removes a parcel that has arrived, or is given up.
func (p Parcel) Remove() error { return remove(p.path) }

// A Copy is a copy of an image in a directory.
type Copy struct {
	ID    sample.ImageID
	Kind  Kind
	Bytes int64
	Path  string
}

// Copies lists the copies of images.
func (s *Dir) Copies() ([]Copy, error) {
	copies, err := s.copies()
	var all []Copy
	for _, c := range copies {
		all = append(all, Copy{sample.ImageID{Build: c.build}, c.kind, c.size, filepath.Join(s.dir, imagesDir, c.name)})
	}
	slices.SortFunc(all, func(a, b Copy) int { return strings.Compare(a.Path, b.Path) })
	return all, err
}
