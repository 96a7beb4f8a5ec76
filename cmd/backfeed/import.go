package main

var importCmd = &command{
	name: "import", args: "SRC... -o FILE", short: "turn recordings of other tools into one of backfeed",
	long: srcHelp, run: runImport,
}

// runImport reads and writes: what is written is backfeed's.
func runImport(c *cli, args []string) error {
	fs := c.flags()
	c.selects()
	out := fs.StringP("output", "o", "", "write the recording to `file`")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if err := c.wantsFile(*out, "a recording"); err != nil {
		return err
	}
	rec, err := c.read(fs.Args())
	if err != nil {
		return err
	}
	return c.writeRecording(*out, rec)
}
