package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample/collect"
)

// TestSystemdUnit: systemd takes the unit, and its flags are flags of agent.
func TestSystemdUnit(t *testing.T) {
	code, unit, errs := runAs(agentCmd, "--systemd-unit")
	if code != exitDone || unit != systemdUnit {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, flag := range regexp.MustCompile(` --[a-z-]+`).FindAllString(regexp.MustCompile(`(?m)^ExecStart=.*$`).FindString(unit), -1) {
		if _, help, _ := runAs(agentCmd, "--help"); !strings.Contains(help, flag) {
			t.Errorf("agent has no flag%s", flag)
		}
	}
	analyze := testtool.Path(t, "systemd-analyze")
	path := testtool.Write(t, t.TempDir(), "backfeed.service", strings.ReplaceAll(unit, "/usr/local/bin/backfeed", self(t)))
	out, err := exec.Command(analyze, "verify", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), "backfeed.service") {
		t.Errorf("%v: %s", err, out)
	}
}

// wholeMachine skips where the whole machine cannot be sampled.
func wholeMachine(t *testing.T) {
	t.Helper()
	testtool.Live(t, "records")
	s, err := collect.OpenSystem(collect.SystemOptions{})
	if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// A running agent is a process of its own, with its log in a file.
type running struct {
	*exec.Cmd
	t   *testing.T
	log string
}

// started starts a program that runs beside a test, and is killed at its end.
func started(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// startAgent starts backfeed agent, and waits until it samples.
func startAgent(t *testing.T, args ...string) *running {
	t.Helper()
	a := &running{Cmd: ownCommand(t, append([]string{"agent"}, args...)...), t: t, log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(a.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	a.Stderr = log
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Process.Kill(); a.Wait() })
	a.await("msg=sampling", 1)
	return a
}

// await waits until the log has text n times.
func (a *running) await(text string, n int) {
	a.t.Helper()
	for range 3000 { // half a minute, on a machine with better things to do
		if strings.Count(testtool.Read(a.t, a.log), text) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	a.t.Fatalf("the agent does not say %q:\n%s", text, testtool.Read(a.t, a.log))
}

// TestAgent runs an agent beside a busy program: its metrics can be read, flags
// are read again on SIGHUP, kill -9 leaves a store that can be read, and after
// SIGTERM the hot procedure is in it.
func TestAgent(t *testing.T) {
	wholeMachine(t)
	target := busy(t)
	dir := t.TempDir()
	into := filepath.Join(dir, "store")
	load := started(t, target, "sometimes", "1")
	config := testtool.Write(t, dir, "agent.conf", "frequency = 499\nflush = 1s\nlabel = test=first\n")
	args := []string{"--store", into, "--config", config, "--metrics", "127.0.0.1:0", "--max-cpu", "50%", "--keep-images"}

	a := startAgent(t, args...)
	a.await("segment written", 2)
	url := regexp.MustCompile(`http://\S+/metrics`).FindString(testtool.Read(t, a.log))
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if m := testtool.Metrics(t, string(page)); m[`backfeed_samples_total{mode="user"}`] == 0 || m["backfeed_segments_written_total"] < 2 || m["backfeed_map_used_entries"] == 0 {
		t.Errorf("metrics:\n%s", page)
	}
	a.Process.Kill()
	a.Wait()
	must(t, "store", "fsck", into)
	before := storeSamples(t, into)

	a = startAgent(t, args...)
	testtool.Write(t, dir, "agent.conf", "frequency = 499\nflush = 2s\nlabel = test=second\n")
	a.Process.Signal(syscall.SIGHUP)
	a.await("msg=sampling", 2)
	a.await("segment written", 1+strings.Count(testtool.Read(t, a.log), "segment written"))
	testtool.Write(t, dir, "agent.conf", "cgroup = no/such/cgroup\n")
	a.Process.Signal(syscall.SIGHUP)
	a.await("the old flags come back", 1)
	a.await("msg=sampling", 3)
	testtool.Write(t, dir, "agent.conf", "flush = soon\n")
	a.Process.Signal(syscall.SIGHUP)
	a.await("the old flags stay", 1)
	if err := a.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, testtool.Read(t, a.log))
	}
	if after := storeSamples(t, into); after <= before {
		t.Errorf("%d samples in the store, %d before the second agent", after, before)
	}
	load.Process.Kill()
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"prof", into}, {"prof", into, "--label", "test=second"}} {
		if out := must(t, args...); !strings.Contains(out, " main.busy\n") {
			t.Errorf("%q does not name the hot procedure:\n%s", args, out)
		}
	}
	if code, _, errs := runCLI(t, "prof", into, "--label", "test=third"); code != exitNothing {
		t.Errorf("of another label: exit code %d: %s", code, errs)
	}
	if out := must(t, "images", into); !strings.Contains(out, filepath.Base(target)) {
		t.Errorf("images:\n%s", out)
	}
}

