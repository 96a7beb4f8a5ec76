//go:build amd64 || arm64

package collect

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/sample/probe"
)

// holderName is argument 0 of a process that opens a prober, for tests that end it or
// have it run with less privilege.
const holderName = "backfeed-holder"

// hold is that process. Its argument is a file that has testdata/sites.c. It prints
// "ready", the ID of the prober and its scheduling policy, then for each line that it
// reads opens a window and prints the hits, or an error.
func hold() int {
	err := func() error {
		sites, err := stretchSitesOf(os.Args[1])
		if err != nil {
			return err
		}
		s, err := OpenSystem(SystemOptions{Frequency: 97, Probes: true})
		if err != nil {
			return err
		}
		defer s.Close()
		p, err := OpenProber(s)
		if err != nil {
			return err
		}
		defer p.Close()
		policy, err := unix.SchedGetAttr(p.cmd.Process.Pid, 0)
		if err != nil {
			return err
		}
		fmt.Println("ready", p.cmd.Process.Pid, policy.Policy)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			w, err := p.Window(os.Args[1], sites, 0, maxWindow)
			if err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Println("hits", w.All)
		}
		return nil
	}()
	if no := (*Unavailable)(nil); errors.As(err, &no) {
		fmt.Println("unavailable", no)
	} else if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// holder starts a holder; the test is skipped where it cannot probe.
func holder(t *testing.T, exe string, attr *syscall.SysProcAttr) (h *talker, prober int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{holderName, exe}
	cmd.SysProcAttr = attr
	h = talkTo(t, cmd)
	line := h.hear()
	if reason, no := strings.CutPrefix(line, "unavailable "); no {
		t.Skip(reason)
	}
	if _, err := fmt.Sscanf(line, "ready %d", &prober); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return h, prober
}

// awaitCode waits until as many bytes of a program's code are changed, in which the
// number has to end at last.
func awaitCode(t *testing.T, pid int, file string, want int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		n := changed(t, pid, file)
		if n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes of code are changed, want %d", n, want)
		}
	}
}

// openWindow has a holder open a window, and returns while it is open: again, if it was over before this thread, which waits for a
// processor like others, could see it.
func openWindow(t *testing.T, h *talker, pid int, file string) {
	t.Helper()
	for {
		h.say("go")
		for end := time.Now().Add(10 * maxWindow); time.Now().Before(end); {
			if changed(t, pid, file) == stretchSites {
				return
			}
		}
		if answer := h.hear(); !strings.HasPrefix(answer, "hits") {
			t.Fatal(answer)
		}
	}
}

// gone reports whether a process has ended.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(b), ") ")
	return err != nil || strings.HasPrefix(state, "Z")
}

// TestProberEnds: whatever happens to a prober, or to who opened it, in the middle of a
// window, nothing stays armed, and the program is as fast as it was.
func TestProberEnds(t *testing.T) {
	exe := program(t, "stretch")
	for _, tt := range []struct {
		name   string
		signal unix.Signal
		prober bool // gets the signal, not its parent
		ends   bool // the prober, of that
	}{
		{"parent killed", unix.SIGKILL, false, true},
		{"prober killed", unix.SIGKILL, true, true},
		{"parent stopped", unix.SIGSTOP, false, false},
		{"prober stopped", unix.SIGSTOP, true, false},
		{"interrupt of the terminal", unix.SIGINT, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var clean, slow []float64 // ms from the signal on
			for range trials(20) {
				program := launch(t, exe, "units", "1")
				h, prober := holder(t, exe, &syscall.SysProcAttr{Setpgid: true})
				pid := program.cmd.Process.Pid
				awaitCode(t, pid, exe, 0)
				openWindow(t, h, pid, exe)
				time.Sleep(20 * time.Millisecond)
				to := -h.pid() // with all of its group, as by a terminal
				if tt.prober {
					to = prober
				}
				from := monotonic()
				if err := unix.Kill(to, tt.signal); err != nil {
					t.Fatal(err)
				}
				awaitCode(t, pid, exe, 0)
				clean = append(clean, float64(monotonic()-from)/1e6)
				if tt.signal == unix.SIGSTOP {
					unix.Kill(to, unix.SIGCONT)
					if answer := h.hear(); !strings.HasPrefix(answer, "hits") {
						t.Error(answer)
					}
				}
				for end := time.Now().Add(10 * time.Second); tt.ends && !gone(prober); {
					if time.Now().After(end) {
						t.Fatal("the prober is still there")
					}
				}
				time.Sleep(50 * time.Millisecond)
				program.cmd.Process.Signal(unix.SIGTERM)
				last, typical := slowest(program.end())
				slow = append(slow, max(0, (last-float64(from))/1e6))
				if len(clean) == 1 {
					t.Logf("a round takes %.1f us", typical/1e3)
				}
				unix.Kill(h.pid(), unix.SIGKILL)
			}
			mid, _, _ := median(clean)
			fast, _, _ := median(slow)
			t.Logf("code as in the file after %.1f ms (at most %.1f), full speed after %.1f ms (at most %.1f), window of %v",
				mid, slices.Max(clean), fast, slices.Max(slow), maxWindow)
		})
	}
}

