package main

import (
	"io"

	"backfeed/cmd/internal/report"
)

var importCmd = &command{
	name: "import", args: "SRC... -o FILE", short: "turn recordings of other tools into one of backfeed",
	long: srcHelp, run: runImport,
}

var mergeCmd = &command{
	name: "merge", args: "SRC... -o FILE", short: "add up recordings",
	long: srcHelp + "\n\nThe order does not matter: the same recordings give the same bytes.", run: runImport,
}

// runImport is both commands: reading adds up, and what is written is backfeed's.
func runImport(c *cli, args []string) error {
	fs := c.flags()
	c.selects()
	out := fs.StringP("output", "o", "", "write the recording to `file`")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *out == "" {
		return failf(exitUsage, "%s: -o FILE is missing; \"-\" is standard output", c.cmd.name)
	}
	if *out == "-" && isTerminal(c.stdout) {
		return failf(exitUsage, "%s: a recording is not for a terminal; name a file with -o", c.cmd.name)
	}
	rec, err := c.read(fs.Args())
	if err != nil {
		return err
	}
	err = c.write(*out, func(w io.Writer) error {
		_, err := w.Write(rec.Encode())
		return err
	})
	if err != nil {
		return err
	}
	total, losses := rec.Samples(), lost(rec)
	if list := lossList(losses, total); list != "" {
		c.warn("%d samples; without a place in an image: %s", total, list)
	} else {
		c.warn("%d samples of %s images", total, report.Integer(uint64(len(sampled(rec)))))
	}
	return nil
}
