package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/collect"
)

// TestRecordChosen records an event of the kernel's software by name.
func TestRecordChosen(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--event nonsense", exitUsage, `--event: "nonsense": no such event: want a number such as r1c2, or alignment-faults, `},
		{"--period 3", exitUsage, "--period goes with --event"},
		{"--period 3 --event page-faults,minor-faults", exitUsage, "--period goes with one --event: of several"},
		{"--event page-faults,page-faults", exitUsage, `"page-faults" is named twice`},
		{"-a --period 3", exitUsage, "--period goes with a command or -p, not with -a"},
	} {
		args := append(append([]string{"record", "-o", filepath.Join(t.TempDir(), "a.bfr")}, strings.Fields(tt.args)...), "--", "true")
		if code, _, errs := runCLI(t, args...); code != tt.code || !strings.Contains(errs, tt.want) {
			if _, err := collect.Probe(); err != nil && tt.code == exitUsage && code == exitMachine {
				continue // not Linux: nothing is recorded at all
			}
			t.Errorf("%s: exit code %d: %s", tt.args, code, errs)
		}
	}
	testtool.Live(t, "records")
	if _, err := collect.Probe(); err != nil {
		t.Skip(err)
	}
	rec := filepath.Join(t.TempDir(), "faults.bfr")
	code, _, errs := runCLI(t, "record", "--event", "page-faults", "-o", rec, "--", "true")
	if code != exitDone || !strings.Contains(errs, "samples of page-faults, one for each; ") || strings.Contains(errs, "multiplexing") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	program, err := exec.LookPath("true")
	if err == nil {
		program, err = filepath.EvalSymlinks(program) // busybox is many
	}
	if err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(t.TempDir(), "both.bfr")
	code, _, errs = runCLI(t, "record", "--event", "page-faults,minor-faults", "-o", both, "--", "true")
	if code != exitDone || !strings.Contains(errs, "samples of minor-faults, one for each; ") || !strings.Contains(errs, "samples of page-faults, one for each; ") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if out := must(t, "prof", rec, "--format", "csv"); !strings.Contains(out, "ld-linux") && !strings.Contains(out, "libc") && !strings.Contains(out, program) {
		t.Error(out)
	}
}
