package emit

import (
	"errors"
	"fmt"
	"testing"

	"backfeed/feedback"
)

// TestLeftOut: what a profile lacks is said with what it is worth, and with what to do only where that helps.
func TestLeftOut(t *testing.T) {
	type weights map[feedback.Reason]float64
	for _, tt := range []struct {
		name    string
		skipped feedback.Skipped
		dropped weights
		weight  float64
		want    string
	}{
		{"nothing", feedback.Skipped{}, nil, 1, ""},
		{"cold", feedback.Skipped{feedback.SkipUnseen: 6150}, weights{feedback.SkipUnseen: 20}, 980,
			"; left out: 6150 calls between procedures without samples (2.0% of the weight): nothing to do"},
		{"much is not seen", feedback.Skipped{feedback.SkipUnseen: 6150, feedback.SkipIndirect: 3}, weights{feedback.SkipUnseen: 500}, 500,
			"; left out: 6150 calls between procedures without samples (50.0% of the weight), 3 of other kinds (0.0%): to have more, record for longer"},
		{"two ways to see more", feedback.Skipped{feedback.SkipUnseen: 9, feedback.SkipUnshown: 2}, weights{feedback.SkipUnseen: 600, feedback.SkipUnshown: 100}, 300,
			"; left out: 9 calls between procedures without samples (60.0% of the weight), 2 indirect calls of which no sample shows the target (10.0% of the weight): to have more, " +
				"record for longer, or with --calibrate, which sees where more of them lead"},
		{"line 0", feedback.Skipped{feedback.SkipNoInstLine: 8}, weights{feedback.SkipNoInstLine: 100}, 900,
			"; left out: 8 instructions without a line (10.0% of the weight): nothing to do"},
		{"not in the source", feedback.Skipped{feedback.SkipAdded: 7}, weights{feedback.SkipAdded: 900}, 100,
			"; left out: 7 calls of the runtime that the compiler adds (90.0% of the weight): nothing to do"},
		{"jumps that nobody can follow", feedback.Skipped{feedback.SkipIncomplete: 237}, weights{feedback.SkipIncomplete: 302}, 698,
			"; left out: 237 procedures with unknown targets of indirect jumps (30.2% of the weight): to have more, compile with -fno-jump-tables what has a switch there; " +
				"llvm-bolt leaves the blocks of the others in their order too"},
		{"all is left out", feedback.Skipped{feedback.SkipNoLines: 2}, weights{feedback.SkipNoLines: 10}, 0,
			"; left out: 2 procedures without line numbers (100.0% of the weight): to have more, compile with -g, or have the debug file where --symfs looks"},
		{"no weights", feedback.Skipped{feedback.SkipNoLines: 2, feedback.SkipNoInstLine: 1}, nil, 0,
			"; left out: 2 procedures without line numbers, 1 instructions without a line: to have more, compile with -g, or have the debug file where --symfs looks"},
	} {
		if got := leftOut(tt.skipped, tt.dropped, tt.weight); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestAdvised: a profile that would hold nothing is an error that says what to do, where something can be done.
func TestAdvised(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("app: %w", &feedback.Empty{What: "bolt: app: no edges", Why: feedback.SkipNoSymbol, N: 201}),
			"app: bolt: app: no edges (procedures without a symbol of their own: 201): nothing to write: to have a profile, keep the symbol table: do not strip"},
		{&feedback.Empty{What: "llvm: no function has both counts and lines", Why: feedback.SkipImageLines, N: 1},
			"llvm: no function has both counts and lines (images without a line table: 1): nothing to write: to have a profile, compile with -g, or have the debug file where --symfs looks"},
		{&feedback.Empty{What: "go: app: no calls", Why: feedback.SkipAdded, N: 3}, "go: app: no calls (calls of the runtime that the compiler adds: 3): nothing to write"},
		{&feedback.Empty{What: "go: no calls"}, "go: no calls: nothing to write"},
		{feedback.ErrUnfit, "not for this format"},
	} {
		if got := Advised(tt.err); got.Error() != tt.want || !errors.Is(got, tt.err) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
