package explain

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/sample"
)

func TestRateOf(t *testing.T) {
	for _, tt := range []struct {
		did, not, n uint64
		want        rate
	}{
		{0, 1000, 1000, rate{0, 0, 0, .001}},
		{1000, 0, 1000, rate{1, 0, .999, 1}},
		{500, 500, 1000, rate{.5, 0, .473, .527}},
		{0, 0, 1000, rate{0, 1, 0, 1}}, // nothing is known
		{300, 0, 1000, rate{.3, .7, .275, 1}},
		{0, 30, 40, rate{0, .25, 0, .388}},
	} {
		got := rateOf(tt.did, tt.not, tt.n)
		for _, p := range [][2]float64{{got.did, tt.want.did}, {got.unknown, tt.want.unknown}, {got.least, tt.want.least}, {got.most, tt.want.most}} {
			if math.Abs(p[0]-p[1]) > .001 {
				t.Errorf("%d did, %d did not, of %d: %+v, want %+v", tt.did, tt.not, tt.n, got, tt.want)
				break
			}
		}
	}
}

// readRecording reads a recording of testdata/stalls.
func readRecording(t *testing.T, name string) *sample.Recording {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata/stalls", name))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sample.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// withReplayed adds what models made of walks in a program to its samples, as record --calibrate does.
func withReplayed(t *testing.T, rec, walks *sample.Recording) *sample.Recording {
	t.Helper()
	sum := sample.Merge(rec)
	c := sum.Counts[0]
	for _, w := range walks.Counts {
		for _, ic := range w.Images {
			i := slices.IndexFunc(c.Images, func(o *sample.ImageCounts) bool { return filepath.Base(o.ID.Path) == filepath.Base(ic.ID.Path) })
			if i < 0 {
				t.Fatalf("no samples in %s", ic.ID)
			}
			for off, r := range ic.Replayed {
				c.AddReplayed(i, off, r)
			}
		}
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestReplayedStalls: what models of predictor and caches made of walks in the programs of testdata/stalls
// keeps the cause that is right, says less of others, and never more.
func TestReplayedStalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, proc string
		cause, or  Cause
		out        []Cause // that models rule out, but for what no walk may have seen
	}{
		{"chase", "chase", DCache, DTLB, nil},
		{"pages", "chase", DTLB, DCache, nil},
		{"branch", "branch", Mispredict, Mispredict, []Cause{DTLB, PageFault}},
		{"divide", "divide", Divider, Divider, []Cause{Mispredict}},
		{"multiply", "multiply", Multiplier, Multiplier, []Cause{Mispredict}},
		{"forward", "forward", StoreForward, StoreForward, []Cause{DCache, DTLB, Mispredict, PageFault}},
		{"alias", "alias", StoreForward, StoreForward, []Cause{DCache, DTLB, Mispredict, PageFault}},
		{"code", "", ICache, ICache, nil},
		{"stores", "stores", StoreBuffer, StoreBuffer, []Cause{Mispredict}},
		{"atomic", "atomic", Lock, Lock, []Cause{DCache, DTLB, Mispredict, PageFault}},
		{"touch", "touch", PageFault, PageFault, []Cause{Mispredict}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			rec := readRecording(t, tt.kind+".bfr")
			sums := [2]Summary{}
			for i, rec := range []*sample.Recording{rec, withReplayed(t, rec, readRecording(t, filepath.Join("replayed", tt.kind+".bfr")))} {
				_, all := explained(t, rec)
				for _, e := range all {
					if tt.proc == "" || e.Result.Proc.Name == tt.proc {
						sums[i].Add(&e.Summary)
					}
				}
			}
			for i, s := range sums {
				t.Logf("%s, by %s, shares of cycles: stalls %.3f, unexplained %.3f", tt.kind, [2]string{"samples", "models too"}[i], s.Dynamic/s.Cycles, s.Unexplained/s.Cycles)
				for c, r := range s.Causes {
					if r.Most > 0 {
						t.Logf("    %-14s %.3f to %.3f, likeliest of %.3f", Cause(c), r.Least/s.Cycles, r.Most/s.Cycles, s.Likeliest[c]/s.Cycles)
					}
				}
			}
			first := func(s *Summary) float64 {
				if tt.or == tt.cause {
					return s.Likeliest[tt.cause] / s.Dynamic
				}
				return (s.Likeliest[tt.cause] + s.Likeliest[tt.or]) / s.Dynamic
			}
			without, with := &sums[0], &sums[1]
			if got, was := first(with), first(without); got < 0.5 || got < was-0.02 {
				t.Errorf("%s is first of %.3f of the stalls, without models of %.3f", tt.cause, got, was)
			}
			if with.Unexplained > 0.02*with.Cycles+without.Unexplained {
				t.Errorf("%.3f of the cycles are unexplained, %.3f without models", with.Unexplained/with.Cycles, without.Unexplained/without.Cycles)
			}
			for _, c := range tt.out {
				if r := with.Causes[c]; r.Most > 0.15*with.Cycles || r.Most > without.Causes[c].Most*1.001 || r.Least > 0.001*with.Cycles {
					t.Errorf("%s may explain %.3f to %.3f of the cycles, without models up to %.3f", c, r.Least/with.Cycles, r.Most/with.Cycles, without.Causes[c].Most/without.Cycles)
				}
			}
		})
	}
}
