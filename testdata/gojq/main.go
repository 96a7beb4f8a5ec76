// Gojq runs a jq script many times: a Go program that is not ours, for measure.sh of
// goldmark. With a third argument it writes runtime/pprof's profile of itself.
package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"

	"github.com/itchyny/gojq"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: gojq SCRIPT TIMES [PROFILE]")
		os.Exit(2)
	}
	src, err := os.ReadFile(os.Args[1])
	check(err)
	times, err := strconv.Atoi(os.Args[2])
	check(err)
	query, err := gojq.Parse(string(src))
	check(err)
	code, err := gojq.Compile(query)
	check(err)
	if len(os.Args) > 3 {
		f, err := os.Create(os.Args[3])
		check(err)
		defer f.Close()
		check(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	values := 0
	for range times {
		for it := code.Run(nil); ; values++ {
			v, ok := it.Next()
			if !ok {
				break
			}
			if err, ok := v.(error); ok {
				check(err)
			}
		}
	}
	fmt.Println(values)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
