package collect

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/sample/trace"
)

const (
	ntXstate = 0x202 // include/uapi/linux/elf.h
	// mostXstate holds what there is up to AMX, whose tiles alone have 8192 bytes.
	mostXstate = 16384
)

// A machineState is what State reads.
type machineState struct {
	trace.State
	area [mostXstate]byte
}

// State returns the registers as package trace has them, vectors included: it is valid as long as s is. There
// is no such state of AArch64.
func (s *Stopped) State() (*trace.State, error) {
	m, r := &s.machine, &s.Regs
	m.State = trace.State{PC: r.PC, Regs: [16]uint64(r.R[:16]), Flags: r.Flags, FSBase: r.TLS, GSBase: r.GS}
	iov := unix.Iovec{Base: &m.area[0], Len: mostXstate}
	if err := ptraceCall(unix.PTRACE_GETREGSET, s.TID, ntXstate, uintptr(unsafe.Pointer(&iov))); err != nil {
		return nil, err
	}
	return &m.State, m.SetXState(m.area[:iov.Len])
}

// general returns the registers as package trace numbers them.
func (r *registers) general(int) Registers {
	return Registers{
		R:  [32]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15},
		PC: r.Rip, Flags: r.Eflags, TLS: r.Fs_base, GS: r.Gs_base,
	}
}
