// Package asm has a function in assembly, and one that assembly calls.
package asm

// Add adds.
func Add(a, b int) int

// Twice calls Double.
func Twice(a int) int

//go:noinline
func Double(a int) int { return Add(a, a) }
