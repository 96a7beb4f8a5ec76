package collect

import (
	"math"
	"testing"
	"time"

	"backfeed/sample"
)

// TestAddChain: as many additions as are asked for.
func TestAddChain(t *testing.T) {
	if !haveChain {
		t.Skip("needs amd64 or arm64")
	}
	for _, turns := range []int{1, 3, chainTurns} {
		if got := addChain(turns); got != turns*turns*chainLength {
			t.Errorf("%d turns make %d, want %d", turns, got, turns*turns*chainLength)
		}
	}
}

// A stagedClock passes by 40 ns each time it is read, in steps, and by what a chain takes.
type stagedClock struct {
	at, step time.Duration
	runs     int
	took     func(run int) time.Duration
}

func (c *stagedClock) meter() *clockMeter {
	return &clockMeter{
		now:   func() time.Duration { c.at += 40; return c.at / c.step * c.step },
		chain: func(int) int { c.at += c.took(c.runs); c.runs++; return 0 },
	}
}

// TestClockTime: what else happens meanwhile does not count, as long as one of the runs goes through, and where time goes
// in large steps nothing is said.
func TestClockTime(t *testing.T) {
	const run = 12800 // ns at 4 GHz
	for _, tt := range []struct {
		name string
		step time.Duration
		took func(int) time.Duration
		want float64
	}{
		{"quiet", 1, func(int) time.Duration { return run }, 4},
		{"interrupted in all but one", 1, func(i int) time.Duration { return run + 3000*time.Duration((i+3)%chainRuns) }, 4},
		{"steps of 4 ms", 4e6, func(int) time.Duration { return run }, 0},
	} {
		if got := (&stagedClock{step: tt.step, took: tt.took}).meter().time(); math.Abs(got-tt.want) > 0.01 {
			t.Errorf("%s: %.3f cycles per ns, want %.3f", tt.name, got, tt.want)
		}
	}
}

// TestClockWeigh: each stretch of time has the clock that it was taken at; one that was measured wrongly has no say.
func TestClockWeigh(t *testing.T) {
	m, c := &clockMeter{}, sample.NewCounts(sample.CPU{}, sample.Event{Name: cpuClock, Period: 1000, Unit: "ns"})
	c.Weight = 1000
	if m.weigh(c); c.Clocked != 0 || c.Clock() != 0 {
		t.Errorf("a clock of %g, of which none was measured", c.Clock())
	}
	m.take(0)
	m.take(4)
	if m.weigh(c); c.Clocked != 1000 || c.Cycles != 4000 {
		t.Errorf("%d cycles in %d ns, want 4000 in 1000", c.Cycles, c.Clocked)
	}
	c.Weight = 2000
	for _, ghz := range []float64{3, 3, 0.5, 3} { // 4, 3, 3, 0.5, 3
		m.take(ghz)
	}
	if m.weigh(c); c.Clocked != 2000 || c.Cycles != 7000 {
		t.Errorf("%d cycles in %d ns, want 7000 in 2000", c.Cycles, c.Clocked)
	}
	if got, want := m.spread(), (Clock{0.5, 4, 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	other := sample.NewCounts(sample.CPU{}, sample.Event{Name: instructions, Period: 1000, Unit: "instructions"})
	other.Weight = 1000
	if m.weigh(other); other.Clocked != 0 {
		t.Errorf("%d ns of instructions", other.Clocked)
	}
}

// TestClockHere: this machine has a clock, and keeps it for a moment. Where others use it, it may seem slower: the fastest
// of some counts.
func TestClockHere(t *testing.T) {
	if !haveChain {
		t.Skip("needs amd64 or arm64")
	}
	var m clockMeter
	begin := time.Now()
	for range 20 {
		m.measure(-1)
	}
	took := time.Since(begin)
	s := m.spread()
	t.Logf("%.3f to %.3f cycles per ns by %d measurements, each of %v", s.Least, s.Most, s.Times, took/20)
	if s.Times == 0 {
		t.Skip("this machine's clock cannot be measured")
	}
	if !(s.Most < 7) { // no processor is so fast: something was left out
		t.Errorf("%.2f cycles per ns", s.Most)
	}
}
