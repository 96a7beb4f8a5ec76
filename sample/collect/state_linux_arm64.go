package collect

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/sample/trace"
)

// A machineState is nothing here.
type machineState struct{}

// State returns trace.ErrARM.
func (*Stopped) State() (*trace.State, error) { return nil, trace.ErrARM }

const ntArmTLS = 0x401 // include/uapi/linux/elf.h: tpidr_el0, and tpidr2_el0 from Linux 6.3 on

// general returns the registers as package trace numbers them.
func (r *registers) general(tid int) Registers {
	g := Registers{PC: r.Pc, Flags: r.Pstate}
	copy(g.R[:], r.Regs[:])
	g.R[31] = r.Sp
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&g.TLS)), Len: 8}
	ptraceCall(unix.PTRACE_GETREGSET, tid, ntArmTLS, uintptr(unsafe.Pointer(&iov)))
	return g
}
