// Shapes has what a profile changes in a Go build: an interface call and a
// closure call that mostly go one way, a function too large to be inlined unless it
// is hot, and one just as large that is not.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"
)

type shape interface{ area(n int) int }

type square struct{ side int }

type circle struct{ radius int }

// Areas take long enough to have samples on any processor.
func (s square) area(n int) int {
	t := s.side*s.side*n + n>>3
	return (t*t%1021 + n) % 511
}

func (c *circle) area(n int) int {
	t := c.radius*c.radius*3*n + n>>3
	return (t*t%1021 + n) % 511
}

// mix costs more than 80, the budget of calls that are not hot.
func mix(x int) int {
	t := x
	for i := 0; i < 3; i++ {
		t += i*x ^ t>>1
		t ^= t<<3 + i
		t += i*x ^ t>>5
		t ^= t<<7 + i
		t += i*x ^ t>>9
		t ^= t<<2 + i
		t += i*x ^ t>>4
		if t == 12345 {
			fmt.Println("never", t)
		}
	}
	return t
}

// rare is as large and hardly ever called.
func rare(x int) int {
	t := x
	for i := 0; i < 3; i++ {
		t -= i*x ^ t>>1
		t ^= t<<3 + i
		t -= i*x ^ t>>5
		t ^= t<<7 + i
		t -= i*x ^ t>>9
		t ^= t<<2 + i
		t -= i*x ^ t>>4
		if t == 54321 {
			fmt.Println("never", t)
		}
	}
	return t
}

func fold(x int) int { return (x*x%1021 + x) % 511 }

//go:noinline
func each(f func(int) int, n int) int {
	s := 0
	for i := range n {
		s += f(i)
	}
	return s
}

//go:noinline
func sum(shapes []shape, n int) int {
	t := 0
	for i := range n {
		for _, s := range shapes {
			t += s.area(i)
		}
		t += mix(i)
		if i%4096 == 4095 {
			t += rare(i)
		}
	}
	return t
}

// used is the processor time of this process: a profile of so much of it has as many samples on a busy machine.
func used() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func work(d time.Duration) int {
	shapes := []shape{square{2}, square{3}, square{4}, &circle{3}, square{5}, square{6}, square{7}, square{8}, square{9}}
	t := 0
	for used() < d {
		t += sum(shapes, 10000)
		t += each(fold, 30000)
	}
	return t
}

func main() {
	if len(os.Args) > 1 {
		f, err := os.Create(os.Args[1])
		if err != nil {
			panic(err)
		}
		defer f.Close()
		runtime.SetCPUProfileRate(500)
		if err := pprof.StartCPUProfile(f); err != nil { // keeps the rate, and says so
			panic(err)
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Println(work(2*time.Second) != 0)
}
