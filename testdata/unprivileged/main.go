//go:build linux

// Unprivileged measures what recording by ptrace is worth: it records a program by perf events and, as user 65534 under
// a filter of system calls that refuses perf_event_open and bpf, by ptrace, and compares.
//
//	go run ./testdata/unprivileged [-rounds N] [-F HZ] -- CMD ARG...
//
// Each round runs CMD four times: alone, twice with perf events, once with ptrace. It needs root, to become that user.
// README.md has figures.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "unprivileged:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 2 {
		switch args[0] {
		case "confined": // CMD ARG...
			return confined(args[1:])
		case "timed": // FILE CMD ARG...
			return timed(args[1], args[2:])
		}
	}
	fs := flag.NewFlagSet("unprivileged", flag.ContinueOnError)
	rounds := fs.Int("rounds", 5, "run the command four times in each of `n` rounds")
	hz := fs.Int("F", 997, "take `n` samples per second of processor time")
	share := fs.String("max-cpu", "5%", "as of backfeed record")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 || os.Geteuid() != 0 {
		return errors.New("want root, and a command")
	}
	m, err := newMeasurement(fs.Args(), *hz, *share)
	if err != nil {
		return err
	}
	defer os.RemoveAll(m.dir)
	for i := range *rounds {
		if err := m.round(i); err != nil {
			return err
		}
	}
	return m.report()
}

// A measurement has what was recorded, by the way: "perf A", "perf B", "ptrace".
type measurement struct {
	command        []string
	hz             int
	share          string
	dir            string // that user 65534 can write to
	self, backfeed string
	took           map[string][]taken
	said           string // by backfeed, of ptrace
}

// A taken is the time of a run.
type taken struct {
	Wall, CPU time.Duration // of the command
	own       time.Duration // processor time of backfeed
}

var ways = []string{"alone", "perf A", "ptrace", "perf B"}

func newMeasurement(command []string, hz int, share string) (*measurement, error) {
	m := &measurement{command: command, hz: hz, share: share, took: map[string][]taken{}}
	var err error
	if m.dir, err = os.MkdirTemp("", "unprivileged-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(m.dir, 0o777); err != nil {
		return nil, err
	}
	m.self, m.backfeed = filepath.Join(m.dir, "unprivileged"), filepath.Join(m.dir, "backfeed")
	for exe, pkg := range map[string]string{m.self: "./testdata/unprivileged", m.backfeed: "./cmd/backfeed"} {
		build := exec.Command("go", "build", "-o", exe, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
	}
	return m, nil
}

func (m *measurement) file(way string, i int) string {
	return filepath.Join(m.dir, fmt.Sprintf("%s-%d.bfr", strings.ReplaceAll(way, " ", "-"), i))
}

// round runs the command once in each way, in another order each time.
func (m *measurement) round(i int) error {
	for _, k := range rand.Perm(len(ways)) {
		way := ways[k]
		times := filepath.Join(m.dir, "times")
		command := append([]string{m.self, "timed", times}, m.command...)
		record := append([]string{m.backfeed, "record", "-F", strconv.Itoa(m.hz), "-o", m.file(way, i)}, "--event", "cpu-clock", "--")
		switch way {
		case "perf A", "perf B":
			command = append(record, command...)
		case "ptrace":
			record = slices.DeleteFunc(record, func(s string) bool { return s == "--event" || s == "cpu-clock" })
			record = slices.Insert(record, len(record)-1, "--max-cpu", m.share)
			command = slices.Concat([]string{m.self, "confined"}, record, command)
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = m.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %v: %w: %s", way, command, err, &said)
		}
		if way == "ptrace" {
			m.said = said.String()
		}
		b, err := os.ReadFile(times)
		if err != nil {
			return err
		}
		var t taken
		if err := json.Unmarshal(b, &t); err != nil {
			return err
		}
		t.own = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() - t.CPU
		m.took[way] = append(m.took[way], t)
	}
	return nil
}

// confined becomes a program to which the kernel refuses perf_event_open and bpf, as containers do by default.
func confined(args []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: unix.SYS_PERF_EVENT_OPEN},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_BPF},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                      // SECCOMP_RET_ALLOW
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.EPERM)}, // SECCOMP_RET_ERRNO
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return err
	}
	return unix.Exec(args[0], args, os.Environ())
}

// timed runs a command and writes how long it took.
func timed(file string, args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return err
	}
	b, err := json.Marshal(taken{Wall: time.Since(start), CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()})
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o666)
}

