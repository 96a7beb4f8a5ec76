//go:build amd64 || arm64

package collect

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Passing, a tracer takes hold of a thread when it is to stop, and lets go of it when it has: nothing stops for a tracer but what it
// walks ahead of. Signals, new threads and new processes take neither side anything then, and are not told: threads are listed anew at each
// look. Of a Go program that collects garbage all the time, whose threads send each other 2,000 signals a second, to
// stop at each of them took 1 to 3 % of its processor time.

// CanPass reports whether the kernel lists children of threads (CONFIG_PROC_CHILDREN), and says when a process has ended without one
// waiting for it (Linux 5.3).
func CanPass() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	_, err = os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	return err == nil
}

// beginPassing sees that the processes are there and may be traced, and lists their threads.
func (t *tracer) beginPassing() error {
	for _, pid := range t.opt.PIDs {
		if !Alive(pid) {
			return fmt.Errorf("process %d has ended", pid)
		}
		if err := mayTrace(pid); err != nil {
			if why := traceRefusal(pid); why != nil {
				return why
			}
			return &Unavailable{Why: fmt.Sprintf("process %d cannot be traced: %v", pid, err), Fix: goFix(pid)}
		}
	}
	t.list()
	return nil
}

// mayTrace returns why the kernel refuses to have a process traced: to read its memory takes the same permission. It reads nothing.
func mayTrace(pid int) error {
	var to byte
	local := unix.Iovec{Base: &to, Len: 1}
	remote := unix.RemoteIovec{Len: 1} // at 0, where nothing is
	_, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	if errno == unix.EPERM || errno == unix.EACCES || errno == unix.ENOSYS {
		return errno
	}
	return nil
}

// list takes in the threads that there are of the processes and of all that descend from them, and forgets those that have ended. It
// ends the recording when none of the processes is there any more.
func (t *tracer) list() {
	there := map[int]bool{}
	begins := len(t.order) == 0
	pids, roots := slices.Clone(t.opt.PIDs), 0
	for i := 0; i < len(pids); i++ {
		pid := pids[i]
		tids, err := threadsOf(pid)
		if err != nil {
			continue
		}
		for _, tid := range tids {
			th := t.threads[tid]
			if th != nil && th.pid != pid { // its number was given anew
				t.vanished(th)
				th = nil
			}
			if th == nil {
				if th = t.add(tid, pid, 0); !begins {
					th.base, th.seen = 0, schedState{} // it has begun since
				}
			}
			if state := th.state(); state == 'Z' || state == 'X' {
				continue
			}
			there[tid] = true
			if i < len(t.opt.PIDs) {
				roots++
			}
			pids = append(pids, childrenOf(th)...)
		}
	}
	for _, th := range slices.Clone(t.order) {
		if !there[th.tid] && !th.seized {
			t.vanished(th)
		}
	}
	t.ended = t.ended || roots == 0
}

// vanished takes in that a thread is no more.
func (t *tracer) vanished(th *tracee) {
	t.remove(th)
	t.tally.threads.End(th.pid, th.tid)
	if t.procs[th.pid] == nil {
		t.tally.spaces.Exit(th.pid)
	}
}

// childrenOf lists the processes that a thread has begun, or has got from another that has ended.
func childrenOf(th *tracee) (pids []int) {
	b, err := os.ReadFile(th.dir + "/children")
	if err != nil || len(b) == 0 {
		return nil
	}
	for _, f := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hold takes hold of a thread, and reports whether it did.
func (t *tracer) hold(th *tracee) bool {
	if !th.seized {
		th.seized = ptraceCall(unix.PTRACE_SEIZE, th.tid, 0, 0) == nil
	}
	return th.seized
}

// letRun has a thread go on that has stopped, and get a signal unless it is 0. Passing, that lets go of it, but for one whose call is to
// be made again: whether a signal comes first is seen at its next stop.
func (t *tracer) letRun(th *tracee, signal unix.Signal) {
	if !t.passing || th.again != nil {
		resume(th.tid, signal)
		return
	}
	ptraceCall(unix.PTRACE_DETACH, th.tid, 0, uintptr(signal))
	th.seized = false
}

// renewed takes in whether the process of a thread has begun another program since it was looked at, as its stack is elsewhere then.
func (t *tracer) renewed(th *tracee) {
	p := t.procs[th.pid]
	stack := th.startOfStack()
	if stack != p.stack {
		p.dirty = true
		if p.stack != 0 {
			t.tally.executed(th.pid, monotonic())
		}
	}
	p.stack = stack
}

// startOfStack reads where the kernel put the stack of a program when it began; 0 is unknown.
func (th *tracee) startOfStack() (at uint64) {
	const field = 28 - 3 // of proc(5), from the state on
	fields := StatFields(string(th.stat.read()))
	if len(fields) > field {
		at, _ = strconv.ParseUint(fields[field], 10, 64)
	}
	return at
}

// idle waits, where no thread is held, until it is time to look.
func (t *tracer) idle() {
	ts := unix.NsecToTimespec(max(0, int64(time.Until(t.wake))))
	unix.Ppoll(nil, &ts, nil)
}

// endedHeld takes in that a thread has ended which is held, or was waited for otherwise. A child of this process is left to who started
// it, who is about to know.
func (t *tracer) endedHeld(tid int) {
	if th := t.threads[tid]; th != nil {
		th.seized = false
		t.vanished(th)
	}
	if pid, parent := processOf(tid); pid == tid && parent == os.Getpid() {
		time.Sleep(time.Millisecond)
		return
	}
	reap(tid)
}
