// Package collect holds what touches Linux's kernel: Record samples a user's own processes
// through perf events, without privilege, or by ptrace where these are refused; Follow stops their
// threads by ptrace, asks where each will be after some instructions, and times how long that takes,
// of which a LongWalker makes long walks in user space;
// a System samples all processes and the kernel by programs in it (bpf/sampler.c), with CAP_BPF and
// CAP_PERFMON, and has them unwind stacks (bpf/unwind.h) by rows that it is handed, and add up the time that threads are off the
// processor (bpf/offcpu.c); a Walker emulates there what a thread is about to run (bpf/walker.c), and a Prober,
// a process of its own, counts with uprobes (bpf/prober.c). What the kernel reports is attributed to images
// at once, in the order in which things happened on all processors: a file that is deleted or
// replaced while it runs keeps its samples, because its build ID is read when it is mapped.
//
// It refuses, with an *Unavailable that says why and what would help, whatever this kernel, this
// processor or the privileges of this process do not allow, and all of it on other systems than
// Linux; of a binary it reads no more than the build ID.
//
// Its product is a sample.Recording. Package trace takes over what walks saw, package probe says
// when and where a Prober arms, package image what instructions do, and package infer what
// samples mean.
package collect
