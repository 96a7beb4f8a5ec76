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
	if s.waits() {
		return nil, fail.Errorf(fail.Usage, "--between: time off the processor is known of all of a recording's time alone")
	}
	first, last, ok := r.Span()
	if !ok {
		return nil, fail.Errorf(fail.Nothing, "%s: --between: nothing is known of when its samples were taken; want a recording of a command or of -p, or of perf record, which stores and record -a do not hold", name)
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
	if part.Samples() == 0 {
		return nil, fail.Errorf(fail.Nothing, "%s: no samples between %s; there are some of %v", name, between, time.Duration(last-first))
	}
	begins, ends, _ := part.Span()
	s.notify.Warn("%s: %d of %d samples were taken in the slices of time from %v to %v after the first sample", name, part.Samples(), r.Samples(), time.Duration(begins-first), time.Duration(ends-first))
	rest := report.Observed(r.Observed(nil))
	if slices.ContainsFunc(r.Counts, func(c *sample.Counts) bool { return len(c.Branches) > 0 }) {
		rest = strings.TrimPrefix(rest+", branch records", ", ")
	}
	if len(r.Off) > 0 {
		rest = strings.TrimPrefix(rest+", time off the processor", ", ")
	}
	if rest != "" {
		s.notify.Warn("%s: not used, as it is of all its time: %s", name, rest)
	}
	return part, nil
}
