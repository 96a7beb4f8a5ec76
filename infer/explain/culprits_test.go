package explain

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// codeBase is the address of the file of a codeImage.
const codeBase = 0x400000

// codeImage makes an image of one procedure, f. Its code begins at codeStart.
func codeImage(tb testing.TB, arch image.Arch, code []byte) *image.Image {
	tb.Helper()
	machine := elf.EM_X86_64
	if arch == image.AArch64 {
		machine = elf.EM_AARCH64
	}
	const headers, names = 64 + 56, "\x00.text\x00.symtab\x00.strtab\x00f\x00"
	end := uint64(headers + len(code))
	symbols := end + uint64(len(names))
	var b bytes.Buffer
	put := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	put(elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}, Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1,
		Entry: codeStart, Phoff: 64, Shoff: symbols + 48, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 4, Shstrndx: 3,
	})
	put(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: codeBase, Filesz: end, Memsz: end, Align: 4096})
	b.Write(code)
	b.WriteString(names)
	put([2]elf.Sym64{{}, {Name: 23, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Shndx: 1, Value: codeStart, Size: uint64(len(code))}})
	put([4]elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: codeStart, Off: headers, Size: uint64(len(code)), Addralign: 1},
		{Name: 7, Type: uint32(elf.SHT_SYMTAB), Off: symbols, Size: 48, Link: 3, Info: 1, Entsize: 24},
		{Name: 15, Type: uint32(elf.SHT_STRTAB), Off: end, Size: uint64(len(names))},
	})
	path := filepath.Join(tb.TempDir(), "f")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		tb.Fatal(err)
	}
	im, err := image.Open(path, image.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { im.Close() })
	return im
}

const codeStart = codeBase + 64 + 56

// A scene is code and what was seen of it.
type scene struct {
	model   string
	event   sample.Event        // cycles, one a sample, if there is no name
	code    string              // hexadecimal
	samples map[int]uint64      // by instruction, from the start
	runs    func(b int) float64 // executions of block b; 1000 if nil
	others  []*sample.Counts    // of other events
	lost    uint64              // samples in the kernel
	used    sample.Usage        // of the command that was recorded
	near    map[int]uint64      // by instruction, from the start: how often it accessed memory in walks, each time where it just had
	lines   float64             // lines of code that run between two executions of one
}

var theImage = sample.ImageID{Path: "/bin/f"}

// explainer prepares to explain s. An edge runs as often as the rarer of its blocks,
// but no block leads on more often than it runs.
func (s *scene) explainer(tb testing.TB) (*Explainer, *infer.ImageProfile, *infer.Result) {
	tb.Helper()
	code, err := hex.DecodeString(strings.ReplaceAll(s.code, " ", ""))
	if err != nil {
		tb.Fatal(err)
	}
	arch := image.X86_64
	if strings.HasPrefix(s.model, "arm") || strings.HasSuffix(s.model, "aarch64") {
		arch = image.AArch64
	}
	im := codeImage(tb, arch, code)
	p, err := im.Proc(0)
	if err != nil {
		tb.Fatal(err)
	}
	event := s.event
	if event.Name == "" {
		event = sample.Event{Name: "cycles", Period: 1, Unit: "cycles"}
	}
	counts := sample.NewCounts(sample.CPU{}, event)
	ic := counts.Image(theImage)
	r := &infer.Result{
		Proc: p, Block: make([]infer.Freq, len(p.Blocks)), Cold: make([]bool, len(p.Blocks)), BlockSamples: make([]uint64, len(p.Blocks)),
		Edge: make([]infer.Freq, len(p.Edges)), Call: make([]infer.Freq, len(p.Calls)),
	}
	i := 0
	for b := range p.Blocks {
		n := 1000.0
		if s.runs != nil {
			n = s.runs(b)
		}
		r.Block[b] = infer.Freq{N: n, Conf: infer.High, Among: infer.High, Within: infer.High}
		for _, in := range im.Insts(&p.Blocks[b]) {
			off, ok := im.OffsetOf(in.Addr)
			if !ok {
				tb.Fatalf("%#x is nowhere in the file", uint64(in.Addr))
			}
			counts.AddSample(ic, off, s.samples[i])
			r.BlockSamples[b] += s.samples[i]
			r.Samples += s.samples[i]
			if n := s.near[i]; n > 0 {
				counts.AddReplayed(ic, off, sample.Replayed{Walks: n, Accesses: n, Near: n, NearPages: n})
			}
			i++
		}
	}
	for b := range p.Blocks {
		left := r.Block[b].N
		for _, e := range p.Blocks[b].Out {
			n := min(left, r.Block[p.Edges[e].To].N)
			r.Edge[e] = infer.Freq{N: n, Conf: infer.High, Among: infer.High, Within: infer.High}
			left -= n
		}
	}
	counts.Lose(sample.LostKernel, s.lost)
	rec := &sample.Recording{Counts: append([]*sample.Counts{counts}, s.others...), Runs: []sample.Run{{Usage: s.used}}}
	ip := &infer.ImageProfile{ID: theImage, Image: im, Samples: r.Samples, Procs: []*infer.Result{r}, Counts: counts.Images[ic]}
	prof := &infer.Profile{Machine: s.model, Event: event, Samples: infer.Samples{Total: counts.Total, Used: r.Samples}, Images: []*infer.ImageProfile{ip}}
	x, err := New(prof, rec)
	if err != nil {
		tb.Fatal(err)
	}
	if s.lines > 0 {
		x.lines = reuse{n: []float64{1}, sum: []float64{0, s.lines * 1000}}
	}
	return x, ip, r
}

