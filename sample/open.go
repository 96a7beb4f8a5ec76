package sample

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrNotRegular is wrapped by the error about a path that names no regular file.
var ErrNotRegular = errors.New("not a regular file")

// notRegular returns the error about what has that mode.
func notRegular(path string, mode fs.FileMode) error {
	kind := "something else"
	switch {
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	}
	return fmt.Errorf("%s is %s: %w", path, kind, ErrNotRegular)
}
