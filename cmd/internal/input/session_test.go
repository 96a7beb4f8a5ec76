package input

import (
	"errors"
	"testing"

	"backfeed/cmd/internal/fail"
	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/sample"
)

func TestExplainNeedsTime(t *testing.T) {
	s := &Session{
		Profile:   &infer.Profile{Machine: "generic-x86_64", Event: sample.Event{Name: "branch-misses", Unit: "events", Period: 1}},
		Recording: &sample.Recording{},
	}
	if _, err := s.Explain(); !errors.Is(err, explain.ErrNoTime) || fail.KindOf(err) != fail.Nothing {
		t.Errorf("explainer of %s: %v, kind %d; want %v, %d", s.Profile.Event.Name, err, fail.KindOf(err), explain.ErrNoTime, fail.Nothing)
	}
}
