// Busy spends processor time in known functions, for the tests of collect.
//
//	busy WHAT N: N million rounds of what WHAT says; between those of "sometimes", it sleeps for four times the processor time that they took
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// version is set by the linker, to make binaries that differ.
var version string

var sink uint64

//go:noinline
func busy(n int) {
	x := sink
	for range n * 1_000_000 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

//go:noinline
func busyInThread(n int) {
	var x uint64
	for range n * 1_000_000 {
		x = x*6364136223846793005 + 1442695040888963409
	}
	if x == 0 {
		panic(version)
	}
}

//go:noinline
func busyInChild(n int) {
	x := sink
	for range n * 1_000_000 {
		x = x*6364136223846793005 + 1442695040888963411
	}
	sink = x
}

// used is the processor time of this process. By the clock, rounds take as long as whoever has the processor lets them wait, and
// what then sleeps for four times that is not there when it is sampled.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	switch os.Args[1] {
	case "busy":
		busy(n)
	case "fail":
		busy(n)
		os.Exit(3)
	case "child":
		busyInChild(n)
	case "tree": // n in each of two threads, 2n in a child process
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { busyInThread(n) })
		}
		child := exec.Command("/proc/self/exe", "child", strconv.Itoa(2*n))
		if err := child.Run(); err != nil {
			panic(err)
		}
		wg.Wait()
	case "wait": // is busy when told to
		fmt.Println("ready")
		fmt.Scanln()
		busy(n)
	case "forever":
		fmt.Println("ready")
		for {
			busy(n)
		}
	case "sometimes":
		for {
			start := used()
			busy(n)
			time.Sleep(4 * (used() - start))
		}
	}
}
