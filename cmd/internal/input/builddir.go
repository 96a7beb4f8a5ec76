package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/store"
)

// A BuildDir is a directory of images and their debug files by build ID, as gdb, perf and debuginfod's clients lay it
// out, and --symfs looks: DIR/.build-id/ab/cdef... is a file, DIR/.build-id/ab/cdef....debug its separate debug file.
type BuildDir string

// staleTemp is how old a file must be that a Put has left unfinished, to be removed by another.
const staleTemp = 24 * time.Hour

// tempPrefix begins the names of unfinished files.
const tempPrefix = ".backfeed-"

func (d BuildDir) path(id sample.BuildID, kind store.Kind) string {
	hex := id.String()
	name := hex[2:]
	if kind == store.KindDebug {
		name += ".debug"
	}
	return filepath.Join(string(d), ".build-id", hex[:2], name)
}

// Has reports whether d has that file of a build.
func (d BuildDir) Has(id sample.ImageID, kind store.Kind) bool {
	build, err := image.ReadBuildID(d.path(id.Build, kind))
	return err == nil && build == id.Build
}

// Put makes that file of a build from what fill writes, if d lacks it. It is there whole, or not at all; what has
// another build ID is refused.
func (d BuildDir) Put(id sample.ImageID, kind store.Kind, fill func(*os.File) error) error {
	if id.Build.IsZero() {
		return fmt.Errorf("%s: no build ID to keep it by", id)
	}
	if d.Has(id, kind) {
		return nil
	}
	path := d.path(id.Build, kind)
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	left, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	for _, file := range left {
		if st, err := os.Stat(file); err == nil && time.Since(st.ModTime()) > staleTemp {
			os.Remove(file)
		}
	}
	return place(path, 0o644, func(f *os.File) error {
		if err := fill(f); err != nil {
			return err
		}
		switch build, err := image.ReadBuildID(f.Name()); {
		case err != nil:
			return err
		case build != id.Build:
			return fmt.Errorf("%s: what is there %w, %s", id, ErrOtherID, build)
		}
		return f.Sync()
	})
}

// place makes the file at path from what fill writes, in a directory that is there. It is there whole, or not at all.
func place(path string, mode os.FileMode, fill func(*os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Keep copies an open file into d, from its start to where it ends now.
func (d BuildDir) Keep(ctx context.Context, id sample.ImageID, kind store.Kind, from *os.File) error {
	return d.Put(id, kind, func(to *os.File) error {
		st, err := from.Stat()
		if err != nil {
			return err
		}
		n, err := io.Copy(to, untilDone{ctx, io.NewSectionReader(from, 0, st.Size())})
		if err == nil && n != st.Size() {
			err = fmt.Errorf("%s: %w", id, io.ErrUnexpectedEOF)
		}
		return err
	})
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(b)
}
