package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A status is what became of a test.
type status string

const (
	passed  status = "ok"
	refused status = "refused" // as designed: the kernel is too old, or the user may not
	skipped status = "skipped" // for another reason
	failed  status = "FAILED"
)

// A test is one of a job, or the job itself where it failed as a whole.
type test struct {
	job    string
	name   string
	status status
	reason string // why it was refused or skipped; the log of one that failed
	leaf   bool   // has no subtests
}

// A result is what a guest reported.
type result struct {
	guest
	version string // of the kernel
	tests   []test
	skip    string // why it did not boot
	err     error
	took    time.Duration
	used    time.Duration // processor time
}

// designed begins the reason of a test that the kernel, or the lack of privilege, refuses as the table of
// features has it.
const designed = "refused as designed: "

var ended = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
var began = regexp.MustCompile(`^=== (?:RUN|CONT|NAME|PAUSE)\s+(\S+)`)
var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: `)

// take reads what jobs printed.
func (r *result) take(jobs []job, done []ran) {
	for _, j := range jobs {
		i := slices.IndexFunc(done, func(x ran) bool { return x.Name == j.Name })
		if i < 0 {
			r.tests = append(r.tests, test{job: j.Name, status: failed, reason: "did not begin"})
			continue
		}
		tests := readTests(done[i].Output)
		bad := slices.ContainsFunc(tests, func(t test) bool { return t.status == failed })
		if !bad && done[i].Status != "ok" {
			reason := done[i].Status
			if reason == "" {
				reason = "did not end"
			}
			tests = append(tests, test{status: failed, reason: reason + "\n" + tail(done[i].Output, 30)})
		}
		for _, t := range tests {
			t.job = j.Name
			r.tests = append(r.tests, t)
		}
	}
}

// readTests reads the output of a test binary with -test.v.
func readTests(output string) (tests []test) {
	logs := map[string]string{} // by test that ran when it was printed
	now := ""
	for line := range strings.Lines(output) {
		if m := began.FindStringSubmatch(line); m != nil {
			now = m[1]
			continue
		}
		m := ended.FindStringSubmatch(line)
		if m == nil {
			logs[now] += line
			continue
		}
		t := test{name: m[2], leaf: true}
		switch m[1] {
		case "PASS":
			t.status = passed
		case "FAIL":
			t.status, t.reason = failed, logs[t.name]
		case "SKIP":
			t.reason = strings.TrimSpace(logged.ReplaceAllString(tail(strings.TrimRight(logs[t.name], "\n"), 1), ""))
			t.status = skipped
			if why, ok := strings.CutPrefix(t.reason, designed); ok {
				t.status, t.reason = refused, why
			}
		}
		now = parent(t.name)
		tests = append(tests, t)
	}
	for i := range tests {
		for j := range tests {
			if parent(tests[j].name) == tests[i].name {
				tests[i].leaf = false
			}
		}
	}
	return tests
}

// parent is the test that a subtest is of; "" of a test.
func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

func tail(s string, lines int) string {
	all := strings.SplitAfter(strings.TrimSuffix(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// print writes the guest's report in the manner of go test.
func (r *result) print(w io.Writer) {
	switch {
	case r.skip != "":
		fmt.Fprintf(w, "skip\t%s\t%s\n", r, r.skip)
		return
	case r.err != nil:
		fmt.Fprintf(w, "    %v\n", r.err)
	}
	count := map[string]map[status]int{}
	var jobs []string
	for _, t := range r.tests {
		if t.status == failed {
			fmt.Fprintf(w, "--- FAIL: %s: %s: %s\n", r, t.job, t.name)
			for line := range strings.Lines(tail(t.reason, 30)) {
				fmt.Fprintf(w, "    %s\n", strings.TrimRight(line, "\n"))
			}
		}
		if count[t.job] == nil {
			count[t.job] = map[status]int{}
			jobs = append(jobs, t.job)
		}
		if t.leaf || t.status == failed {
			count[t.job][t.status]++
		}
	}
	for _, j := range jobs {
		n := count[j]
		fmt.Fprintf(w, "\t%s: %d ok, %d refused as designed, %d skipped, %d failed\n", j, n[passed], n[refused], n[skipped], n[failed])
		for _, t := range r.tests {
			if t.job == j && (t.status == refused || t.status == skipped) && t.leaf {
				fmt.Fprintf(w, "\t\t%s: %s: %s\n", t.name, t.status, firstLine(t.reason))
			}
		}
	}
	word := "ok"
	if r.failed() {
		word = "FAIL"
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%.1fs, %.0fs of processor time\n", word, r, r.version, r.took.Seconds(), r.used.Seconds())
}

func (r *result) failed() bool {
	return r.err != nil || slices.ContainsFunc(r.tests, func(t test) bool { return t.status == failed })
}

// feature returns the name of a subtest of TestFeatures, as the table of features has it.
func (t *test) feature() (string, bool) {
	return strings.CutPrefix(t.name, "TestFeatures/")
}

// summarize prints the table of kernels and features.
func summarize(w io.Writer, results []*result, again []string, took time.Duration) error {
	var rows []string
	cells := map[string]string{}
	var booted []*result
	bad, skips := 0, 0
	for _, r := range results {
		if r.skip != "" {
			skips++
			continue
		}
		booted = append(booted, r)
		if r.failed() {
			bad++
		}
		for i := range r.tests {
			t := &r.tests[i]
			name, ok := t.feature()
			if !ok {
				continue
			}
			row := strings.ReplaceAll(name, "-", " ")
			if _, user, ok := strings.Cut(t.job, "as user"); ok {
				row += ", as user" + user
			}
			if !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
			cells[r.String()+"\n"+row] = string(t.status)
		}
	}
	if len(rows) > 0 {
		fmt.Fprint(w, "\n| feature |")
		for _, r := range booted {
			fmt.Fprintf(w, " %s |", r)
		}
		fmt.Fprintf(w, "\n| --- |%s\n", strings.Repeat(" --- |", len(booted)))
		for _, row := range rows {
			fmt.Fprintf(w, "| %s |", row)
			for _, r := range booted {
				fmt.Fprintf(w, " %s |", cells[r.String()+"\n"+row])
			}
			fmt.Fprintln(w)
		}
	}
	fmt.Fprintf(w, "\n%d guests, %d skipped, %d failed, %.0f s in all\n", len(results), skips, bad, took.Seconds())
	if len(again) > 0 {
		fmt.Fprintf(w, "failed at first, and not when booted again: %s\n", strings.Join(again, ", "))
	}
	if bad > 0 {
		return fmt.Errorf("%d guests failed", bad)
	}
	return nil
}
