//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// cpuEvents are the events of all processors that are sampled, each with the program that it
// runs. The zero value has none, as where the tick samples.
type cpuEvents struct {
	kinds    []perfEvent
	attr     func(*perfEvent) *unix.PerfEventAttr
	programs []*ebpf.Program // by kind
	fds      [][]int         // by kind, by index of processor
	past     []EventTime     // by kind, of processors that have gone
}

func newCPUEvents(kinds []perfEvent, attr func(*perfEvent) *unix.PerfEventAttr, programs ...*ebpf.Program) cpuEvents {
	return cpuEvents{kinds: kinds, attr: attr, programs: programs, fds: make([][]int, len(kinds)), past: make([]EventTime, len(kinds))}
}

// open opens the events of a processor, switched off, behind those of others.
func (v *cpuEvents) open(cpu int) error {
	for e := range v.kinds {
		fd, err := open(v.attr(&v.kinds[e]), -1, cpu)
		if err != nil {
			return fmt.Errorf("%s on processor %d: %w", v.kinds[e].name, cpu, err)
		}
		v.fds[e] = append(v.fds[e], fd)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, v.programs[e].FD()); err != nil {
			return os.NewSyscallError("PERF_EVENT_IOC_SET_BPF", err)
		}
	}
	return nil
}

// enable switches on the events of the processors from index i on.
func (v *cpuEvents) enable(i int) error { return v.ioctl(unix.PERF_EVENT_IOC_ENABLE, i) }

// disable switches all off.
func (v *cpuEvents) disable() error { return v.ioctl(unix.PERF_EVENT_IOC_DISABLE, 0) }

func (v *cpuEvents) ioctl(request uint, from int) (err error) {
	for _, fds := range v.fds {
		err = errors.Join(err, ioctlAll(fds[from:], request))
	}
	return err
}

// drop closes the events of the processor of index i.
func (v *cpuEvents) drop(i int) {
	for e, fds := range v.fds {
		if i < len(fds) {
			v.past[e].add(fds[i])
			unix.Close(fds[i])
			v.fds[e] = slices.Delete(fds, i, i+1)
		}
	}
}

// setPeriod changes the period of an event on the processor of index i.
func (v *cpuEvents) setPeriod(i, event int, period uint64) {
	unix.Syscall(unix.SYS_IOCTL, uintptr(v.fds[event][i]), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&period)))
}

// times returns how long events have counted.
func (v *cpuEvents) times() []EventTime {
	var times []EventTime
	for e, fds := range v.fds {
		t := v.past[e]
		t.Name = v.kinds[e].name
		for _, fd := range fds {
			t.add(fd)
		}
		times = append(times, t)
	}
	return times
}

// add adds the times of one event.
func (t *EventTime) add(fd int) {
	_, enabled, running := readCounter(fd)
	t.Enabled += time.Duration(enabled)
	t.Running += time.Duration(running)
}

// close closes all.
func (v *cpuEvents) close() {
	for _, fds := range v.fds {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	*v = cpuEvents{}
}
