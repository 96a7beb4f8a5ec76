package main

import (
	"io"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
)

var imagesCmd = &command{
	name: "images", args: "SRC... [--symfs DIR]", short: "list the sampled images, and whether they can be found here",
	reads: symfsHelp,
	examples: `backfeed images app.bfr
backfeed images /var/lib/backfeed --symfs ./builds`,
	run: runImages,
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
	rows := report.NewImages(rec, src.Open, input.State)
	return c.print("-", format, report.ItemsOf("backfeed.images/2", rows), rows, func(w io.Writer, style report.Style) error {
		return report.WriteImages(w, rows, rec.Samples(), style)
	})
}
