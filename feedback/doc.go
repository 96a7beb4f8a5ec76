// Package feedback writes what compilers and post-link optimisers read: one file
// per profile format. WriteGo makes the pprof that `go build -pgo` takes,
// WriteLLVM the sample profile of clang and rustc, WriteGCC the .afdo file of gcc,
// WriteBOLT the fdata of llvm-bolt. GCDA makes the counters that gcc's own
// profiles have; package gcov writes them.
//
// All of them are pure functions of an infer.Profile and the recording it was
// made from: the profile says how often code ran, the recording's stacks and
// branches say where indirect calls went. Consumers take a profile that fits
// nothing without a word, so each writer returns what it wrote and, by reason,
// what it left out; a profile that would hold nothing is ErrEmpty, not a file.
//
// Orders for linkers are package layout's affair.
package feedback
