package truth

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestReadCover(t *testing.T) {
	c, err := ReadCover(strings.NewReader(`mode: count
example.com/b/b.go:9.2,9.10 1 26
example.com/a/c:d.go:5.28,6.14 1 27
example.com/b/b.go:5.28,6.14 2 18446744073709551615
example.com/b/b.go:9.2,9.10 1 4
`))
	want := "[{example.com/a/c:d.go {5 28} {6 14} 27} {example.com/b/b.go {5 28} {6 14} 18446744073709551615} {example.com/b/b.go {9 2} {9 10} 30}]"
	if err != nil || fmt.Sprint(c.Blocks) != want {
		t.Errorf("%v, %v; want %s", c, err, want)
	}
	for text, want := range map[string]string{
		"":                                                  "no block",
		"mode: atomic\n":                                    "line 1: no block",
		"mode: set\na/b.go:1.1,2.2 1 1":                     "line 1: mode set tells what ran, not how often",
		"mode: sometimes\na/b.go:1.1,2.2 1 1":               `line 1: mode "sometimes" is unknown`,
		"a/b.go:1.1,2.2 1 1":                                `want "mode: count"`,
		"mode: count\nb.go":                                 "line 2: \"b.go\": want FILE:LINE",
		"mode: count\n:1.1,2.2 1 1":                         "want FILE:LINE",
		"mode: count\nb.go:1.1,2.2 1":                       "want FILE:LINE",
		"mode: count\nb.go:0.1,2.2 1 1":                     `line or column "0"`,
		"mode: count\nb.go:1.1,2.-2 1 1":                    `line or column "-2"`,
		"mode: count\nb.go:1.1,99999999999.2 1 1":           `line or column "99999999999"`,
		"mode: count\nb.go:3.1,2.2 1 1":                     "ends before it starts",
		"mode: count\nb.go:1.1,2.2 x 1":                     `statements: "x"`,
		"mode: count\nb.go:1.1,2.2 1 -4":                    `executions: "-4"`,
		"mode: count\n" + strings.Repeat("a", maxCoverLine): "line 2: longer than",
	} {
		if _, err := ReadCover(strings.NewReader(text)); !errors.Is(err, ErrCover) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", text, err, want)
		}
	}
	if !IsCover([]byte("mode: set\n")) || IsCover([]byte("mode")) {
		t.Error("IsCover does not know a cover profile")
	}
}

// TestCoverLines: which lines are of one block alone.
func TestCoverLines(t *testing.T) {
	// 1 func f() {       4 } else {
	// 2     x := 1       5     y()
	// 3 if x {  z() }    6 }
	c := &Cover{Blocks: []CoverBlock{
		{"f.go", SourcePlace{1, 10}, SourcePlace{3, 7}, 1},
		{"f.go", SourcePlace{3, 7}, SourcePlace{4, 2}, 2},
		{"f.go", SourcePlace{4, 8}, SourcePlace{6, 2}, 3},
	}}
	if got := fmt.Sprint(c.lines()["f.go"]); got != "map[1:-1 2:0 3:-1 4:-1 5:2 6:2]" {
		t.Errorf("lines %s", got)
	}
}

// FuzzReadCover: any text gives an error, or blocks in order that read the same again.
func FuzzReadCover(f *testing.F) {
	f.Add("mode: count\ndemo/main.go:44.47,46.3 1 27\ndemo/main.go:46.3,47.9 2 0\n")
	f.Add("mode: atomic\na:b.go:1.1,1.1 0 18446744073709551615\n")
	f.Add("mode: set\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadCover(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrCover) {
				t.Fatal(err)
			}
			return
		}
		var again strings.Builder
		again.WriteString("mode: count\n")
		for i, b := range c.Blocks {
			if i > 0 && compareCoverBlocks(c.Blocks[i-1], b) >= 0 {
				t.Fatalf("%v before %v", c.Blocks[i-1], b)
			}
			fmt.Fprintf(&again, "%s:%d.%d,%d.%d 1 %d\n", b.File, b.Start.Line, b.Start.Column, b.End.Line, b.End.Column, b.N)
		}
		c.lines()
		if o, err := ReadCover(strings.NewReader(again.String())); err != nil || fmt.Sprint(o) != fmt.Sprint(c) {
			t.Fatalf("%v, %v, want %v", o, err, c)
		}
	})
}
