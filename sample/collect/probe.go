package collect

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"backfeed/sample/probe"
)

// A ProbeCost is what one hit of a kind of instruction costs here.
type ProbeCost struct {
	Kind     string // "jcc taken", "call", "push"
	Cost     time.Duration
	Exact    bool // the hits that were counted are those that there were
	Emulated bool // as against Stepped
}

var errNotEmulated = errors.New("not of a kind that the kernel emulates")

// A probeISA is what of probes depends on the processor.
type probeISA struct {
	name    string
	machine elf.Machine
	// kinds tell the instructions that may be probed by their first bytes, each kind with a loop body that
	// runs it once. A prober tries each before it probes anything: a kernel that steps one costs 20 us a hit,
	// and has to be refused. They are a second look at what package image chose, taken at the bytes of the file
	// itself.
	kinds   []probeKind
	stepped []byte // code of an instruction that no kernel emulates
	// most is what part of the cost of a stepped one an emulated one costs at most.
	most float64
	// loop returns code that runs a body loopRuns times and ends the program, and where the body is in it.
	loop func(body []byte) (code []byte, at int)
	// choice returns code that goes on to a place so many bytes after its start if the program has n arguments;
	// choices are of choiceSize bytes each.
	choice     func(n, to int) []byte
	choiceSize int
}

// A probeKind is a kind of instruction.
type probeKind struct {
	name string
	body []byte // code that runs one, and keeps the stack pointer and what counts the rounds
	at   int    // of it in body
	is   func(b []byte) bool
	cond func(b []byte) int8 // condition of a conditional branch; nil for others
	goes bool                // the body's branch is taken
}

// condition returns the condition of the instruction that b begins with.
func (k *probeKind) condition(b []byte) int8 {
	if k.cond == nil {
		return probe.NoCond
	}
	return k.cond(b)
}

// probeISAs are by GOARCH.
var probeISAs = map[string]*probeISA{"amd64": &x86Probes, "arm64": &armProbes}

// hostProbes are those of this processor.
var hostProbes = probeISAs[runtime.GOARCH]

// judge decides which kinds may be probed: those whose counts are exact and that cost
// far less than a stepped one costs, which takes two exceptions and not one.
// The last of costs is the stepped one's.
func (p *probeISA) judge(costs []ProbeCost) error {
	stepped := costs[len(costs)-1]
	some := false
	for i := range costs[:len(costs)-1] {
		c := &costs[i]
		c.Emulated = c.Exact && float64(c.Cost) < p.most*float64(stepped.Cost)
		some = some || c.Emulated
	}
	if !some {
		return &Unavailable{Why: fmt.Sprintf("this kernel emulates no probed instruction: each hit costs %v", stepped.Cost)}
	}
	return nil
}

// checkSite reports whether the instruction that b begins with may be probed.
func (p *probeISA) checkSite(b []byte, cond int8, costs []ProbeCost) error {
	k, err := p.kindOf(b)
	if err != nil {
		return err
	}
	if !costs[k].Emulated {
		return fmt.Errorf("%s: %w", costs[k].Kind, errNotEmulated)
	}
	if want := p.kinds[k].condition(b); cond != want {
		return fmt.Errorf("condition %d, but the code has %d", cond, want)
	}
	return nil
}

// kindOf returns the index in kinds of the instruction that b begins with.
func (p *probeISA) kindOf(b []byte) (int, error) {
	b = append(slices.Clone(b), 0xcc, 0xcc, 0xcc, 0xcc) // at the end of a file
	for k, kind := range p.kinds {
		if kind.is(b) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("% x: %w", b[:len(b)-4], errNotEmulated)
}

// cookie is what the kernel's side is told of site i, an instruction: its number, the condition, and which bits
// of which register a branch of AArch64 tests. See bpf/prober.c.
func cookie(i int, cond int8, code []byte) uint64 {
	if cond == probe.NoCond {
		return uint64(i) | 16<<8
	}
	c := uint64(i) | uint64(cond)<<8
	if cond >= probe.CondZero {
		w := uint64(binary.LittleEndian.Uint32(code))
		wide := w >> 31
		c |= w&31<<16 | wide<<27
		if cond >= probe.CondClear {
			c |= (w>>26&32|w>>19&31)<<21 | 1<<27
		}
	}
	return c
}

// loopRuns is how often each loop of the test program runs.
const loopRuns = 4000

// loopProgram makes a static program: with n arguments it runs the n-th body loopRuns times, with none the
// empty body. Offs has the file offset of the probed instruction by kind; the last one is the stepped one's.
func (p *probeISA) loopProgram() (file []byte, offs []uint64) {
	const base, head = 0x400000, 64 + 56
	bodies := [][]byte{nil}
	for _, k := range p.kinds {
		bodies = append(bodies, k.body)
	}
	bodies = append(bodies, p.stepped)
	var loops []byte
	var starts []int
	at := head + len(bodies)*p.choiceSize
	for i, body := range bodies {
		code, in := p.loop(body)
		if i > 0 {
			if i <= len(p.kinds) {
				in += p.kinds[i-1].at
			}
			offs = append(offs, uint64(at+in))
		}
		starts = append(starts, at)
		loops = append(loops, code...)
		at += len(code)
	}
	elf := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 15: 0}
	elf = append(elf, 2, 0, byte(p.machine), 0, 1, 0, 0, 0) // ET_EXEC
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
