package collect

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// registers are a stopped thread's.
type registers struct{ unix.PtraceRegs }

func (r *registers) get(tid int) error {
	return ptraceCall(unix.PTRACE_GETREGS, tid, 0, uintptr(unsafe.Pointer(&r.PtraceRegs)))
}

func (r *registers) set(tid int) error {
	return ptraceCall(unix.PTRACE_SETREGS, tid, 0, uintptr(unsafe.Pointer(&r.PtraceRegs)))
}

func (r *registers) pc() uint64 { return r.Rip }
func (r *registers) sp() uint64 { return r.Rsp }
func (r *registers) fp() uint64 { return r.Rbp }

// link is the link register, which this processor has none of.
func (r *registers) link() uint64 { return 0 }

// userCS32 is the code segment of 32-bit programs (__USER32_CS of arch/x86/include/asm/segment.h).
const userCS32 = 0x23

// wide reports whether the thread runs 64-bit code, whose frames this package follows.
func (r *registers) wide() bool { return r.Cs != userCS32 }

// inCall reports whether the thread stopped as it left a system call: anything else
// that enters the kernel leaves -1 there (idtentry of arch/x86/entry/entry_64.S).
func (r *registers) inCall(int) bool { return int64(r.Orig_rax) >= 0 }

// Both ways to make a system call, syscall and int 0x80, are two bytes long.
const callSize = 2

// gaveUp reports whether a system call returns that it was interrupted. The kernel restarts
// the others itself. After close it would be wrong to call again: the descriptor is gone.
func (r *registers) gaveUp() bool {
	return int64(r.Rax) == -int64(unix.EINTR) && !(r.wide() && (r.Orig_rax == unix.SYS_CLOSE || r.Orig_rax == unix.SYS_CLOSE_RANGE))
}

// again has the thread make its system call again, as arch_do_signal_or_restart of
// arch/x86/kernel/signal.c does.
func (r *registers) again(*callLog) bool {
	r.Rax = r.Orig_rax
	r.Rip -= callSize
	return true
}

// notAgain takes that back, of registers that again has changed. The thread did not get on.
func (r *registers) notAgain() {
	r.Rax = ^uint64(unix.EINTR) + 1 // -EINTR, as the kernel had it
	r.Rip += callSize
}

// A callLog is what a thread's system calls were; here, the registers tell.
type callLog struct{}

func (*callLog) note(string) {}
