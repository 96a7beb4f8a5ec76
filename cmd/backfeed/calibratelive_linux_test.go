package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"backfeed/cmd/internal/agent"
	"backfeed/cmd/internal/calibrate"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/store"
)

// Tests that call probing or walking sample live and compare figures: they stay serial.

// probing skips where nothing can be probed.
func probing(t *testing.T) {
	t.Helper()
	testtool.Live(t, "records and probes")
	s, err := collect.OpenSystem(collect.SystemOptions{Probes: true, PIDs: []int{os.Getpid()}})
	if err == nil {
		defer s.Close()
		var p *collect.Prober
		if p, err = collect.OpenProber(s); err == nil {
			p.Close()
			return
		}
	}
	if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
		t.Skip(err)
	}
	t.Fatal(err)
}

// A branching is testdata/branches.c, built.
type branching struct {
	path string
	offs map[int]sample.Offset // of its branches
}

func buildBranching(t *testing.T) *branching {
	t.Helper()
	b := &branching{path: program(t, "branches"), offs: map[int]sample.Offset{}}
	im := openImage(t, b.path)
	f, err := elf.Open(b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	places, err := f.Section(".branches").Data()
	if err != nil {
		t.Fatal(err)
	}
	for ; len(places) >= 16; places = places[16:] {
		off, ok := im.OffsetOf(image.Addr(binary.LittleEndian.Uint64(places[8:])))
		i := int(binary.LittleEndian.Uint64(places))
		if _, twice := b.offs[i]; !ok || twice {
			t.Fatalf("branch %d is in two places, or in none", i)
		}
		b.offs[i] = off
	}
	return b
}

// start runs it for a minute at most.
func (b *branching) start(t *testing.T) (cmd *exec.Cmd, printed *bytes.Buffer) {
	t.Helper()
	cmd, printed = exec.Command(b.path, "60"), &bytes.Buffer{}
	cmd.Stdout = printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, printed
}

// end has a run of it end, which was not harmed.
func (b *branching) end(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("the program does not run on: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
}

// probed is what was counted of the program.
func (b *branching) probed(rec *sample.Recording) map[sample.Offset]sample.Probed {
	if c := calibrate.Timed(rec); c != nil {
		for _, ic := range c.Images {
			if filepath.Base(ic.ID.Path) == filepath.Base(b.path) {
				return ic.Probed
			}
		}
	}
	return nil
}

// fewOutcomes is how many each branch has even on a machine that is rather busy; there is no
// time for more than a few walks.
const fewOutcomes = 200

// counted returns the least number of outcomes that a branch has, and how often a place ran in
// windows of probes, at most.
func (b *branching) counted(rec *sample.Recording) (outcomes, runs uint64) {
	probed := b.probed(rec)
	outcomes = math.MaxUint64
	for _, off := range b.offs {
		outcomes = min(outcomes, probed[off].Outcomes)
	}
	for _, p := range probed {
		runs = max(runs, p.Runs)
	}
	return outcomes, runs
}

// check holds what was counted of branches to what the program printed.
func (b *branching) check(t *testing.T, rec *sample.Recording, printed string) {
	t.Helper()
	c := calibrate.Timed(rec)
	if c == nil {
		t.Fatal("no samples of time")
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if n, _ := b.counted(rec); n < fewOutcomes {
		t.Skipf("needs a less busy machine: %d outcomes", n)
	}
	probed := b.probed(rec)
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	for i, off := range b.offs {
		var ran, taken float64
		if len(lines) != len(b.offs) {
			t.Fatalf("the program printed %q", printed)
		}
		if _, err := fmt.Sscan(lines[i], &ran, &taken); err != nil {
			t.Fatalf("the program printed %q: %v", printed, err)
		}
		p := probed[off]
		t.Logf("branch %d: %+v; ran %.0f times, taken %.4f", i, p, ran, taken/ran)
		want := taken / ran
		sd := math.Sqrt(p.Spread.Float64()) / float64(p.Outcomes)
		if got := float64(p.Taken) / float64(p.Outcomes); math.Abs(got-want) > 0.03+4*sd {
			t.Errorf("branch %d: taken %.4f, want %.4f", i, got, want)
		}
	}
}

// TestCalibrateWalks: where the kernel has no probes, walks alone tell where branches go.
func TestCalibrateWalks(t *testing.T) {
	if collect.Probes.Refusal(collect.ThisHost()) == nil {
		t.Skip("this kernel has probes; testdata/kernels runs this on one that has none")
	}
	if u := collect.Walks.Refusal(collect.ThisHost()); u != nil {
		t.Skip(designed + u.Why)
	}
	b, out := buildBranching(t), filepath.Join(t.TempDir(), "walks.bfr")
	var printed, errs bytes.Buffer
	cmd := ownCommand(t, "record", "--calibrate=50%", "-d", "15s", "-o", out, "--", b.path, "60")
	cmd.Stdout, cmd.Stderr = &printed, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	t.Log(errs.String())
	if !regexp.MustCompile(`--calibrate: no probes, walks alone: .*\n`).MatchString(errs.String()) || strings.Contains(errs.String(), "executions were counted") || strings.Contains(errs.String(), "counting executions") {
		t.Errorf("it says %q", errs.String())
	}
	b.check(t, decode(t, out), printed.String())
}

// TestCalibrateCommand records a command with probes as users do, and holds the counts to the program's own.
func TestCalibrateCommand(t *testing.T) {
	probing(t)
	b, dir := buildBranching(t), t.TempDir()
	out, log := filepath.Join(dir, "command.bfr"), filepath.Join(dir, "log")
	var printed, errs bytes.Buffer
	cmd := ownCommand(t, "record", "--calibrate=50%", "--calibrate-log", log, "-d", "12s", "-o", out, "--", b.path, "60")
	cmd.Stdout, cmd.Stderr = &printed, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	t.Log(errs.String())
	b.check(t, decode(t, out), printed.String()) // skips the rest, too, where the machine is busy
	t.Run("log", func(t *testing.T) {
		if n := regexp.MustCompile(`backfeed: executions were counted at \d+ places, in (\d+) windows`).FindStringSubmatch(errs.String()); n == nil {
			t.Errorf("it says %q", errs.String())
		} else if lines := strings.Count(testtool.Read(t, log), "\thits "); strconv.Itoa(lines) != n[1] {
			t.Errorf("%s windows, of which the log tells %d", n[1], lines)
		}
		if !regexp.MustCompile(`(?m)^\S+Z\t` + regexp.QuoteMeta(b.path) + `\topen \S+\tarmed \S+\ttime \S+\thits [1-9]\d*\t0x[0-9a-f]+=\d+`).MatchString(testtool.Read(t, log)) {
			t.Errorf("the log:\n%s", testtool.Read(t, log))
		}
	})
	t.Run("infer", func(t *testing.T) {
		if text := must(t, "infer", out); !strings.Contains(text, "first") || !strings.Contains(text, "second") {
			t.Errorf("infer:\n%s", text)
		}
	})
}

// TestCalibrateStalls: walks of a program that is one loop tell its branches and not how long a turn takes;
// what it waits for is the likeliest cause all the same.
func TestCalibrateStalls(t *testing.T) {
	probing(t)
	exe := buildStalls(t)
	for _, tt := range stallings {
		t.Run(tt.kind, func(t *testing.T) {
			if !*measured && !tt.quick {
				t.Skip("recorded with -measure only")
			}
			tt.record(t, exe, "100000", "--calibrate=25%", "-d", "5s") // walks begin after three seconds
		})
	}
}

// TestCalibrateProcess: a process goes on, whatever is done to it.
func TestCalibrateProcess(t *testing.T) {
	probing(t)
	b, dir := buildBranching(t), t.TempDir()
	cmd, printed := b.start(t)
	pid := strconv.Itoa(cmd.Process.Pid)
	t.Run("dry run", func(t *testing.T) {
		t.Chdir(t.TempDir())
		code, text, errs := runCLI(t, "record", "--calibrate", "--dry-run", "-p", pid, "-d", "3500ms")
		if code != exitDone || strings.Contains(errs, "executions were counted") || !strings.Contains(errs, "windows so far: 0") {
			t.Errorf("exit code %d: %s", code, errs)
		}
		for _, proc := range []string{"first", "second"} {
			if !regexp.MustCompile(` (runs|outcomes) +0x[0-9a-f]+  ` + proc + ` +` + regexp.QuoteMeta(b.path)).MatchString(text) {
				t.Errorf("%s is not to be probed:\n%s", proc, text)
			}
		}
		if _, err := os.Stat("backfeed.bfr"); err == nil {
			t.Error("a recording was written")
		}
	})
	t.Run("recorded", func(t *testing.T) {
		out := filepath.Join(dir, "process.bfr")
		if code, _, errs := runCLI(t, "record", "--calibrate=50%", "-p", pid, "-d", "7s", "-o", out); code != exitDone {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		b.end(t, cmd)
		b.check(t, decode(t, out), printed.String())
	})
}

// TestCalibrateEnds: what a recording with probes says where it cannot be made, or where its command fails.
func TestCalibrateEnds(t *testing.T) {
	probing(t)
	b := buildBranching(t)
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"fails", []string{"-d", "20s", "--", b.path, "0.5", "3"}, exitFailed, "exit status 3; what was recorded"},
		{"not there", []string{"--", "/no/such/command"}, exitFailed, "no such file"},
		{"no process", []string{"-p", "1073741824"}, exitFailed, "no process"},
		{"no directory for the log", []string{"--calibrate-log", t.TempDir() + "/absent/log", "--", "true"}, exitFailed, "--calibrate-log: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			code, _, errs := runCLI(t, append([]string{"record", "--calibrate", "-o", out}, tt.args...)...)
			if code != tt.code || !strings.Contains(errs, tt.says) {
				t.Errorf("exit code %d, %q; want %d, %q", code, errs, tt.code, tt.says)
			}
			if _, err := os.Stat(out); (err == nil) != (tt.name == "fails") {
				t.Errorf("a recording: %v", err)
			}
		})
	}
}

// TestCalibrateNobody: an ordinary user calibrates a command by long walks.
func TestCalibrateNobody(t *testing.T) {
	testtool.Live(t, "records and walks")
	if os.Geteuid() != 0 {
		t.Skip("only root can be nobody")
	}
	if u := collect.TryLongWalks(); u != nil {
		t.Skip(designed + u.Why)
	}
	b := buildBranching(t)
	// The directories of tests are root's.
	dir, err := os.MkdirTemp("", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	own := func(name, path string) string {
		to := filepath.Join(dir, name)
		if err := os.WriteFile(to, []byte(testtool.Read(t, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		return to
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	exe, out := own(filepath.Base(b.path), b.path), filepath.Join(dir, "nobody.bfr")
	lasts := "6s"
	if testtool.Prebuilt() != "" { // of which half has less room for walks
		lasts = "10s"
	}
	cmd := ownCommand(t, "record", "--calibrate=50%", "-d", lasts, "-o", out, "--", exe, "60")
	cmd.Path = own("backfeed", cmd.Path)
	var printed, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &printed, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	t.Log(errs.String())
	if strings.Contains(errs.String(), "the time was too short") {
		t.Skipf("needs a faster machine, on which half of %s has room for walks: %s", lasts, errs.String())
	}
	if !strings.Contains(errs.String(), "long walks alone") || !longWalked.MatchString(errs.String()) {
		t.Errorf("it says %q", errs.String())
	}
	rec := decode(t, out)
	b.check(t, rec, printed.String())
	if c := calibrate.Timed(rec); len(c.Paths) == 0 {
		t.Error("no path is kept")
	}
}

// TestAgentCalibrate: what an agent's probes count is in its store.
func TestAgentCalibrate(t *testing.T) {
	probing(t)
	b := buildBranching(t)
	cmd, printed := b.start(t)
	into := filepath.Join(t.TempDir(), "store")
	c := &cli{stdout: io.Discard, stderr: io.Discard, cmd: agentCmd}
	f, err := c.parseAgent([]string{"--store", into, "--calibrate=50%", "-F", "997", "--max-cpu", "100%", "-p", strconv.Itoa(cmd.Process.Pid), "--flush", "1s"})
	if err != nil {
		t.Fatal(err)
	}
	opt, err := c.agentOptions(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	opt.FirstAim = 2 * time.Second
	a, err := agent.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	signals, told := make(chan os.Signal, 1), make(chan error, 1)
	go func() {
		a.Run(signals)
		told <- a.Close()
	}()
	s, err := store.Open(into, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rec *sample.Recording
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(250 * time.Millisecond) {
		if rec, err = s.Read(store.Query{}); err != nil {
			t.Fatal(err)
		}
		if outcomes, runs := b.counted(rec); outcomes >= fewOutcomes && runs > 0 {
			break
		}
	}
	signals <- syscall.SIGTERM
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	b.end(t, cmd)
	if rec, err = s.Read(store.Query{}); err != nil {
		t.Fatal(err)
	}
	if segments, err := s.Segments(); err != nil || len(segments) < 2 {
		t.Errorf("segments %+v, %v", segments, err)
	}
	b.check(t, rec, printed.String())
}
