//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"backfeed/sample/kernel"
)

// OpenKernelMemory opens the memory of the running kernel to read the code of c from: by /proc/kcore, or where that
// does not have it, by a program of the kernel's side. The error is an *Unavailable where neither is to be had.
func OpenKernelMemory(c *kernel.Code) (kernel.Memory, error) {
	m, err := kernel.OpenKcore()
	if err == nil {
		if err = c.Readable(m); err == nil {
			return m, nil
		}
		m.Close()
	}
	b, err2 := openProgramMemory()
	if err2 == nil {
		if err2 = c.Readable(b); err2 == nil {
			return b, nil
		}
		b.Close()
	}
	return nil, &Unavailable{
		Why: fmt.Sprintf("the kernel does not show its code to this process: %v; and %v", err, err2),
		Fix: "Run as root, or give this program CAP_SYS_RAWIO for a kernel with CONFIG_PROC_KCORE, or CAP_BPF and CAP_PERFMON; a kernel locked down to confidentiality shows it to nobody",
		err: errors.Join(err, err2),
	}
}

// A programMemory reads the kernel's memory by a program that copies it into a map each time it is run. No event
// has it run but this process, as a test.
type programMemory struct {
	copied  *ebpf.Map
	program *ebpf.Program
	buf     []byte
}

// mostCopied is how much it reads at once.
const mostCopied = 64 << 10

func openProgramMemory() (*programMemory, error) {
	restore, err := liftMemlock()
	if err != nil {
		return nil, err
	}
	defer restore()
	m := &programMemory{buf: make([]byte, mostCopied)}
	if m.copied, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: mostCopied, MaxEntries: 1}); err != nil {
		return nil, err
	}
	if m.program, err = ebpf.NewProgram(memoryProgram(m.copied)); err != nil {
		m.Close()
		return nil, err
	}
	// Whether programs can be run so is found out at the first time, by loading one, which the limit would forbid later.
	m.program.Run(&ebpf.RunOptions{Context: [2]uint64{}})
	return m, nil
}

// memoryProgram reads from the address in the first word of its context as many bytes as the second has it.
// Of programs that can be run as tests, those of raw tracepoints are the first that may read the kernel (5.10).
func memoryProgram(to *ebpf.Map) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: "read_kernel", Type: ebpf.RawTracepoint, License: "GPL", // see bpf/kernel.h
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, to.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "none"),
			asm.LoadMem(asm.R2, asm.R6, 8, asm.DWord),
			asm.JGT.Imm(asm.R2, mostCopied, "none"),
			asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R0),
			asm.FnProbeReadKernel.Call(),
			asm.Return(),
			asm.Mov.Imm(asm.R0, -int32(unix.EINVAL)).WithSymbol("none"),
			asm.Return(),
		},
	}
}

func (m *programMemory) At(addr uint64, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), mostCopied)
		failed, err := m.program.Run(&ebpf.RunOptions{Context: [2]uint64{addr, uint64(n)}})
		switch {
		case err != nil:
			return fmt.Errorf("a program that reads it does not run: %w", err)
		case failed != 0:
			return fmt.Errorf("%#x: %w", addr, unix.Errno(-int32(failed)))
		}
		if err := m.copied.Lookup(uint32(0), m.buf); err != nil {
			return err
		}
		copy(b[:n], m.buf)
		b, addr = b[n:], addr+uint64(n)
	}
	return nil
}

// Close takes map and program back.
func (m *programMemory) Close() error {
	if m.program != nil {
		m.program.Close()
	}
	return m.copied.Close()
}
