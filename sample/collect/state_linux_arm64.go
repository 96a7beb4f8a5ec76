package collect

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ntPrfpreg = 2     // include/uapi/linux/elf.h: struct user_fpsimd_state
	ntArmTLS  = 0x401 // likewise: tpidr_el0, and tpidr2_el0 from Linux 6.3 on
)

// A vectorReader reads vector registers: 32 of 16 bytes, fpsr and fpcr.
type vectorReader struct{ area [32*16 + 16]byte }

func (r *vectorReader) read(tid int, v *Vectors) error {
	*v = Vectors{}
	iov := unix.Iovec{Base: &r.area[0], Len: uint64(len(r.area))}
	if err := ptraceCall(unix.PTRACE_GETREGSET, tid, ntPrfpreg, uintptr(unsafe.Pointer(&iov))); err != nil {
		return err
	}
	for i := range v.R {
		copy(v.R[i][:16], r.area[16*i:])
	}
	v.Control, v.Known = binary.LittleEndian.Uint32(r.area[32*16+4:]), KnownLow
	return nil
}

// general returns the registers as package trace numbers them.
func (r *registers) general(tid int) Registers {
	g := Registers{PC: r.Pc, Flags: r.Pstate}
	copy(g.R[:], r.Regs[:])
	g.R[31] = r.Sp
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&g.TLS)), Len: 8}
	ptraceCall(unix.PTRACE_GETREGSET, tid, ntArmTLS, uintptr(unsafe.Pointer(&iov)))
	return g
}
