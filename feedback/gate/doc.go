// Package gate judges whether a recording is good enough to build with: limits, and what of a
// recording, of its age, of a newer build and of a source tree they are limits of.
//
// It decides nothing: a Gate says what was found, what was wanted, and what a failure means.
//
// Command check prints gates and fails by them; what a profile made of the recording would
// change is package feedback's affair.
package gate
