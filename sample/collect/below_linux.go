package collect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"backfeed/sample"

	"golang.org/x/sys/unix"
)

// OpenBelow opens the regular file that path names below the directory root, to read
// it. It follows no link on the way: the kernel's names of mapped files have none, and
// a user who puts one in their place must not lead a process with more privilege
// elsewhere. The error wraps sample.ErrNotRegular if a link or anything else lies there.
func OpenBelow(root, path string) (*os.File, error) {
	name := filepath.Join(root, path)
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: name, Err: err} }
	at, err := openAt(unix.AT_FDCWD, root, unix.O_DIRECTORY) // which may be a link, such as /proc/PID/root
	if err != nil {
		return fail(err)
	}
	defer func() { unix.Close(at) }()
	parts := strings.Split(strings.TrimPrefix(filepath.Clean("/"+path), "/"), "/")
	for i, part := range parts {
		flags := unix.O_NOFOLLOW
		if i < len(parts)-1 {
			flags |= unix.O_DIRECTORY
		}
		next, err := openAt(at, part, flags)
		if err == unix.ENOTDIR || err == unix.ELOOP {
			return nil, fmt.Errorf("%s: a link or a file on the way, where a directory was: %w", name, sample.ErrNotRegular)
		}
		if err != nil {
			return fail(err)
		}
		unix.Close(at)
		at = next
	}
	return sample.Reopen(at, name)
}

// OpenInRoot opens the regular file that path names below the directory root, as a
// process whose root that is would: links on the way lead to what is below root, those
// of /proc nowhere. Before Linux 5.6, it follows none.
func OpenInRoot(root, path string) (*os.File, error) {
	name := filepath.Join(root, path)
	dir, err := openAt(unix.AT_FDCWD, root, unix.O_DIRECTORY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(dir)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		at, err := unix.Openat2(dir, filepath.Clean("/"+path), &how)
		switch err {
		case nil:
			defer unix.Close(at)
			return sample.Reopen(at, name)
		case unix.EINTR, unix.EAGAIN: // EAGAIN: something was renamed on the way
		case unix.ENOSYS, unix.EPERM: // EPERM: a seccomp filter that does not know it
			return OpenBelow(root, path)
		default:
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

func openAt(dir int, name string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Openat(dir, name, flags|unix.O_PATH|unix.O_CLOEXEC, 0); err != unix.EINTR {
			return fd, err
		}
	}
}
