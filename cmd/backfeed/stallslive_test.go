package main

import (
	"encoding/json"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/infer/document"
	"backfeed/infer/machine"
	"backfeed/internal/testtool"
	"backfeed/sample/collect"
)

var measured = flag.Bool("measure", false, "record all kinds of testdata/stalls, for two seconds each, not only some of them, and time walks (TestSpeeds)")

// A stalling is a kind of testdata/stalls: so many million turns take about two seconds. What it waits for is for cause, or
// for another if that leaves the same traces.
type stalling struct {
	kind, n, proc, cause, or string
	first, quick             bool
}

// stallings are all kinds but "code": what its many procedures wait for is hardly told from their
// executions, so that what is called a stall there is chance.
var stallings = []stalling{
	{"chase", "12", "chase", "dcache-miss", "", true, false},
	{"pages", "30", "chase", "dtlb-miss", "dcache-miss", true, false}, // both happen at each of its steps
	{"branch", "300", "branch", "mispredict", "", true, true},
	{"divide", "240", "divide", "divider", "", true, true},
	{"multiply", "1500", "multiply", "multiplier", "", true, false},
	{"forward", "200", "forward", "store-forward", "", true, true},
	{"alias", "3000", "alias", "store-forward", "", false, false}, // cores take it differently
	{"stores", "200", "stores", "store-buffer", "", true, false},
	{"atomic", "500", "atomic", "lock", "", true, true},
	{"touch", "3", "touch", "page-fault", "", true, true},
}

// buildStalls builds the program.
func buildStalls(t *testing.T) (exe string) {
	t.Helper()
	exe = filepath.Join(t.TempDir(), "stalls")
	testtool.Run(t, ".", "gcc", "-O2", "-fno-tree-vectorize", "-fno-unroll-loops", "-Wl,--build-id", "-o", exe, filepath.Join(root, "testdata/stalls/stalls.c"))
	return exe
}

// TestStallsLive: programs that wait for one known reason, recorded on this machine. It
// survives in the document of what was inferred, and is the likeliest cause, as in TestStalls of
// package explain.
func TestStallsLive(t *testing.T) {
	testtool.Live(t, "records")
	if _, err := collect.Probe(); err != nil {
		t.Skip(err)
	}
	exe := buildStalls(t)
	for _, tt := range stallings {
		t.Run(tt.kind, func(t *testing.T) {
			seconds := "2s"
			if !*measured {
				if seconds = "700ms"; !tt.quick {
					t.Skip("recorded with -measure only")
				}
			}
			tt.record(t, exe, tt.n, "-F", "2000", "-d", seconds)
		})
	}
}

// record records a run, and holds the explanation of what it waits for to what it is made to wait for.
func (s *stalling) record(t *testing.T, exe, n string, flags ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), s.kind+".bfr")
	if code, _, errs := runCLI(t, slices.Concat([]string{"record", "-o", file}, flags, []string{"--", exe, s.kind, n})...); code != exitDone {
		t.Fatalf("record: exit code %d: %s", code, errs)
	}
	s.check(t, exe, file)
}

// fewStalled is how many samples a procedure has at least for their causes to be judged: with fewer, chance moves them.
const fewStalled = 30

