package sample

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

// withOff is three with time off the processor, for two reasons.
func withOff() *Recording {
	r := three()
	for _, c := range r.Counts {
		if c.Event.Unit != "ns" {
			continue
		}
		for _, why := range []string{"interruptible", "runnable"} {
			off := NewCounts(c.CPU, OffEvent(why))
			app := off.Image(ImageID{Build: id(0xb1, 0xd0), Path: "/usr/bin/app"})
			lib := off.Image(ImageID{Path: "/lib/libc.so.6"})
			off.AddSample(lib, 0x11e45, 2_000_000)
			off.AddStack([]Frame{{lib, 0x11e45}, {app, 0x1234}}, 1_900_000)
			off.Lose(LostKernel, 70)
			off.AddOrigin(Origin{Process: "app"}, 2_000_070)
			off.AddWaits(2_000_070, 2_000_000*2_000_000)
			off.Weight = off.Delivered() * OffPeriod
			r.AddOff(off)
		}
	}
	return r
}

// TestDumpOff pins what time off the processor adds to the format.
func TestDumpOff(t *testing.T) {
	checkDump(t, withOff(), "testdata/off.dump")
}

// TestOffMerges: time off the processor adds up as samples do, to the same bytes in any order.
func TestOffMerges(t *testing.T) {
	a, b, none := withOff(), withOff().Scale(3), three()
	b.Off = b.Off[:1]
	want := Merge(a, b, none).Encode()
	for _, rs := range [][]*Recording{{b, none, a}, {none, b, a}, {Merge(b, a), none}} {
		if !bytes.Equal(Merge(rs...).Encode(), want) {
			t.Error("another order or grouping has other bytes")
		}
	}
	var sum Recording
	for _, r := range []*Recording{none, b, a} {
		sum.AddAll(r)
	}
	if !bytes.Equal(sum.Encode(), want) {
		t.Error("AddAll differs from Merge")
	}
	got, err := Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	if n := got.Off[0].Total; n != 4*2_000_070 {
		t.Errorf("%d us, want %d", n, 4*2_000_070)
	}
}

// TestOffApart: nothing that asks for the samples of a recording sees time off the processor.
func TestOffApart(t *testing.T) {
	r, plain := withOff(), three()
	if r.Samples() != plain.Samples() || r.Delivered() != plain.Delivered() || len(r.Counts) != len(plain.Counts) {
		t.Errorf("%d samples, %d delivered, %d events; want %d, %d, %d", r.Samples(), r.Delivered(), len(r.Counts), plain.Samples(), plain.Delivered(), len(plain.Counts))
	}
	for _, c := range append(r.Counts, Normalise([]*Recording{r, plain})[0].Counts...) {
		if IsOff(c.Event.Name) {
			t.Errorf("%s is among the samples", c.Event.Name)
		}
	}
}

// TestWaits: time off the processor is a recording by itself, for each reason or all, and with the samples of a timer as
// the time that they stand for.
func TestWaits(t *testing.T) {
	r := withOff()
	const on = 313_000 // us: of 313 samples that were delivered, of 1 ms each
	for _, tt := range []struct {
		event string
		want  uint64
	}{{"off-cpu:runnable", 2_000_070}, {"off-cpu", 2 * 2_000_070}, {"wall", 2*2_000_070 + on}} {
		w, err := r.Waits(tt.event)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Counts) != 1 || w.Counts[0].Event != (Event{tt.event, OffPeriod, "ns"}) || len(w.Off) > 0 {
			t.Fatalf("%s: %+v", tt.event, w)
		}
		c := w.Counts[0]
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if n := c.Delivered(); n != tt.want || c.Weight != n*OffPeriod {
			t.Errorf("%s: %d us, %d ns; want %d us", tt.event, n, c.Weight, tt.want)
		}
		if _, err := Decode(w.Encode()); err != nil {
			t.Errorf("%s: %v", tt.event, err)
		}
	}
	// Two waits of 2 s tell no more than two samples do.
	w, _ := r.Waits(OffCPU)
	if n := float64(w.Counts[0].Total) / w.Counts[0].Dispersion(); math.Abs(n-2) > 0.01 {
		t.Errorf("two waits tell as much as %.2f samples", n)
	}
	for _, event := range []string{"off-cpu", "off-cpu:stopped", "wall"} {
		from := three()
		if event == "off-cpu:stopped" {
			from = r
		}
		if _, err := from.Waits(event); err == nil || !strings.Contains(err.Error(), event) {
			t.Errorf("%s of a recording without: %v", event, err)
		}
	}
}

// TestWallTimes: all time has the slices of the samples and of the waits, whatever the microseconds that a sample is.
func TestWallTimes(t *testing.T) {
	for _, period := range []uint64{1_000_000, 1_003_009, 700, 333_333_333} {
		r, c := timed(3, 50)
		r.Counts[0].Weight = r.Counts[0].Delivered() * period
		off := c.as(OffEvent("runnable").Name)
		off.Branches, off.Weight = nil, off.Delivered()*OffPeriod
		r.AddOff(off)
		w, err := r.Waits(Wall)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Counts[0].Check(); err != nil {
			t.Errorf("period %d: %v", period, err)
		}
		on, was := w.Counts[0].BySlice(), c.BySlice()
		if len(on) != 8 {
			t.Errorf("period %d: %d slices, want 8", period, len(on))
		}
		for s, n := range on {
			want := float64(was[s]) * (1 + float64(period)/OffPeriod)
			// Each place and stack may lose the part of a sample.
			if got := float64(n); got > want+1 || got < want-20 {
				t.Errorf("period %d, slice %d: %g us, want %g", period, s, got, want)
			}
		}
		if again, err := r.Waits(Wall); err != nil || !bytes.Equal(again.Encode(), w.Encode()) {
			t.Errorf("period %d: another time it is another (%v)", period, err)
		}
	}
}

// TestOffMalformed: what is no time off the processor is refused where a file says that it is.
func TestOffMalformed(t *testing.T) {
	for _, tt := range []struct {
		want  string
		spoil func(c *Counts)
	}{
		{"no event", func(c *Counts) { c.Event.Name = "cpu-clock" }},
		{"no event", func(c *Counts) { c.Event.Name = "off-cpu:dreaming" }},
		{"no event", func(c *Counts) { c.Event.Period++ }},
		{"ns of", func(c *Counts) { c.Weight++ }},
		{"what ran", func(c *Counts) { c.AddBranch(Branch{Frame{0, 1}, Frame{0, 2}}, 1, 0) }},
		{"what ran", func(c *Counts) { c.Clocked, c.Cycles = 1, 1 }},
	} {
		r := withOff()
		tt.spoil(r.Off[0])
		_, err := Decode(r.Encode())
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "offset 0x") {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
