package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// searchOnly opens a directory that may be searched but not read.
const searchOnly = unix.O_PATH

// lookAt returns what a name in a directory is and, of a link, where it leads: both of
// the same link, since it is open.
func lookAt(dir *os.File, name string) (*unix.Stat_t, string, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || !isLink(&st) {
		return &st, "", err
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	if err != nil {
		return nil, "", err
	}
	return &st, string(b[:n]), nil
}
