package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/sample/collect"
)

// runEnv makes the program of this test the command backfeed.
const runEnv = "BACKFEED_TEST_RUN"

// ownCommand is the command as a process: the program of this test, for which nothing is compiled or linked.
func ownCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(self(t), args...)
	cmd.Env = append(os.Environ(), runEnv+"=1")
	return cmd
}

func TestMain(m *testing.M) {
	collect.BecomeProber()
	if os.Getenv(cacheVar) == "" {
		os.Setenv(cacheVar, "off") // a test is to infer what it is of
	}
	if os.Getenv(runEnv) != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestCalibrateFlags(t *testing.T) {
	for _, tt := range []struct {
		args, want string
	}{
		{"--dry-run -- true", "go with --calibrate"},
		{"--calibrate-log x -- true", "go with --calibrate"},
		{"--calibrate --dry-run --calibrate-log x -- true", "not both"},
		{"--calibrate=0 -- true", "want a percentage"},
		{"--calibrate=101% -- true", "want a percentage"},
		{"--calibrate=much -- true", "want a percentage"},
		{"--calibrate --event cycles -- true", "goes with the event of time"},
		{"--calibrate", "nothing to record"},
		{"--calibrate -p 1 -- true", "not both"},
		{"--calibrate -a -- true", "not both"},
		{"--calibrate --cgroup x -- true", "go with -a"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		code, _, errs := runCLI(t, append([]string{"record", "-o", out}, strings.Fields(tt.args)...)...)
		if code != exitUsage || !strings.Contains(errs, tt.want) {
			t.Errorf("record %s: exit code %d, %q; want %q", tt.args, code, errs, tt.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("record %s: an output was written", tt.args)
		}
	}
	if code, _, errs := runCLI(t, "pgo", "--dry-run", "--", "true"); code != exitUsage || !strings.Contains(errs, "go with --calibrate") {
		t.Errorf("pgo --dry-run: exit code %d, %q", code, errs)
	}
	for _, tt := range []struct{ args, want string }{
		{"--calibrate-log x", "go with --calibrate"},
		{"--dry-run --calibrate", "unknown flag"},
	} {
		if code, _, errs := runCLI(t, append([]string{"agent", "--store", t.TempDir()}, strings.Fields(tt.args)...)...); code != exitUsage || !strings.Contains(errs, tt.want) {
			t.Errorf("agent %s: exit code %d, %q; want %q", tt.args, code, errs, tt.want)
		}
	}
	for _, tt := range []struct {
		flags calibrateFlags
		ok    bool
	}{
		{calibrateFlags{}, true},
		{calibrateFlags{budget: 0.01}, true},
		{calibrateFlags{budget: 0.01, dry: true}, true},
		{calibrateFlags{budget: 0.01, log: "x"}, true},
		{calibrateFlags{budget: 0.01, log: "x", dry: true}, false},
		{calibrateFlags{dry: true}, false},
		{calibrateFlags{log: "x"}, false},
	} {
		if err := tt.flags.check(); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.flags, err)
		}
	}
}
