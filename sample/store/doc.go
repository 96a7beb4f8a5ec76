// Package store keeps recordings in a directory, by epoch, so that what ran can be
// asked for months later: the samples of one image over a week, or of all hosts on
// a day.
//
//	DIR/
//	  backfeed-store-1    marks the directory as a store
//	  segments/           one immutable file per Put, or per epoch once compacted
//	  images/             copies of sampled files by build ID, if they are asked for
//	  index               a cache of what the segments say of themselves
//	  lock                held by what removes files
//
// A file has its final name from the start and is never changed: a segment that
// has no end was not finished and does not count. So nothing that is on the disk
// can be harmed by a writer that is killed, a disk that is full, or another
// writer, and nothing is asked of the directory that an object store could not do:
// put a name that is new, get a part of it, list, delete.
//
// A disk that does not keep what it said it had, a name, bytes or a removal, costs the samples in
// that file and no others: what was merged is read where the sum is damaged and its parts are there,
// and what is gone is told where the index remembers it.
//
// Segments add up in any order. Each has the random numbers of the Puts that it is
// made of, and of two that have the same ones, the larger counts. Merging writes
// the sum before it removes the parts, and needs no transaction.
//
// Package sample adds up what is in memory, and says what counts are. Which images
// there are on this machine is asked elsewhere.
package store
