package main

import (
	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/record"
	"backfeed/feedback/gate"
	"backfeed/sample"
)

var pgoCmd = &command{
	name: "pgo", args: "[-o default.pgo] [-F HZ] [-d TIME] [-p PID] [-- CMD ARG...]", short: "record a Go program and write its profile for go build",
	long: `This is record, infer and emit go in one. The Go program with the most samples is the one that the
profile is about, but for Go's own tools; CMD may be a script or a load generator that starts it, or go run or
go test, which build a program and delete it.

As default.pgo in the directory of package main, go build uses it without being told; -pgo=FILE names any
other. The command to build with is printed in the end. Keep the binary: its profile can be made anew for as
long as it is there, from this and other recordings of it.`,
	examples: `backfeed pgo -- ./server -its -flags
backfeed pgo -p 1234 -d 60 -o default.pgo
backfeed pgo -o bench.pgo -- go test -bench . ./parser
go build -pgo=default.pgo .`,
	run: runPGO,
}

func runPGO(c *cli, args []string) error {
	defer unread()()
	fs := c.flags()
	out := fs.StringP("output", "o", "default.pgo", "write the profile to `file`")
	flags := c.recordFlags()
	want := fs.String("image", "", "write about the image with that `path` or build ID")
	ifChanged := c.ifChanged()
	if err := fs.Parse(args); err != nil {
		return c.usage(err)
	}
	if err := flags.calibrate.check(); err != nil {
		return c.usage(err)
	}
	if flags.calibrate.dry {
		if err := fs.Refuse("--dry-run records nothing", "output", "image", "if-changed"); err != nil {
			return c.usage(err)
		}
	}
	keep, err := usedBy(*ifChanged, "go", *out)
	if err != nil {
		return c.usage(err)
	}
	hold := &input.Running{Proc: "/proc", Fresh: new(input.Fresh)} // go run and go test delete what they run
	defer hold.Close()
	rec, opt, stats, err := c.recorded(flags, recordTo{file: *out}, "pgo: a pprof profile", hold)
	if err != nil || flags.calibrate.dry {
		return err
	}
	src, err := c.inferredOf(rec, *want, hold)
	if err != nil {
		return err
	}
	defer src.Close()
	if *want != "" {
		ip, err := src.Image(*want)
		if err != nil {
			return err
		}
		*want = emit.NameOf(ip.ID)
	}
	var built sample.ImageID
	wrote, err := c.emit(*out, keep, emit.Go, src, emit.Options{Image: *want, Wrote: &built})
	if err != nil {
		return err
	}
	c.tellThin(src, record.OrRaise(opt.Frequency))
	if wrote {
		c.tellGoBuild(*out, src, built)
	}
	return record.CommandError(opt, stats)
}

// isThin reports whether so many samples of a recording are few for a profile, and nothing was counted exactly.
func isThin(samples uint64, rec *sample.Recording) bool {
	return samples < gate.FewSamples && rec.Observed(nil).Counted == 0
}

// orMore is what brings more samples of a recording that is there already, beside a longer one.
const orMore = ", at a higher rate (-F), or merge several recordings"

// tellThin warns of a profile of few samples, unless something was counted exactly. What helps is to record for longer, or what is said otherwise.
func (c *cli) tellThin(src *input.Session, otherwise string) {
	if n := src.Asked(); isThin(n, src.Recording) {
		c.warn("%d samples make a thin profile: record for longer%s", n, otherwise)
	}
}

// tellGoBuild says how to build with the profile of a Go program that is in file out.
func (c *cli) tellGoBuild(out string, src *input.Session, built sample.ImageID) {
	if out == "-" {
		return
	}
	main := ""
	if im := src.Found(built); im != nil {
		main = im.GoMain()
	}
	if main != "" {
		c.warn("whether a build with it is faster is measured by %s", emit.GoMeasure(whole(out), built.Path, main))
	}
	c.warn("next, build with it: %s", emit.GoBuild(whole(out), main))
}
