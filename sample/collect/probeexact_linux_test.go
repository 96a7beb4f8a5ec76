//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"backfeed/sample"
	"backfeed/sample/probe"
)

// trials is how often something is tried: once, or many times if asked to measure.
func trials(many int) int {
	if *measure {
		return many
	}
	return 1
}

// checkStretch holds a window on the sites of testdata/sites.c to what programs counted.
func checkStretch(t *testing.T, w *probe.Window, n []uint64) (hits uint64) {
	t.Helper()
	for i := range stretchSites {
		passed, taken := n[2*i], n[2*i+1]
		if passed == 0 || i < stretchBranches && taken == 0 {
			t.Errorf("site %d: passed %d times, taken %d: that tells nothing", i, passed, taken)
		}
		if w.Hits[i] != passed+taken || w.Taken[i] != taken {
			t.Errorf("site %d: %d hits, %d taken, want %d and %d", i, w.Hits[i], w.Taken[i], passed+taken, taken)
		}
		hits += passed + taken
	}
	return hits
}

// TestProbeCounts: what windows count of programs is what these counted themselves, for
// each condition with each combination of flags and for all other kinds of sites.
func TestProbeCounts(t *testing.T) {
	s := system(t, SystemOptions{Frequency: 97, Probes: true})
	p := prober(t, s)
	pie, fixed := program(t, "stretch"), program(t, "stretch-fixed")
	library := program(t, "libsites.so")
	linked := programs.In(t, filepath.Dir(library), "stretch-linked")
	for _, tt := range []struct {
		name, exe, file, what, n string
		programs                 int
	}{
		{"1 thread", pie, pie, "threads", "1", 1},
		{"2 threads", pie, pie, "threads", "2", 1},
		{"8 threads", pie, pie, "threads", "8", 1},
		{"at a fixed address", fixed, fixed, "threads", "2", 1},
		{"shared library", linked, library, "threads", "2", 1},
		{"3 processes", pie, pie, "threads", "2", 3},
		{"forks", pie, pie, "forks", "4", 1},
		{"execs", pie, pie, "execs", "4", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sites, err := stretchSitesOf(tt.file)
			if err != nil {
				t.Fatal(err)
			}
			var programs []*talker
			for range tt.programs {
				programs = append(programs, talk(t, tt.exe, tt.what, tt.n))
			}
			var hits uint64
			n := trials(20)
			for range n {
				w, counted := stretch(t, s, p, tt.file, sites, 0, 128, programs...)
				all := checkStretch(t, w, counted)
				if w.All != all {
					t.Errorf("%d hits in all, want %d", w.All, all)
				}
				hits += all
			}
			t.Logf("%d windows, %d hits", n, hits)
		})
	}
}

// TestProbeCountsOf: of several processes, only those asked for are counted, and those
// that they start; with a process ID, no other one is touched.
func TestProbeCountsOf(t *testing.T) {
	exe := program(t, "stretch")
	sites, err := stretchSitesOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"threads", "forks", "execs"} {
		t.Run(what, func(t *testing.T) {
			ours, other := talk(t, exe, what, "2"), talk(t, exe, "threads", "1")
			s := system(t, SystemOptions{Frequency: 97, Probes: true, PIDs: []int{ours.pid()}})
			p := prober(t, s)
			var want []uint64
			w, sum := stretch(t, s, p, exe, sites, 0, 64, ours, other)
			all := uint64(0)
			for _, n := range sum {
				all += n
				want = append(want, n/3*2) // of three threads, two are ours
			}
			if checkStretch(t, w, want); w.All != all {
				t.Errorf("%d hits in all, want %d", w.All, all)
			}
			if what == "execs" {
				return // the kernel arms in the process that there was
			}
			other = talk(t, exe, "threads", "1")
			w, sum = stretch(t, s, p, exe, sites, ours.pid(), 64, ours)
			if what == "threads" {
				checkStretch(t, w, sum)
			}
			if !untouched(t, other.pid(), exe) {
				t.Error("a process was armed that was not asked for")
			}
		})
	}
}

