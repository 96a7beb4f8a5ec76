package input

import (
	"context"
	"fmt"
	"os"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/store"
)

// Copies says what became of the images of a recording that were to be copied.
type Copies struct {
	Images, Debug int   // copies that are there now, of images and of their separate debug files
	New           int   // of these, those that were not before
	Bytes         int64 // of New
	NotFound      int
	NoBuildID     int
}

// String sums c up.
func (c Copies) String() string {
	text := fmt.Sprintf("%d images and %d debug files are there; new: %d (%s bytes)", c.Images, c.Debug, c.New, report.Count(float64(c.Bytes)))
	if c.NotFound > 0 {
		text += fmt.Sprintf("; not found: %d", c.NotFound)
	}
	if c.NoBuildID > 0 {
		text += fmt.Sprintf("; without a build ID: %d", c.NoBuildID)
	}
	return text
}

// A Keeper keeps copies of images and of their debug files.
type Keeper interface {
	Has(id sample.ImageID, kind store.Kind) bool
	Keep(ctx context.Context, id sample.ImageID, kind store.Kind, from *os.File) error
	Debug() bool // it keeps separate debug files, too
}

// Debug is true.
func (d BuildDir) Debug() bool { return true }

// A StoreKeeper keeps copies in a store.
type StoreKeeper struct {
	Store     store.Store
	FilesOnly bool
}

func (k StoreKeeper) Debug() bool { return !k.FilesOnly }

func (k StoreKeeper) Has(id sample.ImageID, kind store.Kind) bool {
	_, err := k.Store.OpenImage(id, kind)
	return err == nil
}

func (k StoreKeeper) Keep(ctx context.Context, id sample.ImageID, kind store.Kind, from *os.File) error {
	return k.Store.KeepImage(ctx, id, from, kind)
}

// into returns what has k keep the files of a build, and counts them.
func (c *Copies) into(ctx context.Context, k Keeper, id sample.ImageID) func(*os.File, store.Kind) error {
	return func(f *os.File, kind store.Kind) error {
		was := k.Has(id, kind)
		if err := k.Keep(ctx, id, kind, f); err != nil {
			return err
		}
		c.count(kind, f, was)
		return nil
	}
}

func (c *Copies) count(kind store.Kind, f *os.File, was bool) {
	if kind == store.KindDebug {
		c.Debug++
	} else {
		c.Images++
	}
	if st, err := f.Stat(); err == nil && !was {
		c.New++
		c.Bytes += st.Size()
	}
}

// sampled lists the images of rec that may have a file, and were sampled or counted, those with the most samples first.
func (c *Copies) sampled(rec *sample.Recording) (ids []sample.ImageID) {
	for _, id := range report.MostFirst(rec.Seen()) {
		switch {
		case Fileless(id) != nil:
		case id.Build.IsZero():
			c.NoBuildID++
		default:
			ids = append(ids, id)
		}
	}
	return ids
}

// CopyImages copies the images that are found, and their separate debug files, to dir. What is there stays.
func (s *Session) CopyImages(ctx context.Context, dir BuildDir) (c Copies, err error) {
	for _, id := range c.sampled(s.Recording) {
		im, err := s.Open(id)
		if err != nil {
			c.NotFound++
			continue
		}
		s.notify.Progress("copying %s", report.Clean(im.Path))
		if err := s.copyImage(im.Path, id, c.into(ctx, dir, id)); err != nil {
			return c, err
		}
	}
	s.notify.Done()
	return c, nil
}

func (s *Session) copyImage(path string, id sample.ImageID, put func(*os.File, store.Kind) error) error {
	f, err := sample.OpenRegular(path)
	if id.OfKernel() && path == id.Path { // it is the one that runs
		f, _, err = s.finder.running.Open(id)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := put(f, store.KindFile); err != nil {
		return err
	}
	g, err := image.DebugFile(f, s.finder.options(path, id))
	if err != nil || g == nil {
		return err
	}
	defer g.Close()
	return put(g, store.KindDebug)
}

// KeepSampled has k keep what was just sampled on this machine, as processes have it or p holds it. An image that cannot be
// had is told, and the others are kept.
func KeepSampled(ctx context.Context, rec *sample.Recording, p *Running, k Keeper, notify report.Notify) (c Copies, err error) {
	for _, id := range c.sampled(rec) {
		if err := p.Keep(id, k.Debug(), c.into(ctx, k, id)); err != nil {
			if ctx.Err() != nil {
				return c, ctx.Err()
			}
			if c.NotFound++; c.NotFound <= mostTold {
				notify.Warn("%s: no copy of it was made: %v", report.Clean(id.String()), err)
			}
		}
	}
	return c, nil
}
