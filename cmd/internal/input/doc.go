// Package input is the one way in: a Session owns the samples that were read of all
// sources, the stores among these, and the images that were found on this machine, and
// infers on demand, or restores what it inferred before and kept. It refuses what it cannot
// be sure of: a file with another build ID than the recorded one is no image of the
// recording, and what is not known to be a recording is not read. Packages sample and infer
// take over with values in and values out; cmd/backfeed turns flags into Options, and kinds
// of failure into exit codes.
package input
