package image

import (
	"slices"
	"testing"
)

// TestAfterSystemCalls: where system calls return, and not behind bytes that only look like one.
func TestAfterSystemCalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		arch Arch
		code string
		want []Addr // from the start of the block
	}{
		{"syscall", X86_64, "\xb8\x01\x00\x00\x00\x0f\x05\x48\x89\xc3\xc3", []Addr{7}},    // mov $1,%eax; syscall; mov %rax,%rbx; ret
		{"at the end", X86_64, "\x90\x0f\x05", []Addr{3}},                                 // nop; syscall
		{"two of other kinds", X86_64, "\xcd\x80\x90\x0f\x34\xc3", []Addr{2, 5}},          // int $0x80; nop; sysenter; ret
		{"an immediate", X86_64, "\xb8\x00\x00\x0f\x05\xc3", nil},                         // mov $0x50f0000,%eax; ret
		{"an immediate, then one", X86_64, "\xb8\x00\x00\x0f\x05\x0f\x05\xc3", []Addr{7}}, // and syscall
		{"other slow ones", X86_64, "\x0f\xa2\x0f\x31\xc3", nil},                          // cpuid; rdtsc; ret
		{"none", X86_64, "\xc3", nil},                                                     // ret
		{"svc", AArch64, "\x08\x08\x80\xd2\x01\x00\x00\xd4\xc0\x03\x5f\xd6", []Addr{8}},   // mov x8, #64; svc #0; ret
		{"brk", AArch64, "\x20\x00\x20\xd4\xc0\x03\x5f\xd6", nil},                         // brk #1; ret
	} {
		im := codeImage(tt.arch, []byte(tt.code), nil)
		base := im.segments[0].lo
		b := Block{Start: base, End: base + Addr(len(tt.code)), Insts: 4}
		got := im.AfterSystemCalls(&b)
		for i := range got {
			got[i] -= base
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestEmulated: blocks with instructions that a hypervisor or the kernel carries out, which a graph that is kept tells, too.
func TestEmulated(t *testing.T) {
	for _, tt := range []struct {
		name string
		arch Arch
		code string
		want []bool // by block
	}{
		{"cpuid", X86_64, "\x31\xc0\x0f\xa2\x75\x01\x90\xc3", []bool{true, false, false}},          // xor %eax,%eax; cpuid; jne +1; nop; ret
		{"an immediate", X86_64, "\xb8\x00\x00\x0f\xa2\xc3", []bool{false}},                        // mov $0xa20f0000,%eax; ret
		{"rdtsc, xgetbv", X86_64, "\x0f\x31\x0f\x01\xd0\xc3", []bool{false}},                       // rdtsc; xgetbv; ret
		{"an identification register", AArch64, "\x00\x04\x38\xd5\xc0\x03\x5f\xd6", []bool{true}},  // mrs x0, id_aa64pfr0_el1; ret
		{"the register of the thread", AArch64, "\x40\xd0\x3b\xd5\xc0\x03\x5f\xd6", []bool{false}}, // mrs x0, tpidr_el0; ret
	} {
		im := codeImage(tt.arch, []byte(tt.code), nil)
		p, err := im.Proc(0)
		if err != nil {
			t.Fatal(err)
		}
		checkKept(t, im, p)
		var got []bool
		for i := range p.Blocks {
			got = append(got, p.Blocks[i].Emulated)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
