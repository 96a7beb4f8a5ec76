// Goldmark renders a Markdown file many times: a Go program that is not ours, for
// measure.sh. With a third argument it writes runtime/pprof's profile of itself.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: goldmark FILE TIMES [PROFILE]")
		os.Exit(2)
	}
	src, err := os.ReadFile(os.Args[1])
	check(err)
	times, err := strconv.Atoi(os.Args[2])
	check(err)
	if len(os.Args) > 3 {
		f, err := os.Create(os.Args[3])
		check(err)
		check(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	md := goldmark.New(goldmark.WithExtensions(extension.GFM))
	var out bytes.Buffer
	for range times {
		out.Reset()
		check(md.Convert(src, &out))
	}
	fmt.Println(out.Len())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
