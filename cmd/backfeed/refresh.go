package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/refresh"
	"backfeed/cmd/internal/report"
	"backfeed/feedback/gate"
)

var refreshCmd = &command{
	name: "refresh", args: "[--config FILE] [--target NAME]... [--dry-run] [--every TIME] [--markdown FILE]", short: "keep the profiles of a repository fresh",
	long: `The section "refresh" of backfeed.yaml, in the current directory, says which files are made of which samples, for
which build:

    refresh:
      targets:
        api:
          sources: [/var/lib/backfeed, "recordings/*.bfr"]
          image: ./bin/api
          builds: [./builds]
          since: 7d
          outputs:
            - go: cmd/api/default.pgo

One run merges the sources of each target, carries samples of older builds onto the image, holds them to the
limits of check, infers, and writes the outputs if a decision of the build clearly changes. What was written, of
what, and what changes by it, is in backfeed.lock and, for people, on standard output. Equal input gives the same
bytes and changes nothing. Of a target, all outputs are written or none; one that fails leaves its files as they are, and the
others go on. ` + "`backfeed help ci`" + ` has all keys, and what jobs of GitHub and GitLab look like.

The exit code is 0 also if nothing changed; 3 if samples fail a limit, and as of other commands if a target fails
otherwise. --fail-on changed ends with exit code 5 if something was written, or with --dry-run would be.`,
	examples: `backfeed refresh --dry-run
backfeed refresh --markdown pull-request.md
backfeed refresh --every 24h`,
	run: runRefresh,
}

func runRefresh(c *cli, args []string) error {
	fs := c.flags()
	config := c.config("read the section refresh of `file` (default: " + configFile + ")")
	var opt refresh.Options
	fs.StringArrayVar(&opt.Targets, "target", nil, "refresh the target of this `name` alone; may be given several times")
	fs.BoolVar(&opt.DryRun, "dry-run", false, "write nothing, but say what would be")
	every := fs.Duration("every", 0, "go on, and refresh again whenever so much `time` has passed")
	markdown := fs.String("markdown", "", "also write what happened to `file`, as the text of a pull request")
	failOn := c.choice("fail-on", "what gives exit code 5", "never", "changed")
	format := c.format()
	if err := fs.Parse(args); err != nil || fs.NArg() != 0 {
		return c.usage(err)
	}
	if *every > 0 && failOn.Value != "never" {
		return c.usage(errors.New("--fail-on has no effect with --every, which does not end"))
	}
	opt.Tool, opt.Notify = version(), notices{c}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		err := c.refresh(ctx, cmp.Or(*config, configFile), opt, *markdown, format, failOn.Value == "changed")
		switch {
		case *every == 0:
			return err
		case ctx.Err() != nil:
			return nil
		case fail.KindOf(err) == fail.Usage: // it would go on like that
			return err
		case err != nil:
			c.warn("%s; again in %v", fail.Text(err), *every)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(*every):
		}
	}
}

// refresh is one run by the configuration at path.
func (c *cli) refresh(ctx context.Context, path string, opt refresh.Options, markdown string, format *flagset.Choice, failChanged bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fail.Errorf(fail.Usage, "%s: %w; it says what to refresh (`backfeed help refresh`)", path, fail.Cause(err))
	}
	config, err := refresh.Parse(text, filepath.Dir(path), func() (*flagset.Set, *gate.Limits) {
		fs := flagset.New("check")
		return fs, limits(fs)
	})
	if err != nil {
		return fail.Errorf(fail.Usage, "%s: %w", path, err)
	}
	opt.Now = time.Now()
	doc, failed := refresh.Run(ctx, config, opt)
	if doc == nil {
		return failed
	}
	if err := c.print("-", format, doc, doc.Rows(), doc.Text); err != nil {
		return err
	}
	if markdown != "" {
		if err := c.writeText(markdown, report.Style{Markdown: true}, func(w io.Writer, style report.Style) error { return doc.Text(w, style) }); err != nil {
			return err
		}
	}
	switch {
	case failed != nil:
		return fail.Errorf(fail.KindOf(failed), "refresh: %w", failed)
	case failChanged && doc.Changed > 0:
		return fail.Errorf(fail.Changed, "refresh: %s", changedTargets(doc))
	}
	return nil
}

// changedTargets says how many targets changed.
func changedTargets(doc *report.Refresh) string {
	return fmt.Sprintf("%d of %d targets changed", doc.Changed, len(doc.Targets))
}
