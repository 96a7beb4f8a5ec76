package sample

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestDumpSplit pins what origins, processors, slices and runs add to the format.
func TestDumpSplit(t *testing.T) {
	checkDump(t, withSplit(), "testdata/split.dump")
}

// withSplit is three with what ran, where and when, and two runs.
func withSplit() *Recording {
	r := three()
	c := r.Counts[0]
	const second = 1_000_000_000
	c.AddOrigin(Origin{"app", "app", ""}, 9)
	c.AddOrigin(Origin{"app", "worker", "/system.slice/app.service"}, 300)
	c.AddProcessor(3, 8)
	c.AddProcessor(0, 300)
	app := c.Image(ImageID{Build: id(0xb1, 0xd0)})
	lib := c.Image(ImageID{Path: "/lib/libc.so.6"})
	s := c.SliceAt(7 * second)
	c.AddMoment(app, 0x1139, s, 6)
	c.LoseAt(s, LostKernel, 4)
	c.AddSample(lib, 0x26d03, 2)
	c.AddStackAt([]Frame{{lib, 0x26d03}, {app, 0x1234}}, Frame{Image: Unknown}, c.SliceAt(7*second+100_000_000), 1)
	c.AddStackAt([]Frame{{lib, 0x26d03}, {app, 0x1234}}, Frame{Image: Unknown}, c.SliceAt(9*second), 1)
	r.AddRun(Run{Began: 1_700_000_000_000, Lasted: 2500, Host: "a", Command: []string{"./app", "-n", "7"},
		Usage: Usage{User: 2_400_000, System: 20_000, Memory: 30 << 20, Under: true, Minor: 900, Major: 1, Waited: 3, Preempted: 40, Read: 8, Wrote: 16}})
	r.AddRun(Run{Began: 1_600_000_000_000, Lasted: 1000, Host: "b"})
	return r
}

// TestSlices: the length of slices is the least at which they fit, whatever the order in which samples come, and no
// sample leaves its time for another than the slice that holds it.
func TestSlices(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		times := make([]uint64, 1+rnd.IntN(400))
		span := uint64(1+rnd.IntN(1000)) * 1_000_000_000
		for i := range times {
			times[i] = 1_700_000_000_000_000_000 + rnd.Uint64N(span)
		}
		c := NewCounts(CPU{}, Event{Name: "cpu-clock"})
		im := c.Image(ImageID{Path: "/app"})
		for _, at := range times {
			c.AddSample(im, Offset(at%8), 1)
			if at%3 == 0 {
				c.AddStackAt([]Frame{{im, Offset(at % 8)}}, Frame{Image: Unknown}, c.SliceAt(at), 1)
			} else {
				c.AddMoment(im, Offset(at%8), c.SliceAt(at), 1)
			}
		}
		if err := c.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := func(length time.Duration) map[uint64]uint64 {
			n := map[uint64]uint64{}
			for _, at := range times {
				n[at/uint64(length)]++
			}
			return n
		}
		if got := fmt.Sprint(c.BySlice()); got != fmt.Sprint(want(c.SliceLength())) {
			t.Errorf("seed %d: slices of %v: %s", seed, c.SliceLength(), got)
		}
		if c.Step > 0 && len(want(c.SliceLength()/2)) <= MaxSlices {
			t.Errorf("seed %d: slices of %v, where shorter ones fit", seed, c.SliceLength())
		}
	}
}

// TestRuns: the earliest are listed, others counted, in whatever order and grouping they come.
func TestRuns(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 8))
	var parts []*Recording
	for range 3 * MaxRuns {
		r := &Recording{}
		r.AddRun(Run{Began: rnd.Uint64N(200), Host: string(rune('a' + rnd.IntN(2)))})
		parts = append(parts, r)
	}
	sum := Merge(parts...)
	if len(sum.Runs) != MaxRuns || sum.Unlisted != 2*MaxRuns {
		t.Errorf("%d runs, %d unlisted", len(sum.Runs), sum.Unlisted)
	}
	want := sum.Encode()
	for range 20 {
		rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		k := rnd.IntN(len(parts))
		stored, err := Decode(Merge(parts[k:]...).Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got := Merge(stored, Merge(parts[:k]...)).Encode(); !bytes.Equal(got, want) {
			t.Fatalf("another order gives\n%s\nwant\n%s", Dump(got), Dump(want))
		}
	}
	if got := sum.Scale(3).Runs; len(got) != MaxRuns {
		t.Errorf("scaled up, %d runs", len(got))
	}
}

// TestSplitFaults: what cannot be is refused, in memory and in files.
func TestSplitFaults(t *testing.T) {
	for _, tt := range []struct {
		want  string
		spoil func(*Recording)
	}{
		{"have an origin", func(r *Recording) { r.Counts[0].AddOrigin(Origin{Process: "x"}, 1e6) }},
		{"samples of origin", func(r *Recording) { r.Counts[0].Origins[Origin{}] = 1 }},
		{"have a processor", func(r *Recording) { r.Counts[0].AddProcessor(7, 1e6) }},
		{"on processor 65536", func(r *Recording) { r.Counts[0].Processors[MostProcessor+1] = 1 }},
		{"but 7 in slices", func(r *Recording) { r.Counts[0].LoseAt(56, LostKernel, 3) }},
		{"0x1139: 7 samples, but 12 in slices", func(r *Recording) { r.Counts[0].AddMoment(1, 0x1139, 72, 6) }},
		{"1 samples in slice 71", func(r *Recording) { r.Counts[0].AddMoment(1, 0x1140, 71, 1) }},
		{"stack 0", func(r *Recording) { r.Counts[0].Stacks[0].When[0].N += 9 }},
		{"slice 60: 0 samples", func(r *Recording) { r.Counts[0].Slices[60] = nil }},
		{"too late", func(r *Recording) { r.Counts[0].Slices[1<<40] = nil }},
	} {
		r := Merge(withSplit())
		tt.spoil(r)
		err := r.Counts[0].Check()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	many := &Recording{}
	for i := range MaxRuns {
		many.AddRun(Run{Began: uint64(i)})
	}
	for _, spoil := range []func(*Recording){
		func(r *Recording) { r.Unlisted = 1 },
		func(r *Recording) { r.Runs[0].Usage.Under = true },
	} {
		r := &Recording{Runs: many.Runs[:2:2]}
		spoil(r)
		if _, err := Decode(r.Encode()); err == nil {
			t.Error("runs that cannot be were read")
		}
		many.Runs[0].Usage.Under = false
	}
}

// TestThreads: names go to what a thread begins, stay with the process of a first thread that has ended, and are no more
// than a recording holds.
func TestThreads(t *testing.T) {
	var names Threads
	if got := names.Origin(1, 1, ""); got != (Origin{}) {
		t.Errorf("of an unknown thread, %+v", got)
	}
	names.Name(10, "app")
	names.Begin(11, 10)
	names.Name(11, "worker")
	names.Begin(12, 11)
	names.End(10, 10)
	names.End(10, 11)
	if got, want := names.Origin(10, 12, "/c"), (Origin{"app", "worker", "/c"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := names.Origin(10, 11, ""), (Origin{Process: "app"}); got != want {
		t.Errorf("of a thread that has ended, %+v, want %+v", got, want)
	}
	told := 0
	for i := range 2 * maxOrigins {
		names.Name(11, fmt.Sprint("worker", i))
		if names.Origin(10, 11, "") != (Origin{}) {
			told++
		}
	}
	if told != maxOrigins-2 {
		t.Errorf("%d origins told apart, want %d", told, maxOrigins-2)
	}
}
