// Package otlp reads profiles of OpenTelemetry, as its eBPF profiler sends them and its collector
// passes them on and writes them to files: version 1 of the signal that is still called
// v1development. They become the same sample.Recording that sample/collect makes of its own.
//
// Images are known by the attribute process.executable.build_id.gnu of their mapping, places by
// what the mapping says of itself: address - memory_start + file_offset. The profiler writes
// addresses as linked, and the start of the mapping as an address as linked too, so that this holds
// whether addresses are of a process or of a file. A mapping without a range says nothing: its
// image has to be asked (Options.Offset), or its samples are lost.
//
// The profiler writes the address of a sampled instruction as it is, and that of a caller as return
// address - 1, to which 1 is added here. That is one too many for what a signal interrupted, which
// the message cannot tell from a call. Samples of the kernel are counted as lost, and their callers
// are not kept: whether the program's own topmost frame was calling is not to be seen. So are
// samples of interpreted code, and of code that was made at run time, whose addresses are none.
//
// It is a decoder of its own, for what is read is 14 messages: pdata of the collector, which would
// decode both encodings, brings 8 modules and 1.3 MB to a program, and holds a message many times
// over before one could see whether it is in proportion. Tests hold it to pdata.
//
// It refuses what is malformed as a whole, with file, offset and field; leaves out profiles of
// other things than processor time, and counts what it does not understand. Who sends, when, and of
// which process, thread and trace is not read at all.
package otlp
