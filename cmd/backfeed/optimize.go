package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/optimize"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
)

var optimizeCmd = &command{
	name: "optimize", args: "[--config FILE] [--target NAME]... [--every TIME] [--build CMD --compiler NAME|--binary FILE] [--test CMD] [--calibrate PERCENT] [--try NAMES] [-o FILE] [-- CMD ARG...]", short: "make a program faster, and show that it is",
	long: `Builds a program, records it, builds or rewrites it with profiles and orders, tests what comes out, measures it against
the program as it is, and puts the best in place; or the program as it is, where nothing is clearly better. The
section "optimize" of backfeed.yaml, in the current directory, says how:

    optimize:
      targets:
        server:
          dir: src
          build: make CC=clang CFLAGS="-O2 {flags}" LDFLAGS="{ldflags}"
          compiler: clang
          binary: server
          run: ./bench.sh {binary}
          test: ./check.sh {binary}
          output: server.fast

For one program, flags say the same: CMD after -- is what it is to be fast at, {binary} in it the program. Nothing runs but
the commands that the file or the flags have, compilers' tools and valgrind. Builds run in copies of dir, which is
left as it is.

What was done is in OUTPUT.json. The next run with the same program does nothing, unless --again says so.

The exit code is 0 also if the program stays as it is; --fail-on old ends with exit code 5 then.`,
	examples: `backfeed optimize
backfeed optimize --target server --markdown pull-request.md
backfeed optimize --every 24h
backfeed optimize --binary ./app -o app.fast -- {binary} input`,
	run: runOptimize,
}

func runOptimize(c *cli, args []string) error {
	fs := c.flags()
	fs.SetInterspersed(false)
	config := c.config("read the section optimize of `file` (default: " + configFile + ")")
	var opt optimize.Options
	fs.StringArrayVar(&opt.Targets, "target", nil, "do the target of this `name` alone; may be given several times")
	var t optimize.Target
	fs.StringVar(&t.Build, "build", "", "build the program by `CMD` of a shell, which has {flags}, and {binary} where it goes")
	fs.StringVar(&t.Compiler, "compiler", "", "the compiler that it runs, by `name`: "+strings.Join(optimize.Compilers, ", "))
	fs.StringVar(&t.Binary, "binary", "", "the program is `file`, which --build makes, or without that is there")
	fs.StringVar(&t.Test, "test", "", "a program works if `CMD` of a shell succeeds, which has {binary}")
	calibrate := flagset.Share(optimize.UsualCalibrate)
	fs.Var(&calibrate, "calibrate", "let walks and probes take `percent` of the processor time of CMD while it is recorded")
	try := fs.StringSlice("try", nil, "try the candidate of this `name`; several by commas (default: by the compiler)")
	fs.StringVarP(&t.Output, "output", "o", "", "put the best program into `file`")
	fs.BoolVar(&opt.DryRun, "dry-run", false, "do all, but put nothing in place")
	fs.BoolVar(&opt.Again, "again", false, "do what was done with the same program before")
	idle := fs.Bool("idle", false, "run at idle priority, as with --every")
	every := fs.Duration("every", 0, "go on, and do it again whenever so much `time` has passed, at idle priority")
	markdown := fs.String("markdown", "", "also write what happened to `file`, as the text of a pull request")
	failOn := c.choice("fail-on", "what gives exit code 5; old is that a program stays as it is", "never", "old")
	format := c.format()
	if err := fs.Parse(args); err != nil {
		return c.usage(err)
	}
	if *every > 0 && failOn.Value != "never" {
		return c.usage(errors.New("--fail-on has no effect with --every, which does not end"))
	}
	var one *optimize.Config
	if fs.NArg() > 0 || fs.Changed("build") || fs.Changed("binary") {
		if err := fs.Refuse("--build or --binary with CMD is all that is done", "config", "target"); err != nil {
			return c.usage(err)
		}
		var err error
		t.Calibrate = float64(calibrate)
		if one, err = optimizeOne(t, *try, fs.Args()); err != nil {
			return c.usage(err)
		}
	} else if err := fs.Refuse("it goes with --build or --binary, and CMD", "compiler", "test", "calibrate", "try", "output"); err != nil {
		return c.usage(err)
	}
	if *idle || *every > 0 {
		if err := optimize.Idle(); err != nil {
			c.warn("not at idle priority: %v", err)
		}
	}
	opt.Notify = &steps{notices: notices{c}}
	return c.repeat(*every, func(ctx context.Context) error {
		return c.optimize(ctx, one, cmp.Or(*config, configFile), opt, *markdown, format, failOn.Value == "old")
	})
}

// optimizeOne is a configuration of one target, of flags and the words of a command.
func optimizeOne(t optimize.Target, try, command []string) (*optimize.Config, error) {
	var words []string
	for _, w := range command {
		words = append(words, prose.ShellWord(w))
	}
	t.Name, t.Run = filepath.Base(t.Output), strings.Join(words, " ")
	for _, name := range try {
		if err := t.AddCandidate(name); err != nil {
			return nil, err
		}
	}
	return &optimize.Config{Dir: ".", Targets: []*optimize.Target{&t}}, t.Check()
}

// optimize is one run, of one target or by the configuration at path.
func (c *cli) optimize(ctx context.Context, config *optimize.Config, path string, opt optimize.Options, markdown string, format *flagset.Choice, failOld bool) error {
	if config == nil {
		text, err := os.ReadFile(path)
		if err != nil {
			return fail.Errorf(fail.Usage, "%s: %w; it says what to optimize (`backfeed help optimize`)", path, fail.Cause(err))
		}
		if config, err = optimize.Parse(text, filepath.Dir(path)); err != nil {
			return input.Mistaken(path, input.WantConfig, fail.Errorf(fail.Usage, "%s: %w", path, err))
		}
	}
	if markdown != "" {
		if err := output.Check(markdown); err != nil {
			return err
		}
	}
	opt.Now = time.Now()
	doc, failed := optimize.Run(ctx, config, opt)
	if ctx.Err() != nil {
		return errors.New("interrupted: what was not put in place before is as it was")
	}
	if doc == nil {
		return failed
	}
	if err := c.print("-", format, doc, doc.Rows(), doc.Text); err != nil {
		return err
	}
	if markdown != "" {
		if err := c.write(markdown, func(w io.Writer) error { return doc.Text(w, report.Style{Markdown: true}) }); err != nil {
			return err
		}
	}
	switch {
	case failed != nil:
		return failed
	case failOld && doc.Old() > 0:
		return fail.Errorf(fail.Changed, "optimize: %d of %d programs stay as they are", doc.Old(), len(doc.Targets))
	}
	return nil
}
