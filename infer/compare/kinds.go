package compare

import (
	"maps"
	"math"
	"slices"
)

// An AtMix is what is known of an Effect that compares what units take kind by kind, and weighs the kinds
// alike on both sides. The shares that kinds have of the units do not enter it.
type AtMix struct {
	Raw  Effect     // of the units as they came
	Rest [2]float64 // the share of what is spent that is of no kind: old, new
}

// A byKind is what the runs of a side did and spent, by kind. The kind "" is what is of none: all units share in it.
type byKind struct {
	units, spent map[string]float64 // of all runs
	runs         []struct{ units, spent map[string]float64 }
}

// byKind adds up a side; nil if it is not known what was done and spent in each kind.
func (m *table) byKind(side int) *byKind {
	s := &byKind{units: map[string]float64{}, spent: map[string]float64{}}
	for i := range m.runs[side] {
		r := &m.runs[side][i]
		if len(r.Kinds) == 0 || r.ByKind == nil {
			return nil
		}
		one := struct{ units, spent map[string]float64 }{map[string]float64{}, map[string]float64{}}
		for kind, n := range r.Kinds {
			if n > 0 && kind != "" {
				one.units[kind] = n
			}
			one.units[""] += n
		}
		for _, n := range m.n[side][i] {
			one.spent[""] += n * r.Period
		}
		for kind, n := range r.ByKind {
			if kind != "" {
				one.spent[kind] = float64(n) * r.Period
			}
		}
		s.runs = append(s.runs, one)
		for kind, n := range one.units {
			s.units[kind] += n
		}
	}
	for _, one := range s.runs { // what is spent in kinds is not spent in none
		for kind, y := range one.spent {
			if s.units[kind] == 0 {
				delete(one.spent, kind)
			} else if kind != "" {
				one.spent[""] -= y
			}
		}
		one.spent[""] = max(0, one.spent[""])
		for kind, y := range one.spent {
			s.spent[kind] += y
		}
	}
	return s
}

// atMix compares what units take at one mix of their kinds; nil if it is not known what is spent by kind.
//
// Kinds have the weights of Mantel and Haenszel ("Statistical aspects of the analysis of data from
// retrospective studies of disease", 1959), of their shares of the units: where these are equal on both sides,
// they are the weights; a kind of which a side has few units, and so tells little, counts little; one that it
// has none of, nothing. What is spent in no kind, such as in collecting garbage, is divided by all units.
func (m *table) atMix() (*AtMix, *Effect) {
	sides := [2]*byKind{m.byKind(0), m.byKind(1)}
	if sides[0] == nil || sides[1] == nil {
		return nil, nil
	}
	weights, sum, found := map[string]float64{}, 0.0, 0.0
	for _, kind := range slices.Sorted(maps.Keys(sides[0].units)) {
		old, new := sides[0].units[kind]/sides[0].units[""], sides[1].units[kind]/sides[1].units[""]
		if kind == "" || new == 0 {
			continue
		}
		weights[kind] = old * new / (old + new)
		sum += weights[kind]
		found += sides[0].spent[kind] + sides[1].spent[kind]
	}
	if found == 0 {
		return nil, nil
	}
	for kind := range weights {
		weights[kind] /= sum
	}
	weights[""] = 1
	kinds := slices.Sorted(maps.Keys(weights))
	a := &AtMix{}
	var trials [2][]Trial
	for side, s := range sides {
		var y float64 // spent per unit at the one mix
		for _, kind := range kinds {
			y += weights[kind] * s.spent[kind] / s.units[kind]
		}
		a.Rest[side] = s.spent[""] / s.units[""] / y
		// The work of a run is what its units take on average, kind by kind: what it spent beyond that is how
		// it differs, and not which units it had.
		for i, one := range s.runs {
			var t Trial
			for _, kind := range kinds {
				f := weights[kind] / s.units[kind]
				t.Spent += f * one.spent[kind]
				t.Chance += f * f * one.spent[kind] * m.runs[side][i].Period
				t.Work += f * one.units[kind] * s.spent[kind] / s.units[kind] / y
			}
			trials[side] = append(trials[side], t)
		}
	}
	e := Compare(trials[0], trials[1], m.q.Serial, m.q.Noise)
	if math.IsNaN(e.Change) {
		return nil, nil
	}
	return a, &e
}
