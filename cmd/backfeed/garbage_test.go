package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	for _, tt := range []struct {
		live uint64
		most int
		want int
	}{
		{0, 150, 150},
		{100 << 20, 150, 150},
		{384 << 20, 150, 50},
		{512 << 20, 30, 30},
		{8 << 30, 150, leastGarbage},
		{1 << 62, 150, leastGarbage},
	} {
		if got := garbagePercent(tt.most, tt.live); got != tt.want {
			t.Errorf("of %d MB, %d %% at most: %d %%, want %d", tt.live>>20, tt.most, got, tt.want)
		}
	}
}

// TestBoundGarbage: the runtime is told after each collection, as what is in use grows and shrinks.
func TestBoundGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	told := func() uint64 {
		is := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(is)
		return is[0].Value.Uint64()
	}
	// becomes waits for the collections that it takes: what is dead is known after one, and is cleaned up behind it.
	becomes := func(what string, ok func(percent uint64) bool) {
		t.Helper()
		for range 200 {
			if runtime.GC(); ok(told()) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s: the heap may grow by %d %%", what, told())
	}
	boundGarbage(gcPercent)
	becomes("little in use", func(percent uint64) bool { return percent == gcPercent })
	much := make([]byte, 1<<30) // nobody touches it
	becomes("1 GB in use", func(percent uint64) bool { return percent < 30 })
	runtime.KeepAlive(much)
	becomes("little in use again", func(percent uint64) bool { return percent == gcPercent })
}
