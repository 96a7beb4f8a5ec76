package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
)

// ifChanged defines the flag of commands that write profiles into repositories.
func (c *cli) ifChanged() *bool {
	return c.fs.Bool("if-changed", false, "leave the file alone unless a decision of the build clearly changes, and then what has not; see the command diff")
}

// writeUnless makes the file path from what f writes, as write does. If it names a
// consumer, a file that is there stays where emit.Settle says so, and wrote is false.
func (c *cli) writeUnless(consumer, path string, f func(w io.Writer, old []byte) error) (wrote bool, err error) {
	if consumer == "" {
		err := c.write(path, func(w io.Writer) error { return f(w, nil) })
		return err == nil, err
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	settled, err := emit.Settle(consumer, old, f)
	if err != nil {
		return false, err
	}
	for _, note := range settled.Notes {
		c.warn("%s", note.About(path))
	}
	if settled.Stays {
		return false, nil
	}
	err = c.writeFile(path, settled.Bytes)
	return err == nil, err
}

// usedBy returns the consumer whose decisions --if-changed compares.
func usedBy(ifChanged bool, emitted, out string) (string, error) {
	switch {
	case !ifChanged:
		return "", nil
	case emit.Deciders[emitted] == nil:
		return "", errors.New("--if-changed knows what go and llvm decide")
	case out == "-":
		return "", errors.New("--if-changed needs a file: -o FILE")
	}
	return emitted, nil
}
