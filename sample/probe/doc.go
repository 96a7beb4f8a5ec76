// Package probe holds what is counted exactly, at some instructions and for some milliseconds:
// which instructions may be sites, by their bytes and by what one of their kind costs; windows in
// which a Prober arms groups of sites at random moments, within a share of the processor time; and
// how often each site runs and branches, by what windows count.
//
// It refuses whatever touches the kernel or a file: package collect's Prober arms what the kernel
// emulates, and infer and its rooms say which sites are worth it. What windows tell goes into
// sample.Counts, beside what walks saw, which package trace holds.
package probe
