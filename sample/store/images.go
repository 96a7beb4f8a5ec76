package store

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"backfeed/sample"
	"backfeed/sample/wire"
)

// A Kind is what a copy of an image is of.
type Kind string

const (
	KindFile  Kind = "file"  // the file that ran
	KindDebug Kind = "debug" // the separate file with its symbols and DWARF
)

// An Image is what a store knows of an image.
type Image struct {
	ID       sample.ImageID
	Samples  uint64
	From, To time.Time // of the first and the last epoch with samples of it
	Kept     []Kind    // copies
}

// Images lists the sampled images, those with the most samples first.
func (s *Dir) Images() ([]Image, error) {
	l, err := s.list()
	if err != nil {
		return nil, err
	}
	s.warn(l)
	copies, err := s.copies()
	if err != nil {
		return nil, err
	}
	return imagesOf(l.live, copies), nil
}

// imagesOf lists the images of segments, which are sorted by epoch.
func imagesOf(live []entry, copies []imageCopy) []Image {
	kept := map[sample.BuildID][]Kind{}
	for _, c := range copies {
		kept[c.build] = append(kept[c.build], c.kind)
	}
	all := map[sample.ImageID]*Image{}
	for _, e := range live {
		for _, id := range e.images {
			im := all[id.Key()]
			if im == nil {
				im = &Image{ID: id, From: e.epoch.From(), To: e.epoch.To()}
				if !id.Build.IsZero() {
					im.Kept = kept[id.Build]
				}
				all[id.Key()] = im
			}
			if old := im.ID.Path; old == "" || id.Path != "" && id.Path < old {
				im.ID.Path = id.Path
			}
			if im.To.Before(e.epoch.To()) {
				im.To = e.epoch.To()
			}
		}
		for _, b := range e.blocks {
			if b.kind == kindSamples && b.image != none {
				im := all[e.image(b).Key()]
				im.Samples = add(im.Samples, b.samples)
			}
		}
	}
	out := make([]Image, 0, len(all))
	for _, im := range all {
		out = append(out, *im)
	}
	slices.SortFunc(out, func(a, b Image) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), a.ID.Compare(b.ID))
	})
	return out
}

// newCopy returns what a copy of the file that r reads, from its start, is known by.
func newCopy(ctx context.Context, id sample.ImageID, r io.ReadSeeker, kind Kind) (c imageCopy, err error) {
	c = imageCopy{build: id.Build, kind: kind}
	sum := crc32.New(wire.Castagnoli)
	c.size, err = fromStart(ctx, sum, r)
	c.sum = sum.Sum32()
	return c, err
}

// KeepImage copies a file that samples are of, so that they can be understood when
// the file is gone. It is known by its build ID, and copied only once. The reader
// is read from its start, twice, until ctx ends.
func (s *Dir) KeepImage(ctx context.Context, id sample.ImageID, r io.ReadSeeker, kind Kind) error {
	if id.Build.IsZero() {
		return fmt.Errorf("%s: no build ID to keep it by", id)
	}
	if path, err := s.OpenImage(id, kind); err == nil && path != "" {
		return nil
	}
	c, err := newCopy(ctx, id, r, kind)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, imagesDir, c.fileName())
	if _, err := removeLeftover(path, func(f *os.File) bool { return !c.complete(f) }); err != nil {
		return err
	}
	err = writeFile(path, func(w *bufio.Writer) error {
		sum := crc32.New(wire.Castagnoli)
		if n, err := fromStart(ctx, io.MultiWriter(w, sum), r); err != nil || n != c.size || sum.Sum32() != c.sum {
			return cmp.Or(err, fmt.Errorf("%s: changed while it was copied", id))
		}
		return nil
	})
	if errors.Is(err, fs.ErrExist) {
		return nil // another process is at it
	}
	return err
}

func fromStart(ctx context.Context, w io.Writer, r io.ReadSeeker) (int64, error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(w, readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(b)
	}))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// OpenImage returns the path of the copy of an image, and an error that wraps
// fs.ErrNotExist if there is none.
func (s *Dir) OpenImage(id sample.ImageID, kind Kind) (path string, err error) {
	copies, err := s.copies()
	if err != nil {
		return "", err
	}
	for _, c := range copies {
		if c.build == id.Build && c.kind == kind {
			return filepath.Join(s.dir, imagesDir, c.name), nil
		}
	}
	return "", fmt.Errorf("%s: no copy of its %s: %w", id, kind, fs.ErrNotExist)
}

// An imageCopy is a copy of an image. Its name tells what is in it, and so whether
// all of it is there:
//
//	BUILDID.KIND.SIZE.CRC32C    size in decimal, all others but the kind in hexadecimal
type imageCopy struct {
	name    string
	build   sample.BuildID
	kind    Kind
	size    int64 // bytes
	sum     uint32
	written time.Time
}

func (c *imageCopy) fileName() string {
	return fmt.Sprintf("%s.%s.%d.%08x", c.build, c.kind, c.size, c.sum)
}

// parseCopy takes the name of a copy apart.
func parseCopy(name string) (c imageCopy, ok bool) {
	f := strings.Split(name, ".")
	if len(f) != 4 {
		return c, false
	}
	var err error
	if c.build, err = sample.ParseBuildID(f[0]); err != nil {
		return c, false
	}
	c.name, c.kind = name, Kind(f[1])
	if _, err := fmt.Sscanf(f[2]+" "+f[3], "%d %x", &c.size, &c.sum); err != nil {
		return c, false
	}
	return c, c.fileName() == name
}

// complete reports whether a file has the size that its name says.
func (c *imageCopy) complete(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Size() == c.size
}

// copies lists the copies of images that are complete.
func (s *Dir) copies() ([]imageCopy, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, imagesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // gone
		return nil, err
	}
	var out []imageCopy
	for _, f := range files {
		c, ok := parseCopy(f.Name())
		st, err := f.Info()
		if !ok || err != nil || !st.Mode().IsRegular() || st.Size() != c.size {
			continue
		}
		c.written = st.ModTime()
		out = append(out, c)
	}
	return out, nil
}
