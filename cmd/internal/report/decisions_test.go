package report

import (
	"testing"

	"backfeed/feedback"
)

// TestGainsCallers: a profile with callers in place of one that was made without them is another kind of profile, though
// no single decision changes clearly.
func TestGainsCallers(t *testing.T) {
	for _, tt := range []struct{ before, after, want bool }{{true, false, true}, {true, true, false}, {false, true, false}, {false, false, false}} {
		doc := NewDecisionDiff("go", &feedback.Decisions{Blind: tt.before}, &feedback.Decisions{Blind: tt.after})
		if doc.Callers != tt.want {
			t.Errorf("without callers before %v, after %v: gains them %v", tt.before, tt.after, doc.Callers)
		}
	}
}
