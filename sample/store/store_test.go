package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"backfeed/sample"
)

// open makes a store whose warnings fail the test.
func open(t testing.TB) *Store {
	t.Helper()
	s, err := Create(t.TempDir(), Options{Warn: func(err error) { t.Errorf("warning: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var hour = sample.EpochAt(time.Date(2026, 11, 20, 16, 20, 0, 0, time.UTC), time.Hour)

// random gives a recording with everything that one can have, of images, events
// and places that others often have too.
func random(rnd *rand.Rand) *sample.Recording {
	r := &sample.Recording{}
	for range 1 + rnd.IntN(3) {
		c := sample.NewCounts(sample.CPU{Arch: "x86_64", Model: rnd.IntN(2)}, sample.Event{Name: "cycles", Unit: "cycles"})
		var frames []sample.Frame
		for range 1 + rnd.IntN(5) {
			id := sample.ImageID{Path: fmt.Sprintf("/lib/%d", rnd.IntN(4))}
			if rnd.IntN(3) > 0 {
				id.Build[0] = byte(1 + rnd.IntN(4))
			}
			im := c.Image(id)
			for range rnd.IntN(20) {
				off := sample.Offset(rnd.IntN(64))
				n := 1 + rnd.Uint64N(300)
				c.AddSample(im, off, n)
				frames = append(frames, sample.Frame{Image: im, Off: off})
				if rnd.IntN(2) == 0 {
					c.AddStackTop([]sample.Frame{{Image: im, Off: off}, frames[rnd.IntN(len(frames))]}, sample.Frame{Image: sample.Unknown}, n)
				}
			}
		}
		frames = append(frames, sample.Frame{Image: sample.Unknown})
		any := func() sample.Frame { return frames[rnd.IntN(len(frames))] }
		for range rnd.IntN(6) {
			c.AddBranch(sample.Branch{From: any(), To: any()}, 2, rnd.Uint64N(3))
			if f := any(); f.Image != sample.Unknown {
				c.AddRange(sample.Range{Image: f.Image, First: f.Off, Last: f.Off + 8}, 3)
			}
		}
		if rnd.IntN(2) == 0 {
			c.Lose(sample.LostKernel, 5)
		}
		if c.Delivered() > 0 && rnd.IntN(5) > 0 {
			c.Weight = 1 + rnd.Uint64N(1e6)
		}
		r.Add(c)
	}
	return r
}

// mustEqual compares recordings by what they hold. An image has one path in a
// store, whatever it has in each Counts.
func mustEqual(t *testing.T, what string, got, want *sample.Recording) {
	t.Helper()
	for _, c := range got.Counts {
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if g, w := onePath(got).Encode(), onePath(want).Encode(); !bytes.Equal(g, w) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", what, sample.Dump(g), sample.Dump(w))
	}
}

// onePath takes away the paths of images with a build ID.
func onePath(r *sample.Recording) *sample.Recording {
	r = sample.Merge(r)
	for _, c := range r.Counts {
		for _, ic := range c.Images {
			ic.ID = ic.ID.Key()
		}
	}
	return r
}

func TestPutAndRead(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		s := open(t)
		var all []*sample.Recording
		for range 1 + rnd.IntN(5) {
			rec := random(rnd)
			if err := s.Put(hour, rec, nil); err != nil {
				t.Fatal(err)
			}
			if rec.Samples() > 0 {
				all = append(all, rec)
			}
		}
		got, err := s.Read(Query{})
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, "all", got, sample.Merge(all...))
		if t.Failed() {
			break
		}
	}
}
