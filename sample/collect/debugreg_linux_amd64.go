package collect

import "golang.org/x/sys/unix"

// Where the debug registers are in struct user (arch/x86/include/asm/user_64.h), and what enables the first of them.
const (
	debugAddress = 848 // u_debugreg[0]
	debugControl = debugAddress + 7*8
	debugEnable  = 1
)

// setDebugRegister has a stopped thread stop by SIGTRAP when it is to execute the instruction at pc. Unlike a
// breakpoint, this stays when this process ends.
func setDebugRegister(tid int, pc uint64) error {
	if err := ptraceCall(unix.PTRACE_POKEUSR, tid, debugAddress, uintptr(pc)); err != nil {
		return err
	}
	return ptraceCall(unix.PTRACE_POKEUSR, tid, debugControl, debugEnable)
}

// clearDebugRegister takes that back, of a stopped thread.
func clearDebugRegister(tid int) { ptraceCall(unix.PTRACE_POKEUSR, tid, debugControl, 0) }
