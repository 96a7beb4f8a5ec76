//go:build amd64 || arm64

package collect

import (
	"testing"

	"backfeed/internal/testtool"
)

// TestMeasureHeld: interrupts are held up for some cycles where system calls return.
func TestMeasureHeld(t *testing.T) {
	testtool.Live(t, "samples")
	var sum returnsSeen
	for range heldTimes {
		saw := measureHeld()
		t.Logf("%+v", saw)
		sum.add(saw)
	}
	calls, held := sum.cycles()
	if calls == 0 {
		t.Skip("no samples of a timer here, or too few")
	}
	if each := float64(held) / float64(calls); !(each >= 10 && each <= 100_000) {
		t.Errorf("interrupts are held up for %.0f cycles", each)
	}
}

// TestCallPlaces: the code that makes system calls is found, and comes back.
func TestCallPlaces(t *testing.T) {
	if begin, returns := callPlaces(); returns < begin+callLength || returns >= begin+callBytes {
		t.Errorf("callChain begins at %#x and has a system call return at %#x", begin, returns)
	}
	callChain(3)
}
