package main

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/document"
	"backfeed/internal/testtool"
	"backfeed/sample/collect"
)

var measured = flag.Bool("measure", false, "record all kinds of testdata/stalls, for two seconds each, not only some of them, and time walks (TestSpeeds)")

// A stalling is a kind of testdata/stalls: so many million turns take about two seconds.
type stalling struct {
	kind, n, proc, cause string
	first, quick         bool

	// modelled: what it waits for is in the least that the machine model gives it, so that where executions are known
	// nothing may be left to explain.
	modelled bool
}

// stallings are all kinds but "code": what its many procedures wait for is hardly told from their
// executions, so that what is called a stall there is chance.
var stallings = []stalling{
	{"chase", "12", "chase", "dcache-miss", true, false, false},
	{"pages", "30", "chase", "dtlb-miss", false, false, false},
	{"branch", "300", "branch", "mispredict", true, true, false},
	{"divide", "240", "divide", "divider", true, true, true},
	{"multiply", "1500", "multiply", "multiplier", true, false, true},
	{"forward", "200", "forward", "store-forward", true, true, false},
	{"alias", "3000", "alias", "store-forward", false, false, false}, // cores take it differently
	{"stores", "200", "stores", "store-buffer", true, false, false},
	{"atomic", "500", "atomic", "lock", true, true, true},
	{"touch", "3", "touch", "page-fault", true, true, false},
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

// check holds the explanation of recordings to what the program is made to wait for.
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
	all, kept, first := blamed(doc, exe, s.proc, s.cause)
	hottest, share := most(doc, exe, s.proc)
	if all == 0 && s.modelled && hottest.Confidence >= document.Medium {
		t.Logf("%s: executions are known, and take no longer than the machine model expects", s.kind)
		return
	}
	t.Logf("%s explains some of %.0f %% of what the stalls of %s may come from, and is the likeliest of %.0f %%", s.cause, 100*kept/all, s.kind, 100*first/all)
	if !(kept >= 0.4*all) || all == 0 {
		t.Errorf("%s survives in %.0f %% of the stalls", s.cause, 100*kept/all)
	}
	if s.kind == "branch" && hottest.Confidence < document.Medium && share > 0.8 {
		// Zen 4 interrupts at the branch, and not where it leads: samples alone do not tell it from a load before it.
		t.Logf("the branch itself has %.0f %% of the samples; whether mispredict is likeliest is not looked at", 100*share)
		return
	}
	if s.first && !(first >= 0.5*all) {
		t.Errorf("%s is the likeliest in %.0f %% of the stalls", s.cause, 100*first/all)
	}
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

// most returns the block of a procedure with most samples, and its share of those of the procedure.
func most(doc *document.Counts, exe, proc string) (most document.Block, share float64) {
	var all uint64
	for i := range doc.Images {
		for _, p := range doc.Images[i].Procs {
			if doc.Images[i].Path != exe || p.Procedure != proc {
				continue
			}
			for _, b := range p.Blocks {
				if all += b.Samples; b.Samples > most.Samples {
					most = b
				}
			}
		}
	}
	return most, float64(most.Samples) / float64(max(all, 1))
}

// blamed returns the explained cycles of the stalls in a procedure, or in all if proc is
// empty, of those that have the cause, and of those that have it first.
func blamed(doc *document.Counts, exe, proc, cause string) (all, kept, first float64) {
	for i := range doc.Images {
		if doc.Images[i].Path != exe {
			continue
		}
		for j := range doc.Images[i].Procs {
			p := &doc.Images[i].Procs[j]
			if proc != "" && p.Procedure != proc {
				continue
			}
			for b := range p.Blocks {
				cs := p.Blocks[b].Culprits
				for len(cs) > 0 {
					n, most, has := 0, 0.0, false
					for ; n < len(cs) && cs[n].At == cs[0].At; n++ {
						most, has = max(most, cs[n].Most), has || cs[n].Cause == cause
					}
					most *= float64(p.Blocks[b].Count)
					all += most
					if has {
						kept += most
					}
					if cs[0].Cause == cause {
						first += most
					}
					cs = cs[n:]
				}
			}
		}
	}
	return all, kept, first
}
