package main

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestFormats: every command that prints a table prints the same rows in every format.
func TestFormats(t *testing.T) {
	const mix, symfs = "/testdata/mix/samples.bfr", "/testdata/mix"
	counts := testtool.Write(t, t.TempDir(), "counts.json", must(t, "infer", root+mix, "--symfs", root+symfs, "--format", "json"))
	for _, args := range [][]string{
		{"images", root + mix, "--symfs", root + symfs},
		{"prof", root + mix, "--symfs", root + symfs},
		{"infer", root + mix, "--symfs", root + symfs},
		{"infer", root + mix, "--symfs", root + symfs, "--places", "3"},
		{"check", root + mix, "--symfs", root + symfs},
		{"verify", counts, "--truth", root + "/testdata/mix/truth.json.gz"},
		{"list", "lookup", root + mix, "--symfs", root + symfs},
		{"topstalls", root + mix, "--symfs", root + symfs},
		{"whatcg", root + mix, "--symfs", root + symfs},
		{"whatcg", "--cause", "d", root + mix, "--symfs", root + symfs},
		{"doctor"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			if args[0] == "doctor" {
				testtool.Live(t, "has the kernel load programs")
			}
			if !json.Valid([]byte(must(t, append(args, "--format", "json")...))) {
				t.Error("the JSON is none")
			}
			text := must(t, append(args, "--format", "csv")...)
			rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
			if err != nil || len(rows) < 2 {
				t.Errorf("CSV of %d rows: %v\n%s", len(rows), err, text)
			}
			md := must(t, append(args, "--format", "markdown")...)
			columns := 0
			for line := range strings.Lines(md) {
				if !strings.HasPrefix(line, "| ") {
					columns = 0
					continue
				}
				n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
				if columns != 0 && n != columns {
					t.Errorf("%d columns after %d: %s", n-1, columns-1, line)
				}
				columns = n
			}
			if !strings.Contains(md, "| --- |") && !strings.Contains(md, "| ---: |") {
				t.Errorf("no table in\n%s", md)
			}
		})
	}
}
