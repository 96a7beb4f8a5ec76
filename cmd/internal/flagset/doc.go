// Package flagset holds what flags are to backfeed's commands: sets that take a flag once unless it is a list, that
// refuse what would have no effect, with groups and old names; values of times, shares, sizes and words as people
// write them; and flags in a file of YAML.
//
// It refuses to know any one flag or command, to print, and to end the program: errors say what is wanted, and
// notices go where the set is told.
//
// Package main defines which flags a command has, explains them, and gives errors their exit codes.
package flagset
