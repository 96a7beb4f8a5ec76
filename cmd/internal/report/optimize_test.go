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
