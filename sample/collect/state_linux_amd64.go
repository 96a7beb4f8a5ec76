package collect

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cpuid is the instruction.
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

// thisLayout is where this processor's XSAVE puts what xsaveParts lists.
var thisLayout = sync.OnceValue(func() (l xsaveLayout) {
	const leaf = 0xd
	if most, _, _, _ := cpuid(0, 0); most < leaf {
		return l
	}
	for i, part := range xsaveParts {
		if size, at, _, _ := cpuid(leaf, uint32(part.bit)); int(size) == part.size*part.many {
			l[i] = int(at)
		}
	}
	return l
})

const (
	ntXstate = 0x202 // include/uapi/linux/elf.h
	// mostXstate holds what there is up to AMX, whose tiles alone have 8192 bytes.
	mostXstate = 16384
)

// A vectorReader reads vector registers.
type vectorReader struct{ area [mostXstate]byte }

func (r *vectorReader) read(tid int, v *Vectors) error {
	iov := unix.Iovec{Base: &r.area[0], Len: mostXstate}
	if err := ptraceCall(unix.PTRACE_GETREGSET, tid, ntXstate, uintptr(unsafe.Pointer(&iov))); err != nil {
		*v = Vectors{}
		return err
	}
	layout := thisLayout()
	return layout.decode(r.area[:iov.Len], v)
}

// general returns the registers as package trace numbers them.
func (r *registers) general(int) Registers {
	return Registers{
		R:  [32]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15},
		PC: r.Rip, Flags: r.Eflags, TLS: r.Fs_base, GS: r.Gs_base,
	}
}
