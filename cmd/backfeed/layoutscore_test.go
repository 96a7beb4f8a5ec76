package main

import (
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/layout"
)

// TestWriteScores: a table for each of the counts that placements are scored on.
func TestWriteScores(t *testing.T) {
	s := layout.Scores{ExtTSP: 1234567, Transfers: 1000, Taken: 250, CallScore: 0.125, Distance: 4096, Placed: 0.5,
		Bytes: layout.Coverage{For90: 100, For99: 200, For999: 300}, Lines: layout.Coverage{For90: 2, For99: 4, For999: 5},
		Pages: layout.Coverage{For90: 1, For99: 1, For999: 2}, HugePages: layout.Coverage{For90: 1, For99: 1, For999: 1}}
	var b strings.Builder
	if err := writeScores(&b, "/bin/app", []scored{{"as linked", ownCounts, s}, {"relinked", ownCounts, layout.Scores{}}, {"as linked", holdoutCounts, s}}, report.Style{}); err != nil {
		t.Fatal(err)
	}
	want := `/bin/app                                      as linked  relinked
ext-TSP score of blocks (more is better)          1.23M         0
jumps taken, of transfers between blocks          25.0%         -
score of calls (more is better)                    0.12         0
mean distance of a call, in bytes                 4.10k         0
bytes for 90, 99, 99.9 % of execution     100, 200, 300   0, 0, 0
cache lines of 64 bytes                         2, 4, 5   0, 0, 0
pages of 4 KiB                                  1, 1, 2   0, 0, 0
pages of 2 MiB                                  1, 1, 1   0, 0, 0
execution of what was found                       50.0%      0.0%

on the counts of the holdout                  as linked
ext-TSP score of blocks (more is better)          1.23M
jumps taken, of transfers between blocks          25.0%
score of calls (more is better)                    0.12
mean distance of a call, in bytes                 4.10k
bytes for 90, 99, 99.9 % of execution     100, 200, 300
cache lines of 64 bytes                         2, 4, 5
pages of 4 KiB                                  1, 1, 2
pages of 2 MiB                                  1, 1, 1
execution of what was found                       50.0%
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

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
	if len(own) != len(scoreRows) || len(own) != len(held) {
		t.Errorf("%d rows, and %d of the holdout; want %d", len(own), len(held), len(scoreRows))
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
