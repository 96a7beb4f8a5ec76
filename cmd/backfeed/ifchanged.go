package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
)

// ifChanged defines the flag of commands that write profiles into repositories.
func (c *cli) ifChanged() *bool {
	return c.fs.Bool("if-changed", false, "leave the file alone unless a decision of the build clearly changes, and then what has not; see the command diff")
}

// writeUnless makes the file path from what f writes, as write does. If it names a
// consumer, a file that is there stays if the consumer would decide by it as by the
// new one: its bytes are what builds are cached by. If single decisions change, f
// writes what it can as it is in the old file; if much of the weight changes sides,
// they are profiles of two workloads, and all is new, as it is if the old one is of few
// samples.
func (c *cli) writeUnless(consumer, path string, f func(w io.Writer, old []byte) error) error {
	if consumer == "" {
		return c.write(path, func(w io.Writer) error { return f(w, nil) })
	}
	var b bytes.Buffer
	if err := f(&b, nil); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("%s: %w", path, fail.Cause(err))
	case bytes.Equal(old, b.Bytes()):
		c.warn("%s stays: it is the same", path)
		return nil
	default:
		doc, err := c.compare(consumer, path, old, b.Bytes())
		if err != nil {
			return err
		}
		switch {
		case doc == nil:
		case doc.Outgrown():
			c.warn("%s is replaced: it is of %.0f samples, the new one of %.0f", path, doc.Samples[0], doc.Samples[1])
		case doc.Callers:
			c.warn("%s is replaced: it was made without callers and has no indirect calls, the new one was made with them", path)
		case !doc.Differs():
			c.warn("%s stays: %s", path, doc.Summary())
			return nil
		case doc.Moved < feedback.ClearMoved:
			b.Reset()
			if err := f(&b, old); err != nil {
				return err
			}
		}
	}
	return c.writeFile(path, b.Bytes())
}

// compare compares the decisions by the profile at path with those by another; nil if
// it is not a profile.
func (c *cli) compare(consumer, path string, old, profile []byte) (*report.DecisionDiff, error) {
	after, err := deciders[consumer](bytes.NewReader(profile))
	if err != nil {
		return nil, err
	}
	before, err := deciders[consumer](bytes.NewReader(old))
	if err != nil {
		c.warn("%s: %v; it is replaced", path, err)
		return nil, nil
	}
	doc := report.NewDecisionDiff(consumer, before, after)
	if doc.Differs() {
		ch := &doc.Changes[0]
		c.warn("%s changes: %s; the hottest: %s: %s", path, doc.Summary(), ch.Where(), ch.Says())
	}
	return doc, nil
}

// usedBy returns the consumer whose decisions --if-changed compares.
func usedBy(ifChanged bool, emitted, out string) (string, error) {
	switch {
	case !ifChanged:
		return "", nil
	case deciders[emitted] == nil:
		return "", errors.New("--if-changed knows what go and llvm decide")
	case out == "-":
		return "", errors.New("--if-changed needs a file: -o FILE")
	}
	return emitted, nil
}
