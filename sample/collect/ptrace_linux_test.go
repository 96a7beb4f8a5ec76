//go:build amd64 || arm64

package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// What the environment asks of a test binary before anything else.
const (
	confineMe = "BACKFEED_TEST_CONFINE" // give up privileges, and begin again
	confined  = "BACKFEED_TEST_CONFINED"
	recordPID = "BACKFEED_TEST_RECORD" // record that process until killed
)

func init() {
	if os.Getenv(confineMe) != "" {
		os.Unsetenv(confineMe)
		os.Setenv(confined, "1")
		if err := confine(); err != nil {
			fmt.Fprintln(os.Stderr, "confine:", err)
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, unix.Exec("/proc/self/exe", os.Args, os.Environ()))
		os.Exit(1)
	}
	if pid, err := strconv.Atoi(os.Getenv(recordPID)); err == nil {
		_, _, err := Record(context.Background(), Options{PIDs: []int{pid}})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// confine has the kernel refuse perf_event_open and bpf from now on, as containers do by default, and give no
// privileges to programs.
func confine() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const allow, refuse = 0x7fff0000, 0x00050000 | uint32(unix.EPERM) // SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: unix.SYS_PERF_EVENT_OPEN},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_BPF},
		{Code: unix.BPF_RET | unix.BPF_K, K: allow},
		{Code: unix.BPF_RET | unix.BPF_K, K: refuse},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}

// TestWithoutPrivilege runs tests of Record as an ordinary user, whom a filter of system calls refuses perf
// events and BPF.
func TestWithoutPrivilege(t *testing.T) {
	if os.Getenv(confined) != "" {
		t.Skip("is running")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	from := testtool.Prebuilt()
	tests := "TestTraced.*|TestFollow(State|Program|Killed|Refuses)|TestRecordFailing|TestRecordRefuses"
	if from == "" {
		from = dir
		for _, name := range []string{"busy-a", "busy-b", "goroutines", "speeds", "traced", "vectors"} {
			programs.In(t, dir, name)
		}
		// Not in the guests of testdata/kernels, where stops are so dear that a short program has few samples.
		tests += "|TestFollow(Speed|Budget)|TestRecordCommand|TestRecordMaker|TestRecordTop|TestReplacedBinary"
	}
	cmd := exec.Command(exe, "-test.v", "-test.timeout=4m", "-test.run", "^("+tests+")$")
	if os.Geteuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &unix.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Path = filepath.Join(dir, "collect.test")
		copyFile(t, exe, cmd.Path) // where that user may execute it
	}
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), confineMe+"=1", "BACKFEED_TEST_PROGRAMS="+from, "TMPDIR="+tmp)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(out), "--- PASS: TestTracedProgram") && !strings.Contains(string(out), "--- SKIP: TestTracedProgram") {
		t.Error("TestTracedProgram did not run")
	}
}

// openDir makes a directory that every user can see.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	r, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// unprivileged skips a test that is not to run with the privileges of this one.
func unprivileged(t *testing.T) {
	t.Helper()
	testtool.Live(t, "records")
	if os.Getenv(confined) == "" {
		t.Skip("runs as part of TestWithoutPrivilege")
	}
	if refused := traceRefusal(0); refused != nil {
		t.Skip(refused)
	}
}

func TestTracedProbe(t *testing.T) {
	unprivileged(t)
	if os.Geteuid() == 0 {
		t.Error("is root")
	}
	tried, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range tried[:len(tried)-1] {
		if a.Err == nil {
			t.Errorf("%s works", a.Name)
		}
	}
	if last := tried[len(tried)-1]; last.Name != ptraceClock {
		t.Errorf("the last of the ladder is %s", last.Name)
	}
}

