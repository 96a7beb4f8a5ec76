package report

import (
	"strings"
	"testing"
)

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
