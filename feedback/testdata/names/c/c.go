// Package c calls C, which calls back.
package c

// int half(int x);
// int again(int x);
import "C"

//export twice
func twice(x C.int) C.int { return C.int(double(int(x))) }

//go:noinline
func double(x int) int { return 2 * x }

//go:noinline
func Half(x int) int {
	return int(C.half(C.int(x)))
}

//go:noinline
func Again(x int) int {
	return int(C.again(C.int(x)))
}
