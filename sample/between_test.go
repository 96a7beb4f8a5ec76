package sample

import (
	"math/rand/v2"
	"testing"
	"time"
)

// timed is a recording of some seconds: two images with stacks and without, losses, and what no time is known of.
func timed(seed uint64, perSlice int) (*Recording, *Counts) {
	r := rand.New(rand.NewPCG(seed, 1))
	c := NewCounts(CPU{}, Event{Name: "cpu-clock", Period: 1_000_000, Unit: "ns"})
	a, b := c.Image(ImageID{Path: "/bin/a"}), c.Image(ImageID{Path: "/bin/b"})
	c.AddProcesses(a, 3)
	for s := range 8 {
		for range perSlice {
			at := uint64(EarliestDate) + uint64(s)*uint64(LeastSlice) + r.Uint64N(uint64(LeastSlice))
			off := Offset(r.IntN(5))
			switch r.IntN(4) {
			case 0:
				c.AddSample(a, off, 1)
				c.AddMoment(a, off, c.SliceAt(at), 1)
			case 1:
				c.AddSample(b, off, 1)
				c.AddStackAt([]Frame{{b, off}, {a, 7}}, Frame{a, 9}, c.SliceAt(at), 1)
			case 2:
				c.Lose(LostKernel, 1)
				c.LoseAt(c.SliceAt(at), LostKernel, 1)
			default:
				c.AddSample(b, off, 1)
				c.AddMoment(b, off, c.SliceAt(at), 1)
			}
			c.Weight += 1_000_000
		}
	}
	c.AddOrigin(Origin{Process: "a"}, 5)
	c.AddBranch(Branch{Frame{a, 1}, Frame{b, 2}}, 4, 1)
	rec := &Recording{}
	rec.Add(c)
	rec.AddRun(Run{Host: "h", Command: []string{"a"}, Usage: Usage{User: 5}})
	return Merge(rec), c
}

// TestBetween: parts of the time that follow one another add up to all samples; each keeps the promises of a recording and has
// nothing of what is of all the time.
func TestBetween(t *testing.T) {
	rec, _ := timed(1, 40)
	from, to, ok := rec.Span()
	if !ok || time.Duration(to-from) != 8*LeastSlice {
		t.Fatalf("from %d to %d, %v", from, to, ok)
	}
	var parts []*Recording
	for at := from; at < to; at += 3 * uint64(LeastSlice) {
		part := rec.Between(at, min(to, at+3*uint64(LeastSlice)))
		if _, err := Decode(part.Encode()); err != nil {
			t.Fatal(err)
		}
		c := part.Counts[0]
		if len(c.Origins)+len(c.Branches) > 0 || c.Images[0].Processes > 0 || part.Runs[0].Usage != (Usage{}) || part.Runs[0].Host != "h" {
			t.Errorf("part at %d: %d origins, %d branches, %d processes, run %+v", at, len(c.Origins), len(c.Branches), c.Images[0].Processes, part.Runs[0])
		}
		if c.MeanPeriod() != rec.Counts[0].MeanPeriod() {
			t.Errorf("mean period %g, want %g", c.MeanPeriod(), rec.Counts[0].MeanPeriod())
		}
		parts = append(parts, part)
	}
	sum, all := Merge(parts...), rec.Between(0, to)
	if len(parts) != 3 || string(sum.Encode()) != string(Merge(all).withRuns(sum).Encode()) {
		t.Errorf("%d parts of %d samples in all, of %d", len(parts), sum.Samples(), rec.Samples())
	}
	if all.Samples() != rec.Samples() || len(all.Counts[0].Stacks) != len(rec.Counts[0].Stacks) {
		t.Errorf("of all time, %d of %d samples, %d of %d stacks", all.Samples(), rec.Samples(), len(all.Counts[0].Stacks), len(rec.Counts[0].Stacks))
	}

	// A moment in a slice takes all of it.
	mid := from + uint64(LeastSlice) + 5
	if a, b := rec.Between(mid, mid+1), rec.Between(from+uint64(LeastSlice), from+2*uint64(LeastSlice)); a.Samples() != 40 || string(a.Encode()) != string(b.Encode()) {
		t.Errorf("%d samples in a slice of %d", a.Samples(), 40)
	}
	if n := rec.Between(to, to+1).Samples(); n != 0 {
		t.Errorf("%d samples after the end", n)
	}

	// What has no time is in no part.
	plain, c := timed(2, 10)
	c.AddSample(0, 1, 100)
	plain.Counts[0] = c
	if n := Merge(plain).Between(0, to).Samples(); n != 80 {
		t.Errorf("%d samples with a time, want 80", n)
	}
	if _, _, ok := (&Recording{}).Span(); ok {
		t.Error("an empty recording spans something")
	}
}

// TestBetweenOff: so do parts of the time off the processor, whose samples stay microseconds.
func TestBetweenOff(t *testing.T) {
	rec, c := timed(1, 40)
	off := c.as(OffEvent("interruptible").Name)
	off.Branches, off.Weight = nil, off.Delivered()*OffPeriod
	off.Lose(LostDropped, 7) // nobody knows when
	off.AddWaits(off.Total, 9000)
	rec.AddOff(off)
	from, to, _ := rec.Span()
	mid := from + 5*uint64(LeastSlice)
	a, b := rec.Between(from, mid), rec.Between(mid, to)
	for _, part := range []*Recording{a, b} {
		if _, err := Decode(part.Encode()); err != nil {
			t.Error(err)
		}
	}
	if x, y := a.Off[0], b.Off[0]; x.Total != 200 || y.Total != 120 || x.Excess == (Square{}) || x.Excess.Float64() < y.Excess.Float64() {
		t.Errorf("%d and %d us, of a variance larger by %g and %g", x.Total, y.Total, x.Excess.Float64(), y.Excess.Float64())
	}
	if part := rec.Between(to, to+1); len(part.Off) > 0 {
		t.Errorf("after the end, %d us", part.Off[0].Total)
	}
}

// withRuns is r with the runs of o.
func (r *Recording) withRuns(o *Recording) *Recording {
	r.Runs, r.Unlisted = o.Runs, o.Unlisted
	return r
}
