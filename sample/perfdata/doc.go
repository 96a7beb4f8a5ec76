// Package perfdata reads recordings of Linux perf: perf.data files and the
// stream that perf record writes to a pipe. Their samples become the same
// sample.Recording that sample/collect makes of its own.
//
// It is a reader of its own and needs no perf. A recording is streamed: memory
// grows with the places that were sampled, not with the samples. Addresses are
// attributed to images as the recording says they were mapped, and no image is
// ever opened; of what is known of them, stacks that perf copied are unwound (Options.Unwind). What perf was killed in the middle of is read up to there, if it
// ends with a whole record.
//
// Where there are processors for it, one goroutine reads, decompresses and cuts records, a few batches
// ahead of another, which decodes them, puts them into the order of time and follows mappings and
// names; several count the samples, each with the mappings of its moment. The sum has the same bytes
// however many there are, and errors are the same.
//
// Of a group of events of which one is sampled and the others are read with it (perf record -e '{a,b}:S'), what these counted
// is attributed to the samples, as samples of their own events.
//
// It refuses directories (perf record --threads), and leaves out what is none of
// its business: hardware traces (AUX), and fields of
// tracepoints but for signals of arithmetic, which become events of their own. Of stacks that were copied (--call-graph dwarf) and are
// not unwound, as those of AArch64, there is but the caller, where its address lies at the stack pointer.
//
// It writes one thing, for tools that read it: BranchStacks, as perf record -b would have recorded them.
package perfdata
