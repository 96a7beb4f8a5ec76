package sample

import (
	"maps"
	"testing"
)

// withTargets is withPaths with targets, of which one is in another image and one unknown.
func withTargets() *Recording {
	r := withPaths()
	c := r.Counts[0]
	app, lib := c.Image(ImageID{Build: id(0xb1, 0xd0)}), c.Image(ImageID{Path: "/lib/libc.so.6"})
	from := Frame{app, 0x1174}
	c.AddTarget(Branch{from, Frame{app, 0x1150}}, 300)
	c.AddTarget(Branch{from, Frame{lib, 0x26d00}}, 7)
	c.AddTarget(Branch{from, Frame{Image: Unknown}}, 1)
	return r
}

// TestDumpTargets pins what targets add to the format.
func TestDumpTargets(t *testing.T) {
	r := withTargets()
	check(t, r)
	checkDump(t, r, "testdata/targets.dump")
}

// TestTargets: they add up when recordings do, and are scaled as one, what rounding takes from one given to the next.
func TestTargets(t *testing.T) {
	of := func(r *Recording) (at map[Offset]uint64, sum uint64) {
		at = map[Offset]uint64{}
		for b, n := range r.Counts[0].Targets {
			at[b.To.Off] += n
			sum += n
		}
		return at, sum
	}
	if got, _ := of(Merge(withTargets(), withPaths(), withTargets())); !maps.Equal(got, map[Offset]uint64{0x1150: 600, 0x26d00: 14, 0: 2}) {
		t.Errorf("twice: %v", got)
	}
	if got, sum := of(withTargets().Scale(0.5)); sum != 154 || got[0x1150] < 149 || got[0x1150] > 151 {
		t.Errorf("half: %v, %d in all, want 154", got, sum)
	}
	if r := withTargets().Scale(0.001); len(r.Counts[0].Targets) != 0 {
		t.Errorf("of next to nothing there is left: %v", r.Counts[0].Targets)
	}
}
