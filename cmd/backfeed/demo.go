package main

import (
	"backfeed/cmd/internal/demo"
)

var demoCmd = &command{
	name: "demo", args: "[--recorder auto|perf|ptrace|pprof] [--dir DIR]", short: "do the whole job on a sample program, and measure what it brings",
	long: `Builds a Go program, records it, infers what ran, writes default.pgo, builds it again with -pgo, and
compares the two builds. It needs the go command and takes about a minute.

The recorder is perf where the kernel permits it (` + "`backfeed doctor`" + ` says whether), or else ptrace, or, where that
is refused too, pprof, which is the program's own runtime/pprof profile. With --dir, the source, the builds and the profile stay
in that directory.`,
	examples: `backfeed demo
backfeed demo --recorder pprof --dir ~/backfeed-demo`,
	run: runDemo,
}

func runDemo(c *cli, args []string) error {
	fs := c.flags()
	recorder := c.choice("recorder", "how to record", "auto", "perf", "ptrace", "pprof")
	dir := fs.String("dir", "", "work in `dir` and leave the files there")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return c.usage(err)
	}
	return demo.Run(demo.Options{Dir: *dir, Recorder: recorder.Value, Out: c.stdout, Style: c.style("-"), Notify: notices{c}})
}
