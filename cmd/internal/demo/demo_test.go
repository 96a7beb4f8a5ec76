package demo

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/internal/testtool"
)

// smallDemo is enough to see that all stages work together.
var smallDemo = demoSize{perf: 300, pprof: 400, compare: 30, blocks: 2}

func testDemo(t *testing.T) (d *demo, stdout *bytes.Buffer) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the demo needs Linux")
	}
	testtool.Need(t, "go")
	stdout = new(bytes.Buffer)
	d, err := newDemo(Options{Dir: t.TempDir(), Recorder: "auto", Out: stdout, Style: report.Style{Width: 80}, Notify: report.Quiet{}}, smallDemo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d, stdout
}

// TestDemo runs it from end to end. What it claims is checked by its own stages,
// which fail if the profile changes nothing or the builds differ in what they
// print; whether the second build is faster is not for a test to say.
func TestDemo(t *testing.T) {
	testtool.Live(t, "builds the standard library with a profile")
	d, out := testDemo(t)
	if err := d.run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(only(devirtualized, d.betterRemarks, d.baseRemarks)) == 0 {
		t.Error("no interface call was devirtualised")
	}
	rows := d.rows()
	if a := accuracyOf(rows); a.all == 0 {
		t.Errorf("no sampled procedure was counted: %+v", rows)
	}
	if !slices.ContainsFunc(rows, func(r demoRow) bool { return r.name == "main.(*plain).peek" && r.counted }) {
		t.Errorf("the hottest interface method is not among the counted procedures: %+v", rows)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d characters, of 80: %q", n, line)
		}
	}
	for _, want := range []string{"samples of", "calls, inferred", "default.pgo", "devirtualised", "with the profile", "base against itself"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output:\n%s", want, out)
		}
	}
}

// TestDemoWithoutPerf is the ways where the kernel refuses perf events, as far as
// the profile.
func TestDemoWithoutPerf(t *testing.T) {
	d, out := testDemo(t)
	if err := d.buildBase(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for recorder, says := range map[string]string{"ptrace": "samples of ptrace-clock", "pprof": "samples of runtime/pprof"} {
		out.Reset()
		os.Remove(d.profile())
		err := d.record(recorder)
		if fail.KindOf(err) == fail.Machine {
			t.Log(err)
			continue
		}
		if err := errors.Join(err, d.infer()); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if st, err := os.Stat(d.profile()); err != nil || st.Size() == 0 {
			t.Errorf("%s: no profile: %v", recorder, err)
		}
		if !strings.Contains(out.String(), says) {
			t.Errorf("recorded by something else than %s:\n%s", recorder, out)
		}
	}
}

func TestGoEnv(t *testing.T) {
	for _, tt := range []struct {
		name, env, want, without string
	}{
		{"at home", "HOME=/home/x PATH=/bin", "HOME=/home/x PATH=/bin GOWORK=off", "GOCACHE GOPATH"},
		{"no home", "PATH=/bin", "GOCACHE=/d/cache GOPATH=/d/gopath", "HOME"},
		{"empty home", "HOME= PATH=/bin", "GOCACHE=/d/cache GOPATH=/d/gopath", ""},
		{"no home but a cache", "GOCACHE=/c GOPATH=/p", "GOCACHE=/c GOPATH=/p", ""},
		{"the user's own builds", "HOME=/h GOOS=plan9 GOFLAGS=-mod=vendor", "GOOS=" + runtime.GOOS + " GOFLAGS=", "GOOS=plan9"},
	} {
		got := goEnv(strings.Fields(tt.env), "/d")
		for want := range strings.FieldsSeq(tt.want) {
			if !slices.Contains(got, want) {
				t.Errorf("%s: no %s in %v", tt.name, want, got)
			}
		}
		for key := range strings.FieldsSeq(tt.without) {
			if slices.ContainsFunc(got, func(kv string) bool { return kv == key || strings.HasPrefix(kv, key+"=") }) {
				t.Errorf("%s: %s in %v", tt.name, key, got)
			}
		}
	}
}

func TestAccuracyOf(t *testing.T) {
	rows := []demoRow{
		{name: "exact", samples: 10, freq: infer.Freq{N: 100}, exact: 100, counted: true},
		{name: "half", samples: 5, freq: infer.Freq{N: 51}, exact: 100, counted: true},
		{name: "far", samples: 3, freq: infer.Freq{N: 49}, exact: 200, counted: true},
		{name: "never ran", samples: 2, freq: infer.Freq{N: 0}, exact: 0, counted: true},
		{name: "not counted", samples: 100, freq: infer.Freq{N: 7}},
	}
	got := accuracyOf(rows)
	if got.all != 20 || got.within2 != 15 || got.within10 != 10 {
		t.Errorf("%+v, want 20 samples, 15 within 2, 10 within 10%%", got)
	}
	// 1/2, 1/4 and 1/4 of the calls against 1/4, 1/4 and 1/2.
	if want := .25 + .25 + .245; got.overlap < want-.01 || got.overlap > want+.01 {
		t.Errorf("overlap %.3f, want %.3f", got.overlap, want)
	}
	if a := accuracyOf(nil); a != (entryAccuracy{}) {
		t.Errorf("of nothing: %+v", a)
	}
}

// TestDemoDir: the files stay where the user wants them, and only there.
func TestDemoDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	d, err := newDemo(Options{Dir: dir, Out: io.Discard, Notify: report.Quiet{}}, smallDemo)
	if err != nil {
		t.Skip(err)
	}
	d.close()
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		t.Error(err)
	}
	d, err = newDemo(Options{Out: io.Discard, Notify: report.Quiet{}}, smallDemo)
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	if _, err := os.Stat(d.dir); err == nil {
		t.Errorf("%s was left behind", d.dir)
	}
}
