// Package collect records samples of running programs on this machine, through
// Linux's perf events: hardware cycles with branch records where the processor
// and the kernel offer them, precise samples of retired instructions, hardware
// cycles, or else the timer of event cpu-clock, which every machine has. Record
// needs no privilege to record a user's own processes, of which it samples user
// mode; where perf events are refused, it stops threads by ptrace. A System
// samples all processes and the kernel, for as long as it is open, and needs
// CAP_BPF and CAP_PERFMON: programs in the kernel (bpf/sampler.c) count there, and
// only counts, callers and branch records come to user space, where a resolver puts them down
// to images. Where the kernel refuses, the error says why and what would help.
//
// A Prober counts exactly, at some instructions and for some milliseconds: it is a
// process of its own that arms uprobes (bpf/prober.c) where the kernel emulates the
// instruction. Package probe says when and where, and adds up what it counts. A Walker
// emulates, in the kernel (bpf/walker.c), what a thread is about to run from a sample on,
// and hands over the branches that it passed through; package image says what instructions
// do, and package trace makes counts of what walks saw.
//
// What the kernel reports is attributed to images at once, in the order in which
// things happened on all processors: a file that is deleted or replaced while
// it runs keeps its samples, because its build ID is read when it is mapped.
//
// What samples mean is package infer's affair. Other systems than Linux get an
// *Unavailable error.
package collect
