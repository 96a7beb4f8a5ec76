package explain

import (
	"path/filepath"
	"slices"
	"testing"

	"backfeed/sample"
)

// TestFaultsTold: where a recording tells which instruction faults, the time of its faults is attributed to it, and to nothing else; and no other is accused
// of faults.
func TestFaultsTold(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"touch", "stores"} { // by anything but faults, the second waits for its store buffer
		rec := sample.Merge(readRecording(t, kind+".bfr"))
		var hot sample.Offset
		c := rec.Counts[0]
		i := slices.IndexFunc(c.Images, func(ic *sample.ImageCounts) bool { return filepath.Base(ic.ID.Path) == "stalls" })
		for off, n := range c.Images[i].At {
			if most := c.Images[i].At[hot]; n > most || n == most && off < hot {
				hot = off
			}
		}
		c.AddFaults(i, hot, 10*c.Images[i].At[hot])
		prof, all := explained(t, rec)
		if prof.Samples.Faulted != c.Images[i].At[hot] {
			t.Errorf("%s: %d samples are of faults, want %d", kind, prof.Samples.Faulted, c.Images[i].At[hot])
		}
		im, found := prof.Images[0].Image, false
		for _, e := range all {
			for k := range e.Insts {
				in := &e.Insts[k]
				causes := causesOf(&in.Stall)
				if off, ok := im.OffsetOf(in.Addr); !ok || off != hot {
					if slices.Contains(causes, PageFault) {
						t.Errorf("%s: %#x is accused of page faults", kind, uint64(in.Addr))
					}
					continue
				}
				found = true
				if want := float64(in.Samples) * e.perSample; in.Total < want*(1-1e-9) {
					t.Errorf("%s: of %g cycles of faults, %g are at the access", kind, want, in.Total)
				}
				if len(causes) == 0 || causes[0] != PageFault {
					t.Errorf("%s: faults are explained by %v", kind, causes)
				}
			}
		}
		if !found {
			t.Errorf("%s: the access is nowhere", kind)
		}
	}
}
