package prose

import (
	"testing"
)

// TestDefinitions: terms stand beside what they mean, where they are short, and paragraphs go
// on after them.
func TestDefinitions(t *testing.T) {
	const text = "Of these:\na  one two three\n   four\na long term there  five\nd\n   six\nAnd on\nit goes.\n"
	const want = "Of these:\na  one two three\n   four\na long term there\n   five\nd  six\nAnd on it goes.\n"
	if got := Wrap(text, 17); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTables: cells of tables are all printed, at any width.
func TestTables(t *testing.T) {
	table := "| name | what it is for | needs |\n| --- | --- | ---: |\n| `a\\|b` | one two three four | five |\n| c | six | seven |\n"
	for _, tt := range []struct {
		width int
		want  string
	}{
		{80, "name   what it is for      needs\n`a|b`  one two three four  five\nc      six                 seven\n"},
		{24, "`a|b`\n    what it is for: one\n      two three four\n    needs: five\n\nc\n    what it is for: six\n    needs: seven\n"},
	} {
		if got := Wrap(table, tt.width); got != tt.want {
			t.Errorf("width %d: got\n%swant\n%s", tt.width, got, tt.want)
		}
	}
}

// TestTableHeads: heads that are wider than the cells below them take several lines before rows are taken apart, which have no room for
// the head of their first column.
func TestTableHeads(t *testing.T) {
	const table = "| recordings a side | differ by | 10 % found |\n| ---: | --- | ---: |\n| 2 | 1 % | 72 % |\n| 30 | neighbours alike | 100 % |\n"
	for _, tt := range []struct {
		width int
		want  string
	}{
		{50, "recordings a side  differ by         10 % found\n2                  1 %               72 %\n30                 neighbours alike  100 %\n"},
		{40, "recordings                    10 %\na side      differ by         found\n2           1 %               72 %\n30          neighbours alike  100 %\n"},
		{34, "2\n    differ by: 1 %\n    10 % found: 72 %\n\n30\n    differ by: neighbours alike\n    10 % found: 100 %\n"},
	} {
		if got := Wrap(table, tt.width); got != tt.want {
			t.Errorf("width %d: got\n%swant\n%s", tt.width, got, tt.want)
		}
	}
}

// TestWrapList: items of lists go on below their first word.
func TestWrapList(t *testing.T) {
	const text = "Things:\n\n- one two three\n  four five\n- six\n\n- a\n  b\n\n1. go on\n   and on\n2. end\n"
	const want = "Things:\n\n- one two\n  three four\n  five\n- six\n\n- a b\n\n1. go on and\n   on\n2. end\n"
	if got := Wrap(text, 12); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
