package probe

import (
	"debug/elf"
	"encoding/binary"
)

// armISA has instructions of AArch64: what arm_probe_decode_insn of arch/arm64/kernel/probes/decode-insn.c has
// a handler for, but for loads of literals, which before Linux 6.12 read the kernel's memory, and branches to
// registers. Nop is among them since 6.13.
var armISA = ISA{
	Name:    "AArch64",
	Machine: elf.EM_AARCH64,
	Kinds: []Kind{
		{"b.cond", words(0x6b1f013f, 0x54000021), 4, word(0xff000010, 0x54000000), // cmp w9, wzr; b.ne +4
			func(b []byte) int8 { return int8(b[0] & 15) }, true},
		{"cbz", words(0x34000029), 0, word(0x7e000000, 0x34000000), // cbz w9, +4
			func(b []byte) int8 { return CondZero + int8(b[3]&1) }, false},
		{"tbz", words(0x36f80029), 0, word(0x7e000000, 0x36000000), // tbz w9, #31, +4
			func(b []byte) int8 { return CondClear + int8(b[3]&1) }, true},
		{"b", words(0x14000001), 0, word(0xfc000000, 0x14000000), nil, false},
		{"bl", words(0x94000002, 0x14000002, 0xd65f03c0), 0, word(0xfc000000, 0x94000000), nil, false}, // bl f; b over; f: ret
		{"adr", words(0x1000000a), 0, word(0x1f000000, 0x10000000), nil, false},                        // adr x10, 0
		{"nop", words(0xd503201f), 0, word(0xffffffff, 0xd503201f), nil, false},
	},
	stepped: words(0xaa0a03ea), // mov x10, x10
	// On an emulated processor that takes 1 ns for each instruction, emulated ones cost 0.95 to 1.03 us, stepped
	// ones 1.71 us and nop, which this kernel steps, 1.69 us (Linux 6.12).
	most:  0.8,
	Runs:  4000, // emulated and stepped ones differ by less
	Steps: 4000,
	loop: func(body []byte, runs int) ([]byte, int) {
		code := words(0x52800009 | uint32(runs)<<5) // mov w9, runs
		at := len(code)
		code = append(code, body...)
		back := uint32(-(len(body)/4 + 1)) & 0x7ffff
		code = append(code, words(0x71000529, 0x54000001|back<<5)...)                     // subs w9, w9, #1; b.ne body
		return append(code, words(0xd2800ba8, 0xd2800000, 0xd4000001, 0xd4200000)...), at // exit(0); brk
	},
	choice: func(n, to int) []byte {
		d := uint32(to-8) / 4 & 0x7ffff
		return words(0xf94003e0, 0xf100001f|uint32(n+1)<<10, 0x54000000|d<<5) // ldr x0, [sp]; cmp x0, n+1; b.eq
	},
	choiceSize: 12,
}

// words returns the bytes of instructions.
func words(code ...uint32) (b []byte) {
	for _, w := range code {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// word matches an instruction by some of its bits.
func word(mask, want uint32) func(b []byte) bool {
	return func(b []byte) bool { return binary.LittleEndian.Uint32(b)&mask == want }
}
