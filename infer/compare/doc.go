// Package compare says what differs between recordings, and what of that is chance: how
// much procedures and images vary between several, and where time went in two, by
// procedure or by basic block, of the same build of a program or of two.
//
// It refuses to call a difference real that samples drawn at random would show as well, and
// knows no other reason for one: two runs of a program differ by more than chance.
//
// Package stale finds the code of one build in another; commands print what comes of it.
package compare
