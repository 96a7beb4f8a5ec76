package sample

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// scaledUp is a recording of seven samples of which four count for nine each.
func scaledUp() *Recording {
	c := NewCounts(CPU{Arch: "x86_64"}, Event{Name: "cpu-clock", Period: 1e6, Unit: "ns"})
	c.AddSample(c.Image(ImageID{Path: "/app"}), 0x40, 4)
	once := NewCounts(c.CPU, c.Event)
	once.AddSample(once.Image(ImageID{Path: "/app"}), 0x48, 3)
	return Merge((&Recording{Counts: []*Counts{c}}).Scale(9), &Recording{Counts: []*Counts{once}})
}

// TestDumpScaled pins what a scale adds to the format.
func TestDumpScaled(t *testing.T) {
	checkDump(t, scaledUp(), "testdata/scaled.dump")
}

// TestDispersion: samples that count for w tell as much as a w-th of them, and those that count for less than one as much as so
// many; a scale undone leaves nothing behind; and of a sum, the effective size is Kish's.
func TestDispersion(t *testing.T) {
	c := NewCounts(CPU{Arch: "x86_64"}, Event{Name: "cpu-clock", Period: 1e6, Unit: "ns"})
	for off := range Offset(50) {
		c.AddSample(c.Image(ImageID{Path: "/app"}), off, uint64(1+off*off))
	}
	c.Lose(LostKernel, 17)
	r := &Recording{Counts: []*Counts{c}}
	for _, w := range []float64{0.1, 0.5, 1, 1.5, 2, 9, 1e6} {
		s := r.Scale(w)
		check(t, s)
		got := s.Counts[0].Dispersion()
		if want := max(1, w); math.Abs(got-want) > 1e-3*want {
			t.Errorf("%g times: a dispersion of %g, want %g", w, got, want)
		}
		if w >= 2 && !bytes.Equal(s.Scale(1/w).Encode(), r.Encode()) {
			t.Errorf("%g times and back: another recording", w)
		}
	}
	parts := []*Recording{r, r.Scale(9), r.Scale(0.5), r.Scale(3)}
	sum := Merge(parts...)
	var n, squares float64
	for i, w := range []float64{1, 9, 0.5, 3} {
		k := float64(parts[i].Samples())
		n += k
		squares += k * max(1, w)
	}
	if got, want := sum.Counts[0].Dispersion(), squares/n; math.Abs(got-want) > 1e-3 {
		t.Errorf("of a sum a dispersion of %g, want %g", got, want)
	}
	for _, other := range []*Recording{
		Merge(parts[3], parts[2], parts[1], parts[0]),
		Merge(Merge(parts[1], parts[3]), Merge(parts[0], parts[2])),
	} {
		if !bytes.Equal(other.Encode(), sum.Encode()) {
			t.Errorf("in another order or grouping, other bytes:\n%s", Dump(other.Encode()))
		}
	}
	if again, err := Decode(sum.Encode()); err != nil || again.Counts[0].Excess != sum.Counts[0].Excess {
		t.Errorf("decoded: %v", err)
	}
}

// TestExcessFaults: no samples have no variance.
func TestExcessFaults(t *testing.T) {
	c := NewCounts(CPU{}, Event{Name: "cycles"})
	c.Excess = Square{Lo: 1}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "variance of no samples") {
		t.Errorf("%v, want it refused", err)
	}
}
