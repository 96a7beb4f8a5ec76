package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestJudgementRefuses: scores that nothing shows are not asked for in silence.
func TestJudgementRefuses(t *testing.T) {
	for _, flag := range []string{"--holdout", "--relinked"} {
		code, stdout, stderr := runCLI(t, "layout", "app", "app.bfr", "--for", "lld", flag, "x")
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "--for text or json") {
			t.Errorf("%s: exit code %d, printed %q, message %q", flag, code, stdout, stderr)
		}
	}
}

// TestHoldoutOfItself: an order is scored on its own counts as on a holdout that has
// the same.
func TestHoldoutOfItself(t *testing.T) {
	program := compile(t)
	rec := recordOfCall(t, program, "drive", "work")
	tables := strings.Split(must(t, "layout", program, "--for", "text", rec, "--holdout", rec), "\n\n")
	rows := func(table string) (out [][]string) {
		for _, line := range strings.Split(table, "\n")[1:] {
			f := strings.Fields(strings.ReplaceAll(line, ", ", ","))
			out = append(out, f[len(f)-3:])
		}
		return out
	}
	own, held := rows(tables[0]), rows(tables[1])
	for i := range held {
		// The column before the last is of the order made from the holdout.
		if own[i][1] != held[i][0] || held[i][0] != held[i][1] || own[i][2] != held[i][2] {
			t.Errorf("row %d: on its own counts %v, on the holdout's %v", i, own[i], held[i])
		}
	}
	if len(own) == 0 || len(own) != len(held) {
		t.Errorf("%d rows, and %d of the holdout", len(own), len(held))
	}
}

// TestRelinkedOther: an image of another program is refused.
func TestRelinkedOther(t *testing.T) {
	program := compile(t)
	rec := recordOfCall(t, program, "drive", "work")
	code, stdout, stderr := runCLI(t, "layout", program, rec, "--for", "text", "--relinked", "../../testdata/mix/mix")
	if code != exitNothing || stdout != "" || !strings.Contains(stderr, "none of the code that ran") {
		t.Errorf("exit code %d, printed %d bytes, message %q", code, len(stdout), stderr)
	}
}

// TestLayoutSameBytes: equal input gives equal bytes, in every column.
func TestLayoutSameBytes(t *testing.T) {
	program := compile(t)
	rec := recordOfCall(t, program, "drive", "work")
	for _, target := range []string{"text", "json"} {
		args := []string{"layout", program, rec, "--for", target, "--holdout", rec, "--relinked", program}
		if first, again := must(t, args...), must(t, args...); first != again {
			t.Errorf("--for %s: the same input gave other bytes", target)
		}
	}
}

// TestLayoutUnclear: a program whose code lies well already gets no order unless that is asked for; what is there stays.
func TestLayoutUnclear(t *testing.T) {
	mix, rec := "../../testdata/mix/mix", "../../testdata/mix/samples.bfr"
	order := filepath.Join(t.TempDir(), "order")
	if err := os.WriteFile(order, []byte("before\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"lld", "gold", "ld", "ld-script"} {
		code, _, stderr := runCLI(t, "layout", mix, rec, "--for", target, "-o", order)
		if code != exitGate || !strings.Contains(stderr, "the order is not clearly better than that in which the image is linked: pages") || testtool.Read(t, order) != "before\n" {
			t.Errorf("%s: exit code %d, %s", target, code, stderr)
		}
	}
	if must(t, "layout", mix, rec, "--for", "lld", "--always", "-o", order); testtool.Read(t, order) == "before\n" {
		t.Error("nothing was written with --always")
	}
}