// storeSamples is the number of samples in a store.
func storeSamples(t *testing.T, dir string) uint64 {
	t.Helper()
	var sums report.StoreSums
	if err := json.Unmarshal([]byte(must(t, "store", "stats", dir, "--format", "json")), &sums); err != nil {
		t.Fatal(err)
	}
	return sums.Samples
}

// TestAgentOffCPU: the agent's store has where threads waited, beside its samples.
func TestAgentOffCPU(t *testing.T) {
	wholeMachine(t)
	target, dir := busy(t), t.TempDir()
	started(t, target, "sometimes", "1")
	started(t, "sh", "-c", "while :; do sleep 0.1; done")
	into := filepath.Join(dir, "store")
	a := startAgent(t, "--store", into, "--off-cpu", "--flush", "1s", "--max-cpu", "50%")
	a.await("segment written", 2)
	if err := a.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, testtool.Read(t, a.log))
	}
	must(t, "store", "fsck", into)
	if out := must(t, "prof", into); !strings.Contains(out, " main.busy\n") {
		t.Errorf("samples:\n%s", out)
	}
	if out := must(t, "prof", into, "--event", "off-cpu:interruptible", "--by", "image"); !strings.Contains(out, " ms") && !strings.Contains(out, " s ") {
		t.Errorf("waits:\n%s", out)
	}
}

// TestAgentOffCPURefused: what the agent's --off-cpu does not go with is a usage error.
func TestAgentOffCPURefused(t *testing.T) {
	for _, args := range [][]string{{"--event", "cycles"}, {"--tick"}, {"--calibrate"}, {"--callers=go"}, {"--callers=no"}} {
		if code, _, errs := runCLI(t, append([]string{"agent", "--off-cpu", "--store", t.TempDir()}, args...)...); code != exitUsage || !strings.Contains(errs, "off-cpu") {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
}

// TestRecordSystem: the whole machine is recorded for a while, or what is asked
// for of it.
func TestRecordSystem(t *testing.T) {
	wholeMachine(t)
	target, dir := busy(t), t.TempDir()
	load := started(t, target, "sometimes", "1")
	only := filepath.Join(dir, "only.bfr")
	code, _, errs := runCLI(t, "record", "-a", "-p", strconv.Itoa(load.Process.Pid), "--callers", "-d", "1s", "-o", only)
	if code != exitDone || !strings.Contains(errs, "samples of") || !strings.Contains(errs, "are left out") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, r := range itemsOf[report.ImageRow](t, "backfeed.images/2", must(t, "images", only, "--format", "json")) {
		if r.Path != target && r.Path != "[vdso]" && r.Lost == "" {
			t.Errorf("samples of %s, which was not asked for", r.Path)
		}
	}
	for _, r := range itemsOf[report.ProfSplitRow](t, "backfeed.prof-split/1", must(t, "prof", only, "--by", "cpu", "--format", "json")) {
		if r.CPU == nil || r.Unknown || r.Samples == 0 {
			t.Errorf("by processor: %+v, want each sample to have one", r)
		}
	}
	into := filepath.Join(dir, "store")
	if code, _, errs := runCLI(t, "record", "-a", "--tick", "-d", "1s", "--store", into, "--label", "rate=tick"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if out := must(t, "store", "ls", into); !strings.Contains(out, "rate=tick") {
		t.Errorf("the label is not in the store:\n%s", out)
	}
	code, out, errs := runCLI(t, "prof", into, only)
	if code != exitDone || !strings.Contains(out, " main.busy\n") || !strings.Contains(errs, "are not mixed with those of") {
		t.Errorf("exit code %d: %s\n%s", code, errs, out)
	}
}
