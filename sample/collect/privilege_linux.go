//go:build amd64 || arm64

package collect

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// A vdso is the code that the kernel maps into every process.
type vdso struct {
	id      sample.ImageID
	size    uint64
	content []byte // an ELF file
}

// is reports whether a mapping is of v, which is known.
func (v *vdso) is(m *mmapRecord) bool {
	return len(v.content) > 0 && m.path == vdsoPath && m.inode == 0 && m.size == v.size
}

// file returns the content as a file.
func (v *vdso) file() (*os.File, error) {
	fd, err := unix.MemfdCreate(vdsoPath, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), vdsoPath)
	if _, err := f.Write(v.content); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readVDSO finds this process's, which is that of all others of 64 bits. The
// zero vdso is unknown.
func readVDSO() vdso {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return vdso{}
	}
	defer f.Close()
	maps, err := parseMaps(f, os.Getpid())
	if err != nil {
		return vdso{}
	}
	for _, m := range maps {
		if m.path != vdsoPath {
			continue
		}
		mem, err := os.Open("/proc/self/mem")
		if err != nil {
			return vdso{}
		}
		defer mem.Close()
		b := make([]byte, m.size)
		if _, err := io.ReadFull(io.NewSectionReader(mem, int64(m.start), int64(m.size)), b); err != nil {
			return vdso{}
		}
		if e, err := sample.ReadELF(bytes.NewReader(b)); err == nil && !e.Build.IsZero() {
			return vdso{sample.ImageID{Build: e.Build, Path: m.path}, m.size, b}
		}
	}
	return vdso{}
}
