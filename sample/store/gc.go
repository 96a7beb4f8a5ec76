package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"backfeed/sample"
)

// Retention says what GC keeps. The newest three epochs are always kept.
type Retention struct {
	MaxAge   time.Duration // of the end of an epoch; 0 is without bound
	MaxBytes int64         // of segments and copies of images together; 0 is without bound
}

// minEpochs are kept whatever their age, as DCPI's daemon did: a clock that runs
// ahead must not empty the store.
const minEpochs = 3

// copyGrace is how long a copy of an image is kept that no segment has samples of:
// it may be made before the first segment that has.
const copyGrace = 24 * time.Hour

// Collected is what GC removed.
type Collected struct {
	Epochs   int
	Segments int
	Copies   int   // of images
	Bytes    int64 // of all of them
}

// GC removes epochs, oldest first, until the rest is as the retention says, and
// the copies of images that no samples are left of. Age is counted from now, or
// from the end of the newest epoch if that is earlier. It gives ErrBusy if another
// process is at it.
func (s *Store) GC(keep Retention, now time.Time) (done Collected, err error) {
	err = s.tidy(func(l *listing) error {
		copies, err := s.copies()
		if err != nil {
			return err
		}
		epochs := byEpoch(l.live)
		n, unused := expired(epochs, copies, keep, now)
		done.Epochs = n
		for _, epoch := range epochs[:n] {
			for _, e := range epoch {
				if err := remove(filepath.Join(s.dir, segmentsDir, e.name)); err != nil {
					return err
				}
				done.Segments++
				done.Bytes += e.size
			}
		}
		for _, c := range unused {
			if err := remove(filepath.Join(s.dir, imagesDir, c.name)); err != nil {
				return err
			}
			done.Copies++
			done.Bytes += c.size
		}
		return nil
	})
	return done, err
}

// remove removes a file, if it is still there.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// byEpoch groups segments, which are sorted by epoch.
func byEpoch(live []entry) [][]entry {
	var out [][]entry
	for i, e := range live {
		if i == 0 || e.epoch != live[i-1].epoch {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], e)
	}
	return out
}

// expired gives the number of epochs to remove, and the copies of images that no
// later one has samples of.
func expired(epochs [][]entry, copies []imageCopy, keep Retention, now time.Time) (n int, unused []imageCopy) {
	var total int64
	uses := map[sample.BuildID]int{} // segments, by image
	for _, epoch := range epochs {
		for _, e := range epoch {
			total += e.size
			for _, id := range e.images {
				uses[id.Build]++
			}
		}
	}
	copied := map[sample.BuildID]int64{} // bytes that go with the last samples
	for _, c := range copies {
		total += c.size
		switch age := now.Sub(c.written).Abs(); {
		case age < copyGrace:
		case uses[c.build] == 0:
			total -= c.size
		default:
			copied[c.build] += c.size
		}
	}
	end := now
	if i := len(epochs); i > 0 && epochs[i-1][0].epoch.To().Before(now) {
		end = epochs[i-1][0].epoch.To()
	}
	for ; n < len(epochs)-minEpochs; n++ {
		old := keep.MaxAge > 0 && epochs[n][0].epoch.To().Before(end.Add(-keep.MaxAge))
		if !old && (keep.MaxBytes <= 0 || total <= keep.MaxBytes) {
			break
		}
		for _, e := range epochs[n] {
			total -= e.size
			for _, id := range e.images {
				if uses[id.Build]--; uses[id.Build] == 0 {
					total -= copied[id.Build]
				}
			}
		}
	}
	for _, c := range copies {
		if uses[c.build] == 0 && now.Sub(c.written).Abs() >= copyGrace {
			unused = append(unused, c)
		}
	}
	return n, unused
}
