package input

import (
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
)

// A Bound is a moment of a recording: a time, or so long after its first slice began. The zero value is none.
type Bound struct {
	At    time.Time
	After time.Duration
	Given bool
}

// String returns what the flag takes.
func (b Bound) String() string {
	switch {
	case !b.Given:
		return ""
	case !b.At.IsZero():
		return b.At.UTC().Format(time.RFC3339Nano)
	}
	return b.After.String()
}

// Between is a part of the time of each source: what is given bounds it.
type Between struct{ From, To Bound }

// String returns what the flag takes; "" is all.
func (b Between) String() string {
	if !b.From.Given && !b.To.Given {
		return ""
	}
	return b.From.String() + "," + b.To.String()
}

// cut returns the part of a source that the options ask for.
func (s *Session) cut(r *sample.Recording, name string) (*sample.Recording, error) {
	between := s.opt.Between.String()
	if between == "" {
		return r, nil
	}
	// timed returns what is read of a recording.
	timed := func(r *sample.Recording) (*sample.Recording, error) {
		if !s.waits() {
			return r, nil
		}
		r, err := r.Waits(s.opt.Infer.Event)
		if err != nil {
			return nil, fail.Errorf(fail.Nothing, "%s: %w", name, err)
		}
		return r, nil
	}
	all, err := timed(r)
	if err != nil {
		return nil, err
	}
	first, last, ok := all.Span()
	if !ok {
		return nil, fail.Errorf(fail.Nothing, "%s: --between: nothing is known of when its samples were taken; want a file that record or perf record wrote, not a store or one of an older version", name)
	}
	from, to := first, last
	for _, b := range []struct {
		is Bound
		at *uint64
	}{{s.opt.Between.From, &from}, {s.opt.Between.To, &to}} {
		switch {
		case !b.is.Given:
		case b.is.At.IsZero():
			*b.at = first + uint64(b.is.After)
		case first < sample.EarliestDate:
			return nil, fail.Errorf(fail.Nothing, "%s: --between: the recording does not know its date; say how long after its beginning", name)
		default:
			*b.at = uint64(max(0, b.is.At.UnixNano()))
		}
	}
	part := r.Between(from, to)
	read, err := timed(part)
	if err != nil || read.Samples() == 0 {
		return nil, fail.Errorf(fail.Nothing, "%s: no samples between %s; there are some of %v", name, between, time.Duration(last-first))
	}
	begins, ends, _ := read.Span()
	if event := s.opt.Infer.Event; s.waits() {
		s.notify.Warn("%s: %s of event %s are of the slices of time from %v to %v after the first, each wait of that in which it ended", name,
			report.Parts(event, read.Samples(), all.Samples()), event, time.Duration(begins-first), time.Duration(ends-first))
	} else {
		s.notify.Warn("%s: %d of %d samples were taken in the slices of time from %v to %v after the first sample", name, read.Samples(), all.Samples(), time.Duration(begins-first), time.Duration(ends-first))
	}
	rest := report.Observed(r.Observed(nil))
	if slices.ContainsFunc(r.Counts, func(c *sample.Counts) bool { return len(c.Branches) > 0 }) {
		rest = strings.TrimPrefix(rest+", branch records", ", ")
	}
	if rest != "" {
		s.notify.Warn("%s: not used, as it is of all its time: %s", name, rest)
	}
	return part, nil
}
