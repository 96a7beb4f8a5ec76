// This is the main package of those programs of measure.sh that are a file each here: the script puts one of
// them beside it. It does the program's work many times. With a third argument it writes runtime/pprof's profile of itself.
package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: program FILE TIMES [PROFILE]")
		os.Exit(2)
	}
	src, err := os.ReadFile(os.Args[1])
	check(err)
	times, err := strconv.Atoi(os.Args[2])
	check(err)
	work := setup(src)
	if len(os.Args) > 3 {
		f, err := os.Create(os.Args[3])
		check(err)
		defer f.Close()
		check(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	made := 0
	for range times {
		made = work()
	}
	fmt.Println(made)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
