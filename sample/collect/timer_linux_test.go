//go:build amd64 || arm64

package collect

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// stepped has this test run as if timers fired once in step.
func stepped(t *testing.T, step time.Duration) {
	t.Helper()
	real := timerStep
	timerStep = func() time.Duration { return step }
	t.Cleanup(func() { timerStep = real })
}

// TestTimerPeriods: where timers fire at ticks only, a sample stands for no less than lies between two, and is asked
// for sooner; at lower rates, and of counters, nothing changes.
func TestTimerPeriods(t *testing.T) {
	timer, counter := ladder[3], ladder[2]
	const ms = 1_000_000
	for _, tt := range []struct {
		w             perfEvent
		step          time.Duration
		hz            int
		stands, asked uint64
	}{
		{timer, 0, 1000, ms, ms},
		{timer, 4 * time.Millisecond, 1000, 4 * ms, ms / 2},
		{timer, 4 * time.Millisecond, 250, 4 * ms, ms / 2},
		{timer, 4 * time.Millisecond, 100, 10 * ms, 10 * ms},
		{counter, 4 * time.Millisecond, 1000, 2 * ms, 2 * ms}, // cycles, of 2 GHz
	} {
		stepped(t, tt.step)
		period := tt.w.period(tt.hz, 2000)
		if asked := tt.w.asked(period); period != tt.stands || asked != tt.asked {
			t.Errorf("%s at %d Hz, steps of %v: a sample stands for %d, asked once in %d; want %d, %d", tt.w.name, tt.hz, tt.step, period, asked, tt.stands, tt.asked)
		}
	}
}

// TestTimerRate: what is said of the rate is what there is.
func TestTimerRate(t *testing.T) {
	stepped(t, 4*time.Millisecond)
	if hz := TimerRate(997); hz != 250 {
		t.Errorf("%d Hz, want 250", hz)
	}
	if slow := SlowTimers(997); slow == nil || !strings.Contains(slow.Why, "at its tick, 250 times a second and not 997, and each sample stands for the 4ms ") {
		t.Errorf("at 997 Hz: %v", slow)
	}
	if slow := SlowTimers(199); slow != nil || TimerRate(199) != 199 {
		t.Errorf("at 199 Hz: %v", slow)
	}
	stepped(t, 0)
	taking(t, 2*time.Microsecond, 1e9)
	if slow := SlowTimers(99_999); slow != nil || TimerRate(99_999) != 99_999 {
		t.Errorf("with high-resolution timers: %v", slow)
	}
}

// taking has this test run as if a sample took some time, and the kernel throttled at a rate.
func taking(t *testing.T, takes time.Duration, throttled float64) {
	t.Helper()
	was, at := sampleTakes, throttledAt
	sampleTakes, throttledAt = func() time.Duration { return takes }, func() float64 { return throttled }
	t.Cleanup(func() { sampleTakes, throttledAt = was, at })
}

// TestTimerRateBorne: no rate takes more of a processor than a program can bear, or is throttled, and which of them bounds it is said. What is
// usual is neither measured nor lowered.
func TestTimerRateBorne(t *testing.T) {
	stepped(t, 0)
	for _, tt := range []struct {
		takes     time.Duration
		throttled float64
		hz, want  int
		why       string
	}{
		{20 * time.Microsecond, 100_000, 100_000, 12_500, "samples are taken at 12500 Hz and not 100000: at a higher rate they would take more than 25% of a processor, as each takes 20µs here"},
		{20 * time.Microsecond, 100_000, 12_500, 12_500, ""},
		{time.Millisecond, 100_000, 100_000, usualRate, "samples are taken at 5000 Hz and not 100000: at a higher rate they would take more than 25% of a processor, as each takes 1ms here"},
		{time.Millisecond, 100, 4999, 4999, ""},
		{2 * time.Microsecond, 12_000, 50_000, 9000, "(kernel.perf_event_max_sample_rate is 12000)"},
	} {
		taking(t, tt.takes, tt.throttled)
		if got := TimerRate(tt.hz); got != tt.want {
			t.Errorf("%+v: %d Hz", tt, got)
		}
		slow := SlowTimers(tt.hz)
		if (slow != nil) != (tt.why != "") || slow != nil && !strings.Contains(slow.Why, tt.why) {
			t.Errorf("%+v: %v", tt, slow)
		}
		timer := ladder[3]
		if period := timer.period(tt.hz, 0); period != uint64(time.Second)/uint64(tt.want) {
			t.Errorf("%+v: a sample stands for %d ns", tt, period)
		}
	}
}

