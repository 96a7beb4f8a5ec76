package image

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/trace"
)

// A stepped is a program that runs one instruction at a time, and what a Machine makes of it.
type stepped struct {
	t     testing.TB
	pid   int
	mem   *os.File
	code  *trace.Code
	space trace.Space
	raw   [16384]byte // of rawVectors
}

// Read reads the program's memory.
func (s *stepped) Read(addr uint64, p []byte) bool {
	n, err := s.mem.ReadAt(p, int64(addr))
	return err == nil && n == len(p)
}

// stepThrough starts a program, lets it run for some time and stops it. The thread of the test goes on with it.
func stepThrough(t testing.TB, after time.Duration, program string, args ...string) *stepped {
	t.Helper()
	file, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // until the test ends: ptrace is by thread
	cmd := exec.Command(file, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &stepped{t: t, pid: cmd.Process.Pid}
	t.Cleanup(func() { syscall.Kill(s.pid, syscall.SIGKILL); cmd.Wait() })
	s.wait()
	if after > 0 {
		s.stopSoon(after)
	}
	if s.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", s.pid), os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.mem.Close() })
	s.images()
	return s
}

// stopSoon stops the program after some time, at an instruction of its own.
func (s *stepped) stopSoon(after time.Duration) {
	for range 100 {
		if s.runFor(after); !s.inCall() {
			return
		}
		after = 5 * time.Millisecond
	}
	s.t.Skip("the program is always in system calls")
}

// runFor lets the program run for some time, with the signals that it gets.
func (s *stepped) runFor(d time.Duration) {
	syscall.PtraceCont(s.pid, 0)
	time.Sleep(d)
	syscall.Syscall(syscall.SYS_TGKILL, uintptr(s.pid), uintptr(s.pid), uintptr(syscall.SIGSTOP))
	for {
		switch sig := s.wait(); sig {
		case syscall.SIGSTOP:
			return
		case 0:
			s.t.Skip("the program ended too early")
		default:
			syscall.PtraceCont(s.pid, int(sig))
		}
	}
}

// inCall reports whether the program stopped in a system call, which it may have to make again.
func (s *stepped) inCall() bool {
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(s.pid, &r); err != nil {
		s.t.Fatal(err)
	}
	return int64(r.Orig_rax) >= 0
}

// wait waits for the program to stop; 0 is its end.
func (s *stepped) wait() syscall.Signal {
	s.t.Helper()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.pid, &status, 0, nil); err != nil {
		s.t.Fatal(err)
	}
	if !status.Stopped() {
		return 0
	}
	return status.StopSignal()
}

// images reads the code that is mapped.
func (s *stepped) images() {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", s.pid))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	var images []trace.Image
	ims := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi, off uint64
		var perms, dev, path string
		var inode int
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d %s", &lo, &hi, &perms, &off, &dev, &inode, &path); n < 7 || !strings.Contains(perms, "x") || path[0] != '/' {
			continue
		}
		i, ok := ims[path]
		im := mustOpen(s.t, path, Options{})
		if !ok {
			i = len(images)
			ims[path] = i
			images = append(images, machineImage(s.t, path, im))
		}
		s.space = append(s.space, trace.Place{Lo: lo, Hi: hi, Bias: lo - off, Image: i})
	}
	s.code = trace.NewCode(images)
	for i := range s.space {
		s.space[i].Bias -= s.code.Ranges[s.space[i].Image].Delta
	}
}

// machineImage returns the code of a file.
func machineImage(t testing.TB, path string, im *Image) trace.Image {
	var insts []trace.Inst
	for i := range im.Symbols() {
		if p, err := im.Proc(i); err == nil {
			insts = append(insts, im.WalkInsts(p)...)
		}
	}
	return trace.Image{ID: sample.ImageID{Path: path}, File: path, Procs: [][]trace.Inst{insts}}
}

// state returns that of the program, which is stopped.
func (s *stepped) state() *trace.State {
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(s.pid, &r); err != nil {
		s.t.Fatal(err)
	}
	st := &trace.State{PC: r.Rip, Flags: r.Eflags, FSBase: r.Fs_base, GSBase: r.Gs_base}
	st.Regs = [16]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}
	return st
}

// Requests of ptrace and what they are of, as in linux/ptrace.h and linux/elf.h.
const getregset, setregset, xstateNote = 0x4204, 0x4205, 0x202

// rawVectors returns the vector registers as XSAVE has them.
func (s *stepped) rawVectors() []byte {
	v := syscall.Iovec{Base: &s.raw[0], Len: uint64(len(s.raw))}
	if _, _, err := syscall.Syscall6(syscall.SYS_PTRACE, getregset, uintptr(s.pid), xstateNote, uintptr(unsafe.Pointer(&v)), 0, 0); err != 0 {
		s.t.Fatal(err)
	}
	return s.raw[:v.Len]
}

