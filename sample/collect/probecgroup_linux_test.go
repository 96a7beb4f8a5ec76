//go:build amd64 || arm64

package collect

import (
	"testing"
	"time"

	"backfeed/sample/probe"
)

// TestProbeCgroup: windows count, and their time is that of, what is in a cgroup below
// the one asked for.
func TestProbeCgroup(t *testing.T) {
	top, join := cgroup(t)
	exe := program(t, "stretch")
	sites, err := stretchSitesOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	s := system(t, SystemOptions{Frequency: 97, Probes: true, Cgroups: []string{top}})
	p := prober(t, s)
	// window is one in which something was seen: a thread may have to wait for a processor.
	window := func(seen func(w *probe.Window) bool) (w *probe.Window) {
		for range 100 {
			if w, err = p.Window(exe, sites, 0, 10*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if seen(w) {
				break
			}
		}
		return w
	}
	talk(t, exe, "units", "1") // in another one
	if w := window(func(w *probe.Window) bool { return w.All > 0 }); w.Hits[0] != 0 || w.Time != 0 || w.All == 0 {
		t.Errorf("%d hits and %v counted of what is not in the cgroup; %d hits in all", w.Hits[0], w.Time, w.All)
	}
	join(talk(t, exe, "units", "1").pid())
	if w := window(func(w *probe.Window) bool { return w.Hits[0] > 0 && w.Time > 0 }); w.Hits[0] == 0 || w.Time <= 0 || w.Time > w.Open+w.Open/10 {
		t.Errorf("%d hits in %v of one thread, open for %v", w.Hits[0], w.Time, w.Open)
	}
}
