package sample

import (
	"errors"
	"fmt"
	"io"
)

// maxPprofKinds is how many values a label may have that divides samples into kinds: names of
// handlers are some hundreds. One that names requests has no end of them.
const maxPprofKinds = 1000

// ErrManyKinds is wrapped where a label has too many values to be one of kinds.
var ErrManyKinds = errors.New("more values than kinds of work have")

// Labelled is the samples of one event by the value of a label. A sample without that
// label, or with several values of it, has the value "".
type Labelled map[string]uint64

// ReadPprofLabel reads how many samples of each event, by its name, a profile in pprof's format has
// by the value of the label with a key: a string, as Go's runtime/pprof.Do sets it. A label
// that is a number in some samples, or has more than a thousand values, is refused.
func ReadPprofLabel(r io.Reader, key string) (map[string]Labelled, error) {
	p, err := parseProfile(r, key)
	if err != nil {
		return nil, fmt.Errorf("pprof: %w", err)
	}
	evs, err := pprofEvents(p)
	if err != nil {
		return nil, fmt.Errorf("pprof: %w", err)
	}
	all := map[string]Labelled{}
	for _, ev := range evs {
		by := all[ev.Name]
		if by == nil {
			by = Labelled{}
			all[ev.Name] = by
		}
		for i, s := range p.Sample {
			n, value := s.Value[ev.samples], ""
			if n < 0 {
				return nil, fmt.Errorf("pprof: sample %d: negative value", i)
			}
			if len(s.NumLabel[key]) > 0 {
				return nil, fmt.Errorf("pprof: sample %d: label %s: a number, want a string: %w", i, key, ErrFormat)
			}
			if values := s.Label[key]; len(values) == 1 {
				value = values[0]
			}
			by[value] = add(by[value], uint64(n))
			kinds := len(by)
			if _, none := by[""]; none {
				kinds--
			}
			if kinds > maxPprofKinds {
				return nil, fmt.Errorf("pprof: label %s: more than %d values: %w", key, maxPprofKinds, ErrManyKinds)
			}
		}
	}
	return all, nil
}
