package probe

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// A Cost is what one hit of a kind of instruction costs here.
type Cost struct {
	Kind     string // "jcc taken", "call", "push"
	Cost     time.Duration
	Exact    bool // the hits that were counted are those that there were
	Emulated bool // as against Stepped
}

var errNotEmulated = errors.New("not of a kind that the kernel emulates")

// An ISA is what of probes depends on the processor.
type ISA struct {
	Name    string
	Machine elf.Machine
	// Kinds tell the instructions that may be probed by their first bytes, each kind with a loop body that
	// runs it once. A prober tries each before it probes anything: a kernel that steps one costs 20 us a hit,
	// and has to be refused. They are a second look at what package image chose, taken at the bytes of the file
	// itself.
	Kinds   []Kind
	stepped []byte // code of an instruction that no kernel emulates
	// most is what part of the cost of a stepped one an emulated one costs at most.
	most float64
	// Runs is how often each loop runs. That takes the most of the start of a prober: 4000 each took 0.25 s of processor
	// time on x86-64, 1000 take 0.1 s, at the same costs to a tenth in the mean over all kinds.
	Runs int
	// Steps is how often that of the stepped one runs. On x86-64 one takes as long as 30 others, so that fewer tell as much.
	Steps int
	// loop returns code that runs a body so many times and ends the program, and where the body is in it.
	loop func(body []byte, runs int) (code []byte, at int)
	// choice returns code that goes on to a place so many bytes after its start if the program has n arguments;
	// choices are of choiceSize bytes each.
	choice     func(n, to int) []byte
	choiceSize int
}

// A Kind is a kind of instruction.
type Kind struct {
	Name string
	body []byte // code that runs one, and keeps the stack pointer and what counts the rounds
	at   int    // of it in body
	is   func(b []byte) bool
	cond func(b []byte) int8 // condition of a conditional branch; nil for others
	Goes bool                // the body's branch is taken
}

// Condition returns the condition of the instruction that b begins with.
func (k *Kind) Condition(b []byte) int8 {
	if k.cond == nil {
		return NoCond
	}
	return k.cond(b)
}

// isas are by GOARCH.
var isas = map[string]*ISA{"amd64": &x86ISA, "arm64": &armISA}

// Host is that of this processor; nil where nothing is probed.
var Host = isas[runtime.GOARCH]

// Judge decides which kinds may be probed: those whose counts are exact and that cost
// far less than a stepped one costs (Cheap), which takes two exceptions and not one.
// The last of costs is the stepped one's. The error is that there is none.
func (p *ISA) Judge(costs []Cost) error {
	stepped := costs[len(costs)-1]
	some := false
	for i := range costs[:len(costs)-1] {
		c := &costs[i]
		c.Emulated = c.Exact && p.Cheap(*c, stepped)
		some = some || c.Emulated
	}
	if !some {
		return fmt.Errorf("this kernel emulates no probed instruction: each hit costs %v", stepped.Cost)
	}
	return nil
}

// Cheap reports whether c costs so much less than the stepped one that it is not stepped itself.
func (p *ISA) Cheap(c, stepped Cost) bool { return float64(c.Cost) < p.most*float64(stepped.Cost) }

// Check reports whether the instruction that b begins with may be probed.
func (p *ISA) Check(b []byte, cond int8, costs []Cost) error {
	k, err := p.KindOf(b)
	if err != nil {
		return err
	}
	if !costs[k].Emulated {
		return fmt.Errorf("%s: %w", costs[k].Kind, errNotEmulated)
	}
	if want := p.Kinds[k].Condition(b); cond != want {
		return fmt.Errorf("condition %d, but the code has %d", cond, want)
	}
	return nil
}

// KindOf returns the index in kinds of the instruction that b begins with.
func (p *ISA) KindOf(b []byte) (int, error) {
	b = append(slices.Clone(b), 0xcc, 0xcc, 0xcc, 0xcc) // at the end of a file
	for k, kind := range p.Kinds {
		if kind.is(b) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("% x: %w", b[:len(b)-4], errNotEmulated)
}

// Cookie is what the kernel's side is told of site i, an instruction: its number, the condition, and which bits
// of which register a branch of AArch64 tests. See bpf/prober.c.
func Cookie(i int, cond int8, code []byte) uint64 {
	if cond == NoCond {
		return uint64(i) | 16<<8
	}
	c := uint64(i) | uint64(cond)<<8
	if cond >= CondZero {
		w := uint64(binary.LittleEndian.Uint32(code))
		wide := w >> 31
		c |= w&31<<16 | wide<<27
		if cond >= CondClear {
			c |= (w>>26&32|w>>19&31)<<21 | 1<<27
		}
	}
	return c
}

// RunsOf is how often the loop of a kind runs; behind the last one, that of the stepped one.
func (p *ISA) RunsOf(kind int) int {
	if kind == len(p.Kinds) {
		return p.Steps
	}
	return p.Runs
}

// LoopProgram makes a static program: with n arguments it runs the n-th body as often as RunsOf says, with none the
// empty body. Offs has the file offset of the probed instruction by kind; the last one is the stepped one's.
func (p *ISA) LoopProgram() (file []byte, offs []uint64) {
	const base, head = 0x400000, 64 + 56
	bodies := [][]byte{nil}
	for _, k := range p.Kinds {
		bodies = append(bodies, k.body)
	}
	bodies = append(bodies, p.stepped)
	var loops []byte
	var starts []int
	at := head + len(bodies)*p.choiceSize
	for i, body := range bodies {
		code, in := p.loop(body, p.RunsOf(i-1))
		if i > 0 {
			if i <= len(p.Kinds) {
				in += p.Kinds[i-1].at
			}
			offs = append(offs, uint64(at+in))
		}
		starts = append(starts, at)
		loops = append(loops, code...)
		at += len(code)
	}
	elf := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 15: 0}
	elf = append(elf, 2, 0, byte(p.Machine), 0, 1, 0, 0, 0) // ET_EXEC
	elf = le64(elf, base+head, 64, 0)                       // entry, program headers, sections
	elf = append(elf, 0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0)
	elf = append(elf, 1, 0, 0, 0, 5, 0, 0, 0) // PT_LOAD, read and execute
	elf = le64(elf, 0, base, base, uint64(at), uint64(at), 0x1000)
	for i, start := range starts {
		elf = append(elf, p.choice(i, start-len(elf))...)
	}
	return append(elf, loops...), offs
}

func le64(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		for i := range 8 {
			b = append(b, byte(v>>(8*i)))
		}
	}
	return b
}
