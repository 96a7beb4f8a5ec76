package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/forge"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/refresh"
	"backfeed/cmd/internal/report"
	"backfeed/feedback/gate"
)

var refreshCmd = &command{
	name: "refresh", args: "[--config FILE] [--target NAME]... [--dry-run] [--every TIME] [--markdown FILE] [--propose github|gitlab]", short: "keep the profiles of a repository fresh",
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

--propose keeps one branch and one pull request up to date with what was written, with the variables and the token that
jobs of GitHub and GitLab have: it opens the pull request, updates it, and closes it when nothing is left to change. A branch
with somebody else's commits is left alone.

The exit code is 0 also if nothing changed; 3 if samples fail a limit, and as of other commands if a target fails
otherwise. --fail-on changed ends with exit code 5 if something was written, or with --dry-run would be.`,
	examples: `backfeed refresh --dry-run
backfeed refresh --markdown pull-request.md
backfeed refresh --propose github
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
	propose := c.choice("propose", "keep a pull request up to date at a forge of this kind", append([]string{"no"}, forge.Kinds...)...)
	change := forge.Change{}
	fs.StringVar(&change.Branch, "branch", forge.DefaultBranch, "with --propose, the `branch` that it comes from")
	fs.StringVar(&change.Base, "base", "", "with --propose, the `branch` that it is for (default: the one that is checked out)")
	failOn := c.choice("fail-on", "what gives exit code 5", "never", "changed")
	format := c.format()
	if err := fs.Parse(args); err != nil || fs.NArg() != 0 {
		return c.usage(err)
	}
	if *every > 0 && failOn.Value != "never" {
		return c.usage(errors.New("--fail-on has no effect with --every, which does not end"))
	}
	if propose.Value == "no" {
		if err := fs.Refuse("it goes with --propose", "branch", "base"); err != nil {
			return c.usage(err)
		}
	} else if opt.DryRun || len(opt.Targets) > 0 {
		return c.usage(errors.New("--propose is about all targets, as they are written: it does not go with --dry-run and --target"))
	}
	opt.Tool, opt.Notify = version(), notices{c}
	var api forge.API
	if propose.Value != "no" {
		var err error
		if api, err = forge.FromEnv(propose.Value, os.Getenv); err != nil {
			return err
		}
	}
	return c.repeat(*every, func(ctx context.Context) error {
		return c.refresh(ctx, cmp.Or(*config, configFile), opt, *markdown, format, failOn.Value == "changed", proposer{api, change})
	})
}

// repeat runs f, and with a time again whenever so much has passed, until a signal comes. A failure ends it only once, or where it
// would fail like that for ever.
func (c *cli) repeat(every time.Duration, f func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	for {
		err := f(ctx)
		switch {
		case every == 0:
			return err
		case ctx.Err() != nil:
			return nil
		case fail.KindOf(err) == fail.Usage: // it would go on like that
			return err
		case err != nil:
			c.warn("%s; again in %v", fail.Text(err), every)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// A proposer is the forge that a run tells of its changes; none if api is nil.
type proposer struct {
	api    forge.API
	change forge.Change
}

// refresh is one run by the configuration at path.
func (c *cli) refresh(ctx context.Context, path string, opt refresh.Options, markdown string, format *flagset.Choice, failChanged bool, p proposer) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fail.Errorf(fail.Usage, "%s: %w; it says what to refresh (`backfeed help refresh`)", path, fail.Cause(err))
	}
	config, err := refresh.Parse(text, filepath.Dir(path), func() (*flagset.Set, *gate.Limits) {
		fs := flagset.New("check")
		return fs, limits(fs)
	})
	if err != nil {
		return input.Mistaken(path, input.WantConfig, fail.Errorf(fail.Usage, "%s: %w", path, err))
	}
	p.change.Dir = filepath.Dir(path)
	if p.api != nil {
		p.change.Paths, p.change.Title = config.Files(), "profiles"
		if opt.Pending, err = forge.Pending(ctx, p.change, p.api); err != nil {
			return err
		}
	}
	opt.Now = time.Now()
	doc, failed := refresh.Run(ctx, config, opt)
	if doc == nil {
		return failed
	}
	if err := c.print("-", format, doc, doc.Rows(), doc.Text); err != nil {
		return err
	}
	asMarkdown := func(w io.Writer) error { return doc.Text(w, report.Style{Markdown: true}) }
	if markdown != "" {
		if err := c.write(markdown, asMarkdown); err != nil {
			return err
		}
	}
	switch {
	case p.api == nil:
	case failed != nil && len(opt.Pending) > 0: // which has what the target that failed wanted before
		c.warn("%s stays as it is on the forge, since a target failed", p.change.Branch)
	default:
		failed = errors.Join(failed, c.propose(ctx, p, doc, asMarkdown))
	}
	switch {
	case failed != nil:
		return fail.Errorf(fail.KindOf(failed), "refresh: %w", failed)
	case failChanged && doc.Changed > 0:
		return fail.Errorf(fail.Changed, "refresh: %d of %d targets changed", doc.Changed, len(doc.Targets))
	}
	return nil
}

// propose tells the forge of what was written.
func (c *cli) propose(ctx context.Context, p proposer, doc *report.Refresh, body func(io.Writer) error) error {
	var b strings.Builder
	if err := body(&b); err != nil {
		return err
	}
	p.change.Title, p.change.Body, p.change.Paths = doc.Title(), b.String(), doc.Files
	out, err := forge.Propose(ctx, p.change, p.api)
	if err != nil {
		return err
	}
	c.warn("%s", out)
	return nil
}
