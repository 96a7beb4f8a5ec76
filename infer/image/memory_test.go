package image

import (
	"encoding/hex"
	"testing"
)

func TestMemory(t *testing.T) {
	const at = 0x1000
	for _, tt := range []struct {
		arch Arch
		code string
		want Memory
		ok   bool
	}{
		{X86_64, "488b4510", Memory{Base: rbp, Index: NoReg, Disp: 16, Size: 8}, true},                            // mov 0x10(%rbp),%rax
		{X86_64, "8b04b7", Memory{Base: rdi, Index: rsi, Scale: 2, Size: 4}, true},                                // mov (%rdi,%rsi,4),%eax
		{X86_64, "884c24ff", Memory{Base: rsp, Index: NoReg, Disp: -1, Size: 1}, true},                            // mov %cl,-0x1(%rsp)
		{X86_64, "488b0500010000", Memory{Base: NoReg, Index: NoReg, Disp: at + 7 + 0x100, Size: 8}, true},        // mov 0x100(%rip),%rax
		{X86_64, "64488b042528000000", Memory{Base: NoReg, Index: NoReg, Disp: 40, Size: 8, Segment: true}, true}, // mov %fs:0x28,%rax
		{X86_64, "0fb606", Memory{Base: rsi, Index: NoReg, Size: 1}, true},                                        // movzbl (%rsi),%eax
		{X86_64, "f20f1007", Memory{Base: rdi, Index: NoReg, Size: 8}, true},                                      // movsd (%rdi),%xmm0
		{X86_64, "480faf07", Memory{Base: rdi, Index: NoReg, Size: 8}, true},                                      // imul (%rdi),%rax
		{X86_64, "0faf07", Memory{Base: rdi, Index: NoReg, Size: 4}, true},                                        // imul (%rdi),%eax
		{X86_64, "4801c8", Memory{}, false},                                                                       // add %rcx,%rax
		{X86_64, "488d4510", Memory{}, false},                                                                     // lea 0x10(%rbp),%rax
		{AArch64, "200840f9", Memory{Base: 1, Index: NoReg, Disp: 16, Size: 8}, true},                             // ldr x0, [x1, #16]
		{AArch64, "207862b8", Memory{Base: 1, Index: 2, Scale: 2, Size: 4}, true},                                 // ldr w0, [x1, x2, lsl #2]
		{AArch64, "2084ff3c", Memory{}, false},                                                                    // not one of the forms
		{AArch64, "2080df3c", Memory{Base: 1, Index: NoReg, Disp: -8, Size: 16}, true},                            // ldur q0, [x1, #-8]
		{AArch64, "fd7bbfa9", Memory{Base: 31, Index: NoReg, Disp: -16, Size: 16}, true},                          // stp x29, x30, [sp, #-16]!
		{AArch64, "fd7bc1a8", Memory{Base: 31, Index: NoReg, Size: 16}, true},                                     // ldp x29, x30, [sp], #16
		{AArch64, "40000058", Memory{Base: NoReg, Index: NoReg, Disp: at + 8, Size: 8}, true},                     // ldr x0, .+8
	} {
		code, err := hex.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		in := (&Image{Arch: tt.arch}).decodeOne(code, at)
		got, ok := memory(tt.arch, code, in)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s %s: %+v, %v, want %+v, %v", tt.arch, tt.code, got, ok, tt.want, tt.ok)
		}
	}
}