// explain returns the explanation of s.
func (s *scene) explain(tb testing.TB) *Explanation {
	tb.Helper()
	x, ip, r := s.explainer(tb)
	e := x.Explain(ip, r)
	if err := e.Check(); err != nil {
		tb.Error(err)
	}
	for _, again := range x.All() { // says the same of what has time
		if err := again.Check(); err != nil {
			tb.Error(err)
		}
		if !alike(again.Dynamic, e.Dynamic) || again.Causes != e.Causes {
			tb.Errorf("All gives %v, Explain %v", again.Summary, e.Summary)
		}
	}
	return e
}

// culprits shows the culprits of instruction i, sorted by name, with what they explain at
// most where that is not the whole stall: "dcache-miss mispredict<9.8". A question mark tells that
// something is left unexplained.
func (e *Explanation) culprits(i int) string {
	s := &e.Insts[i].Stall
	var all []string
	for _, c := range s.Culprits {
		name := c.Cause.String()
		if c.Most < s.Cycles*(1-1e-9) {
			name += fmt.Sprintf("<%.3g", c.Most)
		}
		all = append(all, name)
	}
	slices.Sort(all)
	if s.Unexplained > 0 {
		all = append(all, "?")
	}
	return strings.Join(all, " ")
}

// Before what is waited for: mov $0x600000,%edi; mov $1,%ecx; mov $2,%edx; mov $3,%esi and six
// times nop, so that neither the caller nor constants are near.
const (
	before    = "bf00006000 b901000000 ba02000000 be03000000 90 90 90 90 90 90 "
	beforeArm = "010082d2 1f2003d5 1f2003d5 1f2003d5 1f2003d5 1f2003d5 1f2003d5 1f2003d5 1f2003d5 1f2003d5 " // mov x1,#4096 and nine times nop
	firstInst = 10
)

func waited(k int, n uint64) map[int]uint64 { return map[int]uint64{firstInst + k: n} }

// miss returns an event with so many samples, of 10 events each, some bytes after the code
// starts, and with one elsewhere.
func miss(name string, off sample.Offset, n uint64) []*sample.Counts {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: name, Period: 10, Unit: "events"})
	c.AddSample(c.Image(sample.ImageID{Path: "/bin/other"}), 1, 1)
	c.AddSample(c.Image(theImage), codeStart-codeBase+off, n)
	return []*sample.Counts{c}
}

