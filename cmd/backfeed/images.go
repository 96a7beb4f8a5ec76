package main

import (
	"fmt"
	"io"
	"slices"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
)

var imagesCmd = &command{
	name: "images", args: "SRC... [--symfs DIR]", short: "list the sampled images, and whether they can be found here",
	reads: symfsHelp,
	examples: `backfeed images app.bfr
backfeed images /var/lib/backfeed --symfs ./builds`,
	run: runImages,
}

// An imageRow is one sampled image, or one reason why samples have none.
type imageRow struct {
	Path    string `json:"path,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	Lost    string `json:"lost,omitempty"`
	Samples uint64 `json:"samples"`
	Probed  int    `json:"probed,omitempty"`  // places whose executions probes observed
	Walked  int    `json:"walked,omitempty"`  // that walks passed through
	Counted int    `json:"counted,omitempty"` // that were counted in other runs
	State   string `json:"state,omitempty"`
	File    string `json:"file,omitempty"`
}

func runImages(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	src, err := c.read(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	rec := src.Recording
	rows := imageRows(src)
	return c.print("-", format, itemList[imageRow]{"backfeed.images/2", rows}, rows, func(w io.Writer, style report.Style) error {
		return writeImages(w, rows, rec.Samples(), style)
	})
}

// imageRows lists images, then losses, each by falling samples.
func imageRows(src *input.Session) []imageRow {
	rows, rec := []imageRow{}, src.Recording
	samples := rec.ByImage()
	for _, id := range report.MostFirst(samples) {
		row := imageRow{Path: id.Path, Samples: samples[id]}
		exact := rec.Observed(func(o sample.ImageID) bool { return o == id })
		row.Probed, row.Walked, row.Counted = exact.Probed, exact.Walked, exact.Counted
		if !id.Build.IsZero() {
			row.BuildID = id.Build.String()
		}
		im, err := src.Open(id)
		row.State = input.State(err)
		if err == nil {
			row.File = im.Path
		}
		rows = append(rows, row)
	}
	losses := rec.Lost()
	for _, why := range report.MostFirst(losses) {
		rows = append(rows, imageRow{Lost: string(why), Samples: losses[why]})
	}
	return rows
}

func writeImages(w io.Writer, rows []imageRow, total uint64, style report.Style) error {
	columns := []report.Column{report.Right("samples"), report.Right("share")}
	exact := slices.ContainsFunc(rows, func(r imageRow) bool { return r.Probed+r.Counted > 0 })
	walked := slices.ContainsFunc(rows, func(r imageRow) bool { return r.Walked > 0 })
	if exact {
		columns = append(columns, report.Right("probed"), report.Right("counted"))
	}
	if walked {
		columns = append(columns, report.Right("walked"))
	}
	t := report.NewTable(append(columns, report.Left("state"), report.Left("build ID").Drop(1), report.Paths("image").Main())...)
	for _, r := range rows {
		state, name := r.State, r.Path
		if r.Lost != "" {
			state, name = "lost", fmt.Sprintf("(%s)", r.Lost)
		}
		cells := []string{report.Integer(r.Samples), report.Share(r.Samples, total)}
		if exact {
			cells = append(cells, report.Integer(uint64(r.Probed)), report.Integer(uint64(r.Counted)))
		}
		if walked {
			cells = append(cells, report.Integer(uint64(r.Walked)))
		}
		t.Row(append(cells, state, r.BuildID, name)...)
	}
	return t.Print(w, style)
}
