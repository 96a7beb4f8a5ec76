//go:build amd64 || arm64

package collect

import (
	"bufio"
	goflag "flag" // flag is a function of this package
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// The tests of this file measure what a System costs and how well it sees, for
// minutes, with both processors busy. Times are told, not asserted: they depend
// on the machine and on what else it does. Run them where it does little:
//
//	go test -v -timeout 30m -run 'TestMeasure' ./sample/collect -measure
var measure = goflag.Bool("measure", false, "run the tests that measure cost and fidelity of a System, for minutes")

// measuring skips unless asked to measure, and tells how busy the machine is.
func measuring(t *testing.T, what string) {
	t.Helper()
	testtool.Live(t, "measures "+what)
	if !*measure {
		t.Skipf("measures %s; give -measure to run it", what)
	}
	t.Cleanup(func() { t.Logf("load average of the last minute: %s", loadAverage()) })
}

func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(b), " ")
	return load
}

// A workload is a program that runs beside the test.
type workload struct {
	t   *testing.T
	cmd *exec.Cmd
	out strings.Builder
}

func launch(t *testing.T, name string, args ...string) *workload {
	t.Helper()
	w := &workload{t: t, cmd: exec.Command(name, args...)}
	w.cmd.Stdout, w.cmd.Stderr = &w.out, os.Stderr
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.cmd.Process.Kill(); w.cmd.Wait() })
	return w
}

// end waits for the program to end, and returns the numbers it printed, by line.
func (w *workload) end() (lines [][]float64) {
	w.t.Helper()
	if err := w.cmd.Wait(); err != nil {
		w.t.Fatalf("%v: %v", w.cmd.Args, err)
	}
	for line := range strings.Lines(w.out.String()) {
		var numbers []float64
		for _, word := range strings.Fields(line) {
			n, err := strconv.ParseFloat(word, 64)
			if err != nil {
				w.t.Fatalf("%v printed %q", w.cmd.Args, line)
			}
			numbers = append(numbers, n)
		}
		lines = append(lines, numbers)
	}
	return lines
}

// median returns the median and its interval of confidence of 95 %, by ranks.
func median(values []float64) (mid, low, high float64) {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	n := float64(len(v))
	at := func(rank float64) float64 { return v[min(max(int(rank), 0), len(v)-1)] }
	return at(n / 2), at(n/2 - 0.98*math.Sqrt(n)), at(n/2 + 0.98*math.Sqrt(n))
}

// A switched sampler can be switched on and off while it runs.
type switched interface {
	on() error
	off() error
}

type noSampler struct{}

func (noSampler) on() error  { return nil }
func (noSampler) off() error { return nil }

// timer samples with the timers of a System.
type timer struct{ *System }

func (s timer) on() error  { return s.sampler.events.enable(0) }
func (s timer) off() error { return s.sampler.events.disable() }

// ticking samples with the tick of a System. Its program is the last attached.
type ticking struct{ *System }

func (s ticking) on() error { return s.sampler.attach(s.sampler.bpf.Tick) }

func (s ticking) off() error {
	links := s.sampler.links
	last := len(links) - 1
	err := links[last].Close()
	s.sampler.links = links[:last]
	return err
}

// bare is an empty program on a timer of each processor: what no sampler can
// cost less than.
type bare struct {
	program *ebpf.Program
	fds     []int
	links   []*link.RawLink
}

func openBare(t *testing.T, hz int) *bare {
	t.Helper()
	all, err := cpus()
	if err != nil {
		t.Fatal(err)
	}
	b := &bare{}
	b.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.PerfEvent, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		for i, fd := range b.fds {
			b.links[i].Close()
			unix.Close(fd)
		}
		b.program.Close()
	})
	// Just as a System's: what an event is to record, the kernel gathers even
	// where a program then wants none of it.
	like, clock := sampler{opt: SystemOptions{Frequency: hz}}, eventsFor(cpuClock)[0]
	for _, cpu := range all {
		fd, err := open(like.attr(&clock), -1, cpu)
		if err != nil {
			t.Fatal(err)
		}
		l, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: b.program, Attach: ebpf.AttachPerfEvent})
		if err != nil {
			t.Fatal(err)
		}
		b.fds, b.links = append(b.fds, fd), append(b.links, l)
	}
	return b
}

func (b *bare) on() error  { return ioctlAll(b.fds, unix.PERF_EVENT_IOC_ENABLE) }
func (b *bare) off() error { return ioctlAll(b.fds, unix.PERF_EVENT_IOC_DISABLE) }

