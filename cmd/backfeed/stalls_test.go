package main

import (
	"errors"
	"testing"

	"backfeed/infer"
	"backfeed/sample"
)

func TestExplainerNeedsTime(t *testing.T) {
	s := &source{
		profile:   &infer.Profile{Machine: "generic-x86_64", Event: sample.Event{Name: "branch-misses", Unit: "events", Period: 1}},
		recording: &sample.Recording{},
	}
	if _, err := s.explainer(); !errors.Is(err, infer.ErrNoTime) || codeOf(err) != exitNothing {
		t.Errorf("explainer of %s: %v, exit code %d; want %v, %d", s.profile.Event.Name, err, codeOf(err), infer.ErrNoTime, exitNothing)
	}
}
