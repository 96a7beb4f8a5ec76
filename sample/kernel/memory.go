package kernel

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"

	"backfeed/sample"
)

// A Memory is the memory of a running kernel, by its addresses.
type Memory interface {
	// At reads all of b at an address, or fails.
	At(addr uint64, b []byte) error
	Close() error
}

// kcore reads the memory of the kernel as an ELF file of the kind of cores.
type kcore struct {
	f        *os.File
	segments []elf.ProgHeader
}

// kcorePath is where kernels with CONFIG_PROC_KCORE show their memory to who has CAP_SYS_RAWIO.
const kcorePath = "/proc/kcore"

// OpenKcore opens the memory of this machine's kernel by /proc/kcore.
func OpenKcore() (Memory, error) {
	f, err := os.Open(kcorePath)
	if err != nil {
		return nil, err
	}
	e, err := sample.ReadELF(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", kcorePath, err)
	}
	return &kcore{f, e.Segments}, nil
}

var errNotThere = errors.New("no memory is listed there")

func (k *kcore) At(addr uint64, b []byte) error {
	for _, s := range k.segments {
		if s.Type == elf.PT_LOAD && s.Vaddr <= addr && addr-s.Vaddr < s.Filesz && uint64(len(b)) <= s.Filesz-(addr-s.Vaddr) {
			_, err := k.f.ReadAt(b, int64(s.Off+(addr-s.Vaddr)))
			return err
		}
	}
	return fmt.Errorf("%s: %#x: %w", kcorePath, addr, errNotThere)
}

func (k *kcore) Close() error { return k.f.Close() }

// Readable reports whether the first code of c can be read from m, which some kernels show as zeros.
func (c *Code) Readable(m Memory) error {
	text := c.Parts[0]
	b := make([]byte, min(text.End-text.Start, 16))
	for _, s := range c.Symbols {
		if text.End-s.Addr < uint64(len(b)) {
			break
		}
		if err := m.At(s.Addr, b); err != nil {
			return err
		}
		for _, x := range b {
			if x != 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("%#x: the kernel shows its code as zeros", text.Start)
}