// check holds the explanation of recordings to what the program is made to wait for: of the time that is explained by
// causes, be it stalls or what the machine model expects of slow operations, most is by the right one.
func (s *stalling) check(t *testing.T, exe string, files ...string) {
	t.Helper()
	code, out, errs := runCLI(t, append([]string{"infer", "--stalls", "--format", "json"}, files...)...)
	if code != exitDone {
		t.Fatalf("infer: exit code %d: %s", code, errs)
	}
	doc, err := document.Read(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if n := samplesOf(doc, exe, s.proc); n < fewStalled {
		t.Skipf("this machine was too busy: %d samples in %s, %d are asked for", n, s.proc, fewStalled)
	}
	if c := doc.Clock; c != nil {
		t.Logf("clock %+v", *c)
	}
	if all, kept := blamed(doc, exe, s.proc, s.cause); all > 0 && !(kept >= 0.4*all) {
		t.Errorf("%s survives in %.0f %% of the stalls", s.cause, 100*kept/all)
	}
	all, by := s.spent(t, files...)
	t.Logf("of what causes explain, %.0f %% is by %s; all: %v", 100*(by[s.cause]+by[s.or])/all, s.cause, by)
	if s.first && !(by[s.cause]+by[s.or] >= 0.5*all) {
		t.Errorf("%s is first for %.0f %% of what causes explain", s.cause, 100*(by[s.cause]+by[s.or])/all)
	}
}

// spent returns the cycles that causes explain of the procedure: stalls by the likeliest, and what the machine
// model expects of operations that are slow.
func (s *stalling) spent(t *testing.T, files ...string) (all float64, by map[string]float64) {
	t.Helper()
	code, out, errs := runCLI(t, slices.Concat([]string{"whatcg", "--format", "json", "--proc", s.proc}, files)...)
	if code != exitDone {
		t.Fatalf("whatcg: exit code %d: %s", code, errs)
	}
	var doc report.WhatCG
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	by = map[string]float64{}
	for _, r := range doc.Spent {
		_, err := report.CauseNamed(r.Cause)
		slow := err == nil && r.Cause != machine.Dependency.String() // static dependencies are of no particular operation
		if r.Cycles > 0 && (r.Kind == "stall" || r.Kind == "static" && slow) {
			by[r.Cause] += r.Cycles
			all += r.Cycles
		}
	}
	if all == 0 {
		t.Fatalf("no cause explains anything:\n%s", out)
	}
	return all, by
}

// TestFaultsLive: a recording of page faults beside one of time makes them the likeliest cause of what a
// program waits for that touches its memory for the first time, once in eight turns.
func TestFaultsLive(t *testing.T) {
	testtool.Live(t, "records")
	if _, err := collect.Probe(); err != nil {
		t.Skip(err)
	}
	exe, dir := filepath.Join(t.TempDir(), "fresh"), t.TempDir()
	testtool.Run(t, ".", "gcc", "-O2", "-fno-tree-vectorize", "-fno-unroll-loops", "-Wl,--build-id", "-o", exe, "testdata/fresh.c")
	times, faults := filepath.Join(dir, "times.bfr"), filepath.Join(dir, "faults.bfr")
	if code, _, errs := runCLI(t, "record", "-F", "4000", "-o", times, "--", exe, "20"); code != exitDone {
		t.Fatalf("record: exit code %d: %s", code, errs)
	}
	if code, _, errs := runCLI(t, "record", "--event", "page-faults", "-o", faults, "--", exe, "20"); code != exitDone {
		t.Skipf("needs page faults sampled: exit code %d: %s", code, errs)
	}
	s := &stalling{kind: "fresh", proc: "fill", cause: "page-fault", first: true}
	s.check(t, exe, times, faults)
}

// samplesOf returns the samples of a procedure.
func samplesOf(doc *document.Counts, exe, proc string) (n uint64) {
	for i := range doc.Images {
		for _, p := range doc.Images[i].Procs {
			if doc.Images[i].Path == exe && p.Procedure == proc {
				n += p.Samples
			}
		}
	}
	return n
}

// blamed returns the explained cycles of the stalls in a procedure, and of those that may have the cause.
func blamed(doc *document.Counts, exe, proc, cause string) (all, kept float64) {
	for i := range doc.Images {
		for _, p := range doc.Images[i].Procs {
			if doc.Images[i].Path != exe || p.Procedure != proc {
				continue
			}
			for _, b := range p.Blocks {
				cs := b.Culprits
				for len(cs) > 0 {
					n, most, has := 0, 0.0, false
					for ; n < len(cs) && cs[n].At == cs[0].At; n++ {
						most, has = max(most, cs[n].Most), has || cs[n].Cause == cause
					}
					all += most * float64(b.Count)
					if has {
						kept += most * float64(b.Count)
					}
					cs = cs[n:]
				}
			}
		}
	}
	return all, kept
}
