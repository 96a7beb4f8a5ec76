package collect

import (
	"testing"
	"time"

	"backfeed/sample"
)

// TestFaultPause: windows follow one another where there are few faults, and the more there are, the longer is between them.
func TestFaultPause(t *testing.T) {
	for _, tt := range []struct {
		faults uint64
		hz     int
		u      float64
		want   time.Duration
	}{
		{0, 1000, 0.5, 0},
		{20, 1000, 0.5, 0}, // 4 for each sample of the timer
		{24, 1000, 0.5, 0}, // the pause would be short
		{200, 1000, 0.5, 45 * time.Millisecond},
		{200, 1000, 0, 22500 * time.Microsecond},
		{200, 10_000, 0.5, 0},
		{300, 1, 1, faultPause},
	} {
		if got := faultPauseAfter(5*time.Millisecond, tt.faults, tt.hz, tt.u); got != tt.want {
			t.Errorf("%d faults in 5 ms at %d Hz, %g: %v, want %v", tt.faults, tt.hz, tt.u, got, tt.want)
		}
	}
}

// TestStandFor: the faults of a window stand for those of the pause after it by the processor time of both: in none of which nothing faults.
func TestStandFor(t *testing.T) {
	for _, tt := range []struct {
		faults        uint64
		window, pause time.Duration
		want          float64
	}{
		{600, 5 * time.Millisecond, 100 * time.Millisecond, 12600},
		{600, 5 * time.Millisecond, 0, 600}, // it ended, or waits
		{1900, 15 * time.Millisecond, 300 * time.Millisecond, 39900},
		{7, 0, 50 * time.Millisecond, 7},
		{0, 5 * time.Millisecond, 50 * time.Millisecond, 0},
	} {
		if got := standFor(tt.faults, tt.window, tt.pause); got < tt.want-0.5 || got > tt.want+0.5 {
			t.Errorf("%d faults in %v, then %v: %g, want %g", tt.faults, tt.window, tt.pause, got, tt.want)
		}
	}
}

// TestAddFaults: those that were seen stand for all that there were.
func TestAddFaults(t *testing.T) {
	app, other := sample.ImageID{Path: "/app"}, sample.ImageID{Path: "/other"}
	faults := sample.NewCounts(sample.CPU{}, sample.Event{Name: "page-faults"})
	faults.AddSample(faults.Image(other), 8, 10)
	faults.AddSample(faults.Image(app), 16, 30)
	faults.AddSample(faults.Image(app), 24, 10)
	faults.Lose(sample.LostDropped, 50)
	for all, want := range map[float64]uint64{50: 30, 100: 60, 400: 240, 0: 0} {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: cpuClock, Unit: "ns"})
		i := c.Image(app)
		c.AddSample(i, 16, 1)
		addFaults(c, faults, all)
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if got := c.Images[i].Faults[16]; got != want {
			t.Errorf("30 of 50 that stand for %g: %d, want %d", all, got, want)
		}
		if len(c.Images) != 1 {
			t.Errorf("%d images, of one that was sampled", len(c.Images))
		}
	}
}
