package report

import (
	"bytes"
	"strings"
	"testing"
)

// TestFixesOnce: what helps several findings is said once, with their names.
func TestFixesOnce(t *testing.T) {
	var out bytes.Buffer
	doc := NewCheckup([]Finding{
		{"sampling", "whole machine", false, "not permitted", "Run as root"},
		{"sampling", "tick", false, "not permitted", "Run as root"},
		{"sampling", "record", true, "works", ""},
		{"kernel", "BTF", false, "not in this kernel", "needs another"},
	})
	if err := doc.Text(&out, Style{}); err != nil {
		t.Fatal(err)
	}
	if _, fixes, _ := strings.Cut(out.String(), "\n\n"); fixes != "whole machine, tick: Run as root.\nBTF: needs another.\n" {
		t.Errorf("%q in\n%s", fixes, out.String())
	}
}