// perfRecord is `perf record -a`, switched by its control file.
type perfRecord struct {
	control, ack *os.File
	answers      *bufio.Reader
}

func openPerf(t *testing.T, hz int) *perfRecord {
	t.Helper()
	dir := t.TempDir()
	p := &perfRecord{}
	for name, f := range map[string]**os.File{"control": &p.control, "ack": &p.ack} {
		path := filepath.Join(dir, name)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if *f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*f).Close() })
	}
	p.answers = bufio.NewReader(p.ack)
	w := launch(t, "perf", "record", "-q", "-a", "-B", "-N", "-e", cpuClock, "-F", fmt.Sprint(hz), "-D", "-1",
		"--control=fifo:"+p.control.Name()+","+p.ack.Name(), "-o", filepath.Join(dir, "perf.data"))
	t.Cleanup(func() { w.cmd.Process.Signal(os.Interrupt); w.cmd.Wait() })
	return p
}

func (p *perfRecord) on() error  { return p.tell("enable\n") }
func (p *perfRecord) off() error { return p.tell("disable\n") }

func (p *perfRecord) tell(what string) error {
	if _, err := io.WriteString(p.control, what); err != nil {
		return err
	}
	_, err := p.answers.ReadString('\n')
	return err
}

// TestMeasureStolen: the time that a sample takes from what runs, against that of
// an empty program on the same timer. Both take turns, so that a change of the
// machine meets both.
func TestMeasureStolen(t *testing.T) {
	measuring(t, "the time each sample steals, against an empty program")
	const hz, rounds = 4999, 10
	gap := program(t, "gap")
	cpu := fmt.Sprint(runtime.NumCPU() - 1)
	stolen := func(s switched) (us []float64) {
		if err := s.on(); err != nil {
			t.Fatal(err)
		}
		defer s.off()
		for _, line := range launch(t, gap, cpu, "1000").end() {
			us = append(us, line[0]/1e3)
		}
		return us
	}
	empty := openBare(t, hz)
	for _, tt := range []struct {
		name string
		opt  SystemOptions
	}{
		{"places", SystemOptions{Frequency: hz, Kernel: true, Events: []string{cpuClock}}},
		{"places and callers", SystemOptions{Frequency: hz, Kernel: true, Callers: CallersOfAll, Events: []string{cpuClock}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := system(t, tt.opt)
			ours := timer{s}
			if err := ours.off(); err != nil {
				t.Fatal(err)
			}
			var with, without, ratios []float64
			for range rounds {
				a, b := stolen(empty), stolen(ours)
				without, with = append(without, a...), append(with, b...)
				mid, _, _ := median(a)
				our, _, _ := median(b)
				ratios = append(ratios, our/mid)
				if _, err := s.Drain(); err != nil {
					t.Fatal(err)
				}
			}
			e, _, _ := median(without)
			o, _, _ := median(with)
			r, low, high := median(ratios)
			t.Logf("empty program %.2f us, ours %.2f us: %.3f times as much (target 1.10); by rounds %.3f (%.3f to %.3f)",
				e, o, o/e, r, low, high)
		})
	}
}

// slowdown returns how much longer units of work take while a sampler is on: of each
// pair of adjacent windows, one with it and one without, the ratio less 1, in
// percent. The samplers take turns, so that all meet the same machine.
func slowdown(t *testing.T, unit string, samplers []switched, pairs int) (percent [][]float64) {
	const window = 100 * time.Millisecond
	type span struct{ from, to uint64 }
	work := launch(t, unit, fmt.Sprint(runtime.NumCPU()-1))
	time.Sleep(200 * time.Millisecond)
	wait := func() span {
		from := monotonic()
		time.Sleep(window)
		return span{from, monotonic()}
	}
	windows := make([][][2]span, len(samplers)) // without, with
	for range pairs {
		for _, i := range rand.Perm(len(samplers)) {
			var pair [2]span
			first := rand.IntN(2) // at random: a drift of the machine has no side
			for _, on := range []int{first, 1 - first} {
				if on == 0 {
					pair[0] = wait()
					continue
				}
				if err := samplers[i].on(); err != nil {
					t.Fatal(err)
				}
				pair[1] = wait()
				if err := samplers[i].off(); err != nil {
					t.Fatal(err)
				}
			}
			windows[i] = append(windows[i], pair)
		}
	}
	work.cmd.Process.Signal(syscall.SIGTERM)
	units := work.end()
	var all []float64
	for _, u := range units {
		all = append(all, u[2])
	}
	typical, _, _ := median(all)
	mean := func(s span) float64 { // CPU time of the units that are all within s
		i := sort.Search(len(units), func(i int) bool { return units[i][0] >= float64(s.from) })
		var sum, n float64
		for ; i < len(units) && units[i][1] <= float64(s.to); i++ {
			// What takes half as long again met another program or another virtual
			// machine: no sample takes so long.
			if cpu := units[i][2]; cpu < 1.5*typical {
				sum += cpu
				n++
			}
		}
		return sum / n
	}
	for _, pairs := range windows {
		var ratios []float64
		for _, w := range pairs {
			if p := 100 * (mean(w[1])/mean(w[0]) - 1); !math.IsNaN(p) {
				ratios = append(ratios, p)
			}
		}
		percent = append(percent, ratios)
	}
	return percent
}

