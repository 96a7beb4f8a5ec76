package collect

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// dumpsTop reports whether samples hold the words at the stack pointer, and takesLink whether they hold the link register: on AArch64
// the return address of a procedure without a frame is in that.
const (
	dumpsTop  = runtime.GOARCH == "amd64"
	takesLink = runtime.GOARCH == "arm64"
)

// linkRegister is PERF_REG_ARM64_LR of arch/arm64/include/uapi/asm/perf_regs.h.
const linkRegister = 30

// samplerAttr returns the attributes of an event that samples user mode. With ids, its records tell which event they are of.
func samplerAttr(w *perfEvent, period uint64, ids bool) *unix.PerfEventAttr {
	a := unix.PerfEventAttr{
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: period,
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
			unix.PERF_SAMPLE_PERIOD | unix.PERF_SAMPLE_CALLCHAIN,
		Bits: unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv |
			unix.PerfBitExcludeCallchainKernel | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Read_format:      unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Clockid:          unix.CLOCK_MONOTONIC,
		Wakeup:           uint32(samplePages*os.Getpagesize()) / 2,
		Sample_max_stack: MaxStack,
	}
	if ids {
		a.Sample_type |= unix.PERF_SAMPLE_IDENTIFIER
	}
	if dumpsTop {
		a.Sample_type |= unix.PERF_SAMPLE_STACK_USER
		a.Sample_stack_user = 16 // bytes, a multiple of 8
	}
	if takesLink {
		a.Sample_type |= unix.PERF_SAMPLE_REGS_USER
		a.Sample_regs_user = 1 << linkRegister
	}
	if w.beside {
		a.Sample_type &^= unix.PERF_SAMPLE_CALLCHAIN | unix.PERF_SAMPLE_STACK_USER | unix.PERF_SAMPLE_REGS_USER
		a.Sample_max_stack, a.Sample_stack_user, a.Sample_regs_user = 0, 0, 0
	}
	return w.attr(a)
}

// sideband returns the attributes of an event that counts nothing and reports
// mappings and tasks. It is apart from the sampler, which is off now and then.
func sideband() *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv |
			unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Clockid:     unix.CLOCK_MONOTONIC,
		Wakeup:      uint32(sidePages*os.Getpagesize()) / 2,
	}
}

// open opens an event for a thread on one processor; -1 is all, which cannot be
// mapped together with inheritance.
func open(a *unix.PerfEventAttr, tid, cpu int) (int, error) {
	for {
		fd, err := unix.PerfEventOpen(a, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != unix.EINTR {
			return fd, os.NewSyscallError("perf_event_open", err)
		}
	}
}

// clock returns the clock of this processor in MHz, for the periods of an event that goes by it; 0 is unknown. On
// AArch64 the system does not say. What it says of itself is part of recordings; what is measured is not, as it
// differs each time.
func (w *perfEvent) clock(cpu sample.CPU) int {
	if cpu.MHz > 0 || w.unit != cycles && w.unit != instructions {
		return cpu.MHz
	}
	return measureClock()
}

// measureFor is how long measureClock counts, of processor time.
const measureFor = 2 * time.Millisecond

// measureClock counts cycles for a moment. It returns MHz, rounded to two digits, or 0. A processor that was idle
// may need a while to reach its full clock: the best of three counts.
func measureClock() (mhz int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := open(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:        unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}, 0, -1)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	read := func() (value, running uint64) {
		value, _, running = readCounter(fd)
		return value, running
	}
	spun := 0
	for range 3 {
		v0, t0 := read()
		v1, t1 := v0, t0
		for begun := time.Now(); t1-t0 < uint64(measureFor) && time.Since(begun) < 10*measureFor; v1, t1 = read() {
			for range 20_000 { // mostly in user mode, which alone is counted
				spun++
			}
		}
		if t1 > t0 {
			mhz = max(mhz, int(1000*(v1-v0)/(t1-t0)))
		}
	}
	runtime.KeepAlive(spun)
	digits := 1
	for mhz/digits >= 100 {
		digits *= 10
	}
	return (mhz + digits/2) / digits * digits
}

