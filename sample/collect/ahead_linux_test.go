//go:build amd64 || arm64

package collect

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/internal/testtool"
	"backfeed/sample/trace"
)

// followPID in the environment asks a test binary to follow that process until it is killed.
const followPID = "BACKFEED_TEST_FOLLOW"

func init() {
	if pid, err := strconv.Atoi(os.Getenv(followPID)); err == nil {
		_, _, err := Follow(context.Background(), FollowOptions{Options: Options{PIDs: []int{pid}, MaxCPU: 1}, Ahead: aheadAnywhere})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// aheadAnywhere has a breakpoint where the thread is, where it will not be, or nowhere.
func aheadAnywhere(s *Stopped) Ahead {
	switch rand.IntN(3) {
	case 0:
		return Ahead{PC: s.Regs.PC, Steps: 1}
	case 1:
		return Ahead{PC: 0x1000, Steps: 1000}
	}
	return Ahead{}
}

// followed skips a test of Follow where that cannot be.
func followed(t *testing.T) {
	t.Helper()
	testtool.Live(t, "stops programs")
	if refused := traceRefusal(0); refused != nil {
		t.Skip(refused)
	}
}

// A levels knows the loops of testdata/speeds.c, and so where a thread in one will be.
type levels struct {
	in     uint64    // address of the innermost level
	end    [4]uint64 // where a round of each level has ended
	round  int       // instructions of the innermost level
	rounds [4]int    // of each level in the one around it
	first  int       // register that has the rounds of the innermost one that are to come
}

var speeds = map[string]levels{
	"adds":  {round: 10, rounds: [4]int{100, 10, 5, 4}},
	"divs":  {round: 10, rounds: [4]int{100, 10, 5, 4}},
	"chase": {round: 3, rounds: [4]int{333, 10, 5, 4}},
}

func levelsOf(t *testing.T, exe, loop string) levels {
	t.Helper()
	l := speeds[loop]
	l.first = map[string]int{"amd64": 8, "arm64": 9}[runtime.GOARCH]
	for _, s := range testtool.Symbols(t, exe) {
		for i := range l.end {
			if s.Name == loop+"_"+strconv.Itoa(i+1) {
				l.end[i] = s.Value
			}
		}
		if s.Name == loop+"_in" {
			l.in = s.Value
		}
	}
	if l.in == 0 || slices.Contains(l.end[:], 0) {
		t.Fatalf("%s: no symbols of %s", exe, loop)
	}
	return l
}

// whole is how many instructions a round of a level has.
func (l *levels) whole(level int) int {
	if level < 0 {
		return l.round
	}
	n := l.rounds[level] * l.whole(level-1)
	if level > 0 {
		n += 2 * l.rounds[level] // that count the rounds,
		n += l.rounds[level]     // and begin the next level
	}
	return n
}

// until returns after how many instructions a thread reaches the end of a level; false if it is in none.
func (l *levels) until(r *Registers, level int) (int, bool) {
	if r.PC < l.in || r.PC >= l.end[0] {
		return 0, false
	}
	n := l.round - int(r.PC-l.in)*l.round/int(l.end[0]-l.in)
	for i := range level + 1 {
		if left := int(r.R[l.first+i]) - 1; left > 0 { // rounds after this one
			n += left * (l.whole(i) / l.rounds[i])
		}
	}
	return n, true
}

// undisturbed runs a loop by itself, and returns the ns of one of its instructions.
func undisturbed(t *testing.T, exe, loop string, ms int) float64 {
	t.Helper()
	out, err := exec.Command(exe, loop, strconv.Itoa(ms)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var n, ns float64
	if _, err := fmt.Sscan(string(out), &n, &ns); err != nil {
		t.Fatal(err)
	}
	return ns / n
}

// preempted is how long a thread waits between its resumption and its breakpoint, at least, if it did not keep its
// processor, on a machine that is busy: there, others wait some 5 us. Where its processor was idle meanwhile, waking it
// takes longer than this, and nearly all stretches count as preempted.
const preempted = 10 * time.Microsecond

// A speedRatio compares what stretches took with what their instructions take otherwise.
type speedRatio struct {
	n, steps  int
	mean      float64 // of all together
	off, most float64 // by how much a stretch is off: the median and the ninth decile
}

// laterOf returns what a round of a level took each time that it came again.
func laterOf(all []Stretch, steps int) (later []Stretch) {
	for _, s := range all {
		for _, d := range s.Later {
			later = append(later, Stretch{Steps: steps, Time: d})
		}
	}
	return later
}

func compareSpeed(all []Stretch, truth float64) (r speedRatio) {
	var off []float64
	took, steps := 0.0, 0
	for _, s := range all {
		off = append(off, math.Abs(float64(s.Time.Nanoseconds())/float64(s.Steps)/truth-1))
		took, steps = took+float64(s.Time.Nanoseconds()), steps+s.Steps
	}
	if r.n = len(all); r.n == 0 {
		return r
	}
	slices.Sort(off)
	return speedRatio{r.n, steps / r.n, took / float64(steps) / truth, off[r.n/2], off[r.n*9/10]}
}

// TestFollowSpeed: stretches take as long as their instructions take when nothing disturbs them.
func TestFollowSpeed(t *testing.T) {
	followed(t)
	exe := program(t, "speeds")
	speed := map[string]float64{}
	for _, loop := range []string{"adds", "divs", "chase"} {
		l := levelsOf(t, exe, loop)
		before := undisturbed(t, exe, loop, 400)
		var seen [4][]Stretch // by level
		rec, stats, err := Follow(t.Context(), FollowOptions{
			Options: Options{Command: []string{exe, loop, "1000"}, MaxCPU: 4, Frequency: 499},
			Ahead: func(s *Stopped) Ahead {
				level := rand.IntN(4)
				n, ok := l.until(&s.Regs, level)
				if !ok {
					return Ahead{}
				}
				return Ahead{PC: l.end[level], Steps: n, Later: 8, Done: func(s Stretch) {
					seen[level] = append(seen[level], s)
					sum := s.Time
					for _, d := range s.Later {
						sum += d
					}
					if s.End == StretchHit && s.Watched < sum {
						t.Errorf("watched for %v, in which passed %v and %v", s.Watched, s.Time, s.Later)
					}
				}}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		check(t, rec, stats)
		f := stats.Followed
		if f.Refused != "" {
			t.Skip(f.Refused)
		}
		truth := (before + undisturbed(t, exe, loop, 400)) / 2
		t.Logf("%s: %.4f ns an instruction; %d stops of %v (99 %%: %v, %v at most); fixed costs %v ± %v, of each hit %v; %d at their address, %d at the limit, %d disturbed",
			loop, truth, f.Stops, f.Median, f.P99, f.Longest, f.Fixed, f.SD, f.HitCost, f.Ends[StretchHit], f.Ends[StretchLimit], f.Ends[StretchEvent])
		if f.Ends[StretchHit] < 20 {
			t.Skipf("too few stretches: %+v", f)
		}
		for level, all := range seen {
			whole := float64(l.whole(level))
			long := slices.DeleteFunc(slices.Clone(all), func(s Stretch) bool { return s.End != StretchHit || float64(s.Steps) < whole/2 })
			calm := slices.DeleteFunc(slices.Clone(long), func(s Stretch) bool { return s.Waited > preempted })
			for _, of := range []struct {
				what string
				seen []Stretch
			}{{"all", long}, {"not preempted", calm}, {"later", laterOf(all, l.whole(level))}} {
				if r := compareSpeed(of.seen, truth); r.n > 0 {
					t.Logf("%s, %d instructions, %s: %d stretches take %.3f of the time; off by %.3f in the median, %.3f in 9 of 10", loop, r.steps, of.what, r.n, r.mean, r.off, r.most)
				}
			}
			// A Zen 4 runs the additions at half their speed while a breakpoint is armed, divisions and loads as otherwise: what
			// additions take is printed only.
			if loop == "adds" {
				continue
			}
			if r := compareSpeed(laterOf(all, l.whole(level)), truth); level >= 2 && r.n >= 20 && (r.off > .3 || r.off != r.off) {
				t.Errorf("%s: what %d instructions take later is off by %.2f", loop, r.steps, r.off)
			}
			if r := compareSpeed(calm, truth); level == 3 && r.n >= 20 {
				speed[loop] = r.mean * truth
				// What takes no longer than what is subtracted of it tells how sure that is.
				if took := truth * float64(r.steps); took > 2*float64(f.Fixed) && (r.mean < .7 || r.mean > 1.5) {
					t.Errorf("%s: stretches of %d instructions take %.2f of their time", loop, r.steps, r.mean)
				}
			}
		}
	}
	if speed["chase"] != 0 && speed["divs"] != 0 && speed["chase"] < speed["divs"] {
		t.Errorf("a load that misses takes %.2f ns, a division %.2f", speed["chase"]*3, speed["divs"])
	}
}

// TestFollowState: registers, vectors and memory are those of the thread.
func TestFollowState(t *testing.T) {
	followed(t)
	exe := program(t, "vectors")
	width, many := 16, 16
	if info := testtool.Read(t, "/proc/cpuinfo"); strings.Contains(info, "avx512bw") {
		width, many = 64, 32
	} else if strings.Contains(info, "avx ") {
		width = 32
	}
	image, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	counter, sp := 8, 4
	if runtime.GOARCH == "arm64" {
		counter, sp = 9, 31
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seen := 0
	_, _, err = Follow(ctx, FollowOptions{
		Options: Options{Command: []string{exe, strconv.Itoa(width)}, MaxCPU: 1},
		Ahead: func(s *Stopped) Ahead {
			if s.Regs.R[counter] != 0x1234 {
				return Ahead{}
			}
			if seen++; seen == 3 {
				cancel()
			}
			st, err := s.State()
			switch {
			case runtime.GOARCH == "arm64":
				if !errors.Is(err, trace.ErrARM) {
					t.Errorf("state: %v", err)
				}
			case err != nil:
				t.Errorf("state: %v", err)
			default:
				if st.PC != s.Regs.PC || st.Regs != [16]uint64(s.Regs.R[:16]) || st.FSBase != s.Regs.TLS || st.MXCSR == 0 || int(st.Words)*8 != width {
					t.Errorf("%+v of %+v", st, s.Regs)
				}
				for i := range many {
					for k := range width {
						if got := byte(st.Vectors[i][k/8] >> (k % 8 * 8)); got != byte(64*i+k) {
							t.Fatalf("byte %d of register %d is %#x", k, i, got)
						}
					}
				}
				if width == 64 && st.Masks[5] != 0x4f4e4d4c4b4a4948 {
					t.Errorf("k5 is %#x", st.Masks[5])
				}
			}
			word := make([]byte, 8)
			if n := s.Read(s.Regs.R[sp], word); n != 8 || binary.LittleEndian.Uint64(word) != 0x5678 {
				t.Errorf("at the stack pointer are %d bytes: %x", n, word)
			}
			m, ok := s.Mapping(s.Regs.PC)
			code := make([]byte, 64)
			at := int(uint64(m.Off) + s.Regs.PC - m.Start)
			if n := s.Read(s.Regs.PC, code); !ok || m.Image.Path != exe || n != len(code) || !bytes.HasPrefix(image[at:], code) {
				t.Errorf("at the PC, of %q, are %d bytes: %x", m.Image.Path, n, code)
			}
			if n := s.Read(0, make([]byte, 3*4096)); n != 0 {
				t.Errorf("%d bytes at 0", n)
			}
			if s.Regs.TLS == 0 {
				t.Error("the base of thread-local storage is 0")
			}
			if left := time.Until(s.Deadline); s.Deadline.IsZero() || left > DefaultStop {
				t.Errorf("%v are left", left)
			}
			return Ahead{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Skip("it was not seen after its registers were filled")
	}
}

// TestFollowProgram: a program that checks that nothing in it is disturbed is not, though its threads have
// breakpoints most of the time.
func TestFollowProgram(t *testing.T) {
	followed(t)
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	done := 0
	rec, stats, err := Follow(t.Context(), FollowOptions{
		Options: Options{Command: []string{program(t, "traced"), "2"}, Stdout: w, MaxCPU: 4, Frequency: 997},
		Ahead: func(s *Stopped) Ahead {
			a := aheadAnywhere(s)
			a.Done = func(Stretch) { done++ }
			return a
		},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	check(t, rec, stats)
	f := stats.Followed
	t.Logf("%s%+v %+v", text, *f, *stats.Traced)
	if code := stats.Command.ExitCode(); code != 42 && stats.Traced.Interrupted == 0 {
		t.Errorf("%v: it was disturbed:\n%s", stats.Command, text)
	}
	if sum := f.Ends[:]; done != int(f.Stops) || sumOf(sum) != f.Stops {
		t.Errorf("%d stops, %d stretches are done, by how they ended %v", f.Stops, done, sum)
	}
	if f.Refused != "" {
		t.Log(f.Refused)
	} else if f.Stops > 200 && (f.Ends[StretchHit] == 0 || f.Fixed <= 0) {
		t.Errorf("no breakpoint was hit: %+v", f)
	}
}

func sumOf(all []uint64) (sum uint64) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// TestFollowBudget: stops and the follower's own processor time stay below the share, whatever Ahead takes.
func TestFollowBudget(t *testing.T) {
	followed(t)
	const share = .02
	rec, stats, err := Follow(t.Context(), FollowOptions{
		Options: Options{Command: []string{program(t, "busy-a"), "busy", "3000"}, MaxCPU: share},
		Ahead: func(s *Stopped) Ahead {
			for time.Until(s.Deadline) > 0 {
			}
			return Ahead{PC: s.Regs.PC}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	tr, f := stats.Traced, stats.Followed
	t.Logf("%+v\n%+v", *tr, *f)
	const busy = "this machine is too busy: stops take longer than they are to"
	if f.Stops == 0 {
		t.Skip(busy) // so there are no samples
	}
	check(t, rec, stats)
	if f.Longest > 2*DefaultStop {
		t.Skip(busy)
	}
	// Moments at random come in clusters, and the last stop is not known before.
	most := share*tr.Wall.Seconds() + 2*tr.Cost().Seconds()/float64(f.Stops)
	if cost := tr.Cost().Seconds(); cost > 1.5*most {
		t.Errorf("it cost %.3f s of %v, want %.3f", cost, tr.Wall, most)
	}
}

// TestFollowKilled: a program runs on when its follower is killed, though it has breakpoints then.
func TestFollowKilled(t *testing.T) {
	followed(t)
	if ThisHost().PtraceScope > 0 {
		t.Skip("kernel.yama.ptrace_scope is more than 0: one process may not trace its brother")
	}
	target := startBusy(t, "1500")
	pid := target.Process.Pid
	follower := exec.Command("/proc/self/exe")
	follower.Env = append(os.Environ(), followPID+"="+strconv.Itoa(pid))
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); tracerOf(pid) == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("the follower does not trace")
		}
	}
	time.Sleep(200 * time.Millisecond)
	follower.Process.Kill()
	follower.Wait()
	if tracer := tracerOf(pid); tracer != 0 {
		t.Errorf("still traced by %d", tracer)
	}
	if err := target.Wait(); err != nil {
		t.Errorf("the program that was followed: %v", err)
	}
}

// TestFollowRefuses: what cannot be followed is refused.
func TestFollowRefuses(t *testing.T) {
	for _, opt := range []Options{{}, {Command: []string{"true"}, PIDs: []int{1}}, {Command: []string{"true"}, Frequency: -1}} {
		if _, _, err := Follow(t.Context(), FollowOptions{Options: opt, Ahead: aheadAnywhere}); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
}

// TestPassing: a tracer that passes stops threads again and again, and holds none meanwhile: signals reach them without it.
func TestPassing(t *testing.T) {
	followed(t)
	if !CanPass() {
		t.Skip("needs Linux 5.3 with CONFIG_PROC_CHILDREN")
	}
	cmd := exec.Command("sh", "-c", program(t, "speeds")+" adds 20000; :") // a child of the process that is followed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	ctx, end := context.WithTimeout(t.Context(), 5*time.Second)
	defer end()
	stops, again, held, child := 0, 0, false, 0
	_, stats, err := Follow(ctx, FollowOptions{
		Options: Options{PIDs: []int{cmd.Process.Pid}, MaxCPU: 1, Frequency: 499}, Untimed: true, Passing: true,
		Ahead: func(s *Stopped) Ahead {
			if child = s.PID; child == cmd.Process.Pid {
				return Ahead{}
			}
			if stops++; stops >= 20 && again > 0 {
				end()
			}
			return Ahead{
				Resumed: func() { held = held || tracerOf(s.TID) != 0 },
				Again:   time.Millisecond,
				Then: func(s *Stopped, _ time.Duration) time.Duration {
					if s != nil {
						again++
					}
					return 0
				},
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if stops == 0 || again == 0 || held || stats.Traced.Stops == 0 {
		t.Errorf("%d stops and %d more of the same threads, held after that: %t; want some, and none held", stops, again, held)
	}
	if child == 0 {
		t.Fatal("the child of the process was never stopped")
	}
	defer unix.Kill(child, unix.SIGKILL)
	if tracerOf(child) != 0 || hasEnded(child, child) {
		t.Errorf("the program is traced by %d after the end, or has ended", tracerOf(child))
	}
}

// TestNeverHit: breakpoints where threads go on that are never hit are known not to work, unless one has been.
func TestNeverHit(t *testing.T) {
	limit, event := Stretch{End: StretchLimit}, Stretch{End: StretchEvent, Time: leastUnhit}
	for _, tt := range []struct {
		name  string
		seen  []time.Duration // of breakpoints that were hit
		ends  []Stretch
		never bool
	}{
		{"to the limit", nil, []Stretch{limit, limit, limit, limit, limit}, true},
		{"or to a stop", nil, []Stretch{limit, event, limit, event, limit}, true},
		{"some", nil, []Stretch{limit, limit, limit, limit}, false},
		{"stopped at once", nil, []Stretch{limit, limit, limit, limit, {End: StretchEvent}}, false},
		{"gone", nil, []Stretch{limit, limit, limit, limit, {End: StretchGone}}, false},
		{"others were hit", []time.Duration{1000}, []Stretch{limit, limit, limit, limit, limit}, false},
	} {
		f := &follower{fixed: fixedCost{seen: tt.seen}}
		for _, s := range tt.ends {
			f.fixing++
			f.end(&tracee{stretch: &pendingStretch{fixes: true}}, s)
		}
		if never := f.neverHit(); never != tt.never {
			t.Errorf("%s: never hit is %v", tt.name, never)
		}
	}
}
