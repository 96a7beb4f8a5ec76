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
// An Explainer divides the time of samples by the executions: Time, cycles per
// execution. What of it the machine model does not expect is a Stall, and its Culprits
// are the causes that no rule could rule out, each with the least and the most of the
// stall that it explains: most is what its rule allows, and all of the stall where
// there is no bound; least is what is left if all others explain their most. One culprit with least > 0
// is a finding, several with least 0 are a list of suspects: Likeliest is a guess among them.
//
// Shares of time are as good as the samples are many. Cycles per execution are
// no better than the executions, and these have one factor in common that samples of a
// timer do not tell: it was 0.4 to 2.6 for whole programs, but a loop that alone makes up a program
// may be off by 100. A stall that the counts hide, because they are too high, is not
// found; the ranking of causes stands. Confidence and StallConfidence tell how sure each is.
//
// Samples of an older build of a program are moved to a newer one before, by package
// stale; what was inferred is never moved.
package infer
