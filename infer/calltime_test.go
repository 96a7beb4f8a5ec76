package infer

import (
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// TestCallTimes: a sample counts once for each procedure on its stack, also where it
// recurses, and what is not known breaks the chain of callers.
func TestCallTimes(t *testing.T) {
	im, err := image.Open("image/testdata/elf/x86.elf", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	id := sample.ImageID{Build: im.Build, Path: "/tiny"}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1, Unit: "ns"})
	i := c.Image(id)
	at := func(name string, into sample.Offset) sample.Frame {
		off, ok := im.OffsetOf(im.Symbols()[im.Lookup(name)].Addr)
		if !ok {
			t.Fatal(name)
		}
		return sample.Frame{Image: i, Off: off + into}
	}
	unknown := sample.Frame{Image: sample.Unknown}
	for _, s := range []struct {
		n      uint64
		frames []sample.Frame
	}{
		{10, []sample.Frame{at("twice", 0), at("exported", 1)}},
		{5, []sample.Frame{at("twice", 0), at("twice", 1), at("exported", 1), at("twice", 1), at("exported", 1)}},
		{3, []sample.Frame{at("twice", 0), unknown, at("exported", 1)}},
		{2, []sample.Frame{at("exported", 0)}},
		{1, []sample.Frame{at("twice", 0), {Image: i, Off: 8}}}, // in the header of the file: no return address
	} {
		c.AddSample(i, s.frames[0].Off, s.n)
		c.AddStack(s.frames, s.n)
	}
	c.AddSample(i, at("never", 0).Off, 7) // without a stack
	p := &Profile{Event: c.Event, Images: []*ImageProfile{{ID: id, Image: im}}}
	got := p.CallTimes(&sample.Recording{Counts: []*sample.Counts{c}})
	if err := got.Check(); err != nil {
		t.Error(err)
	}
	if got.Samples != 28 || got.Bare != 9 || got.Uncalled != 10 || got.Cut != 19 || got.Complete != 0 || got.Deepest != 5 {
		t.Errorf("%+v", got)
	}
	for name, want := range map[string][2]uint64{"exported": {20, 2}, "twice": {19, 19}, "never": {7, 7}} {
		for k := range got.Procs {
			if q := &got.Procs[k]; q.Proc == im.Lookup(name) && [2]uint64{q.Inclusive, q.Exclusive} != want {
				t.Errorf("%s: %d inclusive, %d exclusive, want %d", name, q.Inclusive, q.Exclusive, want)
			}
		}
	}
	twice := got.Procs[1]
	if len(twice.Callers) != 2 || twice.Callers[0].Samples != 15 || twice.Callers[1].Samples != 5 || len(twice.Callees) != 2 {
		t.Errorf("twice: callers %+v, callees %+v", twice.Callers, twice.Callees)
	}
	if !isRoot("runtime.goexit.abi0") || isRoot("mainly") {
		t.Error("roots of threads")
	}
}
