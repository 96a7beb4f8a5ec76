// Package stale says where the code of an old build of a program is in a newer one, and
// moves the samples of the old build there.
//
// It compares names and code of two images and refuses to guess: samples of code that the
// newer build lacks are lost as sample.LostStale and counted by procedure, and what was
// inferred of the old build is never moved.
//
// Package infer takes the recording that Carry returns like any other; package compare
// pairs the profiles of two builds by what Builds knows of them.
package stale
