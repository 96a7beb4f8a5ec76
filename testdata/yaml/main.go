// Yaml decodes and encodes a YAML file many times: a Go program that is not ours,
// for measure.sh of goldmark. With a third argument it writes runtime/pprof's profile
// of itself.
package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"

	"gopkg.in/yaml.v3"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: yaml FILE TIMES [PROFILE]")
		os.Exit(2)
	}
	src, err := os.ReadFile(os.Args[1])
	check(err)
	times, err := strconv.Atoi(os.Args[2])
	check(err)
	if len(os.Args) > 3 {
		f, err := os.Create(os.Args[3])
		check(err)
		defer f.Close()
		check(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	size := 0
	for range times {
		var tree any
		check(yaml.Unmarshal(src, &tree))
		out, err := yaml.Marshal(tree)
		check(err)
		size = len(out)
	}
	fmt.Println(size)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
