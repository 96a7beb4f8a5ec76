package report

import (
	"encoding/json"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestOptimize pins the report of optimize, as text, as Markdown and as CSV, of a document that is by the schema.
func TestOptimize(t *testing.T) {
	text := testtool.Read(t, "testdata/optimize.json")
	if err := testtool.Schema(t, testtool.Read(t, "../../backfeed/optimize.schema.json"))(text); err != nil {
		t.Fatal(err)
	}
	var doc Optimize
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for name, style := range map[string]Style{"optimize.txt": {Width: 110}, "optimize.md": {Markdown: true}} {
		var b strings.Builder
		if err := doc.Text(&b, style); err != nil {
			t.Fatal(err)
		}
		testtool.Golden(t, "testdata/"+name, b.String())
	}
	var b strings.Builder
	if err := WriteCSV(&b, doc.Rows()); err != nil {
		t.Fatal(err)
	}
	testtool.Golden(t, "testdata/optimize.csv", b.String())
}

// TestUnsure: where a gain may be hidden, it is said by what, and what to do; not where nothing is hidden.
func TestUnsure(t *testing.T) {
	busy := &OptimizeMachine{Own: .3, Others: .55, Steal: .15}
	for _, tt := range []struct {
		name   string
		ratios []OptimizeRatio
		m      *OptimizeMachine
		want   []string
	}{
		{"narrow", []OptimizeRatio{{12, .999, .995, 1.004}}, busy, nil},
		{"slower", []OptimizeRatio{{12, 1.05, 1.01, 1.11}}, busy, nil},
		{"busy", []OptimizeRatio{{12, 1.05, .98, 1.11}, {12, .97, .93, 1.04}}, busy, []string{"by less than 11.0 %", "other processes had 55.0% of the processors' time", "15.0% (steal)", "--again"}},
		{"idle", []OptimizeRatio{{12, .97, .93, 1.04}}, &OptimizeMachine{Own: .5, Others: .01, Idle: .49}, []string{"was not busy", "`pairs`"}},
		{"not known", []OptimizeRatio{{12, .97, .93, 1.04}}, nil, []string{"is not known"}},
	} {
		target := &OptimizeTarget{State: OptimizeKeptOld, Machine: tt.m}
		for _, r := range tt.ratios {
			target.Candidates = append(target.Candidates, OptimizeCandidate{First: &r})
		}
		got := target.unsure()
		if (got == "") != (tt.want == nil) {
			t.Errorf("%s: %q", tt.name, got)
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", tt.name, got, want)
			}
		}
		if target.State = OptimizeBetter; target.unsure() != "" {
			t.Errorf("%s: %q though one is better", tt.name, target.unsure())
		}
	}
}
