package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"

	"backfeed/sample/bound"
)

// mostMemory bounds what a recording takes of this process, in bytes, where the machine has that
// much: a minute of a large program with --calibrate takes a fifth of it.
const mostMemory = 4 << 30

// guarded returns a context that ends when this process uses more memory than a recording may, so
// that what was recorded is kept. Its function ends it, and tells of that.
func (l Live) guarded(ctx context.Context, most int64) (context.Context, func()) {
	ctx, end := bound.Watch(ctx, most)
	return ctx, func() {
		why := context.Cause(ctx)
		end()
		if !errors.Is(why, bound.ErrBeyond) {
			return
		}
		l.Notify.Warn("recording ended early: %v", why)
		if dir, err := dumpMemory(); err == nil {
			l.Notify.Warn("%s has profiles of what holds it, for a report", dir)
		}
	}
}

// dumpMemory writes the profiles heap and goroutine to a new directory, which no other user can read.
func dumpMemory() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "backfeed-memory-"); err != nil {
		return "", err
	}
	for _, name := range []string{"heap", "goroutine"} {
		f, err := os.Create(filepath.Join(dir, name+".pprof"))
		if err != nil {
			return "", err
		}
		if err := errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close()); err != nil {
			return "", err
		}
	}
	return dir, nil
}
