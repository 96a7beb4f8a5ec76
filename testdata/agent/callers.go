// callers IMAGE RECORDING tells how many of the samples of an image have a caller
// that can be one: their return address follows a call, of the sampled procedure or
// of a target that the code does not name. First as frame pointers have it, then as
// profiles get it.
package main

import (
	"fmt"
	"log"
	"os"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: callers IMAGE RECORDING")
	}
	im, err := image.Open(os.Args[1], image.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer im.Close()
	b, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	rec, err := sample.Decode(b)
	if err != nil {
		log.Fatal(err)
	}
	calls := callsOf(im)
	for _, c := range rec.Counts {
		p := infer.Profile{Images: []*infer.ImageProfile{{ID: sample.ImageID{Build: im.Build, Path: os.Args[1]}, Image: im}}}
		right := p.Stacks(c)
		var all, before, after uint64
		for i, s := range c.Stacks {
			if c.Images[s.Frames[0].Image].ID.Build != im.Build {
				continue
			}
			all += s.N
			if calls.possible(c, s) {
				before += s.N
			}
			if calls.possible(c, right[i]) {
				after += s.N
			}
		}
		if all > 0 {
			fmt.Printf("%s: %d samples with a stack; possible callers: by frame pointers %.2f %%, put right %.2f %%\n",
				c.Event.Name, all, 100*float64(before)/float64(all), 100*float64(after)/float64(all))
		}
	}
}

type calls struct {
	im *image.Image
	to map[image.Addr]image.Addr // target, or 0, by return address
}

func callsOf(im *image.Image) *calls {
	c := &calls{im, map[image.Addr]image.Addr{}}
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			continue
		}
		for _, call := range p.Calls {
			c.to[call.Return] = call.To
		}
	}
	return c
}

// possible reports whether the caller of a stack's first frame can have called it.
func (c *calls) possible(counts *sample.Counts, s sample.Stack) bool {
	if len(s.Frames) < 2 || s.Frames[1].Image == sample.Unknown || counts.Images[s.Frames[1].Image].ID.Build != c.im.Build {
		return false
	}
	at, ok := c.im.AddrOf(s.Frames[0].Off)
	ret, ok2 := c.im.AddrOf(s.Frames[1].Off)
	if !ok || !ok2 {
		return false
	}
	to, known := c.to[ret]
	return known && (to == 0 || c.im.Find(to) == c.im.Find(at))
}
