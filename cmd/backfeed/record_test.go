package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// busy compiles the program that the tests of package collect record.
func busy(t *testing.T) (exe string) {
	t.Helper()
	testtool.Live(t, "records")
	if _, err := collect.Probe(); err != nil {
		t.Skip(err)
	}
	return program(t, "busy")
}

// runAs runs a command of the table that need not be in it.
func runAs(cmd *command, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	c := &cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, cmd: cmd}
	if err := cmd.run(c, args); err != nil {
		return codeOf(err), out.String(), errs.String() + err.Error()
	}
	return exitDone, out.String(), errs.String()
}

func TestRecord(t *testing.T) {
	exe, dir := busy(t), t.TempDir()
	for _, tt := range []struct {
		name  string
		args  []string
		code  int
		says  string
		wants bool // a recording
	}{
		{"command", []string{"--", exe, "busy", "200"}, exitDone, "samples of", true},
		{"command without --", []string{exe, "busy", "200"}, exitDone, "samples of", true},
		{"fails", []string{"--", exe, "fail", "200"}, exitFailed, "exit status 3", true},
		{"few", []string{"-F", "199", "--", exe, "busy", "200"}, exitDone, "few for a profile: have the program run longer, or raise -F from 199 Hz\nbackfeed: wrote", true},
		{"time is up", []string{"-d", "300ms", "--", exe, "forever", "1"}, exitDone, "samples of", true},
		{"does nothing", []string{"-F", "1", "--", "true"}, exitNothing, "no samples", false},
		{"not there", []string{"--", "/no/such/command"}, exitFailed, "no such file", false},
		{"nothing", nil, exitUsage, "nothing to record", false},
		{"both", []string{"-p", "1", "--", "true"}, exitUsage, "not both", false},
		{"no process", []string{"-p", "1073741824"}, exitFailed, "no process", false},
		{"no frequency", []string{"-F", "0", "--", "true"}, exitUsage, "positive", false},
		{"too fast", []string{"-F", "1000000", "--", "true"}, exitFailed, "100000", false},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
		code, _, errs := runAs(recordCmd, append([]string{"-o", file}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: exit code %d, %q; want %d, %q", tt.name, code, errs, tt.code, tt.says)
		}
		b, err := os.ReadFile(file)
		if (err == nil) != tt.wants {
			t.Errorf("%s: %v; want a recording: %v", tt.name, err, tt.wants)
			continue
		}
		if rec, err := sample.Decode(b); tt.wants && (err != nil || rec.Samples() == 0) {
			t.Errorf("%s: no samples written: %v", tt.name, err)
		}
	}
}

// TestRecordUnread: a recording is written though nobody reads what is said of it; the command has the signal of broken pipes as ever.
func TestRecordUnread(t *testing.T) {
	exe, dir := busy(t), t.TempDir()
	sh := func(script string) error {
		cmd := exec.Command("sh", "-c", script, os.Args[0], exe)
		cmd.Env, cmd.Dir = append(os.Environ(), runEnv+"=1"), dir
		return cmd.Run()
	}
	if err := sh(`"$0" record -o unread.bfr -- "$1" busy 200 2>&1 | true`); err != nil {
		t.Fatal(err)
	}
	if rec := decode(t, filepath.Join(dir, "unread.bfr")); rec.InUser() == 0 {
		t.Error("the recording has no samples")
	}
	if err := sh(`"$0" record -o piped.bfr -- sh -c 'kill -PIPE $$; exit 0'`); err == nil {
		t.Error("a command that broken pipes end lives on")
	}
}

// TestRecordToStdout: the recording is alone there.
func TestRecordToStdout(t *testing.T) {
	code, out, errs := runAs(recordCmd, "-o", "-", "--", busy(t), "busy", "200")
	rec, err := sample.Decode([]byte(out))
	if code != exitDone || err != nil || rec.Samples() == 0 {
		t.Errorf("exit code %d, %v: %s", code, err, errs)
	}
}

func TestPGO(t *testing.T) {
	exe := busy(t)
	file := filepath.Join(t.TempDir(), "default.pgo")
	code, _, errs := runAs(pgoCmd, "-F", "199", "-o", file, "--", exe, "tree", "200") // few samples, on a busy machine too
	if code != exitDone || !strings.Contains(errs, "thin profile") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if lines := strings.Split(strings.TrimSpace(errs), "\n"); !strings.HasPrefix(lines[len(lines)-1], "backfeed: next, build with it: go build -pgo="+file+" ") {
		t.Errorf("the last line does not say what to build with: %s", errs)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(b)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.String(), "main.busyInThread") {
		t.Errorf("the hot function is not in the profile:\n%s", p)
	}
	code, _, errs = runAs(pgoCmd, "-o", filepath.Join(t.TempDir(), "none"), "--", "true")
	if code != exitNothing {
		t.Errorf("of a command that does nothing: exit code %d: %s", code, errs)
	}
}

// TestKernelThread: threads of the kernel are told by their flags, whatever their names hold.
func TestKernelThread(t *testing.T) {
	for stat, want := range map[string]bool{
		"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0":     true,
		"11 (a) b (c) I 2 0 0 0 -1 69238880 0 0":    true,
		"4242 (bash) S 1 4242 4242 34816 1 4194304": false,
		"4242 (sh": false,
		"":         false,
	} {
		if got := kernelThread(stat); got != want {
			t.Errorf("%q: %v", stat, got)
		}
	}
}
