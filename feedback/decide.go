package feedback

import (
	"cmp"
	"slices"
)

// Decisions are what a consumer of a profile would decide by it, predicted from
// the profile alone, by the rules that the consumer publishes. DecideGo and
// DecideLLVM make them. They say what the profile asks for: whether the source
// still has such a call, and whether the callee is small enough, only the consumer
// can tell.
type Decisions struct {
	Hot    int // choices that the consumer takes for hot
	Weight uint64
	made   map[Choice]decided
}

// A Choice is something that a consumer decides by a profile.
type Choice struct {
	Kind   ChoiceKind
	Site   string // a call as "caller:line", its line relative to the caller's first; a function
	Callee string // of Inline
}

// ChoiceKind tells choices apart.
type ChoiceKind string

const (
	// Inline: whether a call is hot, and its callee may be large and still be inlined.
	Inline ChoiceKind = "inline"
	// Devirtualise: which callee an indirect call asks for first. A profile does not
	// say which calls are indirect: one with a single callee may be neither.
	Devirtualise ChoiceKind = "devirtualise"
	// Place: whether a function is hot, cold or neither: which section it goes to, and
	// whether it is optimised for size.
	Place ChoiceKind = "place"
)

// What is decided: Hot, Cold or, of Devirtualise, the callee; "" is neither.
const (
	Hot  = "hot"
	Cold = "cold"
)

// decided is the outcome of a choice.
type decided struct {
	what  string
	hot   bool
	share float64            // of the profile's weight
	depth float64            // share of the profile's weight that is hotter: consumers cut at a depth
	to    map[string]float64 // of Devirtualise: shares of all callees
}

// A Change is a choice that two profiles decide differently.
type Change struct {
	Choice
	Old, New           string  // what was and would be decided; "" is neither hot nor cold
	OldShare, NewShare float64 // of the profiles' weight: 1 is all
	// Clear tells a change of what the program does from one that two recordings of
	// the same workload could differ by.
	Clear bool
}

// Two recordings of one workload differ in what stands at the consumer's cut, and
// in which of two equally hot callees comes first. A change is clear only beyond that.
const (
	clearDepth  = 0.98 // on its hot side, it is among the hottest 98 % of the weight
	clearFactor = 1.5  // its share of the weight, or the lead of one callee over another, changed by this
)

// Diff gives the choices that differ, the clear ones first, then the hottest. A
// call that one of the profiles lacks is not hot in it; it has no callee to differ.
func Diff(before, after *Decisions) []Change {
	var changes []Change
	for c := range before.made {
		changes = appendChange(changes, c, before.made[c], after.made[c])
	}
	for c, d := range after.made {
		if _, ok := before.made[c]; !ok {
			changes = appendChange(changes, c, decided{}, d)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(compareBool(b.Clear, a.Clear), cmp.Compare(max(b.OldShare, b.NewShare), max(a.OldShare, a.NewShare)),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Callee, b.Callee))
	})
	return changes
}

func appendChange(changes []Change, c Choice, before, after decided) []Change {
	if before.what == after.what {
		return changes
	}
	change := Change{Choice: c, Old: before.what, New: after.what, OldShare: before.share, NewShare: after.share}
	if c.Kind == Devirtualise {
		if before.what == "" || after.what == "" {
			return changes
		}
		change.Clear = leads(before, after.what) && leads(after, before.what) && (certain(before) || certain(after))
	} else {
		less, more := min(before.share, after.share), max(before.share, after.share)
		change.Clear = before.hot != after.hot && (certain(before) || certain(after)) && more >= clearFactor*less
	}
	return append(changes, change)
}

// certain tells whether something is hot whatever a recording's noise.
func certain(d decided) bool { return d.hot && d.depth <= clearDepth }

// leads tells whether the chosen callee is well ahead of another.
func leads(d decided, other string) bool { return d.to[d.what] >= clearFactor*d.to[other] }

// Overlap is the weight that two profiles put on the same choices: 1 if they are
// alike, 0 if they have nothing in common.
func Overlap(a, b *Decisions) float64 {
	var all, common float64
	for c, d := range a.made {
		if c.Kind != Devirtualise {
			all += d.share
			common += min(d.share, b.made[c].share)
		}
	}
	for c, d := range b.made {
		if c.Kind != Devirtualise {
			all += d.share
		}
	}
	if all == 0 {
		return 1
	}
	return 2 * common / all
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
