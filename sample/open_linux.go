package sample

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// oPath opens a place in the file system and not what lies there: O_PATH of
// include/uapi/asm-generic/fcntl.h, which package syscall lacks.
const oPath = 0x200000

// OpenRegular opens the regular file at path to read it. Whatever else lies there
// is not opened: a pipe would make the caller wait, and some devices act when they
// are opened. The error then wraps ErrNotRegular.
//
// Paths in recordings, stores and ELF files come from others: files that they name
// are opened here. What the user named may be a pipe.
func OpenRegular(path string) (*os.File, error) {
	at, err := openPath(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(at)
	return Reopen(at, path)
}

func openPath(path string) (fd int, err error) {
	for {
		if fd, err = syscall.Open(path, oPath|syscall.O_CLOEXEC, 0); err != syscall.EINTR {
			return fd, err
		}
	}
}

// Reopen opens the regular file that fd, a descriptor of O_PATH or of the open file, stands for, once more. The
// file has path for its name.
func Reopen(fd int, path string) (*os.File, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, notRegular(path, fileMode(st.Mode))
	}
	again, flags := "/proc/self/fd/"+strconv.Itoa(fd), syscall.O_RDONLY|syscall.O_CLOEXEC
	for {
		opened, err := syscall.Open(again, flags, 0)
		switch {
		case err == nil:
			return sameFile(opened, st, path)
		case err == syscall.ENOENT && again != path: // /proc is not mounted
			again, flags = path, flags|syscall.O_NONBLOCK
		case err != syscall.EINTR:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// sameFile returns the file that is open if it is the one that want is of.
func sameFile(opened int, want syscall.Stat_t, path string) (*os.File, error) {
	var st syscall.Stat_t
	err := syscall.Fstat(opened, &st)
	if err == nil && (st.Dev != want.Dev || st.Ino != want.Ino) {
		err = syscall.ESTALE
	}
	if err != nil {
		syscall.Close(opened)
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(opened), path), nil
}

// fileMode returns the type of a file by its st_mode.
func fileMode(mode uint32) fs.FileMode {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return fs.ModeDir
	case syscall.S_IFIFO:
		return fs.ModeNamedPipe
	case syscall.S_IFSOCK:
		return fs.ModeSocket
	case syscall.S_IFLNK:
		return fs.ModeSymlink
	case syscall.S_IFCHR, syscall.S_IFBLK:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}
