//go:build amd64 || arm64

package collect

import (
	"os"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An hwBreakpoint is a hardware breakpoint of one thread, which it hits a few times at most. The kernel's event for it has the
// thread's processor time: it counts how long the event is enabled while the thread runs. The thread sees nothing
// of it, and it goes with this process.
type hwBreakpoint struct {
	fd   int
	ring *ring
	want int             // hits
	hits []breakpointHit // so far; there may be one more than are wanted
}

// A breakpointHit is what the event says of the hit.
type breakpointHit struct {
	used time.Duration // of processor, since the breakpoint was set
	at   uint64        // ns of CLOCK_MONOTONIC
	cpu  int
}

// setBreakpoint sets one, of a thread that is stopped, for so many hits.
func setBreakpoint(tid int, pc uint64, want int) (*hwBreakpoint, error) {
	fd, err := open(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_BREAKPOINT, Bp_type: breakExecute, Ext1: pc, Ext2: breakSize,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample:      1,
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_READ,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Bits:        unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
		Clockid:     unix.CLOCK_MONOTONIC,
	}, tid, -1)
	if err != nil {
		return nil, err
	}
	b := &hwBreakpoint{fd: fd, want: want}
	if b.ring, err = newRing(fd, 1, false, -1); err == nil {
		// It is set now, and not again after one hit more than are wanted: the hit at which it is removed takes some 6 us
		// longer.
		if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_REFRESH, uintptr(want+1)); errno != 0 {
			err = os.NewSyscallError("ioctl", errno)
		}
	}
	if err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

const (
	breakExecute = 4 // HW_BREAKPOINT_X
	breakSize    = 8 // sizeof(long), which x86-64 wants of those for execution, and AArch64 takes
)

// poll takes in hits. It reports whether there are as many as are wanted.
func (b *hwBreakpoint) poll() bool {
	recs, _ := b.ring.read() // what is malformed is no hit
	for _, rec := range recs {
		if rec.typ != typeSample {
			continue
		}
		r := reader{b: rec.body}
		r.take(8+8+8, "ip, thread and time")
		h := breakpointHit{at: rec.time, cpu: int(r.u32("processor"))}
		r.take(4+8, "hits")
		if h.used = time.Duration(r.u64("time enabled")); r.err == nil {
			b.hits = append(b.hits, h)
		}
	}
	return len(b.hits) >= b.want
}

// holdEvents opens an event of this thread that counts nothing, and returns it. While a kernel has no event of a thread, it
// takes no heed of them where threads are switched, and to begin that it waits for all processors (synchronize_rcu in
// account_event of kernel/events/core.c): setBreakpoint then takes 8 to 20 ms, for which its thread would stand. The kernel
// forgets a second after the last event.
func holdEvents() (fd int, err error) {
	return open(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}, 0, -1)
}

// hitCost returns what a hit takes: the time between two of this thread, which does nothing in between.
func hitCost() time.Duration {
	const times = 16
	b, err := setBreakpoint(0, uint64(reflect.ValueOf(hitHere).Pointer()), times)
	if err != nil {
		return 0
	}
	defer b.remove()
	for range times {
		hitHere()
	}
	b.poll()
	var took []time.Duration
	for i := 1; i < len(b.hits); i++ {
		took = append(took, b.hits[i].used-b.hits[i-1].used)
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

//go:noinline
func hitHere() {}

// used returns the thread's processor time since the breakpoint was set.
func (b *hwBreakpoint) used() time.Duration {
	var v [3]uint64 // hits, time enabled, time running
	if n, err := unix.Read(b.fd, wordBytes(v[:])); err != nil || n < 8*len(v) {
		return 0
	}
	return time.Duration(v[1])
}

// remove takes it away. The thread may be running, and may have ended.
func (b *hwBreakpoint) remove() {
	if b.ring != nil {
		b.ring.close()
	}
	unix.Close(b.fd)
}
