// Package verdict puts together what a deployment is judged by: the recordings or
// epochs of two builds, the work that each did meanwhile, which code is the same in both, and
// results of benchmarks.
//
// It refuses counters that went backwards, and units of work that it cannot give to a
// recording. Package compare judges, package report writes it down.
package verdict
