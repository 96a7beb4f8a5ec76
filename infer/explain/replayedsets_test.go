package explain

import (
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/truth"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

// TestReplayedSets shows, of each of -sets that was recorded calibrated and simulated, how what models made of walks
// compares with what callgrind simulates of the whole run: per procedure, misses by exact executions times the model's
// rate, beside plain time. callgrind's predictor and caches are others, so it can be alike in kind alone.
func TestReplayedSets(t *testing.T) {
	all := sets.Named(t)
	if len(all) == 0 {
		t.Skip("needs -sets")
	}
	for _, s := range all {
		file := filepath.Join(s.Dir, "simulated.gz")
		if s.Calibrated == nil {
			continue
		}
		simulated := sets.Truth(t, file)
		prof, err := infer.Infer(t.Context(), s.Calibrated, s.Open, infer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := New(prof, s.Calibrated)
		if err != nil {
			t.Fatal(err)
		}
		if x.replayed == nil {
			t.Logf("%s: nothing was replayed", s.Name)
			continue
		}
		var total sample.Replayed
		for _, at := range x.replayed {
			for _, r := range at {
				total = total.Plus(r)
			}
		}
		model, misses := make([][]float64, len(modelled)), make([][]float64, len(modelled))
		var cycles []float64
		blamed := [2][][]float64{make([][]float64, len(modelled)), make([][]float64, len(modelled))} // without and with models
		replayed := x.replayed
		x.replayed = nil
		for _, e := range x.All() {
			for k, m := range modelled {
				blamed[0][k] = append(blamed[0][k], e.Likeliest[m.cause])
			}
		}
		x.replayed = replayed
		procs := -1
		for ip, e := range x.All() {
			var it *truth.Image
			for path, one := range simulated.Images {
				if truth.SamePath(path, ip.ID.Path) {
					it = one
				}
			}
			if procs++; it == nil {
				for k := range modelled {
					blamed[0][k] = slices.Delete(blamed[0][k], procs, procs+1)
				}
				procs--
				continue
			}
			w := &work{Explainer: x, im: ip.Image, ipKey: ip.ID.Key(), exp: e}
			cycles = append(cycles, e.Cycles)
			for k, m := range modelled {
				sum := 0.0
				for i := range e.Insts {
					n := s.Exact(ip.ID.Path, &e.Result.Proc.Blocks[e.Insts[i].Block])
					sum += n * m.rate(w.replayOf(i))
				}
				model[k] = append(model[k], sum)
				blamed[1][k] = append(blamed[1][k], e.Likeliest[m.cause])
				misses[k] = append(misses[k], eventsOf(it, m.events, e.Result))
			}
		}
		t.Logf("%s: %d procedures; %.3g branches, %.4f missed; %.3g accesses, %.4f near, %.4f far; %.3g fetches, %.4f near, %.4f far", s.Name, len(cycles),
			float64(total.Branches), part(total.Missed, total.Branches), float64(total.Accesses), part(total.Near, total.Accesses), part(total.Far, total.Accesses), float64(total.Fetches), part(total.NearFetches, total.Fetches), part(total.FarFetches, total.Fetches))
		for k, m := range modelled {
			t.Logf("    %-26s simulated %.3g, modelled %.3g; r of modelled ones %5.2f, of stalls by likeliest cause %5.2f, without models %5.2f, of plain time %5.2f; by ranks %5.2f %5.2f %5.2f %5.2f", m.name, sumOf(misses[k]), sumOf(model[k]),
				correlation(model[k], misses[k]), correlation(blamed[1][k], misses[k]), correlation(blamed[0][k], misses[k]), correlation(cycles, misses[k]),
				spearman(model[k], misses[k]), spearman(blamed[1][k], misses[k]), spearman(blamed[0][k], misses[k]), spearman(cycles, misses[k]))
		}
	}
}

func part(n, all uint64) float64 { return float64(n) / float64(max(1, all)) }

func sumOf(a []float64) (s float64) {
	for _, x := range a {
		s += x
	}
	return s
}

// modelled are what models count the like of what callgrind simulates.
var modelled = []struct {
	name   string
	cause  Cause
	events []string
	rate   func(r sample.Replayed) float64
}{
	{"mispredicted branches", Mispredict, []string{"Bcm", "Bim"}, func(r sample.Replayed) float64 { return part(r.Missed, r.Branches) }},
	{"misses of the data cache", DCache, []string{"D1mr"}, func(r sample.Replayed) float64 {
		return (part(r.Far, r.Accesses) + 1 - part(r.Near, max(1, r.Accesses))) / 2 * min(1, float64(r.Accesses))
	}},
	{"misses of the code cache", ICache, []string{"I1mr"}, func(r sample.Replayed) float64 { return part(r.FarFetches, r.Fetches) }},
}
