package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestExecutionsWithin: beside executions inferred from time alone, prof, infer and list say what they are within, as documents do.
func TestExecutionsWithin(t *testing.T) {
	args := []string{mixDir + "/samples.bfr", "--symfs", mixDir}
	of := func(cmd ...string) string { return must(t, append(cmd, args...)...) }
	var doc struct {
		Images []struct {
			Procs []struct {
				Procedure  string  `json:"procedure"`
				Samples    uint64  `json:"samples"`
				Confidence string  `json:"confidence"`
				Factor     float64 `json:"entries_factor"`
			} `json:"procs"`
		} `json:"images"`
	}
	if err := json.Unmarshal([]byte(of("infer", "--format", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	prof, infer := of("prof"), of("infer")
	loops := false
	for _, im := range doc.Images {
		for _, p := range im.Procs {
			within := fmt.Sprintf("%gx", p.Factor)
			if p.Confidence == "none" && p.Factor == 0 && p.Samples == 0 {
				continue // a stack has it, and nothing says how often it ran
			}
			if p.Factor < 12 {
				t.Errorf("%s: %d samples, within %s", p.Procedure, p.Samples, within)
			}
			if p.Samples == 0 { // not listed
				continue
			}
			loops = loops || p.Samples >= 8 && p.Factor > 12
			for _, text := range []string{prof, infer} {
				if !hasRow(text, p.Procedure, within) {
					t.Errorf("%s is within %s, and a table does not say so:\n%s", p.Procedure, within, text)
				}
			}
			if list, want := of("list", p.Procedure), fmt.Sprintf("within a factor of %g ", p.Factor); !strings.Contains(list, want) {
				t.Errorf("list %s: no %q", p.Procedure, want)
			}
		}
	}
	if !loops {
		t.Error("no procedure has its samples in loops")
	}
}

// hasRow reports whether a line of text has a cell, and a name at its end.
func hasRow(text, name, cell string) bool {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); slices.Contains(f, cell) && f[len(f)-1] == name {
			return true
		}
	}
	return false
}
