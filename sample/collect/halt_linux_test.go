//go:build amd64 || arm64

package collect

import (
	"testing"
	"time"

	"backfeed/sample"
)

// TestHalt: nothing is sampled after Halt, and what was before it can be had; the same of time off the processor alone, beside
// which samples go on.
func TestHalt(t *testing.T) {
	s := system(t, SystemOptions{Frequency: 997, OffCPU: true, Frames: 8, Callers: CallersOfAll, Origins: true})
	spin(t, 1)
	till := func(what string, ok func(c Counters) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(s.Counters()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, s.Counters())
			}
		}
	}
	till("nothing is seen", func(c Counters) bool { return c.All > 20 && c.Off.Times > 20 })
	if err := s.StopOffCPU(); err != nil {
		t.Fatal(err)
	}
	before := s.Counters()
	till("samples do not go on", func(c Counters) bool { return c.All > before.All+20 })
	if n := s.Counters().Off; n.Times != before.Off.Times || n.Took != before.Off.Took {
		t.Errorf("switches were seen when that had ended: %+v, then %+v", before.Off, n)
	}
	var sum sample.Recording
	for range 2 {
		rec, err := s.Drain()
		if err != nil {
			t.Fatal(err)
		}
		sum.AddAll(rec)
	}
	if len(sum.Off) == 0 {
		t.Error("what was seen of switches is lost")
	}
	if err := s.Halt(); err != nil {
		t.Fatal(err)
	}
	before = s.Counters()
	time.Sleep(100 * time.Millisecond) // enough for a hundred samples
	if n := s.Counters().All; n != before.All {
		t.Errorf("%d samples, and %d after the end", before.All, n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Drain()
	if err != nil {
		t.Fatal(err)
	}
	sum.AddAll(rec)
	for _, c := range append(sum.Counts, sum.Off...) {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	if sum.Delivered() == 0 {
		t.Error("no samples")
	}
}
