package collect

import (
	"os"
	"testing"
	"time"
)

// TestUsed: the time that processes ran in user mode is counted from when it is begun to look, until the last look before they end; another
// process of the same number counts for nothing.
func TestUsed(t *testing.T) {
	times := map[int]time.Duration{1: 5 * time.Second, 2: 7 * time.Second}
	u := newUsed([]int{1, 2, 3}, func(pid int) (ran, bool) { d, ok := times[pid]; return ran{d, 2 * d}, ok })
	step := func(one, two time.Duration) {
		times[1] += one
		if two > 0 {
			times[2] += two
		}
		u.look()
	}
	step(time.Second, 2*time.Second)
	times[2] = time.Second // another one
	step(time.Second, 0)
	step(time.Second, 10*time.Second)
	delete(times, 1)
	u.look()
	if got := u.sum(); got != (ran{5 * time.Second, 10 * time.Second}) {
		t.Errorf("%v, want 5s and 10s", got)
	}
	var none *used
	if none.look(); none.sum() != (ran{}) {
		t.Errorf("without processes: %v", none.sum())
	}
	if d, ok := ranOf(os.Getpid()); !ok || d.user < 0 || d.user > time.Hour || d.system < 0 || d.system > time.Hour {
		t.Errorf("of this process: %v, %v", d, ok)
	}
	if d, ok := ranOf(1 << 30); ok {
		t.Errorf("of no process: %v", d)
	}
}

// TestClearlyUser: of time that was mostly the kernel's, the user's is known by few ticks.
func TestClearlyUser(t *testing.T) {
	for _, tt := range []struct {
		ran  ran
		want time.Duration
	}{
		{ran{}, 0}, {ran{2 * time.Second, 0}, 1990 * time.Millisecond}, {ran{0, time.Second}, 0}, {ran{500 * time.Millisecond, 500 * time.Millisecond}, 390 * time.Millisecond},
	} {
		if got := tt.ran.clearlyUser().Round(time.Millisecond); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.ran, got, tt.want)
		}
	}
}

// TestTimerMissed: of one timer, the times that it did not strike are known.
func TestTimerMissed(t *testing.T) {
	times := EventTime{Running: 10 * time.Second}
	for _, tt := range []struct {
		events []EventTime
		all    uint64
		want   float64
	}{
		{[]EventTime{times}, 10_000, 0}, {[]EventTime{times}, 7500, 0.25}, {[]EventTime{times}, 10_010, 0}, {[]EventTime{times, times}, 7500, 0}, {nil, 0, 0},
	} {
		c := Counters{All: tt.all, Events: tt.events}
		if got := c.TimerMissed(1e6); got != tt.want {
			t.Errorf("%+v: %g", tt, got)
		}
	}
}
