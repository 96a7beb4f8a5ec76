//go:build amd64

package collect

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/sample/probe"
)

// TestProbePages: of a site whose instruction lies at the end of a page, all that the kernel is
// going to read is in memory when it is armed.
func TestProbePages(t *testing.T) {
	const pages, site = 8, 4*4096 - 8
	b := bytes.Repeat([]byte{0x74, 0}, pages*4096/2) // je to the next
	header := make([]byte, 64+56)                    // of an ELF file that is one executable segment
	copy(header, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(header[16:], uint16(elf.ET_DYN))
	le.PutUint16(header[18:], uint16(elf.EM_X86_64))
	le.PutUint64(header[32:], 64) // program headers
	le.PutUint16(header[54:], 56)
	le.PutUint16(header[56:], 1)
	le.PutUint32(header[64:], uint32(elf.PT_LOAD))
	le.PutUint32(header[68:], uint32(elf.PF_R|elf.PF_X))
	le.PutUint64(header[96:], pages*4096)
	copy(b, header)
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	m, err := unix.Mmap(fd, 0, len(b), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	resident := func() [pages]byte {
		var in [pages]byte
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
			t.Fatal(errno)
		}
		return in
	}
	unix.Fsync(fd)
	unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM) // no pages but those that are asked for
	unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	if in := resident(); in[3]&1 != 0 || in[4]&1 != 0 {
		t.Skip("this file system lets go of no pages")
	}
	costs := slices.Repeat([]probe.Cost{{Emulated: true}}, 8)
	r := proberRequest{Offs: []uint64{site}, Conds: []int8{4}, Length: time.Millisecond}
	if _, err := r.check(f, costs); err != nil {
		t.Fatal(err)
	}
	if in := resident(); in[3]&1 == 0 || in[4]&1 == 0 {
		t.Errorf("pages in memory: %v; the site is in page 3, and %d bytes behind it in page 4", in, uprobeBytes-8)
	}
}
