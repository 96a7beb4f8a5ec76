package verdict

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/infer/compare"
	"backfeed/sample"
)

// noCount is why the values of a label are no units of work. TestDistinct of package compare has the figures.
const noCount = "How many values of a label samples have, such as request IDs, is no count of units: a unit that takes less is seen less often, so that number " +
	"falls with the very time that is judged (`backfeed help compare`)"

// labelled returns the samples of each set by the values of the label that tells their kind, and by event; nil if there is none. Labels
// are in profiles of pprof alone, and no recording keeps them: these are read again.
func (s *side) labelled() ([]map[string]sample.Labelled, error) {
	key := s.Units.KindLabel
	if key == "" {
		return nil, nil
	}
	var all []map[string]sample.Labelled
	for _, path := range s.Paths {
		if !input.IsProfile(path) {
			return nil, fail.Errorf(fail.Usage, "%s: --kind-label wants files of pprof profiles: no other recording has labels of samples", input.Name(path))
		}
		by, err := input.File(path, func(r io.Reader) (map[string]sample.Labelled, error) { return sample.ReadPprofLabel(r, key) })
		switch {
		case errors.Is(err, sample.ErrManyKinds):
			return nil, fail.Errorf(fail.Nothing, "%w. %s. Give the label of kinds of work, such as handlers", err, noCount)
		case err != nil:
			return nil, err
		}
		all = append(all, by)
	}
	return all, nil
}

// agree refuses labels of samples that tell other kinds apart than the counter does.
func (s *side) agree(runs []compare.Run) error {
	if s.Units.KindLabel == "" {
		return nil
	}
	var counted, labelled []string
	for i := range runs {
		for _, kind := range sortedKeys(runs[i].Kinds) {
			if kind != "" && runs[i].ByKind[kind] > 0 {
				return nil
			}
		}
		counted = append(counted, sortedKeys(runs[i].Kinds)...)
		labelled = append(labelled, slices.Sorted(maps.Keys(runs[i].ByKind))...)
	}
	return fail.Errorf(fail.Nothing, "verdict: %s: no sample has a label %s with a value that label %s of %s has: samples have %s, the counter %s",
		s.Name, s.Units.KindLabel, s.Units.Kind, s.Units.Counter.Name, some(labelled), some(counted))
}

// some lists the first few of values, each once.
func some(values []string) string {
	const few = 3
	var parts []string
	for _, v := range values {
		if v != "" && len(parts) < few && !slices.Contains(parts, v) {
			parts = append(parts, v)
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
