package probe

import (
	"bytes"
	"debug/elf"
	"fmt"
)

// x86ISA has instructions of x86-64. A 5-byte nop is of no kind: Linux 6.18 replaces it by a call, which
// overwrites what leaf functions keep below their stack pointer.
var x86ISA = ISA{
	Name:    "x86-64",
	Machine: elf.EM_X86_64,
	Kinds: []Kind{
		{"jcc taken", []byte{0x85, 0xc9, 0x75, 0x00}, 2, func(b []byte) bool { return b[0]&0xf0 == 0x70 }, // test ecx, ecx; jnz +0
			func(b []byte) int8 { return int8(b[0] & 15) }, true},
		{"jcc not taken", []byte{0x85, 0xc9, 0x0f, 0x84, 0, 0, 0, 0}, 2, func(b []byte) bool { return b[0] == 0x0f && b[1]&0xf0 == 0x80 }, // test ecx, ecx; jz near +0
			func(b []byte) int8 { return int8(b[1] & 15) }, false},
		x86Kind("jmp", []byte{0xeb, 0x00}, func(b []byte) bool { return b[0] == 0xeb }),
		x86Kind("jmp near", []byte{0xe9, 0, 0, 0, 0}, func(b []byte) bool { return b[0] == 0xe9 }),
		x86Kind("call", []byte{0xe8, 2, 0, 0, 0, 0xeb, 0x01, 0xc3}, func(b []byte) bool { return b[0] == 0xe8 }), // call f; jmp over; f: ret
		x86Kind("push", []byte{0x50, 0x58}, func(b []byte) bool { return b[0]&0xf8 == 0x50 }),                    // push rax; pop rax
		x86Kind("push r8", []byte{0x41, 0x50, 0x41, 0x58}, func(b []byte) bool { return b[0] == 0x41 && b[1]&0xf8 == 0x50 }),
		nopKind(0x90),
		nopKind(0x66, 0x90),
		nopKind(0x0f, 0x1f, 0x00),
		nopKind(0x0f, 0x1f, 0x40, 0x00),
		nopKind(0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00),
		nopKind(0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00),
		nopKind(0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00),
	},
	stepped: []byte{0x89, 0xc0}, // mov eax, eax
	most:    0.5,
	Runs:    1000,
	Steps:   200,
	loop: func(body []byte, runs int) ([]byte, int) {
		code := []byte{0xb9, byte(runs), byte(runs >> 8), 0, 0} // mov ecx, runs
		at := len(code)
		code = append(code, body...)
		code = append(code, 0xff, 0xc9, 0x75, byte(-(len(body) + 4)))            // dec ecx; jnz body
		return append(code, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, 0xcc), at // exit(0)
	},
	choice: func(n, to int) []byte {
		d := int32(to - 10)
		return []byte{0x83, 0x3c, 0x24, byte(n + 1), 0x0f, 0x84, byte(d), byte(d >> 8), byte(d >> 16), byte(d >> 24)} // cmp dword [rsp], n+1; je
	},
	choiceSize: 10,
}

func x86Kind(name string, body []byte, is func(b []byte) bool) Kind {
	return Kind{name, body, 0, is, nil, false}
}

func nopKind(code ...byte) Kind {
	return x86Kind(fmt.Sprintf("nop of %d bytes", len(code)), code, func(b []byte) bool { return bytes.HasPrefix(b, code) })
}
