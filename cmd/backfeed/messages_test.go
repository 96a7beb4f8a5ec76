package main

import (
	"path/filepath"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/sample"
)

// TestRecordSays: what is not recorded is said with its share and with what to do, and what
// nothing came of is said as such.
func TestRecordSays(t *testing.T) {
	if got, want := report.Losses(map[sample.Loss]uint64{sample.LostKernel: 14, sample.LostVDSO: 1}, 100),
		"14 kernel (14.0%), 1 vdso (1.0%); kernel: the time of system calls and page faults; record -a --kernel has it, and counts of the program need it not"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := report.Losses(map[sample.Loss]uint64{sample.LostKernel: 4}, 100), "4 kernel (4.0%)"; got != want {
		t.Errorf("%q, want %q: too few to act", got, want)
	}
}

// TestNextSteps: the command that reads a profile works from every directory, and names the program that it rewrites.
func TestNextSteps(t *testing.T) {
	mix, err := filepath.Abs(mixDir)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for _, tt := range []struct{ command, want string }{
		{"emit llvm -o app.prof", "next: clang -fprofile-sample-use=" + dir + "/app.prof, with "},
		{"emit gcc -o app.afdo", "next: gcc -fauto-profile=" + dir + "/app.afdo -fno-tracer, with "},
		{"emit bolt -o app.fdata", "next: llvm-bolt " + mix + "/mix -o mix.bolt -data=" + dir + "/app.fdata "},
		{"layout mix --for lld --always -o app.order", "-Wl,--symbol-ordering-file=" + dir + "/app.order, with "},
		{"layout mix --for bolt --always -o app.order", "next: llvm-bolt " + mix + "/mix -o mix.bolt -data=FDATA "},
	} {
		code, _, errs := runCLI(t, append(strings.Fields(tt.command), mix+"/samples.bfr", "--symfs", mix)...)
		if code != exitDone || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: exit code %d, %q lacks %q", tt.command, code, errs, tt.want)
		}
	}
}
