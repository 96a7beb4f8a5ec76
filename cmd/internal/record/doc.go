// Package record has a recording made, by the kernel, by ptrace or by the program itself,
// and says while it goes on and afterwards how it went and what was lost. It refuses a
// recording without samples, with the likeliest reason, and infers nothing. Its product is a
// sample.Recording; who asked for it, cmd/backfeed or the demo, writes or reads it.
package record
