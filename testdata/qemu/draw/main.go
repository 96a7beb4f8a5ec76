// draw [-n SAMPLES] [-seed N] [-symfs DIR] -o FILE TRUTH makes a recording of exact counts: as
// many samples of instructions as are asked for, each drawn at random with the chance of one
// execution, as a perfect counter of instructions would take them. What `infer` makes of it
// is then compared with the counts themselves:
//
//	go run ./testdata/qemu/draw -n 20000 -o drawn.bfr truth.json
//	backfeed infer drawn.bfr --format json | backfeed verify /dev/stdin truth.json --samples drawn.bfr
package main

import (
	"flag"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/sample"
)

func main() {
	log.SetFlags(0)
	n := flag.Int("n", 20000, "number of samples")
	seed := flag.Uint64("seed", 1, "of the drawing")
	symfs := flag.String("symfs", "", "look images up below `dir`")
	out := flag.String("o", "", "write the recording to `file`")
	flag.Parse()
	if flag.NArg() != 1 || *out == "" || *n < 1 {
		flag.Usage()
		os.Exit(2)
	}
	f, err := os.Open(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	exact, err := truth.Read(f)
	if err != nil {
		log.Fatalf("%s: %v", flag.Arg(0), err)
	}
	rec, err := draw(exact, *n, *symfs, rand.New(rand.NewPCG(*seed, 0)))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*out, rec.Encode(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// An instruction is one that ran.
type instruction struct {
	image int
	off   sample.Offset
}

func draw(exact *truth.Counts, n int, symfs string, rng *rand.Rand) (*sample.Recording, error) {
	var total uint64
	for _, it := range exact.Images {
		total += it.Total()
	}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "instructions", Period: max(1, total/uint64(n)), Unit: "instructions"})
	var places []instruction
	var upTo []uint64 // by place: executions of it and those before it
	sum := uint64(0)
	for _, path := range slices.Sorted(maps.Keys(exact.Images)) {
		im, err := image.Open(filepath.Join(symfs, path), image.Options{})
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v; its instructions get no samples\n", path, err)
			continue
		}
		defer im.Close()
		i := c.Image(sample.ImageID{Build: im.Build, Path: path})
		insts := exact.Images[path].Insts
		for _, a := range slices.Sorted(maps.Keys(insts)) {
			if off, ok := im.OffsetOf(a); ok {
				sum += insts[a]
				places, upTo = append(places, instruction{i, off}), append(upTo, sum)
			}
		}
	}
	if sum == 0 {
		return nil, fmt.Errorf("no image of %d is at hand", len(exact.Images))
	}
	for range n {
		x := rng.Uint64N(sum)
		p := places[sort.Search(len(upTo), func(i int) bool { return upTo[i] > x })]
		c.AddSample(p.image, p.off, 1)
	}
	rec := &sample.Recording{}
	rec.Add(c)
	return rec, nil
}