// vectors completes st.
func (s *stepped) vectors(st *trace.State) {
	if err := st.SetXState(s.rawVectors()); err != nil {
		s.t.Fatal(err)
	}
}

// stepOver has the program run one instruction, with all its repetitions; false where a signal comes.
func (s *stepped) stepOver(pc uint64) (*trace.State, bool) {
	for range 1 << 16 {
		if err := syscall.PtraceSingleStep(s.pid); err != nil {
			s.t.Fatal(err)
		}
		switch s.wait() {
		case syscall.SIGURG: // of Go's scheduler, which can do without
			continue
		case syscall.SIGTRAP:
		default:
			return nil, false
		}
		if st := s.state(); st.PC != pc || s.inst(pc)[0] != "rep" {
			return st, true
		}
	}
	return nil, false
}

// inst returns the instruction at pc: whether it is a repeated one, and its bytes.
func (s *stepped) inst(pc uint64) [2]string {
	var b [16]byte
	s.Read(pc, b[:])
	var d x86
	in := d.inst(b[:], 0)
	kind := ""
	if in.Class&Rep != 0 {
		kind = "rep"
	}
	return [2]string{kind, hex.EncodeToString(b[:in.Len])}
}

// compare goes with the program for so many instructions, and holds a Machine to each. Of a program with other
// threads, which write to its memory meanwhile, a few may differ, and system calls, which may wait, are run over.
func (s *stepped) compare(steps, mostWrong int) {
	t := s.t
	m := trace.NewMachine(s.code)
	ends := map[string]int{}
	walks, ran, regsKnown := 0, 0, 0
	var l *trace.Long
	st := s.state()
	s.vectors(st)
	wrong := 0
	for range steps {
		if l == nil {
			var err error
			if l, err = m.Start(st, s.space, s, trace.Limits{}); err != nil {
				t.Fatal(err)
			}
			walks++
		}
		pc := st.PC
		if mostWrong > 0 && s.inst(pc)[1] == "0f05" {
			s.stopSoon(5 * time.Millisecond)
			st, l = s.state(), nil
			s.vectors(st)
			continue
		}
		m.More(1)
		next, ok := s.stepOver(pc)
		if !ok {
			break
		}
		if l.End != trace.EndLength {
			ends[l.End.String()+": "+s.inst(pc)[1]]++
			l = nil
			s.vectors(next)
			st = next
			continue
		}
		ran++
		var now trace.State
		known := m.State(&now)
		v, vk := &now.Vectors, &known.Vectors
		var bad []string
		for i := range 16 {
			if known.Regs>>i&1 == 0 {
				continue
			}
			if regsKnown++; now.Regs[i] != next.Regs[i] {
				bad = append(bad, fmt.Sprintf("register %d is %#x, want %#x", i, now.Regs[i], next.Regs[i]))
			}
		}
		if l.Next != next.PC {
			bad = append(bad, fmt.Sprintf("goes on to %#x, want %#x", l.Next, next.PC))
		}
		if ran%16 == 0 {
			s.vectors(next)
			if known.MXCSR && now.MXCSR != next.MXCSR {
				bad = append(bad, fmt.Sprintf("since up to 15 before: MXCSR is %#x, want %#x", now.MXCSR, next.MXCSR))
			}
			for i := range 32 {
				for j := range int(next.Words) {
					if (i < 16 || next.Words == 8) && vk[i]>>j&1 != 0 && v[i][j] != next.Vectors[i][j] {
						bad = append(bad, fmt.Sprintf("since up to 15 before: word %d of vector register %d is %#x, want %#x", j, i, v[i][j], next.Vectors[i][j]))
					}
				}
			}
		}
		if st = next; len(bad) == 0 {
			continue
		}
		// A hypervisor emulates CPUID, and some then lose the trap of the step: the next instruction is stepped over as well.
		if s.inst(pc)[1] != "0fa2" || next.PC <= l.Next {
			wrong++
		}
		say := t.Logf
		if wrong > mostWrong {
			say = t.Fatalf
		}
		say("%#x: %s: %s", pc, s.inst(pc)[1], strings.Join(bad, "; "))
		s.vectors(next) // and begins anew
		l = nil
	}
	t.Logf("%d instructions in %d walks, %.2f of registers known", ran, walks, float64(regsKnown)/16/float64(max(1, ran)))
	var all []string
	for what, n := range ends {
		all = append(all, fmt.Sprintf("%7d %s", n, what))
	}
	slices.Sort(all)
	slices.Reverse(all)
	t.Logf("ends:\n%s", strings.Join(all[:min(len(all), 20)], "\n"))
}

// A steppedProgram is a program that is stopped after some time.
type steppedProgram struct {
	name    string
	after   time.Duration
	command []string
	threads bool // there are several
}

