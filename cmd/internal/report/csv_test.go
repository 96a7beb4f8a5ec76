package report

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
)

type csvInner struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

type csvShared struct {
	Samples uint64 `json:"samples"`
}

type csvRow struct {
	csvShared
	Name    string         `json:"name,omitempty"`
	CPI     *float64       `json:"cpi,omitempty"`
	Range   csvInner       `json:"range"`
	Other   *csvInner      `json:"other,omitempty"`
	Hidden  int            `json:"-"`
	Causes  []string       `json:"causes,omitempty"`
	Lost    map[string]int `json:"lost"`
	Cold    bool           `json:"cold"`
	private int
}

func TestWriteCSV(t *testing.T) {
	third := 1.0 / 3
	rows := []csvRow{
		{csvShared{7}, `operator,(a "b")`, &third, csvInner{0, 1e21}, &csvInner{2, 3}, 1, []string{"x", "y"}, map[string]int{"b": 2, "a": 1}, true, 1},
		{Name: "two\nlines \x1b[2J"},
	}
	want := `samples,name,cpi,range.least,range.most,other.least,other.most,causes,lost,cold
7,"operator,(a ""b"")",0.3333333333333333,0,1e+21,2,3,"[""x"",""y""]","{""a"":1,""b"":2}",true
0,two\nlines \x1b[2J,,0,0,,,,,false
`
	var b bytes.Buffer
	if err := WriteCSV(&b, rows); err != nil || b.String() != want {
		t.Errorf("%v\ngot:\n%s\nwant:\n%s", err, &b, want)
	}
	if all, err := csv.NewReader(&b).ReadAll(); err != nil || len(all) != 3 || all[1][1] != rows[0].Name {
		t.Errorf("read again: %q, %v", all, err)
	}
	b.Reset()
	if err := WriteCSV(&b, &rows[1].Range); err != nil || b.String() != "least,most\n0,0\n" {
		t.Errorf("one struct: %q, %v", &b, err)
	}
	b.Reset()
	if err := WriteCSV(&b, []csvInner{}); err != nil || b.String() != "least,most\n" {
		t.Errorf("no rows: %q, %v", &b, err)
	}
	if err := WriteCSV(&b, 7); err == nil {
		t.Error("7 has no rows, want an error")
	}
}

// FuzzCells: whatever a name is, a row stays one line of as many cells, in every format.
func FuzzCells(f *testing.F) {
	f.Add("std::vector<int>", "a|b")
	f.Add("`x`\\", "\n\r\x1b[2J")
	f.Add("=1+1", "\u2028\"q\",")
	f.Fuzz(func(t *testing.T, a, b string) {
		var out bytes.Buffer
		if err := WriteCSV(&out, struct{ A, B string }{a, b}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != 2 {
			t.Errorf("CSV has %d lines: %q", n, &out)
		}
		if rows, err := csv.NewReader(&out).ReadAll(); err != nil || rows[1][0] != csvText(a) || rows[1][1] != csvText(b) {
			t.Errorf("%q, %q: %q, %v", a, b, rows, err)
		}
		table := NewTable(Left("a"), Left("b"))
		table.Row(a, b)
		for _, style := range []Style{{}, {Width: 20}, {Markdown: true}} {
			out.Reset()
			if err := table.Print(&out, style); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if want := 2; !style.Markdown && len(lines) != want || style.Markdown && len(lines) != want+1 {
				t.Errorf("%+v: %q", style, lines)
			}
			if row := lines[len(lines)-1]; style.Markdown && strings.Count(strings.ReplaceAll(row, `\|`, ""), "|") != 3 {
				t.Errorf("not two cells: %s", row)
			}
		}
	})
}
