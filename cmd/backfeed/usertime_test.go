package main

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestUsertime shows samples of this program by call stack.
func TestUsertime(t *testing.T) {
	rec, _ := programRecording(t)
	var doc report.Usertime
	if err := json.Unmarshal([]byte(must(t, "prof", rec, "--experiment", "usertime", "--format", "json", "-n", "0")), &doc); err != nil {
		t.Fatal(err)
	}
	row := func(name string) report.UsertimeRow {
		i := slices.IndexFunc(doc.Rows, func(r report.UsertimeRow) bool { return r.Procedure == name })
		if i < 0 {
			t.Fatalf("no row of %s in %+v", name, doc.Rows)
		}
		return doc.Rows[i]
	}
	above, below := row(caller), row(callee)
	if below.Inclusive != below.Exclusive || above.Exclusive != 1 || above.Inclusive != below.Inclusive+1 {
		t.Errorf("%+v calls %+v", above, below)
	}
	if s := doc.Stacks; s.Samples != above.Inclusive || s.Bare != 1 || s.Cut != below.Inclusive || s.Deepest != 2 {
		t.Errorf("%+v", s)
	}

	out := must(t, "prof", rec, "--experiment", "usertime", "--proc", callee, "--format", "csv")
	if !strings.HasPrefix(out, "role,samples,share,image,procedure,mangled\ncaller,") || !strings.Contains(out, "\nitself,") || strings.Contains(out, "callee,") {
		t.Error(out)
	}
	if short := must(t, "prof", rec, "--experiment", "usertime", "--proc", callee[strings.LastIndex(callee, ".")+1:], "--format", "csv"); short != out {
		t.Errorf("by its short name:\n%s", short)
	}
	out = must(t, "prof", rec, "--experiment", "usertime")
	if !strings.Contains(out, "0.0% with a stack to where the thread began") {
		t.Error(out)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--experiment usertime --proc absent", exitNothing, "absent is on no call stack"},
		{"--proc absent", exitUsage, "--proc goes with --experiment usertime"},
		{"--experiment none", exitUsage, "want pcsamp or"},
	} {
		if code, _, errs := runCLI(t, append([]string{"prof", rec}, strings.Fields(tt.args)...)...); code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: exit code %d, %s", tt.args, code, errs)
		}
	}
}

// TestSharesOfAll: usertime's shares are of all samples, those without a place too, as prof's are.
func TestSharesOfAll(t *testing.T) {
	path, _ := programRecording(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sample.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	rec.Counts[0].Lose(sample.LostKernel, rec.Samples())
	path = testtool.Write(t, t.TempDir(), "lost.bfr", string(rec.Encode()))
	var doc report.Usertime
	if err := json.Unmarshal([]byte(must(t, "prof", path, "--experiment", "usertime", "--format", "json", "-n", "0")), &doc); err != nil {
		t.Fatal(err)
	}
	shares := map[string]float64{}
	for _, r := range doc.Rows {
		shares[r.Linker()] = r.ExclusiveShare
	}
	for _, r := range itemsOf[report.ProfRow](t, "backfeed.prof/2", must(t, "prof", path, "--format", "json", "-n", "0")) {
		if got := shares[r.Linker()]; r.Lost == "" && (got == 0 || got != r.Share) {
			t.Errorf("%s: a share of %g, exclusive %g with usertime", r.Procedure, r.Share, got)
		}
	}
}

// TestInstructionMix: kinds are all of the instructions, of a procedure fewer than of all.
func TestInstructionMix(t *testing.T) {
	rec, _ := programRecording(t)
	read := func(args ...string) (doc report.InstructionMix) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, append([]string{"prof", rec, "--experiment", "mix", "--format", "json"}, args...)...)), &doc); err != nil {
			t.Fatal(err)
		}
		var n, shares float64
		for _, r := range doc.Rows {
			n, shares = n+r.Executions, shares+r.Share
		}
		if !(n > 0) || math.Abs(n-doc.Instructions) > 1e-9*n || math.Abs(shares-1) > 1e-9 || doc.Reads > n || doc.Transfers > n || doc.Taken == nil || *doc.Taken > 1 {
			t.Errorf("%v: kinds of %g instructions, %g in all: %+v", args, n, shares, doc)
		}
		return doc
	}
	all := read()
	var ideal report.Ideal
	if err := json.Unmarshal([]byte(must(t, "prof", rec, "--experiment", "ideal", "--format", "json")), &ideal); err != nil {
		t.Fatal(err)
	}
	one := read("--proc", ideal.Rows[0].Linker())
	if one.Instructions >= all.Instructions || math.Abs(one.Instructions-ideal.Rows[0].Instructions) > 1e-6*one.Instructions {
		t.Errorf("%g instructions in %s, %g in all", one.Instructions, ideal.Rows[0].Linker(), all.Instructions)
	}
	for line, want := range map[string]int{"--proc no.such": exitNothing, "-n 3": exitUsage, "--by line": exitUsage} {
		if code, _, errs := runCLI(t, append([]string{"prof", rec, "--experiment", "mix"}, strings.Fields(line)...)...); code != want {
			t.Errorf("%s: exit code %d: %s", line, code, errs)
		}
	}
}