// readCounter reads what an event counted, and how long it was enabled and ran, in ns: 8 bytes each (samplerAttr). All are 0 of an
// event that cannot be read.
func readCounter(fd int) (value, enabled, running uint64) {
	var b [24]byte
	if n, err := unix.Read(fd, b[:]); err != nil || n != len(b) {
		return 0, 0, 0
	}
	return binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])
}

// ranFor is for how long events counted, added up.
func ranFor(fds []int) (sum time.Duration) {
	for _, fd := range fds {
		_, _, ran := readCounter(fd)
		sum += time.Duration(ran)
	}
	return sum
}

// Probe tries the events to sample, best first, on this process, and stops at the
// first that works. If none does, the error is an *Unavailable.
func Probe() ([]Attempt, error) {
	_, tried, err := bestOwnEvent()
	if all, why := tracingInstead(Options{}, tried, err); why != nil {
		if tried = all; all[len(all)-1].Err == nil {
			err = nil
		}
	}
	return tried, err
}

// bestOwnEvent is bestEvent for what this process may sample of itself.
func bestOwnEvent() (*perfEvent, []Attempt, error) {
	return bestEvent(func(w *perfEvent) *unix.PerfEventAttr { return samplerAttr(w, 10_000_000, false) }, 0, -1)
}

// bestEvent opens the events of the ladder for a moment, until one works.
func bestEvent(attr func(*perfEvent) *unix.PerfEventAttr, tid, cpu int) (*perfEvent, []Attempt, error) {
	w, tried := climb(ladder, func(w *perfEvent) error { return try(attr(w), tid, cpu) })
	if w != nil {
		return w, tried, nil
	}
	why, fix := explain(errnoOf(tried[len(tried)-1].Err), host())
	return nil, tried, &Unavailable{Tried: tried, Why: why, Fix: fix}
}

// try opens an event for a moment.
func try(a *unix.PerfEventAttr, tid, cpu int) error {
	fd, err := open(a, tid, cpu)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}

// A hostState is what decides whether the kernel lets this process sample.
type hostState struct {
	paranoid int  // kernel.perf_event_paranoid; -1 or more
	seccomp  bool // a filter of system calls is in force
	root     bool
}

func host() hostState {
	h := hostState{root: os.Geteuid() == 0}
	b, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	h.paranoid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	status, _ := os.ReadFile("/proc/self/status")
	h.seccomp = strings.Contains(string(status), "\nSeccomp:\t2")
	return h
}

// explain says why opening even a cpu-clock event fails and what would help.
func explain(errno syscall.Errno, h hostState) (why, fix string) {
	switch errno {
	case unix.ENOSYS:
		return "this kernel has no perf events", "Use a kernel with CONFIG_PERF_EVENTS"
	case unix.EPERM, unix.EACCES:
		// Debian, Ubuntu and Android refuse all unprivileged use at 3 and above.
		if h.paranoid > 2 && !h.root {
			return tooParanoid(h.paranoid)
		}
		if h.seccomp {
			return "a filter of system calls forbids it, as in containers by default",
				"Run the container with --cap-add PERFMON, or with a seccomp profile that allows perf_event_open"
		}
		return "the kernel does not permit it", "Give this program CAP_PERFMON; a security module may forbid it too"
	case unix.EMFILE, unix.ENFILE:
		return "too many open files", "Raise the limit: `ulimit -n`"
	}
	return "the kernel refuses even the timer event", ""
}

// cpus returns the processors that are on-line.
func cpus() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads a list such as "0-3,8".
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, _ := strings.Cut(part, "-")
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(cmp.Or(last, first), 10, 16)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("list of processors %q: want numbers and ranges such as 0-3,8", list)
		}
		for cpu := a; cpu <= b; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}
