package explain

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

// explained infers a recording of testdata/stalls and explains all procedures.
func explained(t *testing.T, rec *sample.Recording) (*infer.Profile, []*Explanation) {
	t.Helper()
	im, err := image.Open("../../testdata/stalls/stalls", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	prof, err := infer.Infer(t.Context(), rec, func(id sample.ImageID) (*image.Image, error) {
		if !strings.HasSuffix(id.Path, "/stalls") {
			return nil, errors.New("not the program")
		}
		return im, nil
	}, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := New(prof, rec)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Explanation
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			e := x.Explain(ip, r)
			if err := e.Check(); err != nil {
				t.Error(err)
			}
			all = append(all, e)
		}
	}
	return prof, all
}

// causesOf returns the causes of a stall, the likeliest first.
func causesOf(s *Stall) (all []Cause) {
	for _, c := range s.Culprits {
		all = append(all, c.Cause)
	}
	return all
}

// TestStalls: programs that wait for one known reason. It is the likeliest cause of most of the
// stalls of the procedure that waits, and of more time than any other. Where others leave the same
// traces, they may be first as well: a miss of the TLB is seen where the load misses the
// cache, too.
func TestStalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, proc string
		cause      Cause
		or         Cause
	}{
		{"chase", "chase", DCache, DCache},
		{"pages", "chase", DTLB, DCache},
		{"branch", "branch", Mispredict, Mispredict},
		{"divide", "divide", Divider, Divider},
		{"multiply", "multiply", Multiplier, Multiplier},
		{"forward", "forward", StoreForward, StoreForward},
		{"alias", "alias", StoreForward, StoreForward},
		{"code", "", ICache, ICache},
		{"stores", "stores", StoreBuffer, StoreBuffer},
		{"atomic", "atomic", Lock, Lock},
		{"touch", "touch", PageFault, PageFault},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("../../testdata/stalls", tt.kind+".bfr"))
			if err != nil {
				t.Fatal(err)
			}
			rec, err := sample.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			_, all := explained(t, rec)
			var sum Summary
			var kept, first float64 // cycles of stalls that have the cause, or have it first
			top := &InstTime{}
			for _, e := range all {
				if tt.proc != "" && e.Result.Proc.Name != tt.proc {
					continue
				}
				sum.Add(&e.Summary)
				for i := range e.Insts {
					in := &e.Insts[i]
					causes := causesOf(&in.Stall)
					if slices.Contains(causes, tt.cause) {
						kept += in.Stall.Cycles * in.N
					}
					if len(causes) > 0 && (causes[0] == tt.cause || causes[0] == tt.or) {
						first += in.Stall.Cycles * in.N
					}
					if in.Total > top.Total {
						top = in
					}
				}
			}
			t.Logf("%s: stalls are %.0f %% of the cycles, %.1f %% unexplained; %s survives in %.0f %% of them, first in %.0f %%; the slowest instruction: %v",
				tt.kind, 100*sum.Dynamic/sum.Cycles, 100*sum.Unexplained/sum.Dynamic, tt.cause, 100*kept/sum.Dynamic, 100*first/sum.Dynamic, causesOf(&top.Stall))
			if least := sum.Statics[machine.Dependency].Least; tt.kind == "chase" && least > 0.01*sum.Cycles {
				// Each step took 480 cycles and more, of which the model expects 4.
				t.Errorf("%.1f %% of the time is said to be expected at least", 100*least/sum.Cycles)
			}
			if kept < 0.5*sum.Dynamic {
				t.Errorf("%s is a culprit of %.0f %% of the stalls", tt.cause, 100*kept/sum.Dynamic)
			}
			if first < 0.5*sum.Dynamic {
				t.Errorf("%s is the likeliest culprit of %.0f %% of the stalls", tt.cause, 100*first/sum.Dynamic)
			}
			for c, n := range sum.Likeliest {
				if Cause(c) != tt.cause && Cause(c) != tt.or && n > max(sum.Likeliest[tt.cause], sum.Likeliest[tt.or]) {
					t.Errorf("%s is likelier than %s", Cause(c), tt.cause)
				}
				if least := sum.Causes[c].Least; Cause(c) != tt.cause && least > 0.05*sum.Dynamic {
					t.Errorf("%s is said to explain %.0f %% of the stalls at least", Cause(c), 100*least/sum.Dynamic)
				}
			}
			if sum.Unexplained > 0.1*sum.Dynamic {
				t.Errorf("%.0f %% of the stalls are unexplained", 100*sum.Unexplained/sum.Dynamic)
			}
		})
	}
}

