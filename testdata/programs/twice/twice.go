// Twice calls work two times, which loops long: a Go program whose executions are known by
// construction.
package main

import "fmt"

//go:noinline
func work(n int) (s int) {
	for i := range n {
		s += s>>3 ^ i
	}
	return s
}

func main() { fmt.Println(work(60e6) + work(40e6)) }
