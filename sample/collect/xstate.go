package collect

import (
	"encoding/binary"
	"fmt"
)

// The area of XSAVE in its standard form, as ptrace returns it (NT_X86_XSTATE; Intel's manual, volume 1, 13.4;
// xstate_fx_sw_bytes of the kernel's arch/x86/kernel/fpu/signal.c):
//
//	offset  size  field
//	24      4     mxcsr
//	160     256   xmm0 to xmm15
//	464     8     components that the area has (xcr0)
//	512     8     components that are not in their initial state, which is zero
//	-       256   bits 128 to 255 of registers 0 to 15
//	-       64    k0 to k7
//	-       512   bits 256 to 511 of registers 0 to 15
//	-       1024  registers 16 to 31
//
// The places of the last four are the processor's (CPUID, leaf 0xd).
const (
	xsaveMxcsr, xsaveXMM, xsaveHas, xsaveUsed = 24, 160, 464, 512
	xsaveLeast                                = 576 // bytes: with its header
)

// xsaveParts are the components beside the first 512 bytes, in the order of their layout.
var xsaveParts = [...]struct {
	bit   int // in xcr0
	known VectorParts
	from  int // first register
	at    int // byte of it
	size  int // bytes of each
	many  int
}{
	{2, KnownHigh, 0, 16, 16, 16},
	{5, KnownMasks, 0, 0, 8, 8},
	{6, KnownWide, 0, 32, 32, 16},
	{7, KnownMore, 16, 0, 64, 16},
}

// An xsaveLayout is the offset of each of xsaveParts; 0 is nowhere.
type xsaveLayout [len(xsaveParts)]int

// decode reads an area.
func (l *xsaveLayout) decode(b []byte, v *Vectors) error {
	*v = Vectors{}
	if len(b) < xsaveLeast {
		return fmt.Errorf("vector registers: %d bytes, want %d", len(b), xsaveLeast)
	}
	has, used := binary.LittleEndian.Uint64(b[xsaveHas:]), binary.LittleEndian.Uint64(b[xsaveUsed:])
	v.Control, v.Known = binary.LittleEndian.Uint32(b[xsaveMxcsr:]), KnownLow
	for i := range 16 { // where these are in their initial state, the kernel writes that
		copy(v.R[i][:16], b[xsaveXMM+16*i:])
	}
	for i, part := range xsaveParts {
		at, size := l[i], part.size*part.many
		switch {
		case has>>part.bit&1 == 0 || at == 0:
			continue
		case used>>part.bit&1 == 0: // zero
		case at < xsaveLeast || at+size > len(b):
			return fmt.Errorf("vector registers: component %d at %#x of %d bytes", part.bit, at, len(b))
		case part.known == KnownMasks:
			for k := range v.Masks {
				v.Masks[k] = binary.LittleEndian.Uint64(b[at+8*k:])
			}
		default:
			for k := range part.many {
				copy(v.R[part.from+k][part.at:part.at+part.size], b[at+part.size*k:])
			}
		}
		v.Known |= part.known
	}
	return nil
}
