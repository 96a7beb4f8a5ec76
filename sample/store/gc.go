package store

import (
	"errors"
	"fmt"
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
	Most     bool          // may drop more than half of the epochs for their age at once
}

// ErrMost is wrapped by the error about epochs that are too old, but are most of the
// store. A clock that was set wrong makes them so, and nothing brings them back.
var ErrMost = errors.New("most of the store would go at once")

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
// from the end of the newest epoch if that is earlier. It returns ErrBusy if another
// process is at it, and ErrMost if epochs were kept that are too old.
func (s *Dir) GC(keep Retention, now time.Time) (done Collected, err error) {
	err = s.tidy(func(l *listing) error {
		copies, err := s.copies()
		if err != nil {
			return err
		}
		epochs := byEpoch(l.live)
		n, unused, most := expired(epochs, copies, keep, now)
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
		if most > 0 {
			return fmt.Errorf("%d of %d epochs ended more than %v before the newest one: %w", most, len(epochs), keep.MaxAge, ErrMost)
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

// expired returns the number of epochs to remove, and the copies of images that no
// later one has samples of. If those that are too old are most of the store, and must not
// be, most is their number.
func expired(epochs [][]entry, copies []imageCopy, keep Retention, now time.Time) (n int, unused []imageCopy, most int) {
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
	old := 0
	for keep.MaxAge > 0 && old < len(epochs)-minEpochs && epochs[old][0].epoch.To().Before(end.Add(-keep.MaxAge)) {
		old++
	}
	if old > len(epochs)/2 && !keep.Most {
		old, most = 0, old
	}
	for ; n < len(epochs)-minEpochs; n++ {
		if n >= old && (keep.MaxBytes <= 0 || total <= keep.MaxBytes) {
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
	return n, unused, most
}
