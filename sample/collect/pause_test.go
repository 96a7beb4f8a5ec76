package collect

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// quarterSeen samples a program that spends the first quarter of each
// millisecond in one function, for a minute, and returns the share of samples that
// fall there. The sampler is switched off as the pacer says.
func quarterSeen(period time.Duration, pauses bool) float64 {
	p := pacer{period: period, rand: rand.New(rand.NewPCG(1, 2))}
	next := period / 3 // of the next sample
	var now time.Duration
	seen, all := 0, 0
	for now < time.Minute {
		run, pause := p.next(0)
		if !pauses {
			pause = 0
		}
		now += run
		for ; next < now; next += period {
			if next%time.Millisecond < time.Millisecond/4 {
				seen++
			}
			all++
		}
		now += pause
		next += pause // what remained of the period
	}
	return float64(seen) / float64(all)
}

func TestPausesBreakStep(t *testing.T) {
	for _, period := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond, time.Millisecond / 2} {
		without, with := quarterSeen(period, false), quarterSeen(period, true)
		if math.Abs(without-.25) < .2 {
			t.Errorf("period %v without pauses: %.3f of the samples; the program should have locked step", period, without)
		}
		if math.Abs(with-.25) > .03 {
			t.Errorf("period %v with pauses: %.3f of the samples, want 0.25", period, with)
		}
	}
}

func TestPauses(t *testing.T) {
	for _, tt := range []struct {
		name         string
		period, cost time.Duration
		run, pause   time.Duration // means
	}{
		{"default", time.Second / 997, 0, pauseEvery, time.Second / 997 / 2},
		{"long period", time.Second, 0, pauseEvery, maxPause / 2},
		{"short period", 10 * time.Microsecond, 0, pauseEvery, 5 * time.Microsecond},
		{"many threads", time.Second / 997, 10 * time.Millisecond, time.Second, time.Second / 997 / 2},
	} {
		p := pacer{period: tt.period, rand: rand.New(rand.NewPCG(1, 2))}
		const n = 10000
		var runs, pauses time.Duration
		for range n {
			run, pause := p.next(tt.cost)
			if run <= 0 || pause < 0 || pause > min(tt.period, maxPause) {
				t.Fatalf("%s: run %v, pause %v", tt.name, run, pause)
			}
			runs += run
			pauses += pause
		}
		near := func(got, want time.Duration) bool {
			return math.Abs(float64(got)/float64(want)-1) < .05
		}
		if !near(runs/n, tt.run) || !near(pauses/n, tt.pause) {
			t.Errorf("%s: mean run %v, pause %v; want %v, %v", tt.name, runs/n, pauses/n, tt.run, tt.pause)
		}
	}
}
