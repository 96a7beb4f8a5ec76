package collect

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"backfeed/sample"
)

// A ProbeSite is an instruction to be probed: one that the kernel emulates, so that
// a hit costs half a microsecond instead of 20.
type ProbeSite struct {
	ID   sample.ImageID
	Off  sample.Offset // of the instruction in the image's file
	Cond int8          // condition of a conditional branch, as the low four bits of its opcode have it; -1 for others
}

// NoCond is the Cond of instructions that are not conditional branches.
const NoCond = -1

// MaxSites is how many sites one window may arm.
const MaxSites = 50

// A ProbeWindow is what happened while the sites of one window were armed.
type ProbeWindow struct {
	Hits, Taken []uint64 // by site, while the window was open: hits, and those at which the branch was taken

	Open  time.Duration // from when all were armed to when the first was disarmed
	Armed time.Duration // from before the first was armed to after the last was disarmed, the kernel's own waits included
	Time  time.Duration // processor time of all that is recorded, while it was open
	Total time.Duration // the same, since the prober was opened
	All   uint64        // hits, those before and after it was open included

	Attach, Detach time.Duration // that the two calls took
}

// A ProbeCost is what one hit of a kind of instruction costs here.
type ProbeCost struct {
	Kind     string // "jcc taken", "call", "push"
	Cost     time.Duration
	Exact    bool // the hits that were counted are those that there were
	Emulated bool // as against Stepped
}

var errNotEmulated = errors.New("not of a kind that the kernel emulates")

// probeKinds tell the instructions that may be probed by their first bytes, each kind
// with a loop body that runs it once. A prober tries each before it probes anything: a
// kernel that steps one costs 20 us a hit, and has to be refused. They are a second
// look at what package image chose, taken at the bytes of the file itself.
//
// A 5-byte nop is of no kind: Linux 6.18 replaces it by a call, which overwrites what
// leaf functions keep below their stack pointer.
var probeKinds = []probeKind{
	{"jcc taken", []byte{0x85, 0xc9, 0x75, 0x00}, 2, func(b []byte) bool { return b[0]&0xf0 == 0x70 }},                                 // test ecx, ecx; jnz +0
	{"jcc not taken", []byte{0x85, 0xc9, 0x0f, 0x84, 0, 0, 0, 0}, 2, func(b []byte) bool { return b[0] == 0x0f && b[1]&0xf0 == 0x80 }}, // test ecx, ecx; jz near +0
	{"jmp", []byte{0xeb, 0x00}, 0, func(b []byte) bool { return b[0] == 0xeb }},
	{"jmp near", []byte{0xe9, 0, 0, 0, 0}, 0, func(b []byte) bool { return b[0] == 0xe9 }},
	{"call", []byte{0xe8, 2, 0, 0, 0, 0xeb, 0x01, 0xc3}, 0, func(b []byte) bool { return b[0] == 0xe8 }}, // call f; jmp over; f: ret
	{"push", []byte{0x50, 0x58}, 0, func(b []byte) bool { return b[0]&0xf8 == 0x50 }},                    // push rax; pop rax
	{"push r8", []byte{0x41, 0x50, 0x41, 0x58}, 0, func(b []byte) bool { return b[0] == 0x41 && b[1]&0xf8 == 0x50 }},
	nopKind(0x90),
	nopKind(0x66, 0x90),
	nopKind(0x0f, 0x1f, 0x00),
	nopKind(0x0f, 0x1f, 0x40, 0x00),
	nopKind(0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00),
	nopKind(0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00),
	nopKind(0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00),
}

// A probeKind is a kind of instruction.
type probeKind struct {
	name string
	body []byte // code that runs one and keeps ecx, rsp and rbx
	at   int    // of it in body
	is   func(b []byte) bool
}

