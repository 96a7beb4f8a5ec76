package report

import (
	"strings"
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

// TestDecisionText: what is clear is listed, and what is not is one line, unless all is asked for; a comment has no more
// rows than people read.
func TestDecisionText(t *testing.T) {
	doc := func(clear, noise int, all bool) *DecisionDiff {
		d := &DecisionDiff{Consumer: "go", Clear: clear, Unclear: all}
		for i := range clear + noise {
			d.Changes = append(d.Changes, DecisionChange{Kind: feedback.Inline, New: feedback.Hot, Site: "a", Callee: "b", NewShare: 0.02 / float64(i+1), Clear: i < clear})
		}
		return d
	}
	const unclear = "Not clear: "
	for _, tt := range []struct {
		name     string
		doc      *DecisionDiff
		markdown bool
		rows     int // beside those of the heading
		has      []string
		lacks    []string
	}{
		{"both", doc(2, 30, false), false, 2, []string{unclear + "30, each of 0.7% of the weight or less", "--unclear lists them"}, []string{"noise"}},
		{"both, all", doc(2, 30, true), false, 32, []string{"noise"}, []string{unclear}},
		{"clear alone", doc(2, 0, false), false, 2, nil, []string{unclear}},
		{"noise alone", doc(0, 1, false), false, 0, []string{unclear + "1,"}, nil},
		{"comment", doc(2, 300, false), true, 2, []string{unclear + "300,"}, []string{"noise"}},
		{"comment, many clear", doc(70, 300, false), true, 50, []string{"More that are clear: 20, none of them hotter", unclear + "300,"}, nil},
		{"comment, all", doc(2, 300, true), true, 200, []string{unclear + "102,"}, []string{"--unclear"}},
	} {
		var b strings.Builder
		if err := tt.doc.Text(&b, Style{Markdown: tt.markdown}); err != nil {
			t.Fatal(err)
		}
		rows := strings.Count(b.String(), "a -> b")
		if rows != tt.rows {
			t.Errorf("%s: %d rows, want %d:\n%s", tt.name, rows, tt.rows, b.String())
		}
		for _, has := range tt.has {
			if !strings.Contains(b.String(), has) {
				t.Errorf("%s: no %q:\n%s", tt.name, has, b.String())
			}
		}
		for _, lacks := range tt.lacks {
			if strings.Contains(b.String(), lacks) {
				t.Errorf("%s: %q:\n%s", tt.name, lacks, b.String())
			}
		}
	}
}