// TestMeasureSlowdown: how much longer a busy program takes while it is sampled.
func TestMeasureSlowdown(t *testing.T) {
	measuring(t, "the slowdown of a busy program at several rates")
	const pairs = 150
	type arm struct {
		name, target string
		switched
	}
	timed := func(hz int, callers CallersOf) timer {
		return timer{system(t, SystemOptions{Frequency: hz, Kernel: true, Callers: callers, Events: []string{cpuClock}})}
	}
	arms := []arm{
		{"nothing", "0, within 0.3", noSampler{}},
		{"tick", "0.2", ticking{system(t, SystemOptions{Tick: true})}},
		{"199 Hz", "0.8", timed(199, CallersOfNone)},
		{"997 Hz", "3.0, and that of perf and 0.5", timed(997, CallersOfNone)},
		{"997 Hz with callers", "none", timed(997, CallersOfAll)},
		{"997 Hz, empty program", "none", openBare(t, 997)},
	}
	if testtool.Has("perf") {
		arms = append(arms, arm{"997 Hz by perf record -a", "none", openPerf(t, 997)})
	}
	var samplers []switched
	for _, a := range arms {
		if err := a.off(); err != nil {
			t.Fatal(err)
		}
		samplers = append(samplers, a.switched)
	}
	for i, percent := range slowdown(t, program(t, "unit"), samplers, pairs) {
		mid, low, high := median(percent)
		t.Logf("%-25s slower by %+.2f %%, 95 %% CI %.2f to %.2f, %d pairs (target %s)",
			arms[i].name, mid, low, high, len(percent), arms[i].target)
	}
}

// TestMeasureCollector: the CPU time of this process while it drains 997 Hz once a
// second, and the memory of the maps at default settings.
func TestMeasureCollector(t *testing.T) {
	measuring(t, "the collector's CPU time and the maps' memory")
	const seconds = 30
	t.Run("memory", func(t *testing.T) {
		if n := system(t, SystemOptions{Kernel: true, Callers: CallersOfAll}).Counters().MapBytes; n == 0 || n > 12e6 {
			t.Errorf("the maps have %.2f MB, want at most 12", float64(n)/1e6)
		} else {
			t.Logf("the maps have %.2f MB (target 12)", float64(n)/1e6)
		}
	})
	for _, callers := range []CallersOf{CallersOfNone, CallersOfGo, CallersOfAll} {
		t.Run(fmt.Sprintf("callers %v", callers), func(t *testing.T) {
			spin(t, runtime.NumCPU())
			s := system(t, SystemOptions{Frequency: 997, Kernel: true, Callers: callers})
			from, began := cpuTime(), time.Now()
			for range seconds {
				time.Sleep(time.Second)
				if _, err := s.Drain(); err != nil {
					t.Fatal(err)
				}
			}
			used, took := cpuTime()-from, time.Since(began)
			t.Logf("%.3f %% of a processor (target 0.3); %d samples in %v, maps of %.2f MB", 100*used.Seconds()/took.Seconds(),
				s.Counters().All, took.Round(time.Millisecond), float64(s.Counters().MapBytes)/1e6)
		})
	}
}

