package main

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/report"
	"backfeed/feedback/gate"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// mixDir has a program and its samples.
var mixDir = filepath.Join(root, "testdata/mix")

// verdicts runs check on mix and returns the exit code and which gates passed.
func verdicts(t *testing.T, limits string, args ...string) (int, map[string]bool, string) {
	t.Helper()
	config := testtool.Write(t, t.TempDir(), "limits.yaml", limits)
	code, out, errs := runCLI(t, append([]string{"check", "--symfs", mixDir, "--format", "json", "--config", config}, args...)...)
	if code == exitUsage || code == exitFailed {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	ok := map[string]bool{}
	for _, g := range itemsOf[report.Verdict](t, "backfeed.check/2", out) {
		if (g.AtLeast == nil) == (g.AtMost == nil) || g.OK != (g.AtLeast != nil && g.Value >= *g.AtLeast || g.AtMost != nil && g.Value <= *g.AtMost) {
			t.Errorf("%s: %+v does not say why it is %v", g.Name, g, g.OK)
		}
		ok[g.Name] = g.OK
	}
	return code, ok, errs
}

func TestCheck(t *testing.T) {
	samples := filepath.Join(mixDir, "samples.bfr")
	for _, tt := range []struct{ name, limits, fails string }{
		{"as it is", "", ""},
		{"too few samples", "check: {min-samples: 100000000}", "samples"},
		{"others' code", "check: {min-own: 100%}", "own code"},
		{"unsure counts", "check: {min-known: 100%}", "known to a factor of 2"},
		{"the limit's old name", "check: {min-shape: 100%}", "known to a factor of 2"},
	} {
		code, ok, errs := verdicts(t, tt.limits, samples, "--binary", filepath.Join(mixDir, "mix"))
		want := exitDone
		if tt.fails != "" {
			want = exitGate
		}
		for name, passed := range ok {
			if passed == (name == tt.fails) {
				t.Errorf("%s: %s: %v", tt.name, name, passed)
			}
		}
		if code != want || len(ok) != 7 || !strings.Contains(errs, tt.fails) {
			t.Errorf("%s: exit code %d, want %d, %d gates: %s", tt.name, code, want, len(ok), errs)
		}
	}
	// A build of another program has none of the procedures.
	code, ok, _ := verdicts(t, "", samples, "--binary", self(t))
	if code != exitGate || ok["procedures"] || !ok["samples"] {
		t.Errorf("another program: exit code %d, %v", code, ok)
	}
}

// TestCheckInlined: a procedure that a newer build has in its callers alone is not gone.
func TestCheckInlined(t *testing.T) {
	b := built(t, "c")
	rec := everywhere(t, b.old, []string{"same", "calls"}, "calls", "same")
	text := testtool.Read(t, filepath.Join(filepath.Dir(b.old), "program.c"))
	marked := strings.Index(text, "int same(")
	start := strings.LastIndex(text[:marked], "\n") + 1
	inlined := text[:start] + "static inline __attribute__((always_inline)) " + text[marked:]
	testtool.Put(t, filepath.Join(filepath.Dir(b.new), "program.c"), inlined)
	testtool.Run(t, filepath.Dir(b.new), "gcc", "-O2", "-g", "-Wl,--build-id", "-o", b.new, "program.c")
	if im, _ := openSampled(t, b.new); im.Lookup("same") >= 0 {
		t.Fatal("the newer build has the procedure itself")
	}
	if _, ok, errs := verdicts(t, "", rec, "--binary", b.new); !ok["procedures"] {
		t.Errorf("%v: %s", ok, errs)
	}
}

// TestCheckAge: the samples of a store have an age.
func TestCheckAge(t *testing.T) {
	rec, err := sample.Decode([]byte(testtool.Read(t, filepath.Join(mixDir, "samples.bfr"))))
	if err != nil {
		t.Fatal(err)
	}
	for days, want := range map[int]bool{1: true, 40: false} {
		dir := t.TempDir()
		s, err := store.Create(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(sample.EpochAt(time.Now().AddDate(0, 0, -days), time.Hour), rec, nil); err != nil {
			t.Fatal(err)
		}
		if _, ok, _ := verdicts(t, "", dir); ok["age"] != want {
			t.Errorf("%d days: age passes: %v", days, ok["age"])
		}
	}
}

// TestCheckOf: check says how many samples its shares are of, which are fewer where an image is asked for.
func TestCheckOf(t *testing.T) {
	of := func(args ...string) map[string]uint64 {
		all := map[string]uint64{}
		args = append([]string{"check", filepath.Join(mixDir, "samples.bfr"), "--symfs", mixDir}, args...)
		text := must(t, args...)
		for _, g := range itemsOf[report.Verdict](t, "backfeed.check/2", must(t, append(args, "--format", "json")...)) {
			all[g.Name] = g.Of
			if g.Unit == "share" && !strings.Contains(text, fmt.Sprintf("%d samples", g.Of)) {
				t.Errorf("%s is a share of %d samples, and the table does not say so:\n%s", g.Name, g.Of, text)
			}
		}
		return all
	}
	all, one := of(), of("--image", "mix")
	if all["own code"] != 32160 || one["own code"] != 32157 || all["known to a factor of 2"] != one["known to a factor of 2"] {
		t.Errorf("shares are of %v, with --image of %v", all, one)
	}
}

// TestLimits: the limits of flags and configuration are those that gates are held to, and others are as usual.
func TestLimits(t *testing.T) {
	read := func(args ...string) (gate.Limits, error) {
		c := &cli{stdout: io.Discard, stderr: io.Discard, cmd: checkCmd}
		c.flags()
		lim := limits(c.fs)
		config := c.config("")
		if err := c.fs.Parse(args); err != nil {
			return *lim, err
		}
		return *lim, c.readConfig(*config, *config == "")
	}
	config := func(text string) string { return testtool.Write(t, t.TempDir(), "limits.yaml", text) }
	want := gate.Usual
	want.MinUsed, want.MaxAge, want.MinSamples, want.MaxMoved = 0.5, 36*time.Hour, 7, 0.25
	for _, args := range [][]string{
		{"--min-used=50%", "--max-age=36h", "--min-samples=7", "--max-moved=0.25"},
		{"--config", config("check:\n  min-used: 0.5\n  max-age: 1.5d\n  min-samples: 7\n  max-moved: 25%\n")},
		{"--config", config("agent: {store: /x}\ncheck: {min-used: 0.9, max-age: 36h, min-samples: 7, max-moved: .25}"), "--min-used", "0.5"},
	} {
		if got, err := read(args...); err != nil || got != want {
			t.Errorf("%q: %v, %+v; want %+v", args, err, got, want)
		}
	}
	// Every limit is a flag, whose default is the usual one.
	c := &cli{cmd: checkCmd, stderr: io.Discard}
	c.flags()
	lim := limits(c.fs)
	flags := 0
	c.fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags++
		}
		if err := f.Value.Set(f.DefValue); err != nil {
			t.Error(err)
		}
	})
	if *lim != gate.Usual || flags != reflect.TypeOf(gate.Limits{}).NumField() {
		t.Errorf("%d flags of %+v, usual is %+v", flags, *lim, gate.Usual)
	}
	for _, args := range [][]string{{"x", "--min-lines", "0.5"}, {"x", "--max-beyond", "0.5"}, {"x", "--max-age", "3d"}} {
		if code, _, errs := runCLI(t, append([]string{"check"}, args...)...); code != exitUsage || !strings.Contains(errs, "has no effect") {
			t.Errorf("check %q: exit code %d: %s", args, code, errs)
		}
	}
}
