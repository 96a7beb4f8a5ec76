//go:build amd64 || arm64

package collect

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"backfeed/sample"
	"backfeed/sample/probe"
)

// Programs that are probed, and what tests find out of them.

// The layout of testdata/sites.h: sites and, among them, conditional branches, by GOARCH; and rounds after
// which all combinations of flags have been.
var (
	stretchSites    = map[string]int{"amd64": 44, "arm64": 26}[runtime.GOARCH]
	stretchBranches = map[string]int{"amd64": 32, "arm64": 22}[runtime.GOARCH]
)

const stretchFlags = 32

// stretchCond returns the condition of one of the branches.
func stretchCond(i int) int8 {
	if i >= 14 && runtime.GOARCH == "arm64" {
		return []int8{probe.CondZero, probe.CondNotZero, probe.CondZero, probe.CondNotZero, probe.CondClear, probe.CondSet, probe.CondClear, probe.CondSet}[i-14]
	}
	return int8(i % 16)
}

// offsetOf returns the offset in a file of what is linked at an address.
func offsetOf(f *elf.File, addr uint64) (sample.Offset, error) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return sample.Offset(addr - p.Vaddr + p.Off), nil
		}
	}
	return 0, fmt.Errorf("address %#x is in no segment", addr)
}

// symbolsOf returns the offset of what has a name in a file.
func symbolsOf(file string) (map[string]sample.Offset, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	at := map[string]sample.Offset{}
	for _, s := range symbols {
		if off, err := offsetOf(f, s.Value); err == nil {
			at[s.Name] = off
		}
	}
	return at, nil
}

// stretchSitesOf returns the sites of a file that has testdata/sites.c.
func stretchSitesOf(file string) ([]probe.Site, error) {
	at, err := symbolsOf(file)
	if err != nil {
		return nil, err
	}
	sites := make([]probe.Site, stretchSites)
	for i := range sites {
		off, ok := at[fmt.Sprintf("site_%d", i)]
		if !ok {
			return nil, fmt.Errorf("%s has no site %d", file, i)
		}
		sites[i] = probe.Site{Off: off, Cond: probe.NoCond}
		if i < stretchBranches {
			sites[i].Cond = stretchCond(i)
		}
	}
	return sites, nil
}

// An instruction is a line of a listing.
type instruction struct {
	addr   uint64
	code   []byte
	line   string // "file.go:12"; "" if unknown
	target uint64 // of a jump; 0 if it has none, or is unknown
}

// listing returns the instructions of those functions of a file that match. By binutils:
// go tool objdump does not know all instructions, and goes on in the middle of them.
func listing(t *testing.T, file string, functions *regexp.Regexp) (list []instruction) {
	t.Helper()
	matches := false
	for line := range strings.Lines(disassembly(t, file)) {
		// "00000000000011c0 <hash>:" and "    11d4:\t73 07   \tjae    11dd <hash+0x1d>"
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), ">:"); ok {
			_, name, _ = strings.Cut(name, " <")
			matches = functions.MatchString(name)
		}
		if f := strings.Split(line, "\t"); matches && len(f) > 2 {
			i := instruction{}
			i.addr, _ = strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(f[0]), ":"), 16, 64)
			i.code, _ = hex.DecodeString(strings.ReplaceAll(f[1], " ", ""))
			list = append(list, i)
		}
	}
	return list
}

// goListing returns those of one function of a Go program, with lines.
func goListing(t *testing.T, file, function string) (list []instruction) {
	t.Helper()
	for line := range strings.Lines(goDisassembly(t, file, function)) {
		f := strings.Fields(line) // "unit.go:12 0x4a55ea 7307 JAE 0x4a5622"
		if len(f) < 4 || !strings.Contains(f[0], ".go:") {
			continue
		}
		i := instruction{line: f[0]}
		i.addr, _ = strconv.ParseUint(f[1], 0, 64)
		i.code, _ = hex.DecodeString(f[2])
		i.target, _ = strconv.ParseUint(f[len(f)-1], 0, 64)
		list = append(list, i)
	}
	return list
}

// condOf returns the condition of a conditional branch.
func condOf(code []byte) int8 {
	k, err := probe.Host.KindOf(code)
	if err != nil {
		return probe.NoCond
	}
	return probe.Host.Kinds[k].Condition(code)
}

// allSites returns the sites of those instructions in a listing that may be probed.
func allSites(t *testing.T, p *Prober, file string, list []instruction) (sites []probe.Site) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, i := range list {
		off, err := offsetOf(f, i.addr)
		if err == nil && p.Allows(i.code, condOf(i.code)) == nil {
			sites = append(sites, probe.Site{Off: off, Cond: condOf(i.code)})
		}
	}
	if len(sites) < probe.MaxSites {
		t.Fatalf("%s: %d sites in %d instructions", file, len(sites), len(list))
	}
	return sites
}

// choose returns some of the sites.
func choose(sites []probe.Site, n int) []probe.Site {
	some := make([]probe.Site, n)
	for i, k := range rand.Perm(len(sites))[:n] {
		some[i] = sites[k]
	}
	return some
}

