package agent

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/sample"
	"backfeed/sample/store"
)

// A scriptedCounter counts one execution for each drain. Its choices end when they are told to.
type scriptedCounter struct {
	t               *testing.T
	executions      uint64 // that were not written
	stopped, closed int
	may             bool
	begun, end      chan struct{} // of a choice
}

func (c *scriptedCounter) Drained(*sample.Recording) {
	if c.closed > 0 {
		c.t.Error("counts after it was closed")
	}
	c.executions++
}

func (c *scriptedCounter) May() bool { return c.may }

func (c *scriptedCounter) Choose(context.Context, *sample.Recording, time.Duration) error {
	c.may = false
	close(c.begun)
	<-c.end
	if c.closed > 0 {
		c.t.Error("closed while it chose")
	}
	return nil
}

func (c *scriptedCounter) AddTo(rec *sample.Recording) {
	ic := rec.Counts[0].Images[0]
	if ic.Counted == nil {
		ic.Counted = map[sample.Offset]uint64{}
	}
	ic.Counted[0x20] += c.executions
}

func (c *scriptedCounter) Forget()      { c.executions = 0 }
func (c *scriptedCounter) Ended() error { return nil }
func (c *scriptedCounter) Stop() error  { c.stopped++; return nil }
func (c *scriptedCounter) Close() error { c.closed++; return nil }

// TestShed: an agent beyond its memory stops to count executions, says so once, and loses neither what was counted before nor
// a sample; garbage alone does not make it.
func TestShed(t *testing.T) {
	const little, much = 1 << 20, 1 << 60
	for _, tt := range []struct {
		name     string
		memory   []int64 // readings: one a step, and a second one after garbage was collected for one that is too large
		shedAt   int     // the drain after which it stops; 0 is never
		choosing bool    // a choice is running then
		full     bool    // there are too many chores then
		refused  bool    // the store takes no segment before the end
	}{
		{name: "little is used", memory: []int64{little, little, little}},
		{name: "garbage", memory: []int64{little, much, little, little}},
		{name: "too much", memory: []int64{little, much, much}, shedAt: 2},
		{name: "too much at once", memory: []int64{much, much}, shedAt: 1},
		{name: "while it chooses", memory: []int64{little, much, much}, shedAt: 2, choosing: true},
		{name: "with too many chores", memory: []int64{little, much, much}, shedAt: 2, choosing: true, full: true},
		{name: "with a store that is full", memory: []int64{little, much, much}, shedAt: 2, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC)
			a, _ := scriptedAgent(t, start)
			var said bytes.Buffer
			a.log = slog.New(slog.NewTextHandler(&said, nil))
			c := &scriptedCounter{t: t, may: tt.choosing, begun: make(chan struct{}), end: make(chan struct{})}
			a.probes, a.aimAt = c, start
			readings := tt.memory
			a.used = func() int64 {
				if len(readings) == 0 {
					t.Fatal("memory is looked at after the calibration has ended")
				}
				now := readings[0]
				readings = readings[1:]
				return now
			}
			segments := filepath.Join(a.opt.Store, "segments")
			if tt.refused { // a file is where they go
				if err := os.Rename(segments, segments+".away"); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(segments, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			const drains = 3
			for i := 1; i <= drains; i++ {
				a.step(start.Add(time.Duration(i) * time.Minute))
				if tt.choosing && i == 1 {
					<-c.begun
					for tt.full && len(a.chores) < cap(a.chores) {
						a.chores <- func() {}
					}
				}
				if shed := tt.shedAt > 0 && i >= tt.shedAt; shed != (a.probes == nil) || shed != (c.stopped == 1) {
					t.Errorf("step %d: calibrating %v, stopped %d times; want an end of it: %v", i, a.probes != nil, c.stopped, shed)
				}
			}
			if len(readings) > 0 {
				t.Errorf("%d readings of memory were not asked for", len(readings))
			}
			a.write(start.Add(4 * time.Minute))
			if tt.refused {
				if a.status.failures != 1 {
					t.Errorf("%d segments failed, want 1", a.status.failures)
				}
				if err := os.Remove(segments); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(segments+".away", segments); err != nil {
					t.Fatal(err)
				}
			}
			close(c.end)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if c.closed != 1 {
				t.Errorf("closed %d times", c.closed)
			}
			if n := strings.Count(said.String(), "too much memory"); n != min(1, tt.shedAt) {
				t.Errorf("said %d times:\n%s", n, said.String())
			}
			rec, err := a.into.Read(store.Query{})
			if err != nil {
				t.Fatal(err)
			}
			want := uint64(drains)
			if tt.shedAt > 0 {
				want = uint64(tt.shedAt)
			} else {
				want++ // the last drain is at the end
			}
			if n := rec.Counts[0].Images[0].Counted[0x20]; rec.Samples() != drains+1 || n != want {
				t.Errorf("in the store: %d samples and %d executions, want %d and %d", rec.Samples(), n, drains+1, want)
			}
		})
	}
}
