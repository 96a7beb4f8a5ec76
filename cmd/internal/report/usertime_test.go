package report

import (
	"strings"
	"testing"

	"backfeed/infer"
)

// TestToldEntries: what executions may be off by is said where time alone was sampled, by how many samples there are.
func TestToldEntries(t *testing.T) {
	for _, tt := range []struct {
		common, counted float64
		used            uint64
		want            string
	}{
		{0, 0, 442, ""}, {1.2, 0, 442, ""}, {1.2, 1, 442, ""},
		{infer.TimeFactor, 0, 442, "of 442 samples: with 90 % confidence, within a factor of 200 for procedures with 3 samples or more outside their loops, and 3000 for others."},
		{infer.TimeFactor, 0, 20000, "within a factor of 12 for procedures with 8 samples or more outside their loops, 80 for those with 3 or more, and 500 for others."},
		{infer.TimeFactor, 0.995, 442, "it may be off by up to 12, with 90 % confidence. Others are inferred from time alone: within a factor of 200 for procedures with 3 samples or more outside their loops, and 3000 for others."},
	} {
		got := ToldEntries(&infer.Profile{Common: tt.common, Counted: tt.counted, Samples: infer.Samples{Used: tt.used}})
		if !strings.HasSuffix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%d samples: %q, want %q", tt.used, got, tt.want)
		}
	}
}

// TestBlind: stacks without callers are said to lack them, and how to have them.
func TestBlind(t *testing.T) {
	for _, tt := range []struct {
		s    UsertimeStacks
		want string
	}{
		{UsertimeStacks{Samples: 100, Complete: 60, Bare: 40, uncalled: 40}, ""},
		{UsertimeStacks{Samples: 100, Cut: 100}, ""}, // Go's 8 frames
		{UsertimeStacks{Samples: 1000, Complete: 41, Cut: 7, Bare: 900, uncalled: 952}, "95.2% of the samples have no caller, "},
	} {
		got := tt.s.Blind()
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") || got != "" && !strings.Contains(got, "record --callers") {
			t.Errorf("%+v: %q, want %q", tt.s, got, tt.want)
		}
	}
}
