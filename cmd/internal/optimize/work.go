package optimize

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"backfeed/cmd/internal/fail"
)

// copyTree copies a directory to a new place, with modes and times, which make goes by. Links stay links. What is no file,
// directory or link is left out: builds need no pipes and devices.
func copyTree(from, to string) error {
	type stamp struct {
		path string
		info fs.FileInfo
	}
	var dirs []stamp
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch d.Type() {
		case fs.ModeDir:
			dirs = append(dirs, stamp{at, info})
			return os.Mkdir(at, 0o700)
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		case 0:
			return copyFile(path, at, info)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := len(dirs) - 1; i >= 0; i-- { // what is in them first: that changes their times
		d := dirs[i]
		if err := errors.Join(os.Chmod(d.path, d.info.Mode().Perm()|0o700), os.Chtimes(d.path, d.info.ModTime(), d.info.ModTime())); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file with its mode and times.
func copyFile(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // which the kernel does, by sharing blocks where the file system can
	if err := errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// sumOf is the SHA-256 of a file.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// workPrefix begins the names of directories that builds and profiles of one run lie in.
const workPrefix = "backfeed-optimize-work-"

// newWork makes such a directory, of this process alone until done is called, which takes it away. What runs that were killed
// have left is swept.
func newWork() (dir string, done func(), err error) {
	sweep()
	if dir, err = os.MkdirTemp("", workPrefix); err != nil {
		return "", nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	d, err := os.Open(dir)
	if err == nil {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	if !plain.MatchString(dir) {
		d.Close()
		os.RemoveAll(dir)
		return "", nil, fail.Errorf(fail.Usage, "%s: flags of compilers name files there, and a shell reads them: set TMPDIR to a directory of plain letters", filepath.Dir(dir))
	}
	return dir, func() {
		removeAll(dir)
		d.Close()
	}, nil
}

// sweepAfter is how old a directory that nobody holds must be: one that was just made is not held yet.
const sweepAfter = time.Minute

// sweep removes directories of runs that were killed, which nobody holds.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), workPrefix+"*"))
	for _, path := range left {
		d, err := os.Open(path)
		if err != nil {
			continue // somebody else's
		}
		if st, err := d.Stat(); err == nil && st.IsDir() && time.Since(st.ModTime()) > sweepAfter && syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			removeAll(path)
		}
		d.Close()
	}
}

// removeAll removes a directory, also where builds have made parts of it read-only, as Go's module cache is.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}
