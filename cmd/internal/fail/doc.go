// Package fail holds the kinds of failure that a command tells apart, as errors
// that carry one from where it is known to the outermost function. It knows no
// exit codes and prints nothing: cmd/backfeed turns a kind into a code, and the
// text of an error into what the user reads.
package fail
