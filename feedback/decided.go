package feedback

import (
	"cmp"
	"slices"
)

// A Decided is a choice, and what a consumer decides.
type Decided struct {
	Choice
	What  string  // Hot or Cold; of Devirtualise, the callee
	Share float64 // of the profile's weight: 1 is all
	// Clear is set if another recording of the same workload would decide so, too, by the rule of Change.Clear.
	Clear bool
}

// All returns what a consumer decides to do: what is hot, cold or asks for a callee, the heaviest first.
func (d *Decisions) All() []Decided {
	least := leastClear(d.Samples)
	var all []Decided
	for c, made := range d.made {
		if made.what != "" && (made.hot || made.what == Cold) {
			all = append(all, Decided{c, made.what, made.share, made.hot && made.share >= least})
		}
	}
	slices.SortFunc(all, func(a, b Decided) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Callee, b.Callee))
	})
	return all
}
