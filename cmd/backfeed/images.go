package main

import (
	"context"
	"io"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
)

var imagesCmd = &command{
	name: "images", args: "SRC... [--symfs DIR] [--copy-to DIR]", short: "list the sampled images, and whether they can be found here",
	reads: symfsHelp,
	long: `--copy-to keeps the images that are found, and their separate debug files, below a directory by their build IDs, where
--symfs finds them when the files have been replaced. What is there already stays.

Processes begun are those that began their program, or mapped the library, while they were recorded: none of a server that ran before.`,
	examples: `backfeed images app.bfr
backfeed images /var/lib/backfeed --symfs ./builds
backfeed images app.bfr --copy-to ./builds`,
	run: runImages,
}

func runImages(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	dir := fs.String("copy-to", "", "copy the images that are found, and their debug files, below `dir`")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	src, err := c.read(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	rec := src.Recording
	if *dir != "" {
		copies, err := src.CopyImages(context.Background(), input.BuildDir(*dir))
		if err != nil {
			return err
		}
		c.warn("%s: %v; next: --symfs %s", *dir, copies, prose.ShellWord(*dir))
	}
	rows := report.NewImages(rec, src.Open, input.State)
	return c.print("-", format, report.ItemsOf("backfeed.images/2", rows), rows, func(w io.Writer, style report.Style) error {
		return report.WriteImages(w, rows, rec.Samples(), style)
	})
}
