//go:build amd64 || arm64

package collect

import (
	"testing"
	"time"

	"backfeed/sample"
	"backfeed/sample/probe"
)

// TestMoments: what is sampled while windows are open is in their Moments, which cover their time, and in no recording.
func TestMoments(t *testing.T) {
	exe := program(t, "stretch")
	sites, err := stretchSitesOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	p := talk(t, exe, "units", "1") // all the time, so that no window is one that nobody counts
	s := system(t, SystemOptions{Frequency: 97, Probes: true, PIDs: []int{p.pid()}})
	pr := prober(t, s)
	var busy float64 // s of the program in windows
	numbers := map[uint32]bool{}
	// A thread may have to wait for a processor, for some windows.
	for seen, tries := 0, 0; seen < trials(20) && tries < 50*trials(20); tries++ {
		w, err := pr.Window(exe, sites, 0, 10*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if w.Number == 0 {
			t.Skip("nothing samples while windows are open here")
		}
		busy += w.Time.Seconds()
		if w.Time > 0 {
			seen++
		}
		numbers[w.Number] = true
	}
	var moments []probe.Moments
	for range 3 { // late mappings
		if _, err := s.Drain(); err != nil {
			t.Fatal(err)
		}
		moments = append(moments, s.Moments()...)
	}
	var all, user uint64
	for _, m := range moments {
		if !numbers[m.Number] {
			t.Errorf("samples of window %d, which there was not", m.Number)
		}
		all += m.Counts.Total
		for _, ic := range m.Counts.Images {
			user += ic.Samples()
		}
		if n := m.Counts.Lost[sample.LostUnmapped]; n > 0 {
			t.Errorf("%d samples of code that nothing mapped", n)
		}
	}
	t.Logf("%d samples, %d of them of code, in %v of the program", all, user, time.Duration(busy*1e9))
	if want := busy / meanwhilePeriod.Seconds(); float64(all) > 1.1*want+3 || want > 20 && float64(all) < want/2 {
		t.Errorf("%d samples, want %.0f", all, want)
	}
}