// TestProbeCountsGo: the same of a Go program with four goroutines.
func TestProbeCountsGo(t *testing.T) {
	exe := program(t, "goroutines")
	s := system(t, SystemOptions{Frequency: 97, Probes: true})
	p := prober(t, s)
	source, err := os.ReadFile("testdata/goroutines.go")
	if err != nil {
		t.Fatal(err)
	}
	list := goListing(t, exe, "main.count")
	lines := strings.Split(string(source), "\n")
	lineOf := func(i instruction) string {
		var n int
		if _, err := fmt.Sscanf(i.line, "goroutines.go:%d", &n); err != nil || n < 1 || n > len(lines) {
			return ""
		}
		return lines[n-1]
	}
	const branches = 4
	sites, held := make([]probe.Site, branches), make([]bool, branches) // held: the branch is taken where the condition holds
	for _, i := range list {
		var b int
		_, comment, _ := strings.Cut(lineOf(i), "// branch ")
		if _, err := fmt.Sscan(comment, &b); err != nil || condOf(i.code) == probe.NoCond {
			continue
		}
		f := slices.IndexFunc(list, func(to instruction) bool { return to.addr == i.target })
		if f < 0 || sites[b].Off != 0 {
			t.Skipf("this compiler makes something else of the branches: %+v", i)
		}
		off, err := symbolsOf(exe)
		if err != nil {
			t.Fatal(err)
		}
		sites[b] = probe.Site{Off: off["main.count"] + sample.Offset(i.addr-list[0].addr), Cond: condOf(i.code)}
		held[b] = strings.HasSuffix(lineOf(list[f]), "// held")
	}
	program := talk(t, exe, "count", "4")
	for range trials(20) {
		w, n := stretch(t, s, p, exe, sites, 0, 6400, program)
		t.Logf("%d hits", w.All)
		for b := range branches {
			taken, not := n[2*b], n[2*b+1]
			if !held[b] {
				taken, not = not, taken
			}
			if w.Hits[b] != taken+not || w.Taken[b] != taken || taken == 0 || not == 0 {
				t.Errorf("branch %d: %d hits, %d taken, want %d and %d", b, w.Hits[b], w.Taken[b], taken+not, taken)
			}
		}
	}
}

// refusedFiles makes files of kinds that probes cannot be in: what is not a program, and what is
// of another processor or cut off at an offset.
func refusedFiles(t *testing.T, dir, exe string, cut sample.Offset) map[string]string {
	t.Helper()
	files := map[string]string{}
	image, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"text":  slices.Repeat([]byte{0x74, 0x00}, 1<<20),
		"short": image[:cut],
		"other": slices.Concat(image[:18], []byte{243, 0}, image[20:]), // RISC-V
		"empty": nil,
	} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	files["pipe"] = filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(files["pipe"], 0o600); err != nil {
		t.Fatal(err)
	}
	return files
}

// TestProbeRefusals: what may not be probed is refused, and nothing is armed then.
func TestProbeRefusals(t *testing.T) {
	s := system(t, SystemOptions{Frequency: 97, Probes: true})
	p := prober(t, s)
	exe := program(t, "stretch")
	sites, err := stretchSitesOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	at, err := symbolsOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	program := talk(t, exe, "threads", "1")
	program.say("32")
	program.numbers() // it is there, with all its libraries
	good := sites[:4:4]
	with := func(more ...probe.Site) []probe.Site { return append(good, more...) }
	dir := t.TempDir()
	files := refusedFiles(t, dir, exe, good[3].Off)
	many := slices.Concat(sites, sites)[:probe.MaxSites+1]
	for _, tt := range []struct {
		name, file string
		sites      []probe.Site
		length     time.Duration
		want       string
	}{
		{"nop of 5 bytes, or a branch to a register", exe, with(probe.Site{Off: at["nop5"] + at["register"], Cond: probe.NoCond}), time.Millisecond, "not of a kind"},
		{"stepped", exe, with(probe.Site{Off: at["stepped"], Cond: probe.NoCond}), time.Millisecond, "not of a kind"},
		{"inside an instruction", exe, with(probe.Site{Off: at["site_16"] + 2, Cond: probe.NoCond}), time.Millisecond, "not of a kind"},
		{"other condition", exe, with(probe.Site{Off: at["site_7"], Cond: 6}), time.Millisecond, "condition 6, but the code has 7"},
		{"no condition", exe, with(probe.Site{Off: at["site_7"], Cond: probe.NoCond}), time.Millisecond, "condition -1"},
		{"not in code", exe, with(probe.Site{Off: 16, Cond: probe.NoCond}), time.Millisecond, "not in code"},
		{"beyond the file", exe, with(probe.Site{Off: 1 << 40, Cond: probe.NoCond}), time.Millisecond, "not in code"},
		{"negative", exe, with(probe.Site{Off: ^sample.Offset(0), Cond: probe.NoCond}), time.Millisecond, "not in code"},
		{"twice", exe, with(good[2]), time.Millisecond, "twice"},
		{"none", exe, nil, time.Millisecond, "0 sites"},
		{"too many", exe, many, time.Millisecond, "51 sites"},
		{"too long", exe, good, maxWindow + 1, "a window of"},
		{"no time", exe, good, 0, "a window of"},
		{"negative time", exe, good, -1, "a window of"},
		{"no ELF file", files["text"], []probe.Site{{Off: 64, Cond: 4}}, time.Millisecond, "malformed ELF file"},
		{"short file", files["short"], good, time.Millisecond, ""},
		{"other processor", files["other"], good, time.Millisecond, "want " + probe.Host.Name},
		{"empty file", files["empty"], good, time.Millisecond, ""},
		{"no file", filepath.Join(dir, "none"), good, time.Millisecond, "no such file"},
		{"directory", dir, good, time.Millisecond, "not a regular file"},
		{"pipe", files["pipe"], good, time.Millisecond, "not a regular file"},
		{"no process", exe, good, time.Millisecond, ""}, // pid below
	} {
		t.Run(tt.name, func(t *testing.T) {
			pid := 0
			if tt.name == "no process" {
				pid = 1 << 30
			}
			w, err := p.Window(tt.file, tt.sites, pid, tt.length)
			if err == nil {
				t.Fatalf("no error: %+v", w)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: want %q", err, tt.want)
			}
			if n := changed(t, program.pid(), exe); n > 0 || !untouched(t, program.pid(), exe) {
				t.Errorf("%d bytes of the program's code changed", n)
			}
		})
	}
	checkArms(t, s, p, exe, sites, program.pid())
}

