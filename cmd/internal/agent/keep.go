package agent

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/store"
)

// mostCopied bounds copies in a store, in bytes, where --retain-size does not bound the store. Those of
// a build machine's 52 images took 0.9 GB.
const mostCopied = 4 << 30

// imageFiles are the open files of an image that are to be copied.
type imageFiles struct {
	id sample.ImageID
	input.Held
}

// hold opens the files of images that are sampled for the first time, while processes have them
// still, and has them copied: what is open can be copied whatever becomes of its name.
func (a *Agent) hold(rec *sample.Recording) {
	if a.opt.Keep == KeepNothing {
		return
	}
	images := rec.Seen()
	maps.DeleteFunc(images, func(id sample.ImageID, _ uint64) bool {
		return id.Build.IsZero() || a.kept[id.Build] || input.Fileless(id) != nil
	})
	p := input.Running{Proc: "/proc", Fresh: a.fresh}
	for _, id := range report.MostFirst(images) {
		if a.kept[id.Build] { // by another name
			continue
		}
		if len(a.copies) == cap(a.copies) {
			return
		}
		a.kept[id.Build] = true // or not to be had: no second try
		held, err := p.Hold(id, a.opt.Keep == KeepDebug)
		if err != nil {
			a.noCopy(id, err)
		}
		if held != (input.Held{}) { // the file may be had though its debug file is not
			a.copies <- imageFiles{id, held} // nobody else sends
		}
	}
}

func (a *Agent) noCopy(id sample.ImageID, err error) {
	a.log.Warn("no copy of an image was made; keep the file elsewhere if it is to be analysed later", "image", id.String(), "error", err)
}

// copyAll copies what is held, until there is no more to come.
func (a *Agent) copyAll() {
	for h := range a.copies {
		err := h.Each(func(f *os.File, kind store.Kind) error { return a.copy(h.id, f, kind) })
		h.Close()
		if err != nil {
			a.noCopy(h.id, err)
		}
	}
}

// has reports whether an image is in the store already.
func (a *Agent) has(id sample.ImageID, kind store.Kind) bool {
	if a.up != nil {
		if there, err := a.up.bucket.HasImage(id, kind); err == nil && there {
			return true
		}
	}
	_, err := a.into.OpenImage(id, kind)
	return err == nil
}

// copy copies an open file into the store, if it is not there and not too large.
func (a *Agent) copy(id sample.ImageID, f *os.File, kind store.Kind) error {
	if a.has(id, kind) {
		return nil
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	n := st.Size()
	if n > a.opt.MaxImage {
		return fmt.Errorf("%d bytes, which is more than --max-image-size %s", n, report.Bytes(a.opt.MaxImage))
	}
	if room := a.opt.Retain.MaxBytes - a.inStore.Load(); a.opt.Retain.MaxBytes > 0 && n > room {
		return fmt.Errorf("%d bytes, and --retain-size leaves %d", n, max(room, 0))
	} else if room := mostCopied - a.copied.Load(); a.opt.Retain.MaxBytes == 0 && n > room {
		return fmt.Errorf("%d bytes, and copies take %s at most without --retain-size, which leaves %d", n, report.Bytes(mostCopied), max(room, 0))
	}
	if a.opt.HashPaths {
		id = id.HashPath()
	}
	// What grows meanwhile is not followed.
	from := &slowly{ReadSeeker: io.NewSectionReader(f, 0, n), pause: func(took time.Duration) { a.pause(a.work, took) }}
	if err := a.into.KeepImage(a.work, id, from, kind); err != nil {
		return err
	}
	a.inStore.Add(n)
	a.copied.Add(n)
	return nil
}

// copyShare is how much of what the agent may spend goes into copies while there are any, and
// longestPause how long they rest at most for each pausedBytes.
const (
	copyShare    = 0.25
	longestPause = 2 * time.Second
	pausedBytes  = 1 << 20
)

// pause rests after a piece of a copy that took some time, so that copies stay within their share of
// the agent's limit.
func (a *Agent) pause(ctx context.Context, took time.Duration) {
	if a.ending.Load() {
		return
	}
	processors := a.opt.MaxCPU * copyShare * float64(runtime.NumCPU())
	if processors <= 0 {
		return
	}
	rest := time.NewTimer(min(time.Duration(float64(took)/processors), longestPause))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
}

// slowly reads with pauses.
type slowly struct {
	io.ReadSeeker
	pause func(took time.Duration) // after pausedBytes, which took that long
	since time.Time                // the last pause
	n     int                      // bytes since
}

func (s *slowly) Read(b []byte) (int, error) {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	n, err := s.ReadSeeker.Read(b)
	if s.n += n; s.n >= pausedBytes {
		s.pause(time.Since(s.since))
		s.n, s.since = 0, time.Now()
	}
	return n, err
}
