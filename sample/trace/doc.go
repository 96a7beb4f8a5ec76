// Package trace holds forward traces, walks for short: the instructions that a thread is about
// to run as the emulator in the kernel takes them, what a walk tells of the branches that it
// passes through, and how much each walk weighs beside the others. Walks begin where time is
// spent, and so the more often the slower the code is there; Walks finds the weights that make
// what they saw stand for what ran, and the sites whose rates would tell most of these.
//
// A Machine makes walks of hundreds of thousands of instructions, in user space: it emulates the same
// operations over a thread's registers and over memory that it asks for.
//
// It refuses whatever touches the kernel or a file: package collect loads the emulator
// (collect/bpf/walker.c) and hands over what it saw, package image says what instructions do,
// and package infer makes counts of the result, which is in sample.Counts as what probes count.
package trace
