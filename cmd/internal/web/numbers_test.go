package web

import (
	"math"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/infer/compare"
)

// TestOneMeaning: a number of a page is that of the same name in text and JSON: cycles per instruction, the
// ratio of actual to ideal time, and what the model expects.
func TestOneMeaning(t *testing.T) {
	src := sourceOf(t, "mix", "samples.bfr")
	v := viewOf(t, src)
	same := func(what, name string, page, text float64) {
		t.Helper()
		if !(math.Abs(page-text) <= 1e-9*math.Abs(page)) {
			t.Errorf("%s of %s: %v in the page, %v in the document", what, name, page, text)
		}
	}
	side := compare.Side{Recording: src.Recording, Profile: src.Profile}
	diff := report.NewRecordingDiff(compare.Recordings(side, side, compare.What{}), 0)
	compared := 0
	for _, p := range v.procs {
		doc := report.NewList(src.Profile, v.x, report.Subject{Image: p.ip, Result: p.r})
		if doc.CPI == nil {
			continue
		}
		compared++
		same("CPI", doc.Procedure, p.row.CPI, *doc.CPI)
		same("actual / ideal", doc.Procedure, p.row.Ratio, (doc.Cycles-doc.Uncounted)/doc.Ideal)
		for _, r := range diff.Rows {
			if r.Name == doc.Name && r.Old.CPI != nil {
				same("CPI of diff", doc.Procedure, p.row.CPI, *r.Old.CPI)
			}
		}
		cycles, executions := 0.0, 0.0
		for _, r := range doc.Insts {
			if r.Each != nil {
				cycles, executions = cycles+*r.Each*r.Executions, executions+r.Executions
			}
		}
		same("CPI from cycles per execution", doc.Procedure, p.row.CPI, cycles/executions)
	}
	if compared < 5 {
		t.Errorf("%d procedures with a CPI", compared)
	}

	page := map[string]float64{}
	for _, r := range report.Causes(&v.total) {
		page[r.Name] = r.Most
	}
	static := 0
	for _, r := range report.SpentRows(&v.total) {
		if r.Kind == "static" {
			static++
			same("share", r.Cause, page["static: "+r.Cause], r.Share)
			delete(page, "static: "+r.Cause)
		}
	}
	for name := range page {
		if strings.HasPrefix(name, "static: ") {
			t.Errorf("the page has %s, whatcg has not", name)
		}
	}
	if static < 3 {
		t.Errorf("%d rows of what the model expects", static)
	}
}