// judge decides which kinds may be probed: those whose counts are exact and that cost
// less than half of what a stepped one costs, which takes two exceptions and not one.
// The last of costs is the stepped one's.
func judge(costs []ProbeCost) error {
	stepped := costs[len(costs)-1]
	some := false
	for i := range costs[:len(costs)-1] {
		c := &costs[i]
		c.Emulated = c.Exact && c.Cost < stepped.Cost/2
		some = some || c.Emulated
	}
	if !some {
		return &Unavailable{Why: fmt.Sprintf("this kernel emulates no probed instruction: each hit costs %v", stepped.Cost)}
	}
	return nil
}

// checkSite tells whether the instruction that b begins with may be probed.
func checkSite(b []byte, cond int8, costs []ProbeCost) error {
	k, err := kindOf(b)
	if err != nil {
		return err
	}
	if !costs[k].Emulated {
		return fmt.Errorf("%s: %w", costs[k].Kind, errNotEmulated)
	}
	want := int8(NoCond)
	switch k {
	case 0:
		want = int8(b[0] & 15)
	case 1:
		want = int8(b[1] & 15)
	}
	if cond != want {
		return fmt.Errorf("condition %d, but the code has %d", cond, want)
	}
	return nil
}

func nopKind(code ...byte) probeKind {
	return probeKind{fmt.Sprintf("nop of %d bytes", len(code)), code, 0, func(b []byte) bool { return bytes.HasPrefix(b, code) }}
}

// steppedBody is of an instruction that no kernel emulates: mov eax, eax.
var steppedBody = []byte{0x89, 0xc0}

// kindOf gives the index in probeKinds of the instruction that b begins with.
func kindOf(b []byte) (int, error) {
	b = append(slices.Clone(b), 0xcc, 0xcc) // at the end of a file
	for k, kind := range probeKinds {
		if kind.is(b) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("% x: %w", b, errNotEmulated)
}

// loopRuns is how often each loop of the test program runs.
const loopRuns = 4000

// loopProgram makes a static program for x86-64: with n arguments it runs the n-th
// body loopRuns times, with none the empty body. Files has the file offset of the
// probed instruction by kind; the last one is steppedBody's.
func loopProgram() (file []byte, offs []uint64) {
	const base, head = 0x400000, 64 + 56
	bodies := [][]byte{nil}
	for _, k := range probeKinds {
		bodies = append(bodies, k.body)
	}
	bodies = append(bodies, steppedBody)
	var loops [][]byte
	var starts []int
	at := head + len(bodies)*10 // each choice is 10 bytes
	for i, body := range bodies {
		code := []byte{0xb9, loopRuns & 255, loopRuns >> 8, 0, 0} // mov ecx, loopRuns
		if i > 0 {
			in := 0
			if i <= len(probeKinds) {
				in = probeKinds[i-1].at
			}
			offs = append(offs, uint64(at+len(code)+in))
		}
		code = append(code, body...)
		code = append(code, 0xff, 0xc9, 0x75, byte(-(len(body) + 4)))        // dec ecx; jnz body
		code = append(code, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, 0xcc) // exit(0)
		starts = append(starts, at)
		loops = append(loops, code)
		at += len(code)
	}
	elf := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 15: 0}
	elf = append(elf, 2, 0, 62, 0, 1, 0, 0, 0) // ET_EXEC, EM_X86_64
	elf = le64(elf, base+head, 64, 0)          // entry, program headers, sections
	elf = append(elf, 0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0)
	elf = append(elf, 1, 0, 0, 0, 5, 0, 0, 0) // PT_LOAD, read and execute
	elf = le64(elf, 0, base, base, uint64(at), uint64(at), 0x1000)
	for i, start := range starts {
		elf = append(elf, 0x83, 0x3c, 0x24, byte(i+1), 0x0f, 0x84) // cmp dword [rsp], i+1; je loop
		d := int32(start - (len(elf) + 4))
		elf = append(elf, byte(d), byte(d>>8), byte(d>>16), byte(d>>24))
	}
	for _, code := range loops {
		elf = append(elf, code...)
	}
	return elf, offs
}

func le64(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		for i := range 8 {
			b = append(b, byte(v>>(8*i)))
		}
	}
	return b
}
