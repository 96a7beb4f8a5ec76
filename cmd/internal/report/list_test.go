package report

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/source"
)

// TestListFolds: nothing that is not shown goes unsaid.
func TestListFolds(t *testing.T) {
	doc := &List{Cycles: 100, ExecutedConf: infer.Low}
	for i := range 100 { // of which 40 to 49 and 70 to 79 are hot
		r := ListRow{Addr: Hex(image.Addr(i)), Block: Hex(image.Addr(i / 10)), Bytes: 4}
		switch i / 10 {
		case 4:
			r.Time = 0.03
		case 7:
			r.Time = 0.07
		}
		doc.Insts = append(doc.Insts, r)
	}
	for _, tt := range []struct {
		view ListView
		want []string // notes, and how many rows are between them
	}{
		{ListView{}, []string{"--- 70.0% of the time, 0x46 to 0x4f", "10", "--- 30.0% of the time, 0x28 to 0x31", "10",
			"... 80 instructions in 3 pieces, 320 bytes, 0.0% of the time"}},
		{ListView{Address: true}, []string{"... 40 instructions, 160 bytes, 0.0% of the time", "10",
			"... 20 instructions, 80 bytes, 0.0% of the time", "10", "... 20 instructions, 80 bytes, 0.0% of the time"}},
		{ListView{N: 15}, []string{"--- 70.0% of the time, 0x46 to 0x4f", "10", "--- 30.0% of the time, 0x28 to 0x31", "5",
			"... 85 instructions in 4 pieces, 340 bytes, 15.0% of the time"}},
		{ListView{All: true}, []string{"100"}},
	} {
		tt.view.Source = &source.Text{}
		l := NewListing(slices.Repeat([]Column{Left("")}, 9)...)
		doc.show(l, &tt.view)
		var b strings.Builder
		if err := l.Print(&b, Style{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		rows := 0
		flush := func() {
			if rows > 0 {
				got = append(got, strconv.Itoa(rows))
			}
			rows = 0
		}
		for line := range strings.Lines(b.String()) {
			switch line = strings.TrimSpace(line); {
			case line == "":
			case strings.HasPrefix(line, "---") || strings.HasPrefix(line, "..."):
				flush()
				got = append(got, line)
			default:
				rows++
			}
		}
		flush()
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v:\ngot  %q\nwant %q", tt.view, got, tt.want)
		}
	}
}

// TestListSource: lines are shown where they change, inlined calls where those do.
func TestListSource(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.c")
	if err := os.WriteFile(path, []byte("one\n\ttwo\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	s, err := source.NewText(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	inlined := []FrameRow{{"g", "/gone/b.c", 7}, {"h", path, 1}}
	doc := &List{Insts: []ListRow{
		{File: path, Line: 2, Function: "h"},
		{File: "/gone/b.c", Line: 1, Function: "f", Inlined: inlined},
		{File: "/gone/b.c", Line: 1, Function: "f", Inlined: inlined},
		{File: "/gone/b.c", Line: 0, Function: "f", Inlined: inlined},
		{File: "/gone/b.c", Line: 2, Function: "f", Inlined: inlined},
		{File: path, Line: 1, Function: "h"},
		{File: path, Line: 9, Function: "h"},
		{},
	}}
	l := NewListing(slices.Repeat([]Column{Left("")}, 9)...)
	doc.showCode(l, &ListView{Source: s}, 0, len(doc.Insts))
	var b strings.Builder
	l.Print(&b, Style{})
	var got []string
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, ".c:") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{"a.c:2      two", "b.c:1  [f in g b.c:7 in h a.c:1]", "b.c:2", "a.c:1  one  [h]", "a.c:9"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(s.Missing()) != 1 {
		t.Errorf("not shown: %q, want one file", s.Missing())
	}
	tree, err := source.NewText([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := tree.Line("/build/x/a.c", 1); text != "one" || !ok {
		t.Errorf("below --source: %q, %v", text, ok)
	}
}
