package verdict

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/infer/compare"
	"backfeed/infer/image"
	"backfeed/sample"
)

// Units say how much work a side did.
type Units struct {
	Values  []string // numbers, one for each recording or one for all; or files of metrics: a snapshot before and after each, or, of a store, one with their times
	Counter Selector // of files
	Kind    string   // the label of Counter that tells kinds of work apart; "" is none
	Proc    string   // the units are executions of this procedure, as they were counted; "" is not

	KindLabel string // the label of the samples of pprof profiles that has the kind they are of; "" is none
}

// give has the runs of a side know their units of work. Where they are known of all together only, these are one run.
func (u *Units) give(s *side, runs []compare.Run) ([]compare.Run, error) {
	switch {
	case u.Proc != "":
		return u.executed(s, runs)
	case len(u.Values) == 0:
		return runs, nil
	}
	var by []map[string]float64
	var err error
	if numbers := u.numbers(); numbers != nil {
		for _, n := range numbers {
			if !(n > 0) || math.IsInf(n, 0) {
				return nil, fail.Errorf(fail.Usage, "verdict: %s: %g units of work: want more than 0", s.Name, n)
			}
			by = append(by, map[string]float64{"": n})
		}
	} else if by, err = u.counted(s); err != nil {
		return nil, err
	}
	switch {
	case len(by) == 1 && len(runs) > 1:
		runs = []compare.Run{together(runs)}
	case len(by) != len(runs):
		return nil, fail.Errorf(fail.Usage, "verdict: %s, and %d numbers of units are given: want one for each, or one for all", s, len(by))
	}
	var known []compare.Run
	for i, r := range runs {
		if by[i] == nil { // an epoch that the counter was not seen in
			continue
		}
		if len(by[i]) > 1 || u.Kind != "" {
			r.Kinds = by[i]
		}
		for _, kind := range sortedKeys(by[i]) {
			r.Units += by[i][kind]
		}
		if !(r.Units > 0) || math.IsInf(r.Units, 0) {
			return nil, fail.Errorf(fail.Nothing, "verdict: %s: %g units of work", s.Name, r.Units)
		}
		known = append(known, r)
	}
	if len(known) == 0 {
		return nil, fail.Errorf(fail.Nothing, "verdict: %s: %s was counted in none of its epochs", s.Name, u.Counter.Name)
	}
	return known, nil
}

// numbers are the values, if they are numbers; nil if they are names of files.
func (u *Units) numbers() []float64 {
	var all []float64
	for _, v := range u.Values {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// counted reads files of metrics.
func (u *Units) counted(s *side) ([]map[string]float64, error) {
	if u.Counter.Name == "" {
		return nil, fail.Errorf(fail.Usage, "verdict: %s is no number: name the counter of requests in it with --counter", strings.Join(u.Values, ", "))
	}
	var files [][]Series
	for _, path := range u.Values {
		all, err := input.File(path, func(r io.Reader) ([]Series, error) { return ReadMetrics(r, u.Counter) })
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, fail.Errorf(fail.Nothing, "%s: no counter %s", path, u.Counter.Name)
		}
		files = append(files, all)
	}
	if len(files) == 1 {
		return u.during(s, files[0])
	}
	var pairs [][2]int
	switch k := len(s.sets); len(files) {
	case 2 * k:
		for i := range k {
			pairs = append(pairs, [2]int{2 * i, 2*i + 1})
		}
	case k + 1:
		for i := range k {
			pairs = append(pairs, [2]int{i, i + 1})
		}
	case 2:
		pairs = [][2]int{{0, 1}}
	default:
		return nil, fail.Errorf(fail.Usage, "verdict: %s, and %d snapshots of metrics are given: want two for each, one more than there are, or two in all", s, len(files))
	}
	var by []map[string]float64
	for _, p := range pairs {
		n, err := Increase(files[p[0]], files[p[1]], u.Kind)
		if err != nil {
			return nil, fail.Errorf(fail.Nothing, "%s and %s: %w", u.Values[p[0]], u.Values[p[1]], err)
		}
		by = append(by, n)
	}
	return by, nil
}

// during is how much counters rose in each epoch, by a file that has them with times; nil of epochs that it does not cover.
func (u *Units) during(s *side, all []Series) ([]map[string]float64, error) {
	if !s.stored() {
		return nil, fail.Errorf(fail.Usage, "verdict: %s: a single file of metrics tells the units of a store's epochs only, by the times in it: give a snapshot before and one after", u.Values[0])
	}
	by := make([]map[string]float64, len(s.sets))
	for i, set := range s.sets {
		n, ok, err := During(all, u.Kind, float64(set.Epoch.From().Unix()), float64(set.Epoch.To().Unix()))
		if err != nil {
			return nil, fail.Errorf(fail.Nothing, "%s: %w", u.Values[0], err)
		}
		if ok {
			by[i] = n
		}
	}
	if missing := len(by) - len(slices.DeleteFunc(slices.Clone(by), func(n map[string]float64) bool { return n == nil })); missing > 0 {
		s.src.Notify().Warn("%s: %d of %d epochs are left out: %s does not reach over them", s.Name, missing, len(by), u.Values[0])
	}
	return by, nil
}

// An execution is how often a procedure was entered, as it was counted beside the samples.
type execution struct {
	n, variance float64
	counted     bool
}

// executions returns what was counted of the procedure that units are executions of: by probes, for the time that a
// set was recorded.
func (s *side) executions(set *compare.Set) (sum execution, err error) {
	if s.Units.Proc == "" {
		return sum, nil
	}
	var of sample.ImageID
	for _, c := range set.Recording.Counts {
		for _, ic := range c.Images {
			if len(ic.Probed) == 0 {
				continue
			}
			im, err := s.src.Open(ic.ID)
			if err != nil {
				continue
			}
			for _, sym := range im.Symbols() {
				off, ok := im.OffsetOf(sym.Addr)
				p := ic.Probed[off]
				if !ok || p.Covered == 0 || !isNamed(sym, s.Units.Proc) {
					continue
				}
				if sum.counted && of != ic.ID.Key() {
					return sum, fail.Errorf(fail.Nothing, "verdict: %s: several images have a procedure %s", set.Name, s.Units.Proc)
				}
				of = ic.ID.Key()
				all := float64(c.Weight) / float64(p.Covered)
				sum.n += float64(p.Runs) * all
				sum.variance += p.Variance.Float64() * all * all
				sum.counted = true
			}
		}
	}
	return sum, nil
}

// isNamed reports whether the user means sym: by the linker's name, the source's, or that of a Go package's function.
func isNamed(sym image.Symbol, name string) bool {
	return sym.Name == name || slices.Contains(sym.Aliases, name) || image.Demangle(sym.Name) == name || image.DemangleShort(sym.Name) == name ||
		strings.HasSuffix(sym.Name, "."+name)
}

// executed has runs know the counted executions of a procedure.
func (u *Units) executed(s *side, runs []compare.Run) ([]compare.Run, error) {
	for i := range runs {
		if e := s.ran[i]; !e.counted || !(e.n > 0) {
			return nil, fail.Errorf(fail.Nothing, "verdict: %s: executions of %s were not counted. Inferred ones have a factor in common that differs between recordings, and say nothing of the time of one: record with --calibrate, "+
				"which counts what most is learnt of, or give the units with --units", s.sets[i].Name, u.Proc)
		} else {
			runs[i].Units, runs[i].Chance = e.n, e.variance
		}
	}
	return runs, nil
}
