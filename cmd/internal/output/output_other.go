//go:build !linux

package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// searchOnly opens a directory that can be read: other systems differ in how to do
// without that.
const searchOnly = unix.O_RDONLY

// lookAt returns what a name in a directory is and, of a link, where it leads: both of
// the same link, which is looked at again.
func lookAt(dir *os.File, name string) (*unix.Stat_t, string, error) {
	var st, again unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || !isLink(&st) {
		return &st, "", err
	}
	b := make([]byte, 4096)
	n, err := unix.Readlinkat(int(dir.Fd()), name, b)
	if err == nil {
		err = unix.Fstatat(int(dir.Fd()), name, &again, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && (again.Dev != st.Dev || again.Ino != st.Ino) {
		err = unix.ELOOP
	}
	return &st, string(b[:max(0, n)]), err
}