// TestTracedProgram: a program that checks that nothing in it is disturbed is not, and its functions have samples
// in proportion to the processor time that they used.
func TestTracedProgram(t *testing.T) {
	unprivileged(t)
	exe := program(t, "traced")
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c, stats := run(t, Options{Command: []string{exe, "2"}, Stdout: w, MaxCPU: 4})
	w.Close()
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s%+v", text, *stats.Traced)
	if code := stats.Command.ExitCode(); code != 42 && stats.Traced.Interrupted == 0 {
		t.Errorf("%v: it was disturbed:\n%s", stats.Command, text)
	}
	if why := stats.Traced.Why; why == "" {
		t.Error("it does not say why ptrace was used")
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var long, short, longWaited, shortWaited float64 // ns
	if _, err := fmt.Sscan(lines[len(lines)-1], &long, &short, &longWaited, &shortWaited); err != nil {
		t.Fatal(err)
	}
	share := shares(t, c, exe)
	inLong, inShort := share["spin_long"]*float64(c.Total), share["spin_short"]*float64(c.Total)
	// Five standard deviations, and what the threads do beside it. A thread that waits for a processor may be taken for
	// one that runs, so that a busy machine has more of one of them: by as much as it waited, beside what it ran.
	off, most := math.Abs(math.Log(inLong/inShort*short/long)), 5*math.Sqrt(1/inLong+1/inShort)+.05
	most += math.Log1p(max(longWaited/long, shortWaited/short))
	if c.Total < 200 {
		t.Logf("%d samples tell no shares", c.Total) // where the processor is emulated
	} else if !(off < most) {
		t.Errorf("%.0f samples of %.0f ms, and %.0f of %.0f ms: off by a factor of %.2f, %.2f at most", inLong, long/1e6, inShort, short/1e6, math.Exp(off), math.Exp(most))
	}
	if share["spin_else"] == 0 && c.Total > 200 {
		t.Error("children and waiting threads have no samples")
	}
	// Threads that have just been woken have no samples, though the kernel spends time on that.
	if sum, most := time.Duration(c.Weight), stats.Traced.Program*3/2; sum > most {
		t.Errorf("the samples stand for %v, the program used %v", sum, stats.Traced.Program)
	}
}

// TestRecordMaker: a thread that stops because it makes another is sampled on. One that is just being interrupted
// then does not stop for that.
func TestRecordMaker(t *testing.T) {
	unprivileged(t)
	exe := program(t, "traced")
	c, stats := run(t, Options{Command: []string{exe, "make"}, MaxCPU: 4})
	t.Logf("%d samples: %+v", c.Total, *stats.Traced)
	// A look at random finds the program running for its share of the time. Where the processor is emulated, looks are few.
	tr := stats.Traced
	if want := .7 * float64(tr.Looks) * tr.Program.Seconds() / tr.Wall.Seconds(); float64(c.Total) < want {
		t.Errorf("%d samples of %d looks at a program that ran for %v of %v, want %.0f", c.Total, tr.Looks, tr.Program, tr.Wall, want)
	}
}

// TestTracedRuntime records a Go program, whose runtime stops threads by signals.
func TestTracedRuntime(t *testing.T) {
	unprivileged(t)
	exe := program(t, "goroutines")
	cmd := exec.Command(exe, "mix", "4")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	rec, stats, err := Record(context.Background(), Options{PIDs: []int{pid}, Duration: 1500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	check(t, rec, stats)
	if tracer := tracerOf(pid); tracer != 0 {
		t.Errorf("process %d is still traced, by %d", pid, tracer)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	var right, wrong int
	if _, err := fmt.Sscan(strings.TrimPrefix(out.String(), "ready"), &right, &wrong); err != nil || right == 0 || wrong != 0 {
		t.Errorf("rounds right and wrong: %q", out.String())
	}
}

// busy starts the program that uses its processor all the time.
func startBusy(t *testing.T, milliseconds string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t, "busy-a"), "busy", milliseconds)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// TestTracedByKilled: a program runs on when its recorder is killed.
func TestTracedByKilled(t *testing.T) {
	unprivileged(t)
	if ThisHost().PtraceScope > 0 {
		t.Skip("kernel.yama.ptrace_scope is more than 0: one process may not trace its brother")
	}
	target := startBusy(t, "1500")
	pid := target.Process.Pid
	recorder := exec.Command("/proc/self/exe")
	recorder.Env = append(os.Environ(), recordPID+"="+strconv.Itoa(pid))
	if err := recorder.Start(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); tracerOf(pid) == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("the recorder does not trace")
		}
	}
	// Another recorder is told who is in its way.
	_, _, err := Record(context.Background(), Options{PIDs: []int{pid}})
	if u := (*Unavailable)(nil); !errors.As(err, &u) || !strings.Contains(u.Why, "traced already, by process") {
		t.Errorf("a second recorder: %v", err)
	}
	time.Sleep(100 * time.Millisecond)
	recorder.Process.Kill()
	recorder.Wait()
	if tracer := tracerOf(pid); tracer != 0 {
		t.Errorf("still traced by %d", tracer)
	}
	if err := target.Wait(); err != nil {
		t.Errorf("the program that was recorded: %v", err)
	}
}

// TestTracedUntil: a command is ended by SIGTERM when the time is up; a process runs on.
func TestTracedUntil(t *testing.T) {
	unprivileged(t)
	c, stats := run(t, Options{Command: []string{program(t, "busy-a"), "busy", "60000"}, Duration: 300 * time.Millisecond})
	if status := stats.Command.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v", stats.Command)
	}
	if sum, used := time.Duration(c.Weight), stats.Traced.Program; sum > used*14/10 || c.Total >= 200 && sum < used*6/10 {
		t.Errorf("the samples stand for %v, the program used %v", sum, used)
	}
	if c.Event != (sample.Event{Name: ptraceClock, Period: uint64(time.Second / DefaultFrequency), Unit: "ns"}) {
		t.Errorf("event %+v", c.Event)
	}
	target := startBusy(t, "60000")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	if _, _, err := Record(ctx, Options{PIDs: []int{target.Process.Pid}}); err != nil {
		t.Error(err)
	}
	if !Alive(target.Process.Pid) {
		t.Error("the process has ended with its recording")
	}
}

