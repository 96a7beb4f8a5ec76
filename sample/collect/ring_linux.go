package collect

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of the two rings of a processor, in pages. Together with their control
// pages they stay below the 516 KB for each processor that an unprivileged user
// may lock (kernel.perf_event_mlock_kb). At 4 kHz a sample with its call chain
// fills 160 bytes, with 32 branch records 930: the ring holds 70 ms at the least
// and is read as soon as it is half full.
const (
	samplePages = 64
	sidePages   = 32
)

// A ring is the buffer through which the kernel hands over the records of the
// events of one processor.
type ring struct {
	fd   int
	mem  []byte // the control page, then the data
	page *unix.PerfEventMmapPage
	data []byte
	side bool
	cpu  int  // whose records it has
	ids  bool // records have the number of their event
}

func newRing(fd, pages int, side bool, cpu int) (*ring, error) {
	size := os.Getpagesize()
	mem, err := unix.Mmap(fd, 0, (1+pages)*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &ring{
		fd: fd, mem: mem, data: mem[size:], side: side, cpu: cpu,
		page: (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0])),
	}, nil
}

func (r *ring) close() error { return unix.Munmap(r.mem) }

// read takes all records off the ring. The kernel owns what follows Data_head,
// and may write over what precedes Data_tail.
func (r *ring) read() ([]record, error) {
	head := atomic.LoadUint64(&r.page.Data_head)
	tail := r.page.Data_tail
	if head == tail {
		return nil, nil
	}
	b := make([]byte, head-tail)
	at := tail % uint64(len(r.data))
	n := copy(b, r.data[at:])
	copy(b[n:], r.data)
	atomic.StoreUint64(&r.page.Data_tail, head)

	var recs []record
	for len(b) > 0 {
		if len(b) < headerSize {
			return recs, fmt.Errorf("%d bytes at the end of a ring: %w", len(b), errRecord)
		}
		size := int(binary.NativeEndian.Uint16(b[6:]))
		if size < headerSize || size > len(b) {
			return recs, fmt.Errorf("size %d of %d bytes: %w", size, len(b), errRecord)
		}
		rec, err := splitRecord(b[:size], r.ids)
		if err != nil {
			return recs, err
		}
		rec.side, rec.cpu = r.side, r.cpu
		recs = append(recs, rec)
		b = b[size:]
	}
	return recs, nil
}