// TestCrowded: samples of a timer that were close to each other are held to the time that was used, where there are enough to tell.
func TestCrowded(t *testing.T) {
	for _, tt := range []struct {
		period, samples uint64
		want            bool
	}{
		{100_000, 2000, true}, {100_000, 1000, false}, {1_000_000, 2000, false},
	} {
		ev := &sampledEvent{event: sample.Event{Name: cpuClock, Period: tt.period, Unit: "ns"}}
		ev.counts = sample.NewCounts(sample.CPU{}, ev.event)
		ev.counts.AddSample(ev.counts.Image(sample.ImageID{Path: "/a"}), 0, tt.samples)
		if got := ev.crowded(); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestSampleTakes: what a sample takes is measured, or the machine is said to be too busy for it.
func TestSampleTakes(t *testing.T) {
	testtool.Live(t, "records")
	if d, err := ownSampleTakes(); err == nil && (d < shortestGap || d > longestGap) {
		t.Errorf("a sample takes %v", d)
	} else {
		t.Logf("%v, %v", d, err)
	}
}

// TestTimerGap: by ptrace, looks are on average as far apart as is asked for, and never two between the same ticks.
func TestTimerGap(t *testing.T) {
	tr := &tracer{rand: rand.New(rand.NewPCG(1, 2))}
	const step = 4 * time.Millisecond
	for _, mean := range []time.Duration{step / 4, step, 5 * step} {
		var sum time.Duration
		const n = 10_000
		for range n {
			gap := tr.gap(mean, step)
			if gap < step || gap%step != 0 {
				t.Fatalf("a gap of %v", gap)
			}
			sum += gap
		}
		if got, want := sum/n, max(mean, step); got < want*95/100 || got > want*105/100 {
			t.Errorf("mean %v: %v", mean, got)
		}
	}
	if got := wholeSteps(step+1, step); got != 2*step {
		t.Errorf("%v in whole steps is %v", step+1, got)
	}
}

// TestWeighUsed: samples stand for the time that was used, and less what was dropped, if they are too few for it, and for no less than
// they did.
func TestWeighUsed(t *testing.T) {
	for _, tt := range []struct {
		samples, dropped uint64
		used             time.Duration
		want             uint64
	}{
		{10, 0, 80, 80}, {10, 10, 160, 80}, {10, 0, 41, 40}, {10, 0, 30, 40}, {0, 0, 30, 0},
	} {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: cpuClock, Period: 4, Unit: "ns"})
		if tt.samples > 0 {
			c.AddSample(c.Image(sample.ImageID{Path: "/a"}), 0, tt.samples)
		}
		c.Lose(sample.LostDropped, tt.dropped)
		c.Weight = 4 * tt.samples
		if weighUsed(c, tt.used); c.Weight != tt.want {
			t.Errorf("%+v: %d", tt, c.Weight)
		}
	}
}

// TestTimerStepTime: on a kernel without high-resolution timers, samples stand for the processor time that was used.
func TestTimerStepTime(t *testing.T) {
	testtool.Live(t, "records")
	if timerStep() == 0 {
		t.Skip("this kernel has high-resolution timers; go run ./testdata/kernels boots one without")
	}
	const within = 0.05
	holds := func(t *testing.T, c *sample.Counts, used time.Duration) {
		t.Helper()
		if got := float64(c.Weight) / float64(used); got < 1-within || got > 1+within {
			t.Errorf("%d samples of %v stand for %v, but %v were used", c.Delivered(), time.Duration(c.Event.Period), time.Duration(c.Weight), used)
		}
	}
	exe := build(t, "a")
	for _, tt := range []struct {
		opt    Options
		rounds string // millions: 7 ns each where this is tried
	}{
		{Options{Frequency: 997}, "30"},
		{Options{Frequency: 997, Events: []string{ptraceClock}}, "30"},
		{Options{Frequency: 97}, "90"},
		{Options{Events: []string{cpuClock}, Period: uint64(timerStep()) / 3}, "30"},
	} {
		opt := tt.opt
		opt.Command = []string{exe, "busy", tt.rounds}
		c, stats := run(t, opt)
		holds(t, c, stats.Command.UserTime())
	}
	// Threads that run for less than the time between two ticks, and sleep.
	rec, stats, err := Record(context.Background(), Options{Frequency: 997, Command: []string{"sh", "-c",
		"i=0; while [ $i -lt 200 ]; do j=0; while [ $j -lt 300 ]; do j=$((j+1)); done; usleep 2000; i=$((i+1)); done"}})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, rec.Counts[0], stats.Command.UserTime())
	for _, hz := range []int{997, 97} {
		s := system(t, SystemOptions{Frequency: hz, Kernel: true})
		spin(t, len(s.sampler.cpus))
		start := time.Now()
		s.Drain()
		r := drains(t, s, 100*time.Millisecond, 700*time.Millisecond)
		holds(t, r.Counts[0], time.Since(start)*time.Duration(len(s.sampler.cpus)))
	}
}