// slowest returns when the last slow units ended, and the time that units take, in ns.
func slowest(units [][]float64) (end, typical float64) {
	var all []float64
	for _, u := range units {
		all = append(all, u[2])
	}
	typical, _, _ = median(all)
	for i := 1; i < len(units); i++ { // one alone was slow for another reason
		if units[i-1][2] > 20*typical && units[i][2] > 20*typical {
			end = units[i][1]
		}
	}
	return end, typical
}

// TestProbePrivileges: without the privilege to probe, the error says so in a sentence;
// with the two capabilities that it takes, it works.
func TestProbePrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run others with less privilege")
	}
	exe := program(t, "stretch")
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	here := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	locked := "" // before Linux 5.11, what the two capabilities lack
	if r, err := ParseRelease(ThisHost().Release); err == nil && r.Before(Release{5, 11}) {
		locked = "or give this program CAP_SYS_RESOURCE"
	}
	for _, tt := range []struct {
		name string
		attr syscall.SysProcAttr
		want string
	}{
		{"nobody", syscall.SysProcAttr{Credential: nobody}, "lacks CAP_BPF and CAP_PERFMON. Run as root"},
		{"CAP_BPF alone", syscall.SysProcAttr{Credential: nobody, AmbientCaps: []uintptr{capBPF}}, "lacks CAP_PERFMON. Run as root"},
		{"PID namespace", syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}, "only the processes of a container. Run it in"},
		{"user namespace", syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: here, GidMappings: here}, "Give this program CAP_PERFMON"},
		{"CAP_BPF and CAP_PERFMON", syscall.SysProcAttr{Credential: nobody, AmbientCaps: []uintptr{capBPF, capPerfmon}}, locked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The directories of tests are root's: nobody gets the file by its descriptor.
			f, err := os.Open(exe)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			cmd := exec.Command("/proc/self/exe")
			cmd.Args = []string{holderName, "/proc/self/fd/3"}
			cmd.ExtraFiles = []*os.File{f}
			cmd.SysProcAttr = &tt.attr
			h := talkTo(t, cmd)
			line := h.hear()
			if tt.want != "" {
				if !strings.HasPrefix(line, "unavailable cannot sample: ") || !strings.Contains(line, tt.want) {
					t.Errorf("%q: want it unavailable, and %q", line, tt.want)
				}
				return
			}
			t.Log(line)
			if !strings.HasPrefix(line, "ready ") {
				t.Fatal(line)
			}
		})
	}
}

// windows opens windows on sites chosen from all until stop says so, and returns how many
// and what they hit.
func windows(t *testing.T, p *Prober, file string, all []probe.Site, length time.Duration, stop func() bool) (n int, hits uint64) {
	t.Helper()
	for ; n == 0 || !stop(); n++ {
		w, err := p.Window(file, choose(all, probe.MaxSites), 0, length)
		if err != nil {
			t.Fatal(err)
		}
		hits += w.All
	}
	return n, hits
}

