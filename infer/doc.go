// Package infer tells what must have happened: how often every block, edge and
// call of the sampled procedures ran, each number with its confidence.
//
// It is a pure function of samples, images and a machine model. It reads no
// file and no clock, and sums in address order: equal arguments give equal
// results. Feedback files and layouts are made from its Profile by packages
// feedback and layout.
//
// Beside samples a recording may hold what was counted exactly. Executions that probes
// estimated are those of the recording, and fix the scale of all counts; outcomes of
// branches tell how control divides. Executions of other runs tell of one another only:
// counts stay executions of the recording, as samples say, and are to one another as
// in those runs.
//
// Samples of retired instructions are executions already, in units of the period. Where
// they name the very instruction that was counted (perf's instructions:pp on x86-64), chance is all
// that is uncertain; where they skid, they fall on what waits, as samples of time do, but
// their sum still is that of the executions.
//
// A Profile can be kept as bytes, and restored as it was for the same arguments.
//
// Package explain says where the time of samples went, by these executions.
//
// Samples of an older build of a program are moved to a newer one before, by package
// stale; what was inferred is never moved.
package infer
