package fail

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"backfeed/cmd/internal/report"
)

// A Kind is what a caller can do about a failure.
type Kind uint8

const (
	Other   Kind = iota // a file, a process or backfeed itself failed
	Usage               // what was asked for makes no sense
	Gate                // a quality gate said no
	Nothing             // nothing usable in the input: no samples, no image, wrong build ID
	Changed             // decisions changed, and that was to fail
	Machine             // this machine cannot do it
)

// An Error is an error with its kind.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Wrap returns err with a kind, nil for nil. The kind that is nearest the cause wins:
// callers that know less wrap without asking.
func Wrap(k Kind, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{k, err}
}

// Errorf is fmt.Errorf with a kind, unless what it wraps has one.
func Errorf(k Kind, format string, args ...any) error {
	return Wrap(k, fmt.Errorf(format, args...))
}

// KindOf returns the kind of an error; Other if it carries none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Other
}

// worst are kinds, the one that is said of several first.
var worst = []Kind{Other, Usage, Machine, Nothing, Gate}

// Join is one error of several failures, with the kind of the worst; nil of none.
func Join(failures []error) error {
	if len(failures) == 0 {
		return nil
	}
	for _, k := range worst {
		if slices.ContainsFunc(failures, func(err error) bool { return KindOf(err) == k }) {
			return &Error{Kind: k, Err: errors.Join(failures...)}
		}
	}
	return errors.Join(failures...)
}

// A linesError is an error of several lines. In all others, an end of line comes from a name.
type linesError struct {
	error
	more []string
}

func (l *linesError) Error() string {
	return strings.Join(append([]string{l.error.Error()}, l.more...), "\n")
}
func (l *linesError) Unwrap() error { return l.error }

// Lines returns err with more lines below it.
func Lines(err error, more ...string) error { return &linesError{err, more} }

// Text returns what err says, made safe: errors hold paths and names as they are. Those
// that were joined have a line each.
func Text(err error) string {
	if e, ok := err.(*Error); ok {
		return Text(e.Err)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, e := range joined.Unwrap() {
			all = append(all, Text(e))
		}
		if errors.Join(joined.Unwrap()...).Error() == err.Error() {
			return strings.Join(all, "\n")
		}
	}
	text := err.Error()
	var l *linesError
	if !errors.As(err, &l) {
		return report.Clean(text)
	}
	before, after, _ := strings.Cut(text, l.Error())
	all := []string{report.Clean(before + l.error.Error())}
	for _, more := range l.more {
		all = append(all, report.Clean(more))
	}
	return strings.Join(all, "\n") + report.Clean(after)
}

// Cause takes the path out of a file error: the caller names a better one.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
