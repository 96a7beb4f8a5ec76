// Deflate compresses a file many times with a module that is not ours: a Go
// program of few and hot calls, for measure.sh of goldmark. With a third argument it
// writes runtime/pprof's profile of itself.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strconv"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: deflate FILE TIMES [PROFILE]")
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
	enc, err := zstd.NewWriter(nil)
	check(err)
	var sizes [2]int
	for range times {
		sizes[0] = len(enc.EncodeAll(src, nil))
		out := &counter{}
		fw, err := flate.NewWriter(out, 6)
		check(err)
		_, err = io.WriteString(fw, string(src))
		check(err)
		check(fw.Close())
		sizes[1] = out.n
	}
	fmt.Println(sizes)
}

// A counter counts what is written to it.
type counter struct{ n int }

func (c *counter) Write(b []byte) (int, error) {
	c.n += len(b)
	return len(b), nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
