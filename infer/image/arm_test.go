package image

import (
	"encoding/binary"
	"strings"
	"testing"
)

// armFlow returns the flow classes of an AArch64 mnemonic.
func armFlow(l line) Class {
	m := l.mnemonic
	switch {
	case m == "b":
		return Jump
	case strings.HasPrefix(m, "b.") || strings.HasPrefix(m, "bc.") || strings.HasPrefix(m, "cb") || strings.HasPrefix(m, "tb"):
		if m == "tbl" || m == "tbx" {
			return 0
		}
		return CondJump
	case m == "bl":
		return DirCall
	case m == "blr" || strings.HasPrefix(m, "blra"):
		return IndCall
	case m == "br" || strings.HasPrefix(m, "bra"):
		return IndJump
	case strings.HasPrefix(m, "ret") || m == "eret":
		return Ret
	case m == "udf" || m == "brk" || m == "hlt":
		return Trap
	case m == "nop" || m == "bti":
		return Nop
	}
	return 0
}

// TestARMObjdump compares the flow of every instruction of the C library with
// GNU objdump.
func TestARMObjdump(t *testing.T) {
	const path = "/usr/aarch64-linux-gnu/lib/libc.so.6"
	im := openTest(t, path)
	n, wrong := 0, 0
	objdump(t, "aarch64-linux-gnu-objdump", path, func(l line) {
		b := im.code(l.addr, l.addr+4)
		if b == nil || strings.HasPrefix(l.mnemonic, ".") {
			return
		}
		n++
		if in := armInst(b, l.addr); in.Class&flowClasses != armFlow(l) {
			if wrong++; wrong < 20 {
				t.Errorf("%#x: %#x %s %s: class %#x", l.addr, binary.LittleEndian.Uint32(b), l.mnemonic, l.operands, in.Class)
			}
		}
	})
	if n == 0 || wrong > 0 {
		t.Errorf("%d of %d instructions differ", wrong, n)
	}
}

func TestARMClass(t *testing.T) {
	for _, tt := range []struct {
		text  string
		word  uint32
		class Class
	}{
		{"ldr x0, [x1]", 0xf9400020, Load},
		{"str w0, [x1, #4]!", 0xb8004c20, Store},
		{"ldp x29, x30, [sp], #16", 0xa8c17bfd, Load},
		{"prfm pldl1keep, [x0]", 0xf9800000, 0},
		{"prfm pldl1keep, [x0, x1]", 0xf8a16800, 0},
		{"ldrsw x0, [x1, x2, lsl #2]", 0xb8a27820, Load},
		{"str q0, [x1]", 0x3d800020, Store},
		{"ldr q0, [x1]", 0x3dc00020, Load},
		{"ldadd w0, w1, [x2]", 0xb8200041, Load | Store | Locked},
		{"cas w0, w1, [x2]", 0x88a07c41, Load | Store | Locked},
		{"casp w0, w1, w2, w3, [x4]", 0x08207c82, Load | Store | Locked},
		{"ldaxr w0, [x1]", 0x885ffc20, Load | Locked},
		{"stlxr w0, w1, [x2]", 0x8800fc41, Store | Locked},
		{"ldar w0, [x1]", 0x88dffc20, Load},
		{"ldapr w0, [x1]", 0xb8bfc020, Load},
		{"dmb ish", 0xd5033bbf, Locked},
		{"dc zva, x0", 0xd50b7420, Store},
		{"paciasp", 0xd503233f, 0},
		{"bti c", 0xd503245f, Nop},
		{"nop", 0xd503201f, Nop},
		{"retaa", 0xd65f0bff, Ret},
		{"braaz x0", 0xd61f081f, IndJump},
		{"blraa x0, x1", 0xd73f0801, IndCall},
		{"svc #0", 0xd4000001, System},
		{"brk #1", 0xd4200020, Trap},
		{"udf #0", 0x00000000, Trap},
		{"udiv x0, x1, x2", 0x9ac20820, Div},
		{"fdiv d0, d1, d2", 0x1e621820, Float | Div},
		{"fsqrt v0.2d, v1.2d", 0x6ee1f820, Float | Div},
		{"fcmp d0, d1", 0x1e612000, Float | Compare},
		{"mul x0, x1, x2", 0x9b027c20, Mul},
		{"cmp w0, #5", 0x7100141f, Compare},
		{"cmp x0, x1", 0xeb01001f, Compare},
		{"tst w0, #1", 0x7200001f, Compare},
		{"add x0, x1, x2", 0x8b020020, 0},
		{"fmov d0, x0", 0x9e670000, 0},
		{"fadd v0.4s, v1.4s, v2.4s", 0x4e22d420, Float},
	} {
		if in := armInst(binary.LittleEndian.AppendUint32(nil, tt.word), 0); in.Class != tt.class || in.Len != 4 {
			t.Errorf("%s: class %#x, want %#x", tt.text, in.Class, tt.class)
		}
	}
}
