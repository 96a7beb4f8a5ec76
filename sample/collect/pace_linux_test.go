//go:build amd64 || arm64

package collect

import (
	"math"
	"testing"
	"time"
)

// fakePaced is processors that a test tells what they counted.
type fakePaced struct {
	cpus     []int
	counters []processorCounters // by processor
	worths   [][]uint64          // by index: those that were set
	periods  [][]uint64
}

func (f *fakePaced) processors() []int                    { return f.cpus }
func (f *fakePaced) perCPU() ([]processorCounters, error) { return f.counters, nil }
func (f *fakePaced) setPeriod(i, event int, period, worth uint64) {
	if event == 0 {
		f.periods[i], f.worths[i] = append(f.periods[i], period), append(f.worths[i], worth)
	}
}

// TestPace: periods change all the time about the rate asked for, and a processor that is idle is
// sampled less often until it has work again.
func TestPace(t *testing.T) {
	const hz, unit = 199, 1e9
	f := &fakePaced{cpus: []int{0, 2}, counters: make([]processorCounters, 3), worths: make([][]uint64, 2), periods: make([][]uint64, 2)}
	p := newPace(f, []float64{unit}, hz)
	now := time.Now()
	for range 600 {
		now = now.Add(tendEvery)
		f.counters[0].All += hz / 10
		f.counters[0].User += hz / 10
		f.counters[2].All += hz / 10 // it does nothing
		p.step(now)
	}
	rate := func(i int) float64 {
		sum := 0.0
		for _, worth := range f.worths[i] {
			sum += unit / float64(worth)
		}
		return sum / float64(len(f.worths[i]))
	}
	if n := len(f.worths[0]); n < 500 || math.Abs(rate(0)-hz) > 0.05*hz {
		t.Errorf("%d periods, a mean rate of %.1f; want one each step, %d", n, rate(0), hz)
	}
	for k, period := range f.periods[0] {
		if worth := f.worths[0][k]; period > worth || float64(worth) > unit/hz*1.5 || float64(period) < unit/hz*0.7 {
			t.Fatalf("a period of %d for a worth of %d", period, worth)
		}
	}
	last := len(f.worths[1]) - 1
	if slow := f.worths[1][last]; float64(slow) < 0.7*idleFactor*unit/hz {
		t.Errorf("an idle processor has a sample each %d ns", slow)
	}
	f.counters[2].User++
	if p.step(now.Add(tendEvery)); len(f.worths[1]) != last+2 || float64(f.worths[1][last+1]) > 1.5*unit/hz {
		t.Errorf("with work again, a sample each %v ns", f.worths[1][last+1:])
	}
	p.drop(0)
	f.cpus = f.cpus[1:]
	if len(p.cpus) != 1 {
		t.Errorf("%d processors are left, want one", len(p.cpus))
	}
}
