// Busy spends processor time in known functions, for the tests of collect.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

var sink uint64

//go:noinline
func busy(rounds int) {
	x := sink
	for range rounds * 1_000_000 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

//go:noinline
func inThread(rounds int) { busy(rounds); sink++ }

//go:noinline
func inChild(rounds int) { busy(rounds); sink++ }

// quarter and rest share each millisecond 1 to 3.
//
//go:noinline
func quarter(until time.Time) {
	for time.Now().Before(until) {
		spinQuarter()
	}
}

//go:noinline
func rest(until time.Time) {
	for time.Now().Before(until) {
		spinRest()
	}
}

//go:noinline
func spinQuarter() {
	for range 100 {
		sink = sink*3 + 1
	}
}

//go:noinline
func spinRest() {
	for range 100 {
		sink = sink*5 + 1
	}
}

func main() {
	rounds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	switch os.Args[1] {
	case "busy":
		busy(rounds)
	case "threads": // one function in two threads, another in a child process
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { inThread(rounds) })
		}
		child := exec.Command("/proc/self/exe", "child", os.Args[2])
		child.Stdout = os.Stdout
		if err := child.Run(); err != nil {
			panic(err)
		}
		wg.Wait()
	case "child":
		inChild(rounds)
	case "fail":
		busy(rounds)
		os.Exit(3)
	case "periodic":
		start := time.Now()
		for i := range rounds {
			ms := start.Add(time.Duration(i) * time.Millisecond)
			quarter(ms.Add(250 * time.Microsecond))
			rest(ms.Add(time.Millisecond))
		}
	case "wait": // says that it is there, and is busy when told to
		fmt.Println("ready")
		fmt.Scanln()
		busy(rounds)
	case "forever":
		fmt.Println("ready")
		for {
			busy(1)
		}
	}
}
