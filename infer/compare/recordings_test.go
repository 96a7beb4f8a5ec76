package compare

import (
	"math"
	"testing"

	"backfeed/infer"
	"backfeed/sample"
)

// TestUsed: what commands used stands beside their samples only where it is of the same.
func TestUsed(t *testing.T) {
	run := func(user, system uint64) sample.Run {
		return sample.Run{Usage: sample.Usage{User: user, System: system}}
	}
	for _, tt := range []struct {
		name     string
		runs     []sample.Run
		unlisted uint64
		used     float64
		ok       bool
	}{
		{"no run is known", nil, 0, 0, false},
		{"one command", []sample.Run{run(1e6, 5e5)}, 0, 1.5, true},
		{"two", []sample.Run{run(6e5, 1e5), run(5e5, 1e5)}, 0, 1.3, true},
		{"one of two is known", []sample.Run{run(1e6, 5e5), {}}, 0, 0, false},
		{"one of two is listed", []sample.Run{run(1e6, 5e5)}, 1, 0, false},
		{"a part of the run was sampled", []sample.Run{run(2e6, 5e5)}, 0, 0, false},
		{"more than the run was sampled", []sample.Run{run(5e5, 5e5)}, 0, 0, false},
	} {
		rec := &sample.Recording{Runs: tt.runs, Unlisted: tt.unlisted, Counts: []*sample.Counts{{Event: sample.Event{Name: "cpu-clock", Unit: "ns"}, Weight: 1e9}}}
		s := Side{Recording: rec, Profile: &infer.Profile{Event: sample.Event{Name: "cpu-clock"}}}
		if used, ok := s.used(); ok != tt.ok || ok && math.Abs(used-tt.used) > 1e-9 {
			t.Errorf("%s: %g, %t, want %g, %t", tt.name, used, ok, tt.used, tt.ok)
		}
	}
}
