// Package compare says what differs between recordings, and what of that is chance: how
// much procedures and images vary between several, and where time went in two, by
// procedure or by basic block, of the same build of a program or of two; and whether a build
// spends less than another for the same work.
//
// It refuses to call a difference real that samples drawn at random would show as well. Two
// runs of a program differ for other reasons, too: Judge, which is given several of each
// build, calls nothing better or worse that these differ by, or that their load explains.
//
// Package stale finds the code of one build in another; commands print what comes of it.
package compare
