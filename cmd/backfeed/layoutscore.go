package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
)

// A scored placement is one column of the text, one object of the JSON.
type scored struct {
	Placement string `json:"placement"`
	Counts    string `json:"counts"` // what it is scored on: "own", or "holdout"
	layout.Scores
}

// Names of what a placement is scored on.
const (
	ownCounts     = "own"
	holdoutCounts = "holdout"
)

const layoutScoresHelp = `Scores say what a placement is worth by the counts, whoever made it: that of blocks is the ext-TSP
score of LLVM's and BOLT's block order, in executions; a jump is taken where control does not run on;
bytes, cache lines and pages are the fewest that hold 90, 99 and 99.9 % of the executed instructions.
They are given for the image as it is linked; with its functions in the order, as linkers can do; with
blocks moved too and cold ones apart, as llvm-bolt and Propeller can; and for an upper bound,
which no placement can beat and none need reach. --relinked scores what a linker or llvm-bolt really made of it, and says
of how much of the execution it found the code there. --holdout scores the same on other samples of
the same image, beside an order made from those: what is lost to inputs that differ.`

// A judgement is what the flags say of scores.
type judgement struct {
	holdout  *[]string
	relinked *string
}

// judgement defines the flags that ask for more scores.
func (c *cli) judgement() *judgement {
	return &judgement{
		holdout:  c.fs.StringArray("holdout", nil, "for text and json: score the order on the samples of `SRC` too, which have no part in it; may be given again"),
		relinked: c.fs.String("relinked", "", "for text and json: score `file` too, the image as a linker or llvm-bolt has ordered it"),
	}
}

// check refuses flags that the target has no use for.
func (j *judgement) check(target string) error {
	if target != "text" && target != "json" && (len(*j.holdout) > 0 || *j.relinked != "") {
		return errors.New("--holdout and --relinked go with --for text or json")
	}
	return nil
}

// scoresOf judges the image as it is linked, in the order, with the blocks moved too,
// and returns what no placement can beat.
func scoresOf(order *layout.Order) []scored {
	return []scored{
		{"as linked", ownCounts, order.Before},
		{"functions ordered", ownCounts, order.After},
		{"blocks too", ownCounts, order.Split().Scores()},
		{"upper bound", ownCounts, order.UpperBound()},
	}
}

// heldOut is scoresOf on the counts of a holdout, beside the order made from those.
func heldOut(order, holdout *layout.Order) []scored {
	procs := holdout.Procs()
	return []scored{
		{"as linked", holdoutCounts, holdout.Before},
		{"functions ordered", holdoutCounts, order.Whole().With(procs).Scores()},
		{"blocks too", holdoutCounts, order.Split().With(procs).Scores()},
		{"blocks by the holdout", holdoutCounts, holdout.Split().Scores()},
		{"upper bound", holdoutCounts, holdout.UpperBound()},
	}
}

// scores returns those of an order for image im, on its own counts and on those of the
// holdout, which may be nil.
func (j *judgement) scores(order *layout.Order, im *image.Image, holdout *layout.Order) ([]scored, error) {
	all := [][]scored{scoresOf(order)}
	orders := []*layout.Order{order}
	if holdout != nil {
		all, orders = append(all, heldOut(order, holdout)), append(orders, holdout)
	}
	if *j.relinked != "" {
		relinked, err := image.Open(*j.relinked, image.Options{})
		if err != nil {
			return nil, err
		}
		defer relinked.Close()
		for i, o := range orders {
			last := len(all[i]) - 1
			s := layout.Relinked(o.Procs(), im, relinked).Scores()
			if s.Placed == 0 {
				return nil, fail.Errorf(fail.Nothing, "--relinked: %s has none of the code that ran: is it a build of the same program?", *j.relinked)
			}
			all[i] = slices.Insert(all[i], last, scored{"relinked", all[i][last].Counts, s})
		}
	}
	return slices.Concat(all...), nil
}

// of reads what the flags name, and returns the scores of an order for ip, the image
// called name.
func (j *judgement) of(c *cli, name string, order *layout.Order, ip *infer.ImageProfile, opt *input.Options) ([]scored, error) {
	if len(*j.holdout) == 0 {
		return j.scores(order, ip.Image, nil)
	}
	src, err := c.inferredAlso(*j.holdout, opt)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	held, err := src.Image(name)
	if err != nil {
		return nil, fmt.Errorf("--holdout: %w", err)
	}
	return j.scores(order, ip.Image, layout.Functions(held))
}

// writeScores prints a table for each of the counts, with a column for each placement.
func writeScores(w io.Writer, path string, all []scored, style report.Style) error {
	heads := map[string]string{ownCounts: path, holdoutCounts: "on the counts of the holdout"}
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(s scored) bool { return s.Counts != all[0].Counts })
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
func scoreTable(title string, all []scored) *report.Table {
	columns := []report.Column{report.Paths(title).Main()}
	for i, s := range all { // the first and the last are what others are compared with
		column := report.Right(s.Placement)
		if i > 0 && i < len(all)-1 {
			column = column.Drop(len(all) - i)
		}
		columns = append(columns, column)
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
	{"execution of what was found", func(s *layout.Scores) string { return report.Percent(s.Placed) }},
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
