// Package calibrate chooses, while a program is sampled, what is to be counted exactly: which
// code walks go through, and where probes are armed, as samples, walks and counts so far say
// least of it, within a share of the processor time. It refuses to arm what the kernel does
// not emulate, files that a debugger is at, and groups that would slow a program down.
// Package collect takes over, which walks and arms; what both count is added to the recording.
package calibrate
