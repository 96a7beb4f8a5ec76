package trace

import (
	"encoding/binary"
	"fmt"
)

// SetXState sets the vector registers by what PTRACE_GETREGSET returns for NT_X86_XSTATE, the standard
// format of XSAVE:
//
//	offset  size  field
//	0       2     control word of x87
//	24      4     MXCSR
//	160     256   low 16 bytes of vector registers 0 to 15
//	464     8     which components there are (XCR0; the kernel's own addition)
//	512     8     which of them are in use: others are 0
//	576     256   bytes 16 to 31 of these registers: component 2
//	        64    mask registers: component 5
//	        512   bytes 32 to 63 of vector registers 0 to 15: component 6
//	        1024  vector registers 16 to 31: component 7
//
// Where the last three are only CPUID tells. Intel's processors have them from 1088 on, AMD's from 832 on,
// and by the size of all one knows which (as gdb's i387_guess_xsave_layout does).
func (st *State) SetXState(b []byte) error {
	const legacy, header, high = 512, 576, 832
	const sse, avx, avx512 = 1 << 1, 1 << 2, 7 << 5
	if len(b) < legacy {
		return fmt.Errorf("state of vector registers of %d bytes, want at least %d", len(b), legacy)
	}
	word := func(off int) uint64 { return binary.LittleEndian.Uint64(b[off:]) }
	st.FCW = binary.LittleEndian.Uint16(b)
	st.MXCSR = binary.LittleEndian.Uint32(b[24:])
	st.Words = 2
	st.Vectors, st.Masks = [32][8]uint64{}, [8]uint64{}
	has, used := uint64(sse), uint64(sse)
	if len(b) >= header {
		has, used = word(464), word(512)
	}
	if used&sse != 0 {
		for r := range 16 {
			st.Vectors[r][0], st.Vectors[r][1] = word(160+16*r), word(168+16*r)
		}
	}
	if has&avx == 0 || len(b) < high {
		return nil
	}
	st.Words = 4
	if used&avx != 0 {
		for r := range 16 {
			st.Vectors[r][2], st.Vectors[r][3] = word(576+16*r), word(584+16*r)
		}
	}
	if has&avx512 != avx512 {
		return nil
	}
	const masks, upper, more = 0, 64, 64 + 512
	at := 832
	if len(b) >= 1088+more+1024 {
		at = 1088
	}
	if len(b) < at+more+1024 {
		return fmt.Errorf("state of vector registers of %d bytes, want at least %d", len(b), at+more+1024)
	}
	st.Words = 8
	for i := range 8 {
		if used>>5&1 != 0 {
			st.Masks[i] = word(at + masks + 8*i)
		}
		for r := range 16 {
			if i < 4 && used>>6&1 != 0 {
				st.Vectors[r][4+i] = word(at + upper + 32*r + 8*i)
			}
			if used>>7&1 != 0 {
				st.Vectors[16+r][i] = word(at + more + 64*r + 8*i)
			}
		}
	}
	return nil
}