// report compares.
func (m *measurement) report() error {
	fmt.Printf("%s\n%s\n", strings.Join(m.command, " "), m.said)
	alone := m.took["alone"]
	fmt.Println("way      processor time  change   wall    change  backfeed's own   (medians of the rounds)")
	for _, way := range ways {
		var cpu, wall, own, moreCPU, moreWall []float64
		for i, t := range m.took[way] {
			cpu, wall, own = append(cpu, t.CPU.Seconds()), append(wall, t.Wall.Seconds()), append(own, t.own.Seconds())
			moreCPU = append(moreCPU, 100*(t.CPU.Seconds()/alone[i].CPU.Seconds()-1))
			moreWall = append(moreWall, 100*(t.Wall.Seconds()/alone[i].Wall.Seconds()-1))
		}
		fmt.Printf("%-8s %9.3f s    %+6.1f %%  %6.3f s %+6.1f %%  %6.3f s\n", way, median(cpu), median(moreCPU), median(wall), median(moreWall), median(own))
	}
	all := map[string]*recorded{}
	fewest := uint64(math.MaxUint64)
	for _, way := range ways[1:] {
		r, err := m.recorded(way, math.MaxUint64)
		if err != nil {
			return err
		}
		fewest = min(fewest, r.samples)
	}
	for _, way := range ways[1:] { // of about as many samples
		r, err := m.recorded(way, fewest)
		if err != nil {
			return err
		}
		all[way] = r
		fmt.Printf("%s: %d samples in user mode, %d lost (%d in the kernel)\n", way, r.samples, r.lost, r.kernel)
	}
	fewest = min(all["perf A"].samples, all["perf B"].samples, all["ptrace"].samples)
	fmt.Printf("overlap of %d samples of each; of blocks, of all these:\n", fewest)
	for _, pair := range [][2]string{{"perf A", "perf B"}, {"ptrace", "perf A"}, {"ptrace", "perf B"}} {
		a, b := all[pair[0]], all[pair[1]]
		fmt.Printf("%s and %s: instructions %.3f, functions %.3f, blocks as inferred %.3f\n", pair[0], pair[1],
			overlap(thinned(a.instructions, fewest), thinned(b.instructions, fewest)), overlap(thinned(a.functions, fewest), thinned(b.functions, fewest)), overlap(a.blocks, b.blocks))
	}
	both := merged(all["perf A"].functions, all["perf B"].functions)
	fmt.Println("largest differences of shares, in percent of all samples: ptrace less perf, and perf A less B")
	functions := slices.SortedFunc(maps.Keys(merged(both, all["ptrace"].functions)), func(f, g string) int {
		return cmp.Compare(math.Abs(differs(g, all["ptrace"].functions, both)), math.Abs(differs(f, all["ptrace"].functions, both)))
	})
	for _, f := range functions[:min(8, len(functions))] {
		fmt.Printf("%+6.1f %+6.1f  of %5.1f  %s\n", differs(f, all["ptrace"].functions, both), differs(f, all["perf A"].functions, all["perf B"].functions), 100*both[f]/total(both), f)
	}
	return nil
}

func merged(a, b map[string]float64) map[string]float64 {
	sum := maps.Clone(a)
	for f, n := range b {
		sum[f] += n
	}
	return sum
}

// differs is by how much the shares of a function differ, in percent of all samples.
func differs(f string, a, b map[string]float64) float64 { return 100 * (a[f]/total(a) - b[f]/total(b)) }

func total(h map[string]float64) (n float64) {
	for _, v := range h {
		n += v
	}
	return n
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// A recorded is what was recorded in one way.
type recorded struct {
	samples, lost, kernel           uint64
	instructions, functions, blocks map[string]float64
}

// recorded adds up the runs of one way until there are enough samples.
func (m *measurement) recorded(way string, enough uint64) (*recorded, error) {
	r := &recorded{instructions: map[string]float64{}, functions: map[string]float64{}, blocks: map[string]float64{}}
	args := []string{"infer", "--format", "json"}
	for i := range m.took[way] {
		if r.samples >= enough {
			break
		}
		args = append(args, m.file(way, i))
		b, err := os.ReadFile(m.file(way, i))
		if err != nil {
			return nil, err
		}
		rec, err := sample.Decode(b)
		if err != nil {
			return nil, err
		}
		for _, c := range rec.Counts {
			for _, im := range c.Images {
				for off, n := range im.At {
					r.instructions[fmt.Sprintf("%s+%#x", im.ID, off)] += float64(n)
					r.samples += n
				}
			}
			for why, n := range c.Lost {
				r.lost += n
				if why == sample.LostKernel {
					r.kernel += n
				}
			}
		}
	}
	out, err := exec.Command(m.backfeed, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	var doc struct {
		Images []struct {
			Path  string
			Procs []struct {
				Name    string
				Samples float64
				Blocks  []struct {
					Addr  string
					Count float64
				}
			}
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, err
	}
	for _, im := range doc.Images {
		for _, p := range im.Procs {
			r.functions[im.Path+" "+p.Name] += p.Samples
			for _, b := range p.Blocks {
				r.blocks[im.Path+" "+b.Addr] += b.Count
			}
		}
	}
	return r, nil
}

// thinned returns n of the samples, chosen at random.
func thinned(h map[string]float64, n uint64) map[string]float64 {
	var all []string
	for at, times := range h {
		for range int(times) {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	some := map[string]float64{}
	for _, at := range all[:n] {
		some[at]++
	}
	return some
}

// overlap is the sum over all places of the smaller of the two shares: 1 if they are equal.
func overlap(a, b map[string]float64) (sum float64) {
	all, of := total(a), total(b)
	for at, n := range a {
		sum += min(n/all, b[at]/of)
	}
	return sum
}
