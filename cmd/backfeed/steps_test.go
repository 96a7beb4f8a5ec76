package main

import (
	"strings"
	"testing"
)

// TestSteps: without a terminal, a command that takes minutes tells each step once, however often it says how far that is.
func TestSteps(t *testing.T) {
	var out strings.Builder
	s := &steps{notices: notices{&cli{stderr: &out}}}
	s.Progress("building %s", "app")
	s.Progress("building %s with %s", "app", "go")
	s.Progress("building %s with %s", "app", "bolt")
	for round := range 3 {
		s.Progress("measuring %s: round %d of %d", "app", round+1, 3)
	}
	s.Progress("building %s", "app")
	s.Done()
	const want = `backfeed: building app
backfeed: building app with go
backfeed: building app with bolt
backfeed: measuring app: round 1 of 3
backfeed: building app
`
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
