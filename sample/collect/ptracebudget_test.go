package collect

import (
	"math"
	"testing"
	"time"
)

// TestTraceBudget: whatever a look costs, the rate settles where the share is kept, and is as asked for where
// that costs less.
func TestTraceBudget(t *testing.T) {
	const us = time.Microsecond
	for _, tt := range []struct {
		name              string
		share             float64
		look, knew, stop  time.Duration // cost of a look beside that of its stop
		processors        int           // that the program uses
		want, least, most float64       // share spent; interval in periods
	}{
		{"cheap", .05, 10 * us, 5 * us, 5 * us, 1, .02, 1, 1},
		{"dear", .05, 100 * us, 50 * us, 50 * us, 1, .05, 3.9, 4.1},
		{"many processors", .05, 100 * us, 50 * us, 50 * us, 4, .20, 1, 1},
		{"hopeless", .0001, 100 * us, 50 * us, 50 * us, 1, .002, 100, 100},
	} {
		start := time.Now()
		now, own, program := start, time.Duration(0), time.Duration(0)
		b := traceBudget{share: tt.share, at: now}
		period := time.Millisecond
		interval, cost := period, 0.0
		for range 100_000 {
			now = now.Add(interval)
			own += tt.look
			program += time.Duration(tt.processors) * interval
			cost += (tt.look + tt.knew + tt.stop).Seconds()
			b.stop(now, now.Add(tt.knew), now.Add(tt.knew+tt.stop))
			if b.due(now) {
				interval = b.spent(now, own, program, period)
			}
		}
		if got := cost / now.Sub(start).Seconds(); math.Abs(got/tt.want-1) > .05 {
			t.Errorf("%s: it costs %.4f of a processor, want %.4f", tt.name, got, tt.want)
		}
		if got := float64(interval) / float64(period); got < tt.least || got > tt.most {
			t.Errorf("%s: a look in %.2f periods, want %.2f to %.2f", tt.name, got, tt.least, tt.most)
		}
	}
}

// TestTraceBudgetWaits: a thread that waits for a processor is not held up by its recorder.
func TestTraceBudgetWaits(t *testing.T) {
	now := time.Now()
	b := traceBudget{share: .05, at: now}
	for i := range 100 {
		knew, went := 10*time.Microsecond, 20*time.Microsecond
		if i%2 == 0 {
			knew += 5 * time.Millisecond
		}
		if i%3 == 0 {
			went += 5 * time.Millisecond
		}
		b.stop(now, now.Add(knew), now.Add(went+knew))
	}
	b.due(now)
	b.spent(now.Add(time.Second), 0, 0, time.Millisecond)
	if want := 100 * 30 * time.Microsecond; b.stopped != want {
		t.Errorf("stopped for %v, want %v", b.stopped, want)
	}
}

// TestTraceBudgetDiffer: stops of very different lengths count as long as they are, and a dear stop may be a rare one.
func TestTraceBudgetDiffer(t *testing.T) {
	now := time.Now()
	b := traceBudget{share: .01, differ: true, most: 10 * time.Second, at: now}
	for i := range 10 {
		b.stop(now, now.Add(10*time.Microsecond), now.Add(10*time.Microsecond+time.Duration(i)*time.Millisecond))
	}
	b.took(10 * time.Millisecond)
	b.looks = 10
	interval := b.spent(now.Add(11*time.Second), 45*time.Millisecond, 11*time.Second, time.Millisecond)
	if want := 55*time.Millisecond + 100*time.Microsecond; b.stopped != want {
		t.Errorf("stopped for %v, want %v", b.stopped, want)
	}
	// 10.01 ms a look, in all
	if want := 1001 * time.Millisecond; interval < want-time.Millisecond || interval > want+time.Millisecond {
		t.Errorf("a look in %v, want %v", interval, want)
	}
}

// TestTraceBudgetSaved: what a few dear stops have spent too much is saved again.
func TestTraceBudgetSaved(t *testing.T) {
	start := time.Now()
	now, own, cost := start, time.Duration(0), time.Duration(0)
	b := traceBudget{share: .01, differ: true, most: 10 * time.Second, at: now}
	interval := 200 * time.Millisecond
	for i := range 20_000 {
		now = now.Add(interval)
		took := 100 * time.Microsecond
		if i%100 == 0 {
			took = 50 * time.Millisecond
		}
		own += took
		cost += 2 * took
		b.stop(now, now, now.Add(took))
		if b.due(now) {
			interval = b.spent(now, own, now.Sub(start), time.Millisecond)
		}
	}
	if got := cost.Seconds() / now.Sub(start).Seconds(); got > .011 {
		t.Errorf("it costs %.4f of a processor, want .01", got)
	}
}

// TestTraceBudgetIdle: where the share is of what a program uses, and it uses a fifth of a processor, stops cost a fifth.
func TestTraceBudgetIdle(t *testing.T) {
	for _, tt := range []struct{ idle, uses, want float64 }{{0, .2, .01}, {.02, .2, .002}, {.02, 1, .01}, {.02, 0, .0002}, {.02, 2, .02}} {
		start := time.Now()
		now, own := start, time.Duration(0)
		b := traceBudget{share: .01, idle: tt.idle, differ: true, most: 10 * time.Second, at: now}
		interval := 100 * time.Millisecond
		for range 20_000 {
			now = now.Add(interval)
			own += time.Millisecond
			b.stop(now, now, now.Add(time.Millisecond))
			b.worked(time.Millisecond)
			if b.due(now) {
				interval = b.spent(now, own, time.Duration(tt.uses*float64(now.Sub(start))), time.Millisecond)
			}
		}
		if got := own.Seconds() / now.Sub(start).Seconds(); got > 1.1*tt.want || got < 0.8*tt.want {
			t.Errorf("of a program that uses %v processors, %v at least, it costs %.5f of one, want %.5f", tt.uses, tt.idle, got, tt.want)
		}
	}
}