// A talker is a program that answers a line with a line.
type talker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func talk(t *testing.T, exe string, args ...string) *talker {
	t.Helper()
	return talkTo(t, exec.Command(exe, args...))
}

func talkTo(t *testing.T, cmd *exec.Cmd) *talker {
	t.Helper()
	p := &talker{t: t, cmd: cmd}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill(); p.cmd.Wait() })
	return p
}

func (p *talker) pid() int { return p.cmd.Process.Pid }

func (p *talker) say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *talker) hear() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%v: %q, %v", p.cmd.Args, line, err)
	}
	return strings.TrimSpace(line)
}

// numbers are those of the next line.
func (p *talker) numbers() (n []uint64) {
	p.t.Helper()
	for word := range strings.FieldsSeq(p.hear()) {
		v, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			p.t.Fatalf("%v: %v", p.cmd.Args, err)
		}
		n = append(n, v)
	}
	return n
}

// window is what the prober of s tells of its last window.
func (s *System) window(t *testing.T) (w probeWindow) {
	t.Helper()
	if err := s.sampler.bpf.Windows.Lookup(uint32(0), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// stretch has programs do as many rounds while sites are armed in a file. A program says
// when it began and ended: that is all in the window, or it is done again, and shorter. So is a window that was over before this
// was on a processor again.
// What it returns is the sum of the other numbers that programs said.
func stretch(t *testing.T, s *System, p *Prober, file string, sites []probe.Site, pid, rounds int, programs ...*talker) (*probe.Window, []uint64) {
	t.Helper()
again:
	for {
		before := s.window(t).Number
		done := make(chan error, 1)
		var w *probe.Window
		go func() (err error) {
			defer func() { done <- err }()
			w, err = p.Window(file, sites, pid, maxWindow)
			return err
		}()
		for open := false; !open; {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				continue again
			case <-time.After(50 * time.Microsecond):
				now := s.window(t)
				open = now.Number != before && now.Open != 0
			}
		}
		for _, p := range programs {
			p.say(fmt.Sprint(rounds))
		}
		begin, end := ^uint64(0), uint64(0)
		var sum []uint64
		for _, p := range programs {
			n := p.numbers()
			begin, end = min(begin, n[0]), max(end, n[1])
			sum = append(sum, make([]uint64, len(n)-2-len(sum))...)
			for i, v := range n[2:] {
				sum[i] += v
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		now := s.window(t)
		if now.Opened <= begin && end <= now.Closed {
			return w, sum
		}
		if rounds <= stretchFlags {
			t.Skipf("this machine is too busy: %d rounds take longer than a window of %v", rounds, maxWindow)
		}
		rounds = max(rounds/2/stretchFlags, 1) * stretchFlags
	}
}

// A textRange is code of a process that is of a file.
type textRange struct {
	start, size, off uint64
}

// textOf returns where a process has the code of a file.
func textOf(t *testing.T, pid int, file string) (text []textRange) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		f := strings.Fields(in.Text())
		if len(f) < 6 || f[5] != file || f[1] != "r-xp" {
			continue
		}
		var r textRange
		var end uint64
		if _, err := fmt.Sscanf(f[0]+" "+f[2], "%x-%x %x", &r.start, &end, &r.off); err != nil {
			t.Fatal(err)
		}
		r.size = end - r.start
		text = append(text, r)
	}
	if len(text) == 0 {
		t.Fatalf("process %d has no code of %s", pid, file)
	}
	return text
}

// breakpoint is as long as what the kernel puts in the place of an instruction.
var breakpoint = map[string][]byte{"amd64": {0xcc}, "arm64": {0, 0, 0x20, 0xd4}}[runtime.GOARCH]

// changed returns at how many places the code of a file is another one in a process: those
// where breakpoints are.
func changed(t *testing.T, pid int, file string) (n int) {
	t.Helper()
	image, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for _, r := range textOf(t, pid, file) {
		want := image[r.off:min(r.off+r.size, uint64(len(image)))]
		got := make([]byte, len(want))
		if _, err := mem.ReadAt(got, int64(r.start)); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(got, want) {
			continue
		}
		for i := 0; i < len(got); i += len(breakpoint) {
			if !bytes.Equal(got[i:min(i+len(breakpoint), len(got))], want[i:min(i+len(breakpoint), len(got))]) {
				n++
			}
		}
	}
	return n
}

// untouched reports whether a process has no page of its own of the code of a file: no
// breakpoint was ever in it.
func untouched(t *testing.T, pid int, file string) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	text, ok := textOf(t, pid, file), false
	for line := range strings.Lines(string(b)) {
		if start, _, is := strings.Cut(line, "-"); is && strings.Contains(line, " r-xp ") {
			at, _ := strconv.ParseUint(start, 16, 64)
			ok = at == text[0].start
		} else if rest, is := strings.CutPrefix(line, "Anonymous:"); ok && is {
			return strings.TrimSpace(rest) == "0 kB"
		}
	}
	t.Fatalf("process %d: smaps have no code of %s", pid, file)
	return false
}
