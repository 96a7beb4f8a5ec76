//go:build amd64 || arm64

package collect

import (
	"context"
	"math/rand/v2"
	"runtime"
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

// TestWeighTimer: samples of a timer are held to the time that was used, at any rate, where there are enough to tell; what threads
// ran that ended within a period is not of others.
func TestWeighTimer(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		samples, period uint64
		used            ran
		began           uint64
		want            time.Duration
	}{
		{20_000, 100_000, ran{user: 3 * time.Second}, 0, 3 * time.Second},
		{2000, 1_000_000, ran{user: 3 * time.Second}, 0, 3 * time.Second},
		{2000, 1_000_000, ran{user: 2100 * ms}, 0, 2 * time.Second},
		{2000, 1_000_000, ran{user: 2200 * ms, system: 4 * time.Second}, 0, 2 * time.Second},
		{1000, 1_000_000, ran{user: 3 * time.Second}, 0, time.Second},
		{2000, 1_000_000, ran{user: 3 * time.Second}, 1000, 2 * time.Second},
		{2000, 1_000_000, ran{user: 4 * time.Second}, 1000, 3 * time.Second},
	} {
		ev := &sampledEvent{perf: &ladder[3], event: sample.Event{Name: cpuClock, Period: tt.period, Unit: "ns"}}
		ev.counts = sample.NewCounts(sample.CPU{}, ev.event)
		ev.counts.AddSample(ev.counts.Image(sample.ImageID{Path: "/a"}), 0, tt.samples)
		ev.counts.Weight = tt.samples * tt.period
		s := &session{used: &used{all: tt.used}}
		s.tally.stats = &Stats{Began: tt.began}
		missed := s.weighTimer(ev)
		if got := time.Duration(ev.counts.Weight); got != tt.want || (missed > 0) != (got > time.Duration(tt.samples*tt.period)) {
			t.Errorf("%+v: %v, %.2f missed", tt, got, missed)
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
		if weighUsed(c, tt.used, tt.used); c.Weight != tt.want {
			t.Errorf("%+v: %d", tt, c.Weight)
		}
	}
}

// TestWeighPauses: samples stand for all the time that threads were on a processor, pauses included.
func TestWeighPauses(t *testing.T) {
	for _, tt := range []struct {
		ran, all time.Duration
		want     uint64
	}{{90, 100, 1000}, {100, 100, 900}, {101, 100, 900}, {0, 100, 900}, {90, 0, 900}} {
		if got := weighPauses(900, tt.ran, tt.all); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// TestTimerBusy: on a machine where threads wait for processors, the recorder's too, samples of a process stand for the time that it used, whether it
// was running already or is a command.
func TestTimerBusy(t *testing.T) {
	testtool.Live(t, "records")
	if _, err := Probe(); err != nil {
		t.Skip(err)
	}
	spin(t, 2*runtime.NumCPU())
	exe := build(t, "a")
	holds := func(c *sample.Counts, used ran) {
		t.Helper()
		if c.Event.Name != cpuClock || c.Delivered() < enoughSamples {
			t.Skipf("%d samples of %s", c.Delivered(), c.Event.Name)
		}
		got, most := time.Duration(c.Weight), used.user+used.user/25
		t.Logf("%v of %v; one for each of %v", got, used.user, time.Duration(c.Delivered()*c.Event.Period))
		if least := used.clearlyUser(); got < least-least/18 || got > most {
			t.Errorf("%d samples of %v stand for %v, but %v were used", c.Delivered(), time.Duration(c.Event.Period), got, used.user)
		}
	}
	c, stats := run(t, Options{Command: []string{exe, "busy", "600"}, Frequency: 3989})
	holds(c, ran{stats.Command.UserTime(), stats.Command.SystemTime()})
	cmd := testtool.Command(t, exe, "busy", "3000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	before, _ := ranOf(cmd.Process.Pid)
	c, _ = run(t, Options{PIDs: []int{cmd.Process.Pid}, Frequency: 3989, Duration: 4 * time.Second})
	after, ok := ranOf(cmd.Process.Pid)
	if !ok {
		t.Skip("it has ended")
	}
	holds(c, ran{after.user - before.user, after.system - before.system})
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
