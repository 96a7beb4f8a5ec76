//go:build ignore

// replay [-hz HZ] [-cpus N] [-flush TIME] STORE RECORDING... puts a day of a machine
// into a store, as an agent would: one segment each flush, drawn at random from the
// samples of the recordings, and the segments of each hour merged when it ends. What
// the machine mostly runs changes from segment to segment. Prints what the store then holds.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"sort"
	"time"

	"backfeed/sample"
	"backfeed/sample/store"
)

// A program is the samples of a recording, to draw from.
type program struct {
	counts *sample.Counts
	stacks []sample.Stack
	upTo   []uint64 // by stack: samples of it and those before it
}

func main() {
	log.SetFlags(0)
	hz := flag.Int("hz", 199, "samples per second and processor")
	cpus := flag.Int("cpus", 2, "busy processors")
	flush := flag.Duration("flush", 5*time.Minute, "time of a segment")
	flag.Parse()
	if flag.NArg() < 2 || *hz < 1 || *cpus < 1 || *flush < time.Second {
		log.Fatal("usage: replay [-hz HZ] [-cpus N] [-flush TIME] STORE RECORDING...")
	}
	var programs []*program
	for _, path := range flag.Args()[1:] {
		p, err := read(path)
		if err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		programs = append(programs, p)
	}
	into, err := store.Create(flag.Arg(0), store.Options{})
	if err == nil {
		err = replay(into, programs, *hz**cpus, *flush)
	}
	if err == nil {
		err = tell(into)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func replay(into store.Store, programs []*program, hz int, flush time.Duration) error {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := start; at.Before(start.AddDate(0, 0, 1)); at = at.Add(flush) {
		segment := draw(rng, programs, int(float64(hz)*flush.Seconds()))
		if err := into.Put(sample.EpochAt(at, time.Hour), segment, nil); err != nil {
			return err
		}
		if next := at.Add(flush); next.Truncate(time.Hour) != at.Truncate(time.Hour) {
			if _, err := into.Compact(next); err != nil {
				return err
			}
		}
	}
	return nil
}

func tell(into store.Store) error {
	st, err := into.Stats()
	if err != nil {
		return err
	}
	fmt.Printf("%d samples of %d images in %d segments: %d places, %d stacks and branches, %.1f MB\n",
		st.Samples, st.Images, st.Segments, st.Places, st.Flows, float64(st.Bytes)/1e6)
	return nil
}

// read returns the samples of the first event of a recording. Those without a stack
// are stacks of one.
func read(path string) (*program, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rec, err := sample.Decode(b)
	if err != nil {
		return nil, err
	}
	c := rec.Counts[0]
	p := &program{counts: c, stacks: c.Stacks}
	if len(p.stacks) == 0 {
		for i, ic := range c.Images {
			for off, n := range ic.At {
				p.stacks = append(p.stacks, sample.Stack{Frames: []sample.Frame{{Image: i, Off: off}}, Top: sample.Frame{Image: sample.Unknown}, N: n})
			}
		}
		sort.Slice(p.stacks, func(i, j int) bool {
			a, b := p.stacks[i].Frames[0], p.stacks[j].Frames[0]
			return a.Image < b.Image || a.Image == b.Image && a.Off < b.Off
		})
	}
	var sum uint64
	for _, s := range p.stacks {
		sum += s.N
		p.upTo = append(p.upTo, sum)
	}
	if sum == 0 {
		return nil, fmt.Errorf("no samples")
	}
	return p, nil
}

// draw returns a segment of n samples.
func draw(rng *rand.Rand, programs []*program, n int) *sample.Recording {
	event := sample.Event{Name: "cpu-clock", Period: programs[0].counts.Event.Period, Unit: "ns"}
	c := sample.NewCounts(programs[0].counts.CPU, event)
	share := make([]float64, len(programs)) // cumulative
	sum := 0.0
	for i := range share {
		sum += rng.ExpFloat64()
		share[i] = sum
	}
	for range n {
		p := programs[sort.SearchFloat64s(share, rng.Float64()*sum)]
		at := rng.Uint64N(p.upTo[len(p.upTo)-1])
		s := &p.stacks[sort.Search(len(p.upTo), func(i int) bool { return p.upTo[i] > at })]
		move := func(f sample.Frame) sample.Frame {
			if f.Image == sample.Unknown {
				return f
			}
			return sample.Frame{Image: c.Image(p.counts.Images[f.Image].ID), Off: f.Off}
		}
		leaf := move(s.Frames[0])
		c.AddSample(leaf.Image, leaf.Off, 1)
		if len(s.Frames) > 1 {
			c.AddStackTop([]sample.Frame{leaf, move(s.Frames[1])}, move(s.Top), 1)
		}
	}
	return &sample.Recording{Counts: []*sample.Counts{c}}
}
