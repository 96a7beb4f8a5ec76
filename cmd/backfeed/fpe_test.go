package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

const fpeC = `
#define _GNU_SOURCE
#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
static sigjmp_buf env;
static void on(int s) { siglongjmp(env, 1); }
volatile int zero;
volatile double dzero, sum;
__attribute__((noinline)) int divide(int a) { return a / zero; }
__attribute__((noinline)) double fdivide(double a) { return a / dzero; }
__attribute__((noinline)) void masked(void) { for (int i = 0; i < 100; i++) sum += i / dzero; }
int main(void) {
	signal(SIGFPE, on);
	masked();
	for (volatile int i = 0; i < 7; i++)
		if (!sigsetjmp(env, 1))
			divide(7);
	for (volatile int i = 0; i < 5; i++)
		if (!sigsetjmp(env, 1)) {
			feenableexcept(FE_DIVBYZERO);
			fdivide(3);
		}
	return 0;
}
`

// TestFPE: perf tells of signals of arithmetic, and prof names the instructions.
func TestFPE(t *testing.T) {
	perf := testtool.Path(t, "perf")
	dir := t.TempDir()
	testtool.Write(t, dir, "fpe.c", fpeC)
	program, data := filepath.Join(dir, "fpe"), filepath.Join(dir, "perf.data")
	testtool.Run(t, dir, "gcc", "-O1", "-g", "-Wl,--build-id", "-o", program, "fpe.c", "-lm")
	if out, err := exec.Command(perf, "record", "-q", "-e", "signal:signal_generate", "--filter", "sig == 8", "-g", "--buildid-all", "-o", data, "--", program).CombinedOutput(); err != nil {
		t.Skipf("perf cannot record signals here: %v\n%s", err, out)
	}
	var doc report.FPE
	if err := json.Unmarshal([]byte(must(t, "prof", data, "--experiment", "fpe", "--format", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Total != 12 || len(doc.Rows) != 2 {
		t.Fatalf("%+v", doc)
	}
	for i, want := range []report.FPERow{
		{Signals: 7, Reason: "intdiv", Name: report.Name{Procedure: "divide"}, Instruction: "idiv"},
		{Signals: 5, Reason: "fltdiv", Name: report.Name{Procedure: "fdivide"}, Instruction: "div"},
	} {
		got := doc.Rows[i]
		if got.Signals != want.Signals || got.Reason != want.Reason || got.Procedure != want.Procedure || !strings.Contains(got.Instruction, want.Instruction) ||
			!strings.Contains(got.Source, "fpe.c:") {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestFPEText: a place whose image is not here is shown by its image alone.
func TestFPEText(t *testing.T) {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "sigfpe:intdiv", Period: 1, Unit: "events"})
	c.AddSample(c.Image(sample.ImageID{Path: "/nowhere/a"}), 0x1000, 3)
	c.Lose(sample.LostAnonymous, 2)
	out := must(t, "prof", save(t, c), "--experiment", "fpe")
	for _, want := range []string{"      3  ", "/nowhere/a", "  integer divided by zero, or quotient too large\n", "      2  (anonymous memory)", "\n5 SIGFPE. "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code, _, errs := runCLI(t, "prof", recording(t, t.TempDir(), "a.bfr", sample.ImageID{Path: "/x"}), "--experiment", "fpe"); code != exitNothing ||
		!strings.Contains(errs, "no signals were recorded") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
