package feedback

import (
	"cmp"
	"math"
	"slices"
)

// Decisions are what a consumer of a profile would decide by it, predicted from
// the profile alone, by the rules that the consumer publishes. DecideGo and
// DecideLLVM make them. They say what the profile asks for: whether the source
// still has such a call, and whether the callee is small enough, only the consumer
// can tell.
type Decisions struct {
	Hot     int // choices that the consumer takes for hot
	Weight  uint64
	Samples float64    // that the profile was made of; 0 is unknown
	Blind   bool       // of Go: the profile says itself that it knows nothing of indirect calls
	whole   ChoiceKind // the choices of this kind share the weight among them: their shares add up to 1
	made    map[Choice]decided
	funcs   map[string]*function // of DecideLLVM: the profile
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
// in which of two equally hot callees comes first. Of four recordings of goldmark
// with 3700 samples each, any two differ in 500 of 1000 hot calls, but in none
// with more than 0.24 % of the weight, and in calls with 5 to 7 % of it altogether. Of
// pairs of a Go program (that of the demo), 12 of 45 with 1600 samples each
// differ in a call that 17 to 24 samples stand for, and 4 of 66 with 400 in one of 17 to
// 21; of SQLite with 1500, 13 of 28 in a function of 8 to 24: counts are inferred, and err
// by more than their samples: short calls that are inlined take their weight from what
// surrounds them. So the largest share falls as the root of the samples. On another
// processor, the demo's pairs differ in 22 samples' worth of 800, 57 of 3300 and 89 of
// 10,000: 0.8 to 1.0 times the root. Of 91 pairs of another Go program with 60,000, none
// does in one of 0.5 %, which is 1.2 times. testdata/consumers/alarms.sh counts such pairs.
const (
	clearShare   = 0.005 // a change of so much of the weight is clear
	clearRoot    = 1.5   // unless so many roots of all samples stand for more,
	clearSamples = 32    // or so many samples
	clearLead    = 2     // and of callees, if either leads the other by this factor in its profile
	// ClearMoved is the part of the weight whose calls change sides that tells
	// profiles of two workloads, even if no single change is clear.
	ClearMoved = 0.15
	// movedSamples is how many samples a call stands for, at least, that does not change
	// sides by chance. Between recordings of a Go program with 1300 hot calls, calls with
	// 17 to 27 % of the weight do, with 435 samples each, and with 7 to 13 %, with 870; of
	// those that stand for so many, with 3 % and with 0.4 %.
	movedSamples = 8
)

// Diff returns the choices that differ, the clear ones first, then the hottest. A
// call that one of the profiles lacks is not hot in it; it has no callee to differ.
func Diff(before, after *Decisions) []Change {
	var changes []Change
	least := max(leastClear(before.Samples), leastClear(after.Samples))
	for c := range before.made {
		changes = appendChange(changes, c, before.made[c], after.made[c], least)
	}
	for c, d := range after.made {
		if _, ok := before.made[c]; !ok {
			changes = appendChange(changes, c, decided{}, d, least)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(compareBool(b.Clear, a.Clear), cmp.Compare(max(b.OldShare, b.NewShare), max(a.OldShare, a.NewShare)),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Callee, b.Callee))
	})
	return changes
}

func appendChange(changes []Change, c Choice, before, after decided, least float64) []Change {
	if before.what == after.what {
		return changes
	}
	change := Change{Choice: c, Old: before.what, New: after.what, OldShare: before.share, NewShare: after.share}
	if c.Kind == Devirtualise {
		if before.what == "" || after.what == "" {
			return changes
		}
		change.Clear = leads(before, after.what, least) && leads(after, before.what, least) && (before.hot || after.hot)
	} else {
		change.Clear = before.hot != after.hot && max(before.share, after.share) >= least
	}
	return append(changes, change)
}

// leastClear returns the share of the weight that the noise of a profile of so many samples
// does not reach.
func leastClear(samples float64) float64 {
	return max(clearShare, shareOf(clearRoot*math.Sqrt(samples), samples), shareOf(clearSamples, samples))
}

// shareOf returns the share of all samples that n are; 0 if it is unknown.
func shareOf(n, samples float64) float64 {
	if samples == 0 {
		return 0
	}
	return n / samples
}

// leads reports whether the chosen callee is well ahead of another, with so large a share
// of the weight.
func leads(d decided, other string, least float64) bool {
	return d.to[d.what] >= max(least, clearLead*d.to[other])
}

// Moved is the part of the weight whose calls or functions become hot or cease to
// be, the mean of both, without those that stand for too few samples to tell.
func Moved(before, after *Decisions) float64 {
	least := max(shareOf(movedSamples, before.Samples), shareOf(movedSamples, after.Samples))
	var sum float64
	for _, c := range Diff(before, after) {
		switch {
		case c.Kind != after.whole, max(c.OldShare, c.NewShare) < least:
		case c.New == Hot:
			sum += c.NewShare
		case c.Old == Hot:
			sum += c.OldShare
		}
	}
	return sum / 2
}

// Overlap is the weight that two profiles put on the same choices: 1 if they are
// alike, 0 if they have nothing in common.
func Overlap(a, b *Decisions) float64 {
	var all, common float64
	for c, d := range a.made {
		if c.Kind == a.whole {
			all += d.share
			common += min(d.share, b.made[c].share)
		}
	}
	for c, d := range b.made {
		if c.Kind == b.whole {
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
