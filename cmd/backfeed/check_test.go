package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/feedback/gate"
	"backfeed/sample"
	"backfeed/sample/store"
)

// mixDir has a program and its samples.
var mixDir = filepath.Join(root, "testdata/mix")

// verdicts runs check on mix and returns the exit code and which gates passed.
func verdicts(t *testing.T, limits string, args ...string) (int, map[string]bool, string) {
	t.Helper()
	config := file(t, t.TempDir(), "limits.yaml", limits)
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
		{"unused samples", "check: {min-used: 1.1}", "used"},
		{"others' code", "check: {min-own: 1.1}", "own code"},
		{"unsure counts", "check: {min-known: 1.1}", "known within functions"},
		{"the limit's old name", "check: {min-shape: 1.1}", "known within functions"},
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

// TestCheckAge: the samples of a store have an age.
func TestCheckAge(t *testing.T) {
	rec, err := sample.Decode([]byte(content(t, filepath.Join(mixDir, "samples.bfr"))))
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

// TestLimits: the limits that help shows are the defaults, and unknown ones are errors.
func TestLimits(t *testing.T) {
	_, shown, ok := strings.Cut(checkCmd.long, "    check:\n")
	if !ok {
		t.Fatal("help shows no limits")
	}
	shown, _, _ = strings.Cut("    check:\n"+shown, "\n\n")
	got, err := gate.ParseLimits([]byte(shown))
	if err != nil || got != gate.Usual {
		t.Errorf("%v: help shows %+v, defaults are %+v", err, got, gate.Usual)
	}
	// Each line of it sets something.
	if n := strings.Count(shown, "\n      m"); n != 13 {
		t.Errorf("help shows %d limits, want 13", n)
	}
	for _, bad := range []string{"check: {min-sample: 1}", "check: [", "check: {max-age: 3 weeks}"} {
		path := file(t, t.TempDir(), "bad.yaml", bad)
		if _, err := readLimits(path); codeOf(err) != exitUsage || !strings.Contains(err.Error(), "bad.yaml") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
