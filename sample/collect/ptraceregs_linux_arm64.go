package collect

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// registers are a stopped thread's. Those of a 32-bit program have another form.
type registers struct {
	unix.PtraceRegs
	narrow bool
}

const (
	ntPrstatus = 1      // include/uapi/linux/elf.h
	narrowSize = 18 * 4 // of r0 to r15, cpsr and the first argument of a call
)

func (r *registers) get(tid int) error {
	v := unix.Iovec{Base: (*byte)(unsafe.Pointer(&r.PtraceRegs)), Len: uint64(unsafe.Sizeof(r.PtraceRegs))}
	err := ptraceCall(unix.PTRACE_GETREGSET, tid, ntPrstatus, uintptr(unsafe.Pointer(&v)))
	if r.narrow = v.Len == narrowSize; err == nil && r.narrow {
		words := *(*[18]uint32)(unsafe.Pointer(&r.PtraceRegs))
		r.PtraceRegs = unix.PtraceRegs{Sp: uint64(words[13]), Pc: uint64(words[15])}
	}
	return err
}

func (r *registers) set(tid int) error {
	v := unix.Iovec{Base: (*byte)(unsafe.Pointer(&r.PtraceRegs)), Len: uint64(unsafe.Sizeof(r.PtraceRegs))}
	return ptraceCall(unix.PTRACE_SETREGSET, tid, ntPrstatus, uintptr(unsafe.Pointer(&v)))
}

func (r *registers) pc() uint64 { return r.Pc }
func (r *registers) sp() uint64 { return r.Sp }
func (r *registers) fp() uint64 { return r.Regs[29] }

// link is the link register.
func (r *registers) link() uint64 { return r.Regs[30] }

// wide reports whether the thread runs 64-bit code, whose frames this package follows.
func (r *registers) wide() bool { return !r.narrow }

const (
	callSize   = 4
	callOpcode = 0xd4000001 // svc #0
)

// inCall reports whether the thread stopped as it left a system call, or just before it makes
// one. do_signal of arch/arm64/kernel/signal.c has made the number of the call -1 by then, and has set
// the PC back to one that is to be restarted: the instructions have to tell.
func (r *registers) inCall(tid int) bool {
	var code [2]uint32
	b := unsafe.Slice((*byte)(unsafe.Pointer(&code)), 8)
	if !r.wide() || r.Pc < callSize || readMemory(tid, r.Pc-callSize, b) < len(b) {
		return false
	}
	return code[0] == callOpcode || code[1] == callOpcode
}

// gaveUp reports whether a system call returns that it was interrupted. The kernel restarts
// the others itself. After close it would be wrong to call again: the descriptor is gone.
func (r *registers) gaveUp() bool {
	return r.wide() && int64(r.Regs[0]) == -int64(unix.EINTR) && r.Regs[8] != unix.SYS_CLOSE && r.Regs[8] != unix.SYS_CLOSE_RANGE
}

// again has the thread make its system call again. Its first argument is gone from the registers; it is
// that of an earlier call that was equal otherwise. If there was none, again reports false, and the program
// sees that the call was interrupted.
func (r *registers) again(log *callLog) bool {
	first, ok := log.first(r.call())
	if !ok {
		return false
	}
	r.Regs[0] = first
	r.Pc -= callSize
	return true
}

// notAgain takes that back, of registers that again has changed. The thread did not get on.
func (r *registers) notAgain() {
	r.Regs[0] = ^uint64(unix.EINTR) + 1 // -EINTR, as the kernel had it
	r.Pc += callSize
}

// A waitingCall is a system call but for its first argument: number, other arguments, stack pointer, and PC
// behind it.
type waitingCall [8]uint64

func (r *registers) call() waitingCall {
	return waitingCall{r.Regs[8], r.Regs[1], r.Regs[2], r.Regs[3], r.Regs[4], r.Regs[5], r.Sp, r.Pc}
}

// A callLog has the last few calls in which a thread was seen waiting.
type callLog struct{ seen []loggedCall }

type loggedCall struct {
	waitingCall
	first     uint64
	ambiguous bool // it had other first arguments too
}

const mostCalls = 8

// note takes in what a thread waits in, of its directory in /proc.
func (l *callLog) note(dir string) {
	b, err := os.ReadFile(dir + "/syscall")
	if err != nil {
		return
	}
	var c loggedCall
	// number, six arguments, stack pointer, PC (proc_pid_syscall of fs/proc/base.c)
	if n, _ := fmt.Sscanf(string(b), "%d %v %v %v %v %v %v %v %v", &c.waitingCall[0], &c.first, &c.waitingCall[1], &c.waitingCall[2], &c.waitingCall[3], &c.waitingCall[4], &c.waitingCall[5], &c.waitingCall[6], &c.waitingCall[7]); n < 9 {
		return
	}
	for i := range l.seen {
		if s := &l.seen[i]; s.waitingCall == c.waitingCall {
			s.ambiguous = s.ambiguous || s.first != c.first
			return
		}
	}
	if len(l.seen) == mostCalls {
		l.seen = slices.Delete(l.seen, 0, 1)
	}
	l.seen = append(l.seen, c)
}

func (l *callLog) first(c waitingCall) (uint64, bool) {
	for _, s := range l.seen {
		if s.waitingCall == c {
			return s.first, !s.ambiguous
		}
	}
	return 0, false
}