// TestBranchItself: a branch that follows random bits has nearly all samples of its loop itself, as some recordings on
// Zen 4 have it: it is more likely than the load before it, which goes through 64 KB byte by byte, to be what is waited for.
func TestBranchItself(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../testdata/stalls/branch.bfr")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []uint64{2, 5, 12, 20} {
		rec, err := sample.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		moved := sample.NewCounts(rec.Counts[0].CPU, rec.Counts[0].Event)
		for _, ic := range rec.Counts[0].Images {
			if !strings.HasSuffix(ic.ID.Path, "/stalls") {
				continue
			}
			var most sample.Offset
			for off, n := range ic.At {
				if n > ic.At[most] {
					most = off
				}
			}
			for off, n := range ic.At {
				rest := n
				if off != most {
					rest /= part
				}
				moved.AddSample(moved.Image(ic.ID), off, rest)
				moved.AddSample(moved.Image(ic.ID), most, n-rest)
			}
		}
		_, all := explained(t, &sample.Recording{Counts: []*sample.Counts{moved}})
		var sum Summary
		for _, e := range all {
			if e.Result.Proc.Name == "branch" {
				sum.Add(&e.Summary)
			}
		}
		t.Logf("1 of %d left elsewhere: mispredict is likeliest of %.2f of the stalls, dcache-miss of %.2f", part, sum.Likeliest[Mispredict]/sum.Dynamic, sum.Likeliest[DCache]/sum.Dynamic)
		if sum.Likeliest[Mispredict] < 0.5*sum.Dynamic {
			t.Errorf("1 of %d left elsewhere: mispredict is likeliest of %.2f of the stalls", part, sum.Likeliest[Mispredict]/sum.Dynamic)
		}
	}
}

// explainerOf infers the recording of a set.
func explainerOf(tb testing.TB, s *sets.Set) *Explainer {
	tb.Helper()
	prof, err := infer.Infer(tb.Context(), s.Rec, s.Open, infer.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	x, err := New(prof, s.Rec)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// TestDispatch: the interpreter of testdata/mix waits for its indirect jumps, and not for the
// few bytes that it interprets.
func TestDispatch(t *testing.T) {
	t.Parallel()
	for _, e := range explainerOf(t, sets.Load(t, "../../testdata/mix")).All() {
		if !strings.HasPrefix(e.Result.Proc.Name, "interpret") {
			continue
		}
		t.Logf("%.0f cycles, of which mispredict is likeliest of %.0f, dcache-miss of %.0f", e.Cycles, e.Likeliest[Mispredict], e.Likeliest[DCache])
		if e.Likeliest[Mispredict] < 0.4*e.Cycles || e.Likeliest[DCache] > 0.1*e.Cycles {
			t.Error("the data cache is blamed for what an interpreter waits for")
		}
		return
	}
	t.Error("no interpreter")
}

// TestNoTime: samples of instructions do not tell how long they took.
func TestNoTime(t *testing.T) {
	prof := &infer.Profile{Machine: "generic-x86_64", Event: sample.Event{Name: "instructions", Period: 1, Unit: "instructions"}}
	if _, err := New(prof, nil); !errors.Is(err, ErrNoTime) {
		t.Errorf("got %v, want %v", err, ErrNoTime)
	}
}

// TestUnexplained shows how much of the time of the sets of -sets no cause is left for.
func TestUnexplained(t *testing.T) {
	all := sets.Named(t)
	if len(all) == 0 {
		t.Skip("needs -sets")
	}
	for _, s := range all {
		x := explainerOf(t, s)
		var sum Summary
		for _, e := range x.All() {
			if err := e.Check(); err != nil {
				t.Error(err)
			}
			sum.Add(&e.Summary)
		}
		sum.Add(x.Rest())
		t.Logf("%s: stalls %.1f %% of the time, unexplained %.1f %%, of code without counts %.1f %%",
			s.Name, 100*sum.Dynamic/sum.Cycles, 100*sum.Unexplained/sum.Cycles, 100*sum.Uncounted/sum.Cycles)
		for c, r := range sum.Causes {
			t.Logf("    %-14s %5.1f to %5.1f %%, likeliest of %5.1f %%", Cause(c), 100*r.Least/sum.Cycles, 100*r.Most/sum.Cycles, 100*sum.Likeliest[c]/sum.Cycles)
		}
		if sum.Unexplained > 0.1*sum.Cycles {
			t.Errorf("%s: %.1f %% of the time is unexplained", s.Name, 100*sum.Unexplained/sum.Cycles)
		}
	}
}
