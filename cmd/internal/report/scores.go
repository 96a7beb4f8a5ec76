package report

import (
	"fmt"
	"io"
	"slices"

	"backfeed/layout"
)

// WriteScores prints a table for each of the counts, with a column for each placement.
func WriteScores(w io.Writer, path string, all []layout.Judged, style Style) error {
	heads := map[string]string{layout.OwnCounts: path, layout.HoldoutCounts: "on the counts of the holdout"}
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(s layout.Judged) bool { return s.Counts != all[0].Counts })
		if n < 0 {
			n = len(all)
		}
		if err := scoreTable(heads[all[0].Counts], all[:n]).Print(w, style); err != nil {
			return err
		}
		if all = all[n:]; len(all) > 0 {
			fmt.Fprintln(w)
		}
	}
	return nil
}

// scoreTable has a column for each placement.
func scoreTable(title string, all []layout.Judged) *Table {
	columns := []Column{Paths(title).Main()}
	for i, s := range all { // the first and the last are what others are compared with
		column := Right(s.Placement)
		if i > 0 && i < len(all)-1 {
			column = column.Drop(len(all) - i)
		}
		columns = append(columns, column)
	}
	t := NewTable(columns...)
	for _, row := range scoreRows {
		cells := []string{row.name}
		for i := range all {
			cells = append(cells, row.cell(&all[i].Scores))
		}
		t.Row(cells...)
	}
	return t
}

// scoreRows are what WriteScores prints of each placement.
var scoreRows = []struct {
	name string
	cell func(*layout.Scores) string
}{
	{"ext-TSP score of blocks (more is better)", func(s *layout.Scores) string { return Count(s.ExtTSP) }},
	{"jumps taken, of transfers between blocks", func(s *layout.Scores) string { return shareOf(s.Taken, s.Transfers) }},
	{"score of calls (more is better)", func(s *layout.Scores) string { return Count(s.CallScore) }},
	{"mean distance of a call, in bytes", func(s *layout.Scores) string { return Count(s.Distance) }},
	{"bytes for 90, 99, 99.9 % of execution", func(s *layout.Scores) string { return covered(s.Bytes) }},
	{"cache lines of 64 bytes", func(s *layout.Scores) string { return covered(s.Lines) }},
	{"I-cache lines missed, of 1000 instructions", func(s *layout.Scores) string { return missed(s.Misses) }},
	{"pages of 4 KiB", func(s *layout.Scores) string { return covered(s.Pages) }},
	{"pages of 2 MiB", func(s *layout.Scores) string { return covered(s.HugePages) }},
	{"execution of what was found", func(s *layout.Scores) string { return Percent(s.Placed) }},
}

func shareOf(n, of float64) string {
	if of == 0 {
		return "-"
	}
	return Percent(n / of)
}

func missed(n *float64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *n)
}

func covered(c layout.Coverage) string {
	return fmt.Sprintf("%d, %d, %d", c.For90, c.For99, c.For999)
}