// cpuTime is what this process has used, in user and kernel mode.
func cpuTime() time.Duration {
	var r unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestMeasureNothingLost: at the highest rate and with drains as often as can be,
// all samples are accounted for, to the last.
func TestMeasureNothingLost(t *testing.T) {
	measuring(t, "that samples add up at 9999 Hz with a drain each 8 ms")
	for _, tt := range []struct {
		name string
		opt  SystemOptions
		time time.Duration
		busy bool
	}{
		{"places", SystemOptions{Kernel: true}, time.Minute, true},
		{"callers", SystemOptions{Kernel: true, Callers: CallersOfAll}, 20 * time.Second, true},
		{"user samples", SystemOptions{}, 10 * time.Second, true},
		{"idle machine", SystemOptions{Kernel: true}, 10 * time.Second, false},
		{"one process", SystemOptions{PIDs: []int{os.Getpid()}}, 10 * time.Second, true},
		{"small maps", SystemOptions{Kernel: true, Drain: time.Millisecond}, 10 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.busy {
				spin(t, runtime.NumCPU())
			}
			tt.opt.Frequency = 9999
			s := system(t, tt.opt)
			rec := drains(t, s, 8*time.Millisecond, tt.time)
			c := s.Counters()
			t.Logf("%+v", c)
			checkCounters(t, c, rec)
			if c.Failed > 0 && tt.opt.Drain == 0 {
				t.Errorf("%d samples dropped: map full", c.Failed)
			}
			nominal := tt.time.Seconds() * float64(tt.opt.Frequency*runtime.NumCPU())
			t.Logf("%d samples, %.4f of nominal (target 0.99 on busy processors)", c.All, float64(c.All)/nominal)
		})
	}
}

// TestMeasurePhase: a program that is in step with a clock is sampled as often in
// each of its phases as they last.
func TestMeasurePhase(t *testing.T) {
	measuring(t, "the share of a phase of programs in step with the clock")
	const seconds = 60
	phase := program(t, "phase")
	for _, hz := range []int{DefaultSystemFrequency, 1000} {
		for _, us := range []string{"1000", "4000"} {
			t.Run(fmt.Sprintf("%d Hz, %s us", hz, us), func(t *testing.T) {
				s := system(t, SystemOptions{Frequency: hz})
				w := launch(t, phase, fmt.Sprint(runtime.NumCPU()-1), us, fmt.Sprint(seconds))
				rec := drains(t, s, time.Second, seconds*time.Second)
				truth := w.end()[0][0]
				at := samplesOf(t, rec, phase)
				n := float64(at["first"] + at["rest"])
				share := float64(at["first"]) / n
				// Of independent samples, the share has this error, one standard deviation.
				sigma := math.Sqrt(truth * (1 - truth) / n)
				t.Logf("share %.4f, truth %.4f, error %+.4f (target 0.02), of %.0f samples +-%.4f", share, truth, share-truth, n, sigma)
				if math.Abs(share-truth) > max(0.02, 4*sigma) {
					t.Errorf("the samples keep step with the program: %v", at)
				}
			})
		}
	}
}

// samplesOf returns the samples of the functions of exe.
func samplesOf(t *testing.T, rec *sample.Recording, exe string) map[string]uint64 {
	t.Helper()
	name, id := namer(t, exe), idOf(t, exe)
	at := map[string]uint64{}
	for _, c := range rec.Counts {
		for _, im := range c.Images {
			if im.ID.Build != id {
				continue
			}
			for off, n := range im.At {
				at[name(uint64(off))] += n
			}
		}
	}
	return at
}

// TestMeasureAttribution: nearly all user samples have a place in an image, those
// of processes that live for a millisecond too.
func TestMeasureAttribution(t *testing.T) {
	measuring(t, "how many samples of short processes have a place in an image")
	const duration = 20 * time.Second
	churn := program(t, "churn")
	compile := fmt.Sprintf("for f in %s %s; do while :; do gcc -O2 -c -o /dev/null $f; done & done; wait",
		"testdata/unit.c", "testdata/churn.c")
	for _, tt := range []struct {
		name    string
		command []string
	}{
		{"gcc loop", []string{"sh", "-c", compile}},
		{"500 processes a second", []string{churn, "500", fmt.Sprint(duration.Seconds())}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := system(t, SystemOptions{Frequency: 997})
			cmd := exec.Command(tt.command[0], tt.command[1:]...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			rec := drains(t, s, time.Second, duration)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			cmd.Wait()
			c := s.Counters()
			t.Logf("%+v", c)
			checkCounters(t, c, rec)
			var placed uint64
			for _, counts := range rec.Counts {
				placed += counts.Total
				for why, n := range counts.Lost {
					if why != sample.LostVDSO { // identified by the kernel
						placed -= n
					}
				}
			}
			share := float64(placed) / float64(c.User)
			t.Logf("%.4f %% of %d user samples have a place (target 99.9); %v; %d records lost",
				100*share, c.User, c.Unresolved, c.LostRecords)
			if share < 0.999 {
				t.Errorf("%.4f %% of user samples have a place, want 99.9", 100*share)
			}
		})
	}
}
