// Package explain says where the time of samples went: what the machine model expects, and
// stalls, each with the causes that may explain it.
//
// An Explainer divides the time of samples by the executions: Time, cycles per
// execution. What of it the machine model does not expect is a Stall, and its Culprits
// are the causes that no rule could rule out, each with the least and the most of the
// time that it explains, over all that executions and shares of edges may be: most is what
// its rule allows, and least is what is left if all others explain their most and the code ran
// as often as it may have. One culprit with least > 0 is a finding, several with least 0 are a list
// of suspects: Likeliest is a guess among them, by the likelihood that culprits.go has.
//
// Shares of time are as good as the samples are many. Cycles per execution are
// no better than the executions, and these have one factor in common that samples of a
// timer do not tell: it was 0.4 to 2.6 for whole programs, but a loop that alone makes up a program
// may be off by 100. So what the model expects has a range, too (Summary.Statics). Where each turn
// of a loop follows a pointer, the least of the model is no estimate, and a part of it counts as stall. infer.Confidence and StallConfidence say how sure each is.
//
// What the model expects goes to slow operations by name (Static), so that what takes long is found whether it takes as long as
// expected or longer. Whether anything is left to explain where executions are known hangs on the clock, which is measured
// with the samples or else assumed: infer.Profile.Clock.
//
// It refuses samples that do not tell time, and to choose among causes that no rule could
// rule out. Package infer says how often code ran; commands and package web show what comes
// of both.
package explain