// steppedPrograms are programs that have been written, and compiled, by others.
func steppedPrograms(t testing.TB) []steppedProgram {
	var text strings.Builder
	for i := range 60000 {
		fmt.Fprintf(&text, "%d %x the quick brown fox %d\n", i, i*i*i, i%97)
	}
	dir := t.TempDir()
	input := testtool.Write(t, dir, "text", text.String())
	testtool.Need(t, "go")
	testtool.RunWith(t, dir, []string{"CGO_ENABLED=0"}, "go", "build", "-o", "busy", testtool.Write(t, dir, "busy.go", busyProgram))
	return []steppedProgram{
		{"dynamic loader", 0, []string{"true"}, false},
		{"bzip2", 60 * time.Millisecond, []string{"bzip2", "-c", input}, false},
		{"gzip", 60 * time.Millisecond, []string{"gzip", "-c", input}, false},
		{"xz", 60 * time.Millisecond, []string{"xz", "-T1", "-c", input}, false},
		{"sort", 5 * time.Millisecond, []string{"sort", input}, false},
		{"sqlite3", 300 * time.Millisecond, []string{"sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x+1 from c where x<3000000) select sum(x*x), count(distinct x%77), avg(x*0.5), group_concat(x) from c"}, false},
		{"awk", 300 * time.Millisecond, []string{"mawk", "BEGIN { for (i = 0; i < 1e9; i++) { s += sin(i) * exp(i / 1e9) + i / 7; a[i % 1000] = s \"x\" int(i % 77) } print s }"}, false},
		{"perl", 300 * time.Millisecond, []string{"perl", "-e", "for ($i = 0; $i < 1e9; $i++) { $h{$i % 977} .= \"x$i\" if $i % 3; $s += sqrt($i) * log($i + 1); }"}, false},
		{"python3", 500 * time.Millisecond, []string{"/usr/bin/python3", "-c", "import re\ns = 0.0\nfor i in range(10**9):\n d = {str(j): j / 3 for j in range(i % 50)}\n s += sum(sorted(d.values())) * len(re.sub('1+', 'x', ''.join(d)))"}, false},
		{"go", 300 * time.Millisecond, []string{filepath.Join(dir, "busy")}, true},
	}
}

// TestMachineSteps holds a Machine to what the processor does in programs that are stepped through.
func TestMachineSteps(t *testing.T) {
	testtool.Live(t, "steps through programs")
	for _, p := range steppedPrograms(t) {
		// Go's scheduler asks a thread that ran for 10 ms, which is 500 steps, to yield: it writes to what the thread
		// compares its stack with.
		steps, mostWrong := 30000, 0
		if p.threads {
			steps, mostWrong = 10000, 30
		}
		t.Run(p.name, func(t *testing.T) {
			stepThrough(t, p.after, testtool.Path(t, p.command[0]), p.command[1:]...).compare(steps, mostWrong)
		})
	}
}

// BenchmarkMachine is of walks through programs, their memory read anew each time.
func BenchmarkMachine(b *testing.B) {
	testtool.Live(b, "stops programs")
	for _, command := range steppedPrograms(b) {
		if command.after == 0 {
			continue
		}
		b.Run(command.name, func(b *testing.B) {
			s := stepThrough(b, command.after, testtool.Path(b, command.command[0]), command.command[1:]...)
			st := s.state()
			s.vectors(st)
			m := trace.NewMachine(s.code)
			steps, walks, pages := 0, 0, 0
			var end trace.End
			for b.Loop() {
				l, err := m.Run(st, s.space, s, trace.Limits{Steps: 200_000, Guesses: 20})
				if err != nil {
					b.Fatal(err)
				}
				steps, walks, pages, end = steps+l.Steps, walks+1, pages+l.Pages, l.End
			}
			b.ReportMetric(float64(steps)/b.Elapsed().Seconds()/1e6, "M-inst/s")
			b.ReportMetric(float64(steps)/float64(walks), "inst/walk")
			b.ReportMetric(float64(pages)/float64(walks), "pages/walk")
			b.Log(end)
		})
	}
}

// busyProgram keeps its first thread busy.
const busyProgram = `package main

import (
	"fmt"
	"math"
	"runtime"
	"sort"
	"strings"
)

func init() { runtime.LockOSThread() }

type shape interface{ area() float64 }
type square struct{ a float64 }
type circle struct{ r float64 }

func (s square) area() float64 { return s.a * s.a }
func (c circle) area() float64 { return math.Pi * c.r * c.r }

func main() {
	counts := map[string]int{}
	for i := 0; ; i++ {
		var sb strings.Builder
		for j := range i % 40 {
			fmt.Fprintf(&sb, "%d %x ", j, i*j)
		}
		for _, word := range strings.Fields(sb.String()) {
			counts[word]++
		}
		var shapes []shape
		for j := range 50 {
			if j*i%3 == 0 {
				shapes = append(shapes, square{float64(j)})
			} else {
				shapes = append(shapes, circle{math.Sqrt(float64(i % 1000))})
			}
		}
		sort.Slice(shapes, func(a, b int) bool { return shapes[a].area() < shapes[b].area() })
		if len(counts) > 5000 {
			clear(counts)
		}
	}
}
`
