//go:build !linux

package sample

import (
	"errors"
	"os"
	"syscall"
)

// OpenRegular opens the regular file at path to read it. Whatever else lies there
// is not opened: a pipe would make the caller wait. The error then wraps
// ErrNotRegular.
func OpenRegular(path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, notRegular(path, st.Mode())
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() {
		err = notRegular(path, st.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Reopen is of Linux, where what is open leads to its file though that has no name any more.
func Reopen(_ int, path string) (*os.File, error) {
	return nil, &os.PathError{Op: "open", Path: path, Err: errors.ErrUnsupported}
}
