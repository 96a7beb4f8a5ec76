package main

import (
	"fmt"
	"io"

	"backfeed/cmd/internal/report"
	"backfeed/layout"
)

// A scored placement is one column of the text, one object of the JSON.
type scored struct {
	Placement string `json:"placement"`
	layout.Scores
}

// scoresOf judges the image as it is linked, in the order, with the blocks moved too,
// and gives what no placement can beat.
func scoresOf(order *layout.Order) []scored {
	return []scored{
		{"as linked", order.Before},
		{"functions ordered", order.After},
		{"blocks too", order.Split().Scores()},
		{"the possible", order.Possible()},
	}
}

// writeScores prints a column for each placement.
func writeScores(w io.Writer, path string, all []scored, color bool) error {
	return scoreTable(path, all).Write(w, color)
}

// scoreTable has a column for each placement.
func scoreTable(title string, all []scored) *report.Table {
	columns := []report.Column{report.Left(title)}
	for _, s := range all {
		columns = append(columns, report.Right(s.Placement))
	}
	t := report.NewTable(columns...)
	for _, row := range scoreRows {
		cells := []string{row.name}
		for i := range all {
			cells = append(cells, row.cell(&all[i].Scores))
		}
		t.Row(cells...)
	}
	return t
}

// scoreRows are what writeScores prints of each placement.
var scoreRows = []struct {
	name string
	cell func(*layout.Scores) string
}{
	{"ext-TSP score of blocks (more is better)", func(s *layout.Scores) string { return report.Count(s.ExtTSP) }},
	{"jumps taken, of transfers between blocks", func(s *layout.Scores) string { return shareOf(s.Taken, s.Transfers) }},
	{"score of calls (more is better)", func(s *layout.Scores) string { return report.Count(s.CallScore) }},
	{"mean distance of a call, in bytes", func(s *layout.Scores) string { return report.Count(s.Distance) }},
	{"bytes for 90, 99, 99.9 % of execution", func(s *layout.Scores) string { return covered(s.Bytes) }},
	{"cache lines of 64 bytes", func(s *layout.Scores) string { return covered(s.Lines) }},
	{"pages of 4 KiB", func(s *layout.Scores) string { return covered(s.Pages) }},
	{"pages of 2 MiB", func(s *layout.Scores) string { return covered(s.HugePages) }},
}

func shareOf(n, of float64) string {
	if of == 0 {
		return "-"
	}
	return report.Percent(n / of)
}

func covered(c layout.Coverage) string {
	return fmt.Sprintf("%d, %d, %d", c.For90, c.For99, c.For999)
}
