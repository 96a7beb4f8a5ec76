package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const console = `SeaBIOS
@@ begin features as root
=== RUN   TestFeatures
=== RUN   TestFeatures/whole-machine
=== RUN   TestFeatures/tick
    features_linux_test.go:55: refused as designed: Linux 5.15 or later is needed for --tick: this is 5.10.0
=== RUN   TestFeatures/walks
    features_linux_test.go:60: exit code 1: no room
        in the kernel
--- FAIL: TestFeatures (2.00s)
    --- PASS: TestFeatures/whole-machine (1.00s)
    --- SKIP: TestFeatures/tick (0.50s)
    --- FAIL: TestFeatures/walks (0.50s)
FAIL

@@ end features as root: 2.1 s: exit status 1
@@ begin collect as root
=== RUN   TestSums
    system_linux_test.go:30: no gcc
--- SKIP: TestSums (0.00s)
PASS

@@ end collect as root: 0.1 s: ok
@@ begin cmd as root
=== RUN   TestAgent
Killed
`

var jobs = []job{{Name: "features as root"}, {Name: "collect as root"}, {Name: "cmd as root"}, {Name: "features as user"}}

// TestTake: what a guest prints is read as tests, their reasons and what did not end.
func TestTake(t *testing.T) {
	r := &result{guest: guest{kernel: kernel{"bullseye", "5.10", "amd64"}}, version: "linux-image-5.10"}
	r.take(jobs, parse(strings.ReplaceAll(console, "\n", "\r\n")))
	var got []string
	for _, x := range r.tests {
		got = append(got, strings.TrimSpace(strings.Join([]string{x.job, x.name, string(x.status), strings.ReplaceAll(strings.TrimSpace(x.reason), "\n", "/")}, ": ")))
	}
	want := []string{
		"features as root: TestFeatures: FAILED:",
		"features as root: TestFeatures/whole-machine: ok:",
		"features as root: TestFeatures/tick: refused: Linux 5.15 or later is needed for --tick: this is 5.10.0",
		"features as root: TestFeatures/walks: FAILED: features_linux_test.go:60: exit code 1: no room/        in the kernel",
		"collect as root: TestSums: skipped: no gcc",
		"cmd as root: : FAILED: did not end/=== RUN   TestAgent/Killed",
		"features as user: : FAILED: did not begin",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !r.failed() {
		t.Error("it is not told to have failed")
	}
}

// TestSummary pins the report and the table.
func TestSummary(t *testing.T) {
	a := &result{guest: guest{kernel: kernel{"bullseye", "5.10", "amd64"}}, version: "linux-image-5.10", took: time.Second}
	a.take(jobs[:1], parse(console))
	b := &result{guest: guest{kernel: kernel{"trixie", "6.12", "arm64"}, variant: "time"}, version: "linux-image-6.12", took: time.Second}
	b.take(jobs[:1], parse(strings.NewReplacer("FAIL", "PASS", "refused as designed: ", "").Replace(strings.Replace(console, "exit status 1", "ok", 1))))
	c := &result{guest: guest{kernel: kernel{"sid", "", "amd64"}}, skip: "cannot fetch the kernel: no network"}
	var out bytes.Buffer
	for _, r := range []*result{a, b, c} {
		r.print(&out)
	}
	err := summarize(&out, []*result{a, b, c}, nil, 90*time.Second)
	if err == nil || err.Error() != "1 guests failed" {
		t.Errorf("error %v", err)
	}
	const want = `--- FAIL: bullseye-amd64: features as root: TestFeatures
--- FAIL: bullseye-amd64: features as root: TestFeatures/walks
        features_linux_test.go:60: exit code 1: no room
            in the kernel
	features as root: 1 ok, 1 refused as designed, 0 skipped, 2 failed
		TestFeatures/tick: refused: Linux 5.15 or later is needed for --tick: this is 5.10.0
FAIL	bullseye-amd64	linux-image-5.10	1.0s, 0s of processor time
	features as root: 2 ok, 0 refused as designed, 1 skipped, 0 failed
		TestFeatures/tick: skipped: Linux 5.15 or later is needed for --tick: this is 5.10.0
ok	trixie-arm64-time	linux-image-6.12	1.0s, 0s of processor time
skip	sid-amd64	cannot fetch the kernel: no network

| feature | bullseye-amd64 | trixie-arm64-time |
| --- | --- | --- |
| whole machine | ok | ok |
| tick | refused | skipped |
| walks | FAILED | ok |

3 guests, 1 skipped, 1 failed, 90 s in all
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := summarize(&out, []*result{b, c}, []string{"one"}, time.Second); err != nil {
		t.Error(err)
	}
	if err := summarize(&out, []*result{{err: errors.New("qemu: no such file")}}, nil, time.Second); err == nil {
		t.Error("a guest that did not run is not told to have failed")
	}
}

// FuzzTake: whatever a console says, each job has a result, and none is ok that did not end.
func FuzzTake(f *testing.F) {
	f.Add(console)
	f.Add("@@ begin cmd as root\n@@ end cmd as root: 1 s: ok\n@@ end x\n@@ begin \n")
	f.Fuzz(func(t *testing.T, s string) {
		r := &result{}
		done := parse(s)
		r.take(jobs, done)
		for _, j := range jobs {
			i := slices.IndexFunc(done, func(x ran) bool { return x.Name == j.Name })
			bad := slices.ContainsFunc(r.tests, func(x test) bool { return x.job == j.Name && x.status == failed })
			if (i < 0 || done[i].Status != "ok") && !bad {
				t.Errorf("%s did not end, and has not failed", j.Name)
			}
		}
		r.print(new(bytes.Buffer))
		summarize(new(bytes.Buffer), []*result{r}, nil, 0)
	})
}

// TestTryAgain: of guests that failed, one that passes when it is booted again has passed, and is named;
// others are not booted again.
func TestTryAgain(t *testing.T) {
	bad := []test{{name: "TestA", status: failed}}
	named := func(suite string) guest { return guest{kernel: kernel{suite: suite, arch: "amd64"}} }
	results := []*result{
		{guest: named("good")}, {guest: named("flaky"), tests: bad}, {guest: named("bad"), tests: bad},
		{guest: named("gone"), err: errors.New("qemu: killed")}, {guest: named("skipped"), skip: "no network"},
	}
	var booted []string
	again := tryAgain(results, func(r *result) {
		booted = append(booted, r.suite)
		switch r.suite {
		case "bad":
			r.tests = bad
		case "gone":
			r.skip = "no qemu"
		}
	})
	if want := []string{"flaky", "bad", "gone"}; !slices.Equal(booted, want) {
		t.Errorf("booted again: %q, want %q", booted, want)
	}
	if want := []string{"flaky-amd64"}; !slices.Equal(again, want) {
		t.Errorf("passed then: %q, want %q", again, want)
	}
	var out bytes.Buffer
	if err := summarize(&out, results, again, time.Second); err == nil || !strings.Contains(out.String(), "5 guests, 1 skipped, 2 failed") || !strings.Contains(out.String(), "booted again: flaky-amd64") {
		t.Errorf("%v, %s", err, out.String())
	}
}

// TestAtOnce: two guests that go by time are booted at once, as many as are asked for, and two that go by instructions beside
// them: here none ends before both of either kind have begun.
func TestAtOnce(t *testing.T) {
	var results []*result
	const each, n = 4, 2
	for i := range each {
		results = append(results, &result{guest: guest{variant: fmt.Sprint("time", i)}}, &result{guest: guest{variant: fmt.Sprint("counted", i), qemu: counted}})
	}
	var mu sync.Mutex
	begun, running, most := map[bool]int{}, map[bool]int{}, map[bool]int{}
	both := map[bool]chan struct{}{false: make(chan struct{}), true: make(chan struct{})} // closed when n of a kind have begun
	atOnce(results, n, func(r *result) {
		c := r.counted()
		mu.Lock()
		running[c]++
		most[c] = max(most[c], running[c])
		if begun[c]++; begun[c] == n {
			close(both[c])
		}
		mu.Unlock()
		for _, kind := range both {
			select {
			case <-kind:
			case <-time.After(time.Minute):
				t.Errorf("%s: no %d of each kind begin", r.variant, n)
			}
		}
		mu.Lock()
		running[c]--
		mu.Unlock()
	})
	for _, c := range []bool{false, true} {
		if begun[c] != each || most[c] != n {
			t.Errorf("by instructions %v: %d booted, %d at once, want %d and %d", c, begun[c], most[c], each, n)
		}
	}
}
