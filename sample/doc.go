// Package sample holds what the hardware reported and nothing more: how often
// each event was caught at each place of each image, on which stacks, and
// after which branches.
//
// Samples are keyed by build ID and file offset, never by path or runtime
// address. The collector then reads nothing of a binary but its build ID, and
// processes that mapped one image at different addresses add up.
//
// Where a recorder told when a sample was taken, and saw the process begin its
// program, Counts also know the least time from that beginning to a sample at each
// place: what linkers need to put together the code of starting up.
//
// Beside samples, Counts hold what was counted exactly: by probes in short windows
// of a recording, or at every execution in other runs. The latter may be all there
// is, without an event. Of what walks took in order, there is a bounded sample, Paths; and
// where they saw indirect branches go, Targets.
//
// Of samples it is also known, as far as their recorder told, which process and thread ran,
// on which processor, and in which of a few slices of time; and of a recording, the runs that it is of.
//
// The time that threads were off the processor is kept in the same form, apart from all samples.
//
// Counts stay raw here, integers that add in any order to the same bytes;
// package infer turns them into executions. A sample that belongs to no image
// is kept too, as a loss with its reason. Recordings are made by sample/collect
// (this machine), sample/perfdata (perf.data files) and ReadPprof, and stored in
// the form that Encode returns, in which a Sum adds many of them up.
package sample
