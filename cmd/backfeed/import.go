package main

var importCmd = &command{
	name: "import", args: "SRC... [--symfs DIR] -o FILE", short: "turn recordings of other tools into one of backfeed",
	long: symfsHelp + `

Of what was counted exactly, each block of instructions that ran gets its number of executions. Added
to a recording of the same program (` + "`backfeed merge`" + `, or both named as SRC), it is kept beside the samples.`, run: runImport,
}

// runImport reads and writes: what is written is backfeed's.
func runImport(c *cli, args []string) error {
	fs := c.flags()
	c.symfs()
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
