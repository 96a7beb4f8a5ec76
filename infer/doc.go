// Package infer tells what must have happened: how often every block, edge and
// call of the sampled procedures ran, each number with its confidence.
//
// It is a pure function of samples, images and a machine model. It reads no
// file and no clock, and sums in address order: equal arguments give equal
// results. Feedback files and layouts are made from its Profile by packages
// feedback and layout.
//
// Carry moves the samples of an older build of a program to a newer one, where
// the two Images have the same code; what was inferred is never moved.
package infer