// usedBy returns the time that the first thread of a process has run for, as the kernel prints it.
func usedBy(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	used, _, _ := strings.Cut(string(b), " ")
	return used
}

// TestTracedStopped: a process that is stopped stays so, until it is continued.
func TestTracedStopped(t *testing.T) {
	unprivileged(t)
	target := startBusy(t, "1000")
	pid := target.Process.Pid
	state := func() byte {
		th := &tracee{tid: pid, pid: pid}
		th.open()
		defer th.stat.close()
		defer th.sched.close()
		return th.state()
	}
	await := func(what string, states string) {
		t.Helper()
		for begun := time.Now(); !strings.ContainsRune(states, rune(state())); time.Sleep(time.Millisecond) {
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("%s: state %c", what, state())
			}
		}
	}
	unix.Kill(pid, unix.SIGSTOP) // before
	await("stopped before", "T")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, _, err := Record(ctx, Options{PIDs: []int{pid}})
		done <- err
	}()
	await("seized", "t")
	// stands waits until it is stopped and has not run for a while: of a thread that a sample stopped, or that has not got the signal
	// yet, the state is the same for a moment, which is long where others have the processors.
	stands := func() {
		t.Helper()
		for begun := time.Now(); ; {
			before := state()
			used := usedBy(t, pid)
			time.Sleep(30 * time.Millisecond)
			if s := state(); strings.ContainsRune("tT", rune(before)) && strings.ContainsRune("tT", rune(s)) && usedBy(t, pid) == used {
				return
			} else if time.Since(begun) > 20*time.Second {
				t.Fatalf("it was stopped, and its state is %c", s)
			}
		}
	}
	for range 3 {
		stands()
		unix.Kill(pid, unix.SIGCONT)
		await("continued", "RS")
		time.Sleep(30 * time.Millisecond)
		unix.Kill(pid, unix.SIGSTOP) // while it is traced
		await("stopped", "tT")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	await("let go", "T")
	unix.Kill(pid, unix.SIGCONT)
	if err := target.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTracedOthers: what cannot be traced is refused with a reason.
func TestTracedOthers(t *testing.T) {
	unprivileged(t)
	_, _, err := Record(context.Background(), Options{PIDs: []int{1}})
	if u := (*Unavailable)(nil); !errors.As(err, &u) || !strings.Contains(u.Why, "another user") || u.Fix == "" {
		t.Errorf("process 1: %v", err)
	}
	if fix := goFix(os.Getpid()); !strings.Contains(fix, "record --pprof") {
		t.Errorf("of a Go program: %q", fix)
	}
	if fix := goFix(1 << 30); fix != "" {
		t.Errorf("of no program: %q", fix)
	}
}