// checkArms: a prober works, and arms what it is told to while a window is open.
func checkArms(t *testing.T, s *System, p *Prober, exe string, sites []probe.Site, pid int) {
	t.Helper()
	done := make(chan error)
	number := s.window(t).Number
	go func() {
		_, err := p.Window(exe, sites, 0, maxWindow)
		done <- err
	}()
	for w := s.window(t); w.Number == number || w.Open == 0; w = s.window(t) {
		time.Sleep(100 * time.Microsecond)
	}
	n, whole := changed(t, pid, exe), untouched(t, pid, exe)
	if open := s.window(t).Open != 0; open && (n != len(sites) || whole) {
		t.Errorf("while %d sites are armed, %d bytes of code changed, in pages of the file: %v", len(sites), n, whole)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := changed(t, pid, exe); n > 0 {
		t.Errorf("after a window, %d bytes of code are changed", n)
	}
}

// TestProbeTime: the processor time of a window is that of the clock of the process.
func TestProbeTime(t *testing.T) {
	exe := program(t, "stretch")
	sites, err := stretchSitesOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []string{"1", "2", "8"} {
		t.Run(threads+" threads", func(t *testing.T) {
			program := talk(t, exe, "units", threads)
			s := system(t, SystemOptions{Frequency: 97, Probes: true, PIDs: []int{program.pid()}})
			p := prober(t, s)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			clock := int32(^program.pid()<<3 | 2) // MAKE_PROCESS_CPUCLOCK of include/linux/posix-timers.h
			type look struct{ before, cpu, after uint64 }
			for range trials(20) {
				var looks []look
				done := make(chan error, 1)
				var w *probe.Window
				go func() (err error) {
					defer func() { done <- err }()
					w, err = p.Window(exe, sites[:10], 0, maxWindow/2)
					return err
				}()
				for running := true; running; {
					var ts unix.Timespec
					l := look{before: monotonic()}
					if err := unix.ClockGettime(clock, &ts); err != nil {
						t.Fatal(err)
					}
					l.cpu, l.after = uint64(ts.Nano()), monotonic()
					looks = append(looks, l)
					select {
					case err := <-done:
						if err != nil {
							t.Fatal(err)
						}
						running = false
					default:
						sleepUntil(monotonic() + 200_000)
					}
				}
				now := s.window(t)
				// The clock was looked at before and after each end of the window.
				var in, out [2]uint64
				for _, l := range looks {
					if l.after <= now.Opened {
						out[0] = l.cpu
					}
					if l.before >= now.Opened && in[0] == 0 {
						in[0] = l.cpu
					}
					if l.after <= now.Closed {
						in[1] = l.cpu
					}
					if l.before >= now.Closed && out[1] == 0 {
						out[1] = l.cpu
					}
				}
				least, most := time.Duration(in[1]-in[0]), time.Duration(out[1]-out[0])
				t.Logf("%v of processor time in %v; by the clock of the process %v to %v", w.Time, w.Open, least, most)
				// The clock of a process leaves out what the hypervisor takes, which was up to
				// 6 % where this was written.
				if w.Time < least-w.Open/20 || w.Time > most+w.Open/20+most/5 {
					t.Errorf("%v of processor time, want %v to %v", w.Time, least, most)
				}
			}
		})
	}
}

// TestProbeUnavailable: a kernel without probes that are armed together is refused with
// a sentence.
func TestProbeUnavailable(t *testing.T) {
	before := haveUprobeMulti
	defer func() { haveUprobeMulti = before }()
	for want, err := range maps.All(map[string]error{
		"this kernel has no probes":   fmt.Errorf("uprobe_multi: %w", ebpf.ErrNotSupported),
		"does not let this process":   unix.EPERM,
		"operation not permitted. Ru": unix.EPERM,
	}) {
		haveUprobeMulti = func() error { return err }
		var no *Unavailable
		if _, err := loadForProber(new(sampler)); !errors.As(err, &no) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
