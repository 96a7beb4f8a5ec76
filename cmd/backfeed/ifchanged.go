package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ifChanged defines the flag of commands that write profiles into repositories.
func (c *cli) ifChanged() *bool {
	return c.fs.Bool("if-changed", false, "leave the file alone unless a decision of the build clearly changes (`backfeed help diff`)")
}

// writeUnless makes the file path from what f writes, as write does. If it names a
// consumer, a file that is there stays if the consumer would decide by it as by the
// new one: its bytes are what builds are cached by.
func (c *cli) writeUnless(consumer, path string, f func(io.Writer) error) error {
	if consumer == "" {
		return c.write(path, f)
	}
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("%s: %w", path, cause(err))
	case bytes.Equal(old, b.Bytes()):
		c.warn("%s stays: it is the same", path)
		return nil
	default:
		same, err := c.sameDecisions(consumer, path, old, b.Bytes())
		if same || err != nil {
			return err
		}
	}
	return c.write(path, func(w io.Writer) error {
		_, err := w.Write(b.Bytes())
		return err
	})
}

// sameDecisions tells whether no decision clearly changes from the profile at path
// to another.
func (c *cli) sameDecisions(consumer, path string, old, profile []byte) (bool, error) {
	after, err := deciders[consumer](bytes.NewReader(profile))
	if err != nil {
		return false, err
	}
	before, err := deciders[consumer](bytes.NewReader(old))
	if err != nil {
		c.warn("%s: %v; it is replaced", path, err)
		return false, nil
	}
	doc := newDiff(consumer, before, after)
	if doc.differs() {
		ch := &doc.Changes[0]
		c.warn("%s changes: %s; the hottest: %s: %s", path, doc.summary(), ch.where(), ch.says())
		return false, nil
	}
	c.warn("%s stays: %s", path, doc.summary())
	return true, nil
}

// usedBy gives the consumer whose decisions --if-changed compares.
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
