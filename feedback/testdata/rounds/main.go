// Rounds spends its time in a few long calls, and makes one very often that costs
// next to nothing once it is inlined: its mode is a constant where it is called. Arguments: rounds, or seconds of processor time as in
// "1s", and where to write the profile that runtime/pprof takes.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// step costs more than 80, the budget of calls that are not hot. With a constant
// mode of 0, little of it is left.
func step(x uint32, mode int) uint32 {
	switch mode {
	case 0:
		return x + 1
	case 1:
		for i := range uint32(9) {
			x ^= x<<13 + i
			x ^= x>>17 - i
			x ^= x<<5 ^ i
		}
		return x ^ x>>3
	case 2:
		for i := range uint32(7) {
			x += x<<3 ^ i
			x ^= x >> 11
			x += x<<15 - i
		}
		return x + x>>9
	case 3:
		for x&7 != 0 {
			x = x*5 + 3
			x ^= x >> 7
		}
		return x | 1
	}
	panic("unknown mode " + strconv.Itoa(mode))
}

//go:noinline
func count(x uint32, n int) uint32 {
	for range n {
		x = step(x, 0)
	}
	return x
}

// digest takes some fifteen times as long as count does with step inlined, on any processor.
//
//go:noinline
func digest(b []byte) byte {
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return byte(h)
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	var rounds int
	var lasts time.Duration
	var err error
	if strings.HasSuffix(os.Args[1], "s") {
		lasts, err = time.ParseDuration(os.Args[1])
	} else {
		rounds, err = strconv.Atoi(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	f, err := os.Create(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer f.Close()
	runtime.SetCPUProfileRate(500)
	if err := pprof.StartCPUProfile(f); err != nil { // keeps the rate, and says so
		panic(err)
	}
	defer pprof.StopCPUProfile()
	b := make([]byte, 512)
	x := uint32(len(os.Args))
	for i := 0; i < rounds || lasts > 0 && (i%100 != 0 || used() < lasts); i++ {
		x = count(x, 200)
		x += step(x, int(x%3)+1)
		b[x%512] = digest(b)
	}
	fmt.Println(x != 0)
}
