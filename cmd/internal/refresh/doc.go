// Package refresh keeps the profiles of a repository fresh. Parse reads which ones, the section
// "refresh" of a configuration; Run makes them all: it merges the sources of each target, carries the
// samples of older builds onto the newest, judges them, infers, and writes what clearly changes, with a
// lock that says what each file is. It refuses to write a target of which one output fails, and leaves
// the files of the others alone. Package report says what happened, forge puts it before reviewers.
package refresh
