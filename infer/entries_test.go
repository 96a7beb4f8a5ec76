package infer

import (
	"math"
	"testing"
)

// TestEntries: by samples alone, the entries of half of all procedures are off by less than a factor 5, over the
// programs of -sets; it also reports the trips of loops, and entries as they are: not after one factor for all counts.
func TestEntries(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	var entries, each, trips float64 // logarithms
	var asIs, eachAsIs, told float64 // as they are, of programs whose runs are known
	for _, s := range all {
		a := s.compare(s.infer(t, s.Rec, Options{}))
		t.Logf("%-10s factors of error, by samples and each alike: entries %.3g, %.3g (%.0f %% within 2, of %d), trips %.3g, %.3g (%.0f %% of %d)", s.Name,
			a.Entries.Median, a.Entries.Each, 100*a.Entries.Within2x, a.Entries.N, a.Trips.Median, a.Trips.Each, 100*a.Trips.Within2x, a.Trips.N)
		if s.Runs > 0 {
			e := a.EntriesOf(s.Runs)
			t.Logf("%-10s as they are: entries %.3g, %.3g", s.Name, e.Median, e.Each)
			asIs += math.Log(e.Median)
			eachAsIs += math.Log(e.Each)
			told++
		}
		entries += math.Log(a.Entries.Median)
		each += math.Log(a.Entries.Each)
		trips += math.Log(a.Trips.Median)
	}
	mean := func(sum float64) float64 { return math.Exp(sum / float64(len(all))) }
	t.Logf("%d programs: geometric means of the medians: entries %.3g, %.3g, trips %.3g", len(all), mean(entries), mean(each), mean(trips))
	if told > 0 {
		t.Logf("%g programs as they are: entries %.3g, %.3g", told, math.Exp(asIs/told), math.Exp(eachAsIs/told))
	}
	if mean(entries) > 5 || mean(each) > 6 {
		t.Errorf("entries are off by %.3g, by %.3g of each procedure alike", mean(entries), mean(each))
	}
}
