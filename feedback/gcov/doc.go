// Package gcov holds the two files of gcc's own profiling: notes (.gcno), which have the control
// flow graph of each function as gcc sees it where it reads a profile, and data (.gcda), which have
// the counters of a run and are what -fprofile-use reads. It reads both and writes data, says which
// arcs of a graph have counters, and rounds flows so that gcc takes them for consistent.
//
// It refuses files of a gcc before 8, and writes data for gcc 9 and later. It knows nothing of
// samples and images: which block of a graph has which count is for others to infer.
//
// Formats are in gcc's gcov-io.h and gcov-io.cc (.c before GCC 12); notes are written by coverage.cc
// and profile.cc, data by libgcov-driver.c. Neither is compatible between versions of gcc, and GCC 12
// counts in bytes what those before it count in words of 4 bytes.
package gcov