// TestProbeChildren: children that check what they do are right, with breakpoints that
// come and go while they are forked, and run.
func TestProbeChildren(t *testing.T) {
	exe := program(t, "stretch")
	p := prober(t, system(t, SystemOptions{Frequency: 97, Probes: true}))
	sites := allSites(t, p, exe, listing(t, exe, regexp.MustCompile("")))
	children := 1000
	if *measure {
		children = 25000
	}
	program := talk(t, exe, "children", strconv.Itoa(children))
	var result []uint64
	var done atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer done.Store(true)
		line, _ := program.out.ReadString('\n')
		for word := range strings.FieldsSeq(line) {
			n, _ := strconv.ParseUint(word, 10, 64)
			result = append(result, n)
		}
	}()
	n, hits := windows(t, p, exe, sites, 5*time.Millisecond, done.Load)
	<-ended
	t.Logf("right, wrong, crashed: %d; %d windows on %d sites, %d hits", result, n, len(sites), hits)
	if hits == 0 {
		t.Error("nothing was hit")
	}
	if !slices.Equal(result, []uint64{uint64(children), 0, 0}) {
		t.Errorf("children right, wrong and crashed: %d, want %d, 0, 0", result, children)
	}
}

// mixed are functions that a Go program spends its time in.
var mixed = regexp.MustCompile(`^(main\.|slices\.|strconv\.|fmt\.|sync|crypto/internal/fips140/sha256\.|internal/runtime/maps\.|` +
	`runtime\.(asyncPreempt|casgstatus|chan|execute|findRunnable|futex|gc|gopark|goready|gosched|grey|growslice|mallocgc|mcall|` +
	`memmove|mcache|mcentral|mspan|newobject|newproc|note|park|ready|runq|scan|schedule|selectgo|sig|stackalloc|sweep|systemstack|wb|write))`)

// TestProbeGoMix: the same of a Go program, its runtime included.
func TestProbeGoMix(t *testing.T) {
	exe := program(t, "goroutines")
	p := prober(t, system(t, SystemOptions{Frequency: 97, Probes: true}))
	sites := allSites(t, p, exe, listing(t, exe, mixed))
	program := talk(t, exe, "mix", "4")
	if line := program.hear(); line != "ready" {
		t.Fatal(line)
	}
	end := time.Now().Add(time.Second)
	if *measure {
		end = end.Add(time.Minute)
	}
	n, hits := windows(t, p, exe, sites, 5*time.Millisecond, func() bool { return time.Now().After(end) })
	program.say("")
	result := program.numbers()
	t.Logf("right, wrong: %d; %d windows on %d sites, %d hits", result, n, len(sites), hits)
	if err := program.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if result[0] == 0 || result[1] != 0 || hits == 0 {
		t.Errorf("rounds right and wrong: %d; %d hits", result, hits)
	}
}

// TestMeasureWindows: how long it takes to arm and disarm, and what that costs a
// program with several threads.
func TestMeasureWindows(t *testing.T) {
	measuring(t, "the time it takes to arm and to disarm")
	exe := program(t, "stretch")
	sites, err := stretchSitesOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []string{"1", "2", "8"} {
		program := talk(t, exe, "units", threads)
		p := prober(t, system(t, SystemOptions{Frequency: 97, Probes: true, PIDs: []int{program.pid()}}))
		for _, k := range []int{1, 10, stretchSites} {
			var took [3][]time.Duration
			var hits []uint64
			for range 100 {
				w, err := p.Window(exe, sites[:k], 0, 5*time.Millisecond)
				if err != nil {
					t.Fatal(err)
				}
				took[0], took[1], took[2] = append(took[0], w.Attach), append(took[1], w.Detach), append(took[2], w.Open)
				hits = append(hits, w.All)
			}
			t.Logf("%s threads, %2d sites, 5 ms: attach %v, detach %v (target 150ms), open %v, hits %v",
				threads, k, quantiles(took[0]), quantiles(took[1]), quantiles(took[2]), quantiles(hits))
		}
		program.cmd.Process.Kill()
	}
}

// quantiles tells the median, the 90th of 100 and the greatest.
func quantiles[T cmp.Ordered](v []T) string {
	slices.Sort(v)
	if d, ok := any(v).([]time.Duration); ok {
		for i := range d {
			d[i] = d[i].Round(10 * time.Microsecond)
		}
	}
	return fmt.Sprintf("%v/%v/%v", v[len(v)/2], v[len(v)*9/10], v[len(v)-1])
}
