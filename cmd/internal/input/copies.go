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

// into returns what puts the files of a build into dir, and counts them.
func (c *Copies) into(ctx context.Context, dir BuildDir, id sample.ImageID) func(*os.File, store.Kind) error {
	return func(f *os.File, kind store.Kind) error {
		was := dir.Has(id, kind)
		if err := dir.Keep(ctx, id, kind, f); err != nil {
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
	for _, id := range report.MostFirst(rec.ByImage()) {
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

// KeepSampled copies what was just sampled on this machine, as processes have it or had it, and its separate debug files to a
// directory, or if that is "" into a store. An image that cannot be had is told, and the others are kept.
func KeepSampled(ctx context.Context, rec *sample.Recording, dir BuildDir, into *store.Store, notify report.Notify) (c Copies, err error) {
	p := Running{Proc: "/proc"}
	for _, id := range c.sampled(rec) {
		put := c.into(ctx, dir, id)
		if into != nil {
			put = func(f *os.File, kind store.Kind) error {
				_, missing := into.OpenImage(id, kind)
				if err := into.KeepImage(ctx, id, f, kind); err != nil {
					return err
				}
				c.count(kind, f, missing == nil)
				return nil
			}
		}
		if err := p.Keep(id, true, put); err != nil {
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
