package emit

import (
	"bytes"
	"io"

	"backfeed/cmd/internal/report"
	"backfeed/feedback"
)

// Deciders predict the decisions of a consumer by a profile of a format.
var Deciders = map[string]func(io.Reader) (*feedback.Decisions, error){"go": feedback.DecideGo, "llvm": feedback.DecideLLVM}

// A Settled is a profile whose file may have been there before.
type Settled struct {
	Bytes []byte               // of the file, from now on
	Stays bool                 // they are those that were there
	Diff  *report.DecisionDiff // what the consumer decides otherwise; nil if nothing was there that can be compared
	Notes []Note               // what became of the file, for people
}

// A Note is a sentence about a file.
type Note struct{ Does, Why string } // "stays", "it is the same"

// About is the sentence, about the file at path.
func (n Note) About(path string) string { return path + " " + n.Does + ": " + n.Why }

// Settle makes a profile for a file that may be there. Its bytes are what builds are cached by: old ones stay
// if the consumer would decide by them as by the new ones. If single decisions change, write writes what it can as it is in
// the old file; if much of the weight changes sides, they are profiles of two workloads, and all is new, as it
// is if the old one is of few samples. old is nil if there is no file.
func Settle(consumer string, old []byte, write func(w io.Writer, old []byte) error) (*Settled, error) {
	var b bytes.Buffer
	if err := write(&b, nil); err != nil {
		return nil, err
	}
	s := &Settled{Bytes: b.Bytes()}
	note := func(does, format string, args ...any) {
		s.Notes = append(s.Notes, Note{does, report.Sprintf(report.Style{}, format, args...)})
	}
	stay := func(why string) (*Settled, error) {
		note("stays", "%s", why)
		s.Bytes, s.Stays = old, true
		return s, nil
	}
	switch {
	case old == nil:
		return s, nil
	case bytes.Equal(old, s.Bytes):
		return stay("it is the same")
	}
	after, err := Deciders[consumer](bytes.NewReader(s.Bytes))
	if err != nil {
		return nil, err
	}
	before, err := Deciders[consumer](bytes.NewReader(old))
	if err != nil {
		note("is replaced", "%v", err)
		return s, nil
	}
	doc := report.NewDecisionDiff(consumer, before, after)
	s.Diff = doc
	if doc.Differs() {
		ch := &doc.Changes[0]
		note("changes", "%s; the hottest: %s: %s", doc.Summary(), ch.Where(), ch.Says())
	}
	switch {
	case doc.Outgrown():
		note("is replaced", "it is of %.0f samples, the new one of %.0f", doc.Samples[0], doc.Samples[1])
	case doc.Callers:
		note("is replaced", "it was made without callers and has no indirect calls, the new one was made with them")
	case !doc.Differs():
		return stay(doc.Summary())
	case doc.Moved < feedback.ClearMoved:
		var settled bytes.Buffer
		if err := write(&settled, old); err != nil {
			return nil, err
		}
		s.Bytes = settled.Bytes()
	}
	return s, nil
}
