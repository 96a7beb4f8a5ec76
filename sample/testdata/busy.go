// Busy makes busy.pprof: built with Go 1.26 for linux/amd64 by
//
//	go build -trimpath -o busy busy.go && ./busy >busy.pprof
package main

import (
	"os"
	"runtime/pprof"
	"time"
)

var sink uint64

//go:noinline
func hot(n int) {
	x := sink | 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink = x
}

func main() {
	if err := pprof.StartCPUProfile(os.Stdout); err != nil {
		panic(err)
	}
	for start := time.Now(); time.Since(start) < 500*time.Millisecond; {
		hot(1 << 16)
	}
	pprof.StopCPUProfile()
}
