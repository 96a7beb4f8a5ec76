package infer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/truth"
)

// A constant of the search, with other values to try.
type constant struct {
	name string
	now  float64
	set  func(float64)
	try  []float64
}

// constants are those that counts depend on, and not only their confidence.
func constants() []*constant {
	of := func(name string, at *float64, try ...float64) *constant {
		return &constant{name, *at, func(v float64) { *at = v }, try}
	}
	p, e := &outOfOrder, &usualEffort
	return []*constant{
		of("fixed", &p.fixed, 0.5, 2),
		of("costVar", &p.costVar, 0.75, 3),
		of("hidden", &p.hidden, 2, 4.5, math.Inf(1)),
		of("outSD", &p.outSD, 3, 12),
		of("backEdge", &p.backEdge, 0.75, 3),
		of("forward", &p.forward, 0, -0.5, -2),
		of("calling", &p.calling, 0, -0.5, -2),
		of("unlikely", &p.unlikely, -4, -16),
		of("entrySD", &p.entrySD, 1.5, 6),
		of("tieSD", &p.tieSD, 0.05, 0.2),
		{"alone", float64(e.alone), func(v float64) { e.alone = int(v) }, []float64{12, 50}},
		{"together", float64(e.together), func(v float64) { e.together = int(v) }, []float64{18, 70}},
	}
}

// A setting changes some constants. The others are as in the code.
type setting []value

type value struct {
	*constant
	v float64
}

func (s setting) String() string {
	if len(s) == 0 {
		return "as in the code"
	}
	var all []string
	for _, v := range s {
		all = append(all, fmt.Sprintf("%s %.3g", v.name, v.v))
	}
	return strings.Join(all, ", ")
}

// A trial is a setting with its scores, by set.
type trial struct {
	setting
	score []*truth.Accuracy
}

func try(t *testing.T, all []*set, s setting) *trial {
	for _, v := range s {
		v.set(v.v)
		defer v.set(v.now)
	}
	tr := &trial{s, make([]*truth.Accuracy, len(all))}
	errs := make([]error, len(all))
	parallel(len(all), func(i int) {
		var p *Profile
		if p, errs[i] = Infer(t.Context(), all[i].Rec, all[i].Open, Options{}); errs[i] == nil {
			tr.score[i] = all[i].compare(p)
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	t.Logf("%.4f %.4f %.4f  %s", tr.mean(blockOverlap, -1), tr.mean(edgeOverlap, -1), tr.mean(within10, -1), s)
	return tr
}

func blockOverlap(a *truth.Accuracy) float64 { return a.BlockOverlap }
func edgeOverlap(a *truth.Accuracy) float64  { return a.EdgeOverlap }
func within10(a *truth.Accuracy) float64     { return a.Within10 }

// mean is that of all sets but one, or of all for -1.
func (tr *trial) mean(of func(*truth.Accuracy) float64, without int) float64 {
	var sum, n float64
	for i, a := range tr.score {
		if i != without {
			sum += of(a)
			n++
		}
	}
	return sum / n
}

// best is the trial with the best mean block overlap over all sets but one.
func best(trials []*trial, without int) *trial {
	return slices.MaxFunc(trials, func(a, b *trial) int {
		return cmp.Compare(a.mean(blockOverlap, without), b.mean(blockOverlap, without))
	})
}

// TestLeaveOneOut: counts are as good with constants that were chosen without the
// program they are scored on. Each program of -sets is left out in turn; of many
// settings it gets the one with the best mean block overlap over the others. The
// settings are those with one constant changed, with the changes joined that help
// the others most, and, in a search of their own that the constants in the code
// have no part in, points drawn at random. What is lost by it may be a tenth of
// what inference gains over samples by instructions. With -v it prints all scores: block
// and edge overlap, and the share within 10 %.
func TestLeaveOneOut(t *testing.T) {
	all := loadSets(t)
	if len(all) < 2 {
		t.Skip("fewer than 2 -sets")
	}
	defer func(draws int) { usualEffort.draws = draws }(usualEffort.draws)
	usualEffort.draws = 1 // they tell confidence, which is not looked at
	consts := constants()

	now := try(t, all, nil)
	gain := now.mean(blockOverlap, -1)
	for _, s := range all {
		gain -= s.compare(naive(s.infer(t, s.Rec, Options{}))).BlockOverlap / float64(len(all))
	}
	t.Logf("%.4f more block overlap than samples by instructions", gain)
	report := func(search string, choose func(without int) *trial) {
		leaveOneOut(t, search, all, now, gain/10, choose)
	}
	single := []*trial{now}
	for _, c := range consts {
		for _, v := range c.try {
			single = append(single, try(t, all, setting{{c, v}}))
		}
	}
	report("one change", func(i int) *trial { return best(single, i) })
	made := map[string]*trial{} // by their settings
	report("changes joined", func(i int) *trial {
		trials := slices.Clone(single)
		for _, s := range joined(single, i) {
			if made[s.String()] == nil {
				made[s.String()] = try(t, all, s)
			}
			trials = append(trials, made[s.String()])
		}
		return best(trials, i)
	})

	rng := rand.New(rand.NewPCG(1, 2))
	var random []*trial
	for range 30 {
		var s setting
		for _, c := range consts {
			s = append(s, value{c, c.now * math.Exp2(2*rng.Float64()-1)})
		}
		random = append(random, try(t, all, s))
	}
	var mean float64
	for _, tr := range random {
		mean += tr.mean(blockOverlap, -1) / float64(len(random))
	}
	t.Logf("mean block overlap of all random points: %.4f", mean)
	report("random points", func(i int) *trial { return best(random, i) })
}

// joined returns settings of the two, three and four changes that raise the mean of
// all sets but one most.
func joined(single []*trial, without int) (all []setting) {
	rank := slices.Clone(single)
	slices.SortStableFunc(rank, func(a, b *trial) int {
		return cmp.Compare(b.mean(blockOverlap, without), a.mean(blockOverlap, without))
	})
	var s setting
	for _, tr := range rank {
		if len(tr.setting) == 0 || len(s) == 4 { // what is left is no better than the code
			break
		}
		if change := tr.setting[0]; !slices.ContainsFunc(s, func(v value) bool { return v.constant == change.constant }) {
			s = append(s, change)
			all = append(all, slices.Clone(s))
		}
	}
	return all
}

// leaveOneOut reports what the sets score by what was chosen without them, which may be
// so much less than now.
func leaveOneOut(t *testing.T, search string, all []*set, now *trial, most float64, choose func(without int) *trial) {
	t.Helper()
	chosen := &trial{score: make([]*truth.Accuracy, len(all))}
	for i, s := range all {
		tr := choose(i)
		a, b := now.score[i], tr.score[i]
		chosen.score[i] = b
		t.Logf("%-8s left out: %.3f %.3f %.3f, in the code %.3f %.3f %.3f  %s", s.Name, b.BlockOverlap, b.EdgeOverlap, b.Within10,
			a.BlockOverlap, a.EdgeOverlap, a.Within10, tr.setting)
	}
	for _, m := range []struct {
		name string
		of   func(*truth.Accuracy) float64
	}{{"block overlap", blockOverlap}, {"edge overlap", edgeOverlap}, {"within 10 %", within10}} {
		t.Logf("%s, %s: %.4f, in the code %.4f", search, m.name, chosen.mean(m.of, -1), now.mean(m.of, -1))
	}
	if less := now.mean(blockOverlap, -1) - chosen.mean(blockOverlap, -1); less > most {
		t.Errorf("%s: block overlap is %.4f less with constants chosen without the program than with those in the code; want at most %.4f", search, less, most)
	}
}