// TestRules: what makes an instruction a suspect of each cause, what rules it out, and what
// bounds it. Blocks run 1000 times; a sample is a cycle.
func TestRules(t *testing.T) {
	const zen, a53, n1 = "amd-zen5", "arm-cortex-a53", "arm-neoverse-n1"
	const add = " 4883c101 c3" // add $1,%rcx; ret
	seldom := func(b int) float64 { return []float64{1000, 1, 1000}[b] }
	either := func(b int) float64 { return []float64{1000, 500, 500, 1000}[b] }
	loop := func(b int) float64 { return []float64{1, 1000, 1}[b] }
	half := func(b int) float64 { return []float64{1000, 500, 1000}[b] }
	precise := sample.Event{Name: "cycles:pp", Period: 1, Unit: "cycles"}
	timer := sample.Event{Name: "cpu-clock", Period: 1, Unit: "ns"}
	wide := before + "890f 895704 488b07" + add           // mov %ecx,(%rdi); mov %edx,4(%rdi); mov (%rdi),%rax
	branch := before + "4839ca 7504 4883c101 4883c201 c3" // cmp %rcx,%rdx; jne 1f; add $1,%rcx; 1: add $1,%rdx; ret
	nops := strings.Repeat("90 ", 16)
	for _, tt := range []struct {
		name string
		scene
		at   int // instruction after before
		want string
	}{
		{"a load", scene{model: zen, code: before + "488b07" + add, samples: waited(1, 900_000)}, 0, "dcache-miss dependency<4 dtlb-miss<600"},             // mov (%rdi),%rax
		{"of the frame", scene{model: zen, code: before + "488b442408" + add, samples: waited(1, 900_000)}, 0, "dependency<4 ?"},                           // mov 8(%rsp),%rax
		{"of a constant place", scene{model: zen, code: before + "488b0500200000" + add, samples: waited(1, 900_000)}, 0, "dcache-miss<50 dependency<4 ?"}, // mov 0x2000(%rip),%rax
		{"of what was just loaded", scene{model: zen, code: before + "488b17 488b07" + add, samples: waited(2, 900_000)}, 1, "dependency<4 ?"},             // mov (%rdi),%rdx; mov (%rdi),%rax
		{"of what two stores wrote", scene{model: zen, code: wide, samples: waited(3, 15_000)}, 2, "dependency<4 store-forward"},
		{"long after them", scene{model: zen, code: wide, samples: waited(3, 900_000)}, 2, "dependency<4 store-forward<20 ?"},
		{"of what one store wrote", scene{model: zen, code: before + "48890f 488b07" + add, samples: waited(2, 15_000)}, 1, "dependency<4 ?"},                                                 // mov %rcx,(%rdi); mov (%rdi),%rax
		{"a page behind a store", scene{model: zen, code: before + "48898f00100000 488b07" + add, samples: waited(2, 900_000)}, 1, "dcache-miss dependency<4 dtlb-miss<600 store-forward<10"}, // mov %rcx,4096(%rdi); mov (%rdi),%rax
		{"of the frame, after a store elsewhere", scene{model: zen, code: before + "48890f 488b442408" + add, samples: waited(2, 15_000)}, 1, "dependency<4 ?"},                               // mov %rcx,(%rdi); mov 8(%rsp),%rax
		{"or perhaps there", scene{model: zen, code: before + "488d7c2408 48890f 488b442408" + add, samples: waited(3, 15_000)}, 2, "dependency<4 store-forward"},                             // lea 8(%rsp),%rdi; ...

		{"of the frame, by a pointer", scene{model: zen, code: before + "488d7c2408 488b07" + add, samples: waited(2, 900_000)}, 1, "dependency<5 ?"},                                                                                                // lea 8(%rsp),%rdi; mov (%rdi),%rax
		{"of the frame, by a pointer made behind a push", scene{model: zen, code: before + "50 488d7c2408 488b07" + add, samples: waited(3, 900_000)}, 2, "dependency<5 ?"},                                                                          // push %rax; lea 8(%rsp),%rdi; mov (%rdi),%rax
		{"of the frame, by a pointer made behind a call", scene{model: zen, code: before + "e8e2ffffff 488d7c2408 488b07" + add, samples: waited(3, 900_000)}, 2, "dependency<5 ?"},                                                                  // call f; lea 8(%rsp),%rdi; mov (%rdi),%rax
		{"of a frame aligned behind a push, by a pointer", scene{model: zen, code: before + "50 4883e4c0 488d7c2408 488b07" + add, samples: waited(4, 900_000)}, 3, "dependency<5 ?"},                                                                // push %rax; and $-64,%rsp; lea 8(%rsp),%rdi; mov (%rdi),%rax
		{"of a frame of 64 KB, by a pointer", scene{model: zen, code: before + "4881ec00000100 488d7c2408 488b07" + add, samples: waited(3, 900_000)}, 2, "dcache-miss dependency<5 dtlb-miss<600"},                                                  // sub $0x10000,%rsp; ...
		{"of what was loaded on both paths", scene{model: zen, code: before + "4839ca 7505 488b17 eb03 488b37 488b07" + add, runs: either, samples: waited(6, 900_000)}, 5, "dependency<4 front-end<1 mispredict<2 ?"},                               // cmp %rcx,%rdx; jne 1f; mov (%rdi),%rdx; jmp 2f; 1: mov (%rdi),%rsi; 2: mov (%rdi),%rax
		{"of what was loaded on one of them", scene{model: zen, code: before + "4839ca 7505 488b17 eb05 4883c601 90 488b07" + add, runs: either, samples: waited(7, 900_000)}, 6, "dcache-miss dependency<4 dtlb-miss<600 front-end<1 mispredict<2"}, // ...; 1: add $1,%rsi; nop; ...
		{"of one place in a loop", scene{model: zen, code: before + "488b07 ffc9 75f9 c3", runs: loop, samples: waited(1, 900_000)}, 0, "dcache-miss<50 dependency<4 dtlb-miss<1.45 front-end<2 ?"},                                                  // 1: mov (%rdi),%rax; dec %ecx; jne 1b
		{"of 8 bytes after another", scene{model: zen, code: before + "488b07 4883c708 ffc9 75f5 c3", runs: loop, samples: waited(1, 900_000)}, 0, "dcache-miss<76.5 dependency<5 dtlb-miss<2.62 front-end<2 ?"},                                     // 1: mov (%rdi),%rax; add $8,%rdi; ...
		{"of a table of 2 KB", scene{model: zen, code: before + "0fb6d1 488b04d7 ffc9 75f5 c3", runs: loop, samples: waited(2, 900_000)}, 1, "dcache-miss<50 dependency<6 dtlb-miss<1.45 ?"},                                                         // 1: movzbl %cl,%edx; mov (%rdi,%rdx,8),%rax; ...
		{"by a copy of a counter", scene{model: zen, code: before + "89ca 488b04d7 ffc9 75f6 c3", runs: loop, samples: waited(2, 900_000)}, 1, "dcache-miss<77.2 dependency<5 dtlb-miss<3.35 ?"},                                                     // 1: mov %ecx,%edx; ...
		{"by part of it", scene{model: zen, code: before + "0fb7d1 488b0417 ffc9 75f5 c3", runs: loop, samples: waited(2, 900_000)}, 1, "dcache-miss<50 dependency<6 dtlb-miss<2.33 ?"},                                                              // 1: movzwl %cx,%edx; mov (%rdi,%rdx),%rax; ...
		{"of anywhere", scene{model: zen, code: before + "89ca 0fafd1 488b04d7 ffc9 75f2 c3", runs: loop, samples: waited(3, 900_000)}, 2, "dcache-miss dependency<8 dtlb-miss<600 multiplier<6"},                                                    // 1: mov %ecx,%edx; imul %ecx,%edx; ...

		{"a result that was near", scene{model: zen, code: before + "488b07 4801c2" + add, samples: waited(2, 900_000)}, 1, "dcache-miss dependency<5 dtlb-miss<600"},                        // mov (%rdi),%rax; add %rax,%rdx
		{"a result that was not", scene{model: zen, code: before + "488b07" + nops + "4801c2" + add, samples: waited(18, 900_000)}, 17, "dependency<1 ?"},                                    // the same, nops between
		{"in order, it is waited for", scene{model: a53, code: beforeArm + "200040f9 02040091 63040091 c0035fd6", samples: waited(1, 900_000)}, 1, "dcache-miss dependency<6 dtlb-miss<400"}, // ldr x0,[x1]; add x2,x0,#1; add x3,x3,#1; ret
		{"Arm, out of order", scene{model: n1, code: beforeArm + "200040f9 02040091 63040091 c0035fd6", samples: waited(1, 900_000)}, 0, "dcache-miss dependency<4 dtlb-miss<500"},
		{"Arm, of the frame", scene{model: n1, code: beforeArm + "e00740f9 02040091 63040091 c0035fd6", samples: waited(1, 900_000)}, 0, "dependency<4 ?"},                                         // ldr x0,[sp,#8]
		{"Arm, an atomic", scene{model: n1, code: beforeArm + "220020f8 42040091 63040091 c0035fd6", samples: waited(1, 900_000)}, 0, "dcache-miss dependency<20 dtlb-miss<500 lock store-buffer"}, // ldadd x0,x2,[x1]
		{"a precise event", scene{model: zen, event: precise, code: before + "488b07" + add, samples: waited(0, 900_000)}, 0, "dcache-miss dependency<4 dtlb-miss<600 page-fault"},

		{"a branch that goes either way", scene{model: zen, code: branch, runs: half, samples: waited(2, 20_000)}, 1, "dependency<2 mispredict<9.75 ?"},
		{"the same, interrupted at the branch", scene{model: zen, code: branch, runs: half, samples: waited(1, 20_000)}, 0, "dependency<2 mispredict<9.75 ?"},
		{"a branch that hardly does", scene{model: zen, code: branch, runs: seldom, samples: waited(3, 20_000)}, 1, "dependency<2 front-end<2 mispredict<0.039 ?"},
		{"a branch, by its event", scene{model: zen, code: branch, runs: half, samples: waited(2, 20_000), others: miss("branch-misses", 26, 0)}, 1, "dependency<2 mispredict<0.585 ?"},

		{"a load soon behind it", scene{model: zen, code: before + "4839ca 7504 4883c101 4883c201 488b07 c3", runs: half, samples: waited(5, 20_000)}, 4, "dcache-miss dependency<4 dtlb-miss mispredict<2"}, // ...; add $1,%rdx; mov (%rdi),%rax; ret
		{"a load long behind it", scene{model: zen, code: before + "4839ca 7504 4883c101 " + nops + nops + "488b07 c3", runs: half, samples: waited(36, 20_000)}, 35, "dcache-miss dependency<4 dtlb-miss"},

		{"a division", scene{model: zen, code: before + "48f7f1" + add, samples: waited(1, 90_000)}, 0, "dependency<12 divider"},
		{"a multiplication", scene{model: zen, code: before + "480fafd1" + add, samples: waited(1, 90_000)}, 0, "dependency<4 multiplier<6 ?"},
		{"an atomic operation", scene{model: zen, code: before + "f048830701" + add, samples: waited(1, 900_000)}, 0, "dcache-miss dependency<20 dtlb-miss<600 lock store-buffer"},
		{"before an atomic operation", scene{model: zen, code: before + "4883c201 f048830701" + add, samples: waited(1, 900_000)}, 0, "dependency<2 dtlb-miss<600 lock store-buffer"},
		{"a string instruction", scene{model: zen, code: before + "f3a4" + add, samples: waited(1, 900_000)}, 0, "dcache-miss dependency<26 dtlb-miss microcode store-buffer"},
		{"a system call", scene{model: zen, event: timer, code: before + "0f05" + add, samples: waited(1, 900_000)}, 0, "dependency<100 kernel-return"},
		{"the same, by cycles", scene{model: zen, code: before + "0f05" + add, samples: waited(1, 900_000)}, 0, "dependency<100 microcode"},
		{"what is no system call", scene{model: zen, event: timer, code: before + "0fa2" + add, samples: waited(1, 900_000)}, 0, "dependency<100 microcode"}, // cpuid
		{"Arm, a system call", scene{model: n1, event: timer, code: beforeArm + "010000d4 02040091 63040091 c0035fd6", samples: waited(1, 900_000)}, 0, "dependency<100 kernel-return"},
		{"in order, it is left", scene{model: a53, event: timer, code: beforeArm + "010000d4 02040091 63040091 c0035fd6", samples: waited(1, 900_000)}, 1, "dcache-miss kernel-return"},
		{"addition of floats", scene{model: zen, code: before + "f20f58c8" + add, samples: waited(1, 900_000)}, 0, "dependency<2 fp-assist<200 ?"},
		{"addition", scene{model: zen, code: before + "4883c201" + add, samples: waited(1, 900_000)}, 0, "dependency<2 ?"},

		{"a store", scene{model: zen, code: before + "48890f" + add, samples: waited(1, 900_000)}, 0, "dtlb-miss<600 store-buffer"},
		{"a store that faults", scene{model: zen, code: before + "48890f" + add, samples: map[int]uint64{firstInst: 600_000, firstInst + 1: 300_000}}, -1, "dtlb-miss page-fault store-buffer"},
		{"the same, the kernel having little to do", scene{model: zen, code: before + "48890f" + add, samples: map[int]uint64{firstInst: 600_000, firstInst + 1: 300_000}, lost: 20_000}, -1, "dtlb-miss page-fault<40 store-buffer"},
		{"the same, by its event", scene{model: zen, code: before + "48890f" + add, samples: map[int]uint64{firstInst: 600_000, firstInst + 1: 300_000}, others: miss("page-faults", 26, 1)}, -1, "dtlb-miss page-fault<120 store-buffer"},

		{"little code", scene{model: zen, code: branch, samples: waited(0, 90_000)}, -1, "?"},
		{"much code, within a line", scene{model: zen, code: branch, samples: waited(0, 90_000), lines: 4000}, -1, "front-end<0.5 ?"},
		{"much code, the next line", scene{model: zen, code: before + nops + nops + nops + add, samples: waited(46, 90_000), lines: 4000}, 45, "front-end<1 icache-miss<14 ?"},
		{"all misses of the cache", scene{model: zen, code: before + "488b07" + add, samples: waited(1, 900_000), others: miss("L1-dcache-load-misses", 26, 4)}, 0, "dcache-miss<66 dependency<4 dtlb-miss<600 ?"},
		{"those of the last cache", scene{model: zen, code: before + "488b07" + add, samples: waited(1, 900_000), others: miss("cache-misses", 26, 0)}, 0, "dcache-miss<68 dependency<4 dtlb-miss<600 ?"},
		{"those of the TLB", scene{model: zen, code: before + "488b07" + add, samples: waited(1, 900_000), others: miss("dTLB-load-misses:u", 26, 0)}, 0, "dcache-miss dependency<4 dtlb-miss<28"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := tt.explain(t)
			if got := e.culprits(firstInst + tt.at); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestStallConfidence: times are no surer than the executions and so many samples, and
// stalls no surer than the part that they are of the times.
func TestStallConfidence(t *testing.T) {
	code := before + "488b07 4883c101 c3" // mov (%rdi),%rax; add $1,%rcx; ret
	for _, tt := range []struct {
		period, n   uint64
		time, stall infer.Confidence
	}{
		{1, 900_000, infer.High, infer.High},
		{1, 3_000, infer.High, infer.Medium},      // of 3 cycles, one must be: 10 % of 3 are more of the rest
		{10_000, 100, infer.Medium, infer.Medium}, // 100 samples are off by 16 %
		{1_000_000, 2, infer.Low, infer.Low},      // 2 samples
		{1, 0, infer.None, infer.None},
	} {
		s := scene{model: "amd-zen5", event: sample.Event{Name: "cycles", Period: tt.period, Unit: "cycles"}, code: code, samples: waited(1, tt.n)}
		e := s.explain(t)
		_, time := e.Confidence(firstInst)
		if _, stall := e.StallConfidence(firstInst); time != tt.time || stall != tt.stall {
			t.Errorf("%d samples of %d cycles: time %s, stall %s, want %s and %s", tt.n, tt.period, time, stall, tt.time, tt.stall)
		}
	}
}

// TestRanges: what is not known of executions and edges acquits nobody, and proves nothing.
func TestRanges(t *testing.T) {
	code := before + "4839ca 7504 4883c101 4883c201 c3" // cmp %rcx,%rdx; jne 1f; add $1,%rcx; 1: add $1,%rdx; ret
	runs := func(b int) float64 { return []float64{1000, 1, 1000}[b] }
	least := func(e *Explanation, c Cause) (n float64) { return e.Causes[c].Least }
	for _, tt := range []struct {
		name         string
		conf, within infer.Confidence
		most         float64 // cycles per execution that mispredicts explain at most
		least        bool    // whether something is said to be explained for sure
	}{
		{"known", infer.High, infer.High, 0.039, true},
		{"the edges are guesses", infer.High, infer.Low, 9.75, false},
		{"so is the scale", infer.Low, infer.Low, 19.9, false},
		{"the scale alone is", infer.Low, infer.High, 0.039 * 12, true},
	} {
		s := scene{model: "amd-zen5", code: code, runs: runs, samples: waited(3, 20_000)}
		x, ip, r := s.explainer(t)
		for b := range r.Block {
			r.Block[b].Conf = tt.conf
		}
		for e := range r.Edge {
			r.Edge[e].Within = tt.within
		}
		e := x.Explain(ip, r)
		if err := e.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		most, sure := 0.0, 0.0
		for _, c := range Causes() {
			sure += least(e, c)
		}
		for _, c := range e.Insts[firstInst+1].Stall.Culprits {
			if c.Cause == Mispredict {
				most = c.Most
			}
		}
		t.Logf("%s: %s; mispredict at most %.3g, sure %.3g", tt.name, e.culprits(firstInst+1), most, sure)
		if most > tt.most*1.05 || most < tt.most*0.5 {
			t.Errorf("%s: mispredicts explain %.3g cycles at most, want %.3g", tt.name, most, tt.most)
		}
		if (sure > 0) != tt.least {
			t.Errorf("%s: %.3g cycles are explained for sure", tt.name, sure)
		}
	}
}

// TestRest: a recording's time is that of its procedures, of the kernel and of what is
// not known.
func TestRest(t *testing.T) {
	id := sample.ImageID{Path: "[kernel]"}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1000, Unit: "ns"})
	c.AddSample(c.Image(theImage), 0x78, 60)
	c.AddSample(c.Image(id), 0x100, 7)
	c.Lose(sample.LostKernel, 20)
	c.Lose(sample.LostUnmapped, 3)
	prof := &infer.Profile{Machine: "amd-zen5", Event: c.Event, Samples: infer.Samples{Total: c.Total, Used: 60}}
	x, err := New(prof, &sample.Recording{Counts: []*sample.Counts{c}})
	if err != nil {
		t.Fatal(err)
	}
	if s, want := x.Rest(), (Summary{Cycles: 30 * 3000, Kernel: 27 * 3000, Elsewhere: 3 * 3000}); *s != want {
		t.Errorf("got %+v, want %+v", *s, want)
	}
}

// TestCountedTopDown: the four shares by the events of each maker.
func TestCountedTopDown(t *testing.T) {
	for _, tt := range []struct {
		model  string
		counts map[string]uint64 // samples of 1000 events
		want   string
	}{
		{"intel-sapphirerapids", map[string]uint64{"cpu/topdown-retiring/u": 40000, "topdown-bad-spec:u": 10000, "topdown-fe-bound": 20000, "topdown-be-bound": 30000}, "0.40 0.10 0.20 0.30"},
		{"intel-skylake-x", map[string]uint64{"cpu_clk_unhalted.thread": 10000, "uops_retired.retire_slots": 16000, "uops_issued.any": 18000,
			"int_misc.recovery_cycles": 500, "idq_uops_not_delivered.core": 8000}, "0.40 0.10 0.20 0.30"},
		{"intel-skylake-x", map[string]uint64{"topdown-total-slots": 10000, "topdown-slots-retired": 16000, "topdown-slots-issued": 18000,
			"topdown-recovery-bubbles": 500, "topdown-fetch-bubbles": 8000}, "0.40 0.10 0.20 0.30"},
		{"amd-zen5", map[string]uint64{"ls_not_halted_cyc": 10000, "ex_ret_ops": 32000, "de_src_op_disp.all": 40000,
			"de_no_dispatch_per_slot.no_ops_from_frontend": 16000, "de_no_dispatch_per_slot.backend_stalls": 20000}, "0.40 0.10 0.20 0.25"},
		{"amd-zen5", map[string]uint64{"ex_ret_ops": 32000}, ""},
		{"amd-zen5", nil, ""},
	} {
		rec := &sample.Recording{}
		for name, n := range tt.counts {
			c := sample.NewCounts(sample.CPU{}, sample.Event{Name: name, Period: 1000, Unit: "events"})
			c.AddSample(c.Image(theImage), 0x78, n)
			rec.Counts = append(rec.Counts, c)
		}
		x, err := New(&infer.Profile{Machine: tt.model, Event: sample.Event{Name: "cycles", Period: 1, Unit: "cycles"}}, rec)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if td, ok := x.CountedTopDown(nil, nil); ok {
			middle := func(r Range) float64 { return (r.Least + r.Most) / 2 }
			got = fmt.Sprintf("%.2f %.2f %.2f %.2f", middle(td.Retiring), middle(td.BadSpeculation), middle(td.FrontEnd), middle(td.BackEnd))
			if r := td.Retiring; !(r.Least < r.Most) {
				t.Errorf("%v: a range of chance %v", tt.counts, r)
			}
		}
		if got != tt.want {
			t.Errorf("%s, %v: got %s, want %s", tt.model, tt.counts, got, tt.want)
		}
	}
}

// FuzzExplain: whatever code and samples, the explanation keeps its promises.
func FuzzExplain(f *testing.F) {
	f.Add([]byte("\x48\x8b\x07\x48\x83\xc1\x01\x75\xf7\xc3"), []byte{9, 200, 3, 0, 1}, false, uint16(100))
	f.Add([]byte("\xf0\x48\x83\x07\x01\xe8\x00\x00\x00\x00\x90\xeb\xf3"), []byte{1, 2, 3}, false, uint16(1))
	f.Add([]byte("\x20\x00\x40\xf9\x02\x04\x00\x91\xc0\xff\xff\x54\xc0\x03\x5f\xd6"), []byte{0, 7, 255}, true, uint16(3))
	f.Fuzz(func(t *testing.T, code, seen []byte, arm bool, runs uint16) {
		if len(code) == 0 || len(code) > 1<<12 {
			return
		}
		s := scene{model: "amd-zen5", code: hex.EncodeToString(code), samples: map[int]uint64{}}
		if arm {
			s.model = []string{"arm-neoverse-n1", "arm-cortex-a53"}[runs&1]
		}
		for i, n := range seen {
			s.samples[i] = uint64(n) * uint64(n)
		}
		s.runs = func(b int) float64 { return float64(runs>>(b&15)) / 7 }
		s.others = miss("branch-misses", 0, uint64(runs&3))
		e := s.explain(t)
		if td := e.TopDown(); td.Retiring.Least > td.Retiring.Most || td.BackEnd.Least > td.BackEnd.Most || td.FrontEnd.Least > td.FrontEnd.Most {
			t.Errorf("top-down %v", td)
		}
	})
}

// TestEventFirst: samples of the event of a cause make it the likeliest where they are, and rule it out where they are not.
func TestEventFirst(t *testing.T) {
	const code = before + "48890f 4881c700020000 ffc9 75f2 c3" // 1: mov %rcx,(%rdi); add $0x200,%rdi; dec %ecx; jne 1b; ret
	loop := func(b int) float64 { return []float64{1, 1000, 1}[b] }
	samples := func(at, after uint64) map[int]uint64 {
		return map[int]uint64{firstInst: at, firstInst + 1: after}
	}
	for _, tt := range []struct {
		name    string
		samples map[int]uint64
		used    sample.Usage
		others  []*sample.Counts
		first   Cause
		most    float64
	}{
		{"time alone", samples(90_000, 60_000), sample.Usage{}, nil, StoreBuffer, 150},
		{"one fault in ten turns", samples(90_000, 60_000), sample.Usage{}, miss("page-faults", 26, 10), PageFault, 150},
		{"one in a thousand", samples(90_000, 60_000), sample.Usage{}, miss("page-faults", 26, 0), StoreBuffer, 60},
		{"slow ones", samples(900_000, 10_000), sample.Usage{User: 300, System: 300, Minor: 40}, miss("page-faults", 26, 10), PageFault, unbounded},
		{"slow ones elsewhere", samples(900_000, 10_000), sample.Usage{User: 300, System: 300, Minor: 4000}, miss("page-faults", 26, 0), StoreBuffer, 60},
	} {
		e := (&scene{model: "amd-zen5", code: code, runs: loop, samples: tt.samples, others: tt.others, used: tt.used}).explain(t)
		s := &e.Insts[firstInst].Stall
		if len(s.Culprits) == 0 || s.Culprits[0].Cause != tt.first {
			t.Errorf("%s: %v, want %s first", tt.name, s.Culprits, tt.first)
		}
		for _, c := range s.Culprits {
			if c.Cause == PageFault && c.Most > tt.most*(1+1e-9) {
				t.Errorf("%s: page faults explain up to %g cycles, want %g", tt.name, c.Most, tt.most)
			}
		}
	}
}

// TestFirstTouch: a loop that steps by a page and has samples at its store faults at it, however long the kernel is on its
// way back with interrupts off; with samples after it alone, or where what is just before the store is slow, it may wait for others.
func TestFirstTouch(t *testing.T) {
	const (
		touch = before + "c60701 4881c700100000 ffc9 75f2 c3"        // 1: movb $1,(%rdi); add $0x1000,%rdi; dec %ecx; jne 1b; ret
		small = before + "c60701 4881c700020000 ffc9 75f2 c3"        // the same, by 512 bytes
		load  = before + "488b16 c60701 4881c700100000 ffc9 75ef c3" // 1: mov (%rsi),%rdx; movb $1,(%rdi); ...
	)
	loop := func(b int) float64 { return []float64{1, 1000, 1}[b] }
	unknown := sample.Usage{}
	for _, tt := range []struct {
		name      string
		code      string
		store     int // instruction after before
		at, after uint64
		lost      uint64
		used      sample.Usage
		first     bool // page faults are the likeliest of most of the time
	}{
		{"as on Zen 3", touch, 0, 330_000, 270_000, 0, unknown, true},
		{"as on Cascade Lake", touch, 0, 430_000, 130_000, 0, unknown, true},
		{"by few samples", touch, 0, 520_000, 90_000, 0, unknown, true},
		{"the same, the kernel having little to do", touch, 0, 520_000, 90_000, 10_000, unknown, false},
		{"no turn faults", touch, 0, 10_000, 600_000, 0, unknown, false},
		{"samples before it alone", touch, 0, 600_000, 10_000, 0, unknown, false},
		{"the same, the kernel being as long", touch, 0, 600_000, 10_000, 590_000, unknown, true},
		{"the same, by what the command used", touch, 0, 600_000_000, 10_000_000, 0, sample.Usage{User: 200_000, System: 200_000, Minor: 25_000}, true}, // 3 GHz are taken
		{"of which the kernel had little", touch, 0, 600_000_000, 10_000_000, 0, sample.Usage{User: 200_000, System: 50_000, Minor: 25_000}, false},
		{"which faulted less", touch, 0, 600_000_000, 10_000_000, 0, sample.Usage{User: 200_000, System: 200_000, Minor: 2_000}, false},
		{"few turns fault", small, 0, 430_000, 130_000, 0, unknown, false},
		{"behind a load", load, 1, 520_000, 90_000, 0, unknown, false},
	} {
		e := (&scene{model: "amd-zen5", code: tt.code, runs: loop, samples: map[int]uint64{firstInst + tt.store: tt.at, firstInst + tt.store + 1: tt.after}, lost: tt.lost, used: tt.used}).explain(t)
		if share := e.Likeliest[PageFault] / e.Dynamic; share >= 0.5 != tt.first {
			t.Errorf("%s: page faults are likeliest for %.0f %% of the stalls", tt.name, 100*share)
		}
	}
}

// TestFaultsNear: an access that walks always saw at the same page does not fault, whatever samples look like.
func TestFaultsNear(t *testing.T) {
	const touch = before + "c60701 4881c700100000 ffc9 75f2 c3" // as in TestFirstTouch
	loop := func(b int) float64 { return []float64{1, 1000, 1}[b] }
	for near, first := range map[uint64]bool{0: true, 100_000: false} {
		e := (&scene{model: "amd-zen5", code: touch, runs: loop, samples: map[int]uint64{firstInst: 600_000, firstInst + 1: 10_000}, lost: 590_000, near: map[int]uint64{firstInst: near}}).explain(t)
		if share := e.Likeliest[PageFault] / e.Dynamic; share >= 0.5 != first {
			t.Errorf("near %d times: page faults are likeliest for %.0f %% of the stalls", near, 100*share)
		}
		for _, in := range e.Insts {
			for _, c := range in.Stall.Culprits {
				if math.IsNaN(c.weight) {
					t.Errorf("near %d times: %s of %#x weighs nothing known", near, c.Cause, in.Addr)
				}
			}
		}
	}
}
