package store

import (
	"math"
	"slices"
	"testing"

	"backfeed/sample"
)

// TestOff: time off the processor is kept per image, with its stacks, its losses and how much it varies, but not who waited, where
// and when; merged, it is the sum, and no sample is more for it.
func TestOff(t *testing.T) {
	put := three()
	cpu := put.Counts[0].CPU
	app, lib := sample.ImageID{Build: sample.BuildID{0xaa}, Path: "/opt/app"}, sample.ImageID{Path: "/lib/waits.so"}
	c := sample.NewCounts(cpu, sample.OffEvent("interruptible"))
	a, l := c.Image(app), c.Image(lib)
	c.AddSample(a, 0x10, 100)
	c.AddSample(l, 0x20, 300)
	c.AddMoment(l, 0x20, c.SliceAt(1_700_000_000_000_000_000), 300)
	c.AddStack([]sample.Frame{{Image: l, Off: 0x20}, {Image: a, Off: 0x18}}, 300)
	c.Lose(sample.LostKernel, 50)
	c.AddOrigin(sample.Origin{Process: "secret"}, 450)
	c.AddProcessor(3, 450)
	c.AddWaits(450, 90_450)
	c.Weight = c.Delivered() * sample.OffPeriod
	put.AddOff(c)

	s := open(t)
	for range 2 {
		if err := s.Put(hour, put, nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		got, err := s.Read(Query{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Samples() != 2*three().Samples() || len(got.Off) != 1 {
			t.Fatalf("%s: %d samples, %d events of time off the processor; want %d, 1", when, got.Samples(), len(got.Off), 2*three().Samples())
		}
		off := got.Off[0]
		if off.Total != 900 || off.Lost[sample.LostKernel] != 100 || off.Weight != 900*sample.OffPeriod || len(off.Stacks) == 0 || off.Stacks[0].N != 600 {
			t.Errorf("%s: %d us, %v lost, weight %d, stacks %v", when, off.Total, off.Lost, off.Weight, off.Stacks)
		}
		if got := off.Excess.Float64(); math.Abs(got-180_000) > 10 {
			t.Errorf("%s: a variance %.0f beyond the number of samples, want 180000", when, got)
		}
		if off.Origins != nil || off.Processors != nil || off.Slices != nil {
			t.Errorf("%s: who waited is kept: %v, %v, %v", when, off.Origins, off.Processors, off.Slices)
		}
		if got, err = s.Read(Query{Images: []sample.ImageID{app}}); err != nil || len(got.Off) != 1 || got.Off[0].Total != 200 {
			t.Errorf("%s: of one image: %v, %+v; want 200 us", when, err, got.Off)
		}
		if st, err := s.Stats(); err != nil || st.Samples != 2*three().Samples() {
			t.Errorf("%s: %v, %+v", when, err, st)
		}
		if r, err := s.Fsck(false); err != nil || !r.Clean() {
			t.Errorf("%s: fsck: %+v, %v", when, r, err)
		}
	}
	check("as put")
	if n, err := s.Compact(hour.To()); n != 2 || err != nil {
		t.Fatalf("%d segments merged, %v", n, err)
	}
	check("compacted")

	waits := &sample.Recording{Off: put.Off} // nothing ran
	s = open(t)
	if err := s.Put(hour, waits, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(Query{}); err != nil || len(got.Off) != 1 || got.Off[0].Total != 450 {
		t.Errorf("of waits alone: %v, %+v", err, got)
	}
}

// TestOffRefuses: a block of time off the processor that has something else is refused.
func TestOffRefuses(t *testing.T) {
	for name, rec := range map[string]*sample.Recording{"samples": three(), "nothing": {}} {
		if _, err := decodeOff(rec.Encode()); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := decodeOff(slices.Repeat([]byte{7}, 20)); err == nil {
		t.Error("bytes of no recording are taken")
	}
}
