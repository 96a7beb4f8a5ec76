// Package machine knows processors: how long the instructions of a block take at
// least, when nothing goes wrong.
//
// A [Model] is a small table: widths, the size of the window, and for each class
// of instructions a latency and the units it needs. [Model.Schedule] turns a
// block into the least time that each instruction is the oldest one not done, and
// why. Everything that a schedule does not know is left to package infer, as a
// stall: cache and TLB misses, mispredicted branches, stores that block loads,
// and what executes before and after the block. [Model.Expected] alone adds what
// loads wait in the median, where that was measured.
//
// The tables are class level, one embedded YAML file per processor, each number
// with its source. What the registers and classes of an instruction are, package
// infer/image says.
package machine