// TestIdeal: the ratio is that of the cycles, and all procedures are in the total.
func TestIdeal(t *testing.T) {
	rec, _ := programRecording(t)
	var doc report.Ideal
	if err := json.Unmarshal([]byte(must(t, "prof", rec, "--experiment", "ideal", "--format", "json", "-n", "0")), &doc); err != nil {
		t.Fatal(err)
	}
	var cycles, ideal, insts float64
	for _, r := range doc.Rows {
		cycles, ideal, insts = cycles+r.Cycles+r.Uncounted, ideal+r.Ideal, insts+r.Instructions
		if r.Executions > 0 && (!(r.Ideal > 0) || math.Abs(r.Ratio*r.Ideal-r.Cycles) > 1e-6*r.Cycles) {
			t.Errorf("%+v", r)
		}
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	if n := doc.Total; len(doc.Rows) < 2 || !near(cycles, n.Cycles+n.Uncounted) || !near(ideal, n.Ideal) || !near(insts, n.Instructions) {
		t.Errorf("%g cycles, %g ideal, %g instructions; %+v", cycles, ideal, insts, n)
	}
	var usertime report.Usertime
	var in report.Ideal
	for doc, experiment := range map[any][]string{&usertime: {"usertime"}, &in: {"ideal", "--inclusive"}} {
		if err := json.Unmarshal([]byte(must(t, append([]string{"prof", rec, "--format", "json", "-n", "0", "--experiment"}, experiment...)...)), doc); err != nil {
			t.Fatal(err)
		}
	}
	if in.Stacks == nil || *in.Stacks != usertime.Stacks || in.Stacks.Bare == in.Stacks.Samples || !near(in.Total.Ideal, ideal) {
		t.Errorf("%+v, by usertime %+v; %+v", in.Stacks, usertime.Stacks, in.Total)
	}
	perSample := (doc.Total.Cycles + doc.Total.Uncounted) / float64(usertime.Stacks.Samples)
	samples := map[string]uint64{}
	for _, r := range usertime.Rows {
		samples[r.Image+" "+r.Linker()] = r.Inclusive
	}
	called := 0
	for i, r := range in.Rows {
		n := r.Inclusive
		if n == nil || i > 0 && n.Cycles > in.Rows[i-1].Inclusive.Cycles {
			t.Fatalf("%+v after %+v", r, in.Rows[max(i-1, 0)])
		}
		// As many cycles as samples of usertime, and of procedures that are sampled as much as they have alone.
		if want := perSample * float64(samples[r.Image+" "+r.Linker()]); math.Abs(n.Cycles-want) > 1e-6*want || n.Cycles < (r.Cycles+r.Uncounted)*(1-1e-9) || n.Ideal < r.Ideal*(1-1e-9) || n.Instructions < r.Instructions*(1-1e-9) {
			t.Errorf("%s: %+v of %+v, want %g cycles", r.Procedure, n, r, want)
		}
		if n.Ideal > 1.01*r.Ideal {
			called++
		}
	}
	if called == 0 {
		t.Error("nothing calls anything")
	}
	if code, _, errs := runCLI(t, "prof", rec, "--inclusive"); code != exitUsage {
		t.Errorf("--inclusive of samples: exit code %d: %s", code, errs)
	}
	if out := must(t, "prof", rec, "--experiment", "ideal"); !strings.Contains(out, "(all procedures)") || !strings.Contains(out, "ratios may be off by a factor of 12") {
		t.Error(out)
	}
}
