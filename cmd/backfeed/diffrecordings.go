package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/compare"
	"backfeed/sample"
)

// diffFlags are those of diff that are about recordings.
type diffFlags struct {
	by    *flagset.Choice
	proc  *string
	lines *int
	units *[]string
	opt   *input.Options
}

func (c *cli) diffFlags() diffFlags {
	c.names()
	flags := diffFlags{
		by:    c.choice("by", "of recordings, what to compare", "procedure", "block"),
		proc:  c.fs.String("proc", "", "of recordings, compare the blocks of procedure `name`"),
		lines: c.fs.IntP("lines", "n", 20, "of recordings, print at most `N` lines; 0 prints all"),
		units: c.fs.StringSlice("units", nil, "of recordings, units of work: `N` of OLD and that of NEW; what a unit takes is compared, and not shares"),
		opt:   c.inputs(),
	}
	c.inference(flags.opt)
	return flags
}

// diffRecordings compares two recordings.
func (c *cli) diffRecordings(before, after string, flags diffFlags, format *flagset.Choice) error {
	if err := errors.Join(c.selects([]string{before, after}), input.Sampled(flags.opt.Infer.Event)); err != nil {
		return err
	}
	var sides [2]*input.Session
	opt := *flags.opt
	opt.Keep = resultsDir()
	boundGarbage(gcPercent)
	for i, path := range []string{before, after} {
		src, err := input.Read(context.Background(), []string{path}, opt)
		if errors.Is(err, sample.ErrNoAddresses) && input.IsProfile(path) {
			err = fmt.Errorf("%w; a recording is compared with a profile for go build as one: what `backfeed emit go RECORDING -o new.pgo` makes of it", err)
		}
		if err != nil {
			return err
		}
		defer src.Close()
		sides[i] = src
	}
	if err := input.InferAlike(context.Background(), opt.Infer.Event, sides[0], sides[1]); err != nil {
		return err
	}
	if (report.Observed(sides[0].Recording.Observed(nil)) == "") != (report.Observed(sides[1].Recording.Observed(nil)) == "") {
		c.warn("only one of %s and %s has observed counts: not all differences between their executions are the program's", before, after)
	}
	what := compare.What{ByBlock: flags.by.Value == "block"}
	if *flags.proc != "" {
		what.Proc = func(name string) bool { return report.IsNamed(name, *flags.proc) }
	}
	if len(*flags.units) > 0 {
		w, err := unitsOf(sideOf(sides[0]), sideOf(sides[1]), *flags.units)
		if err != nil {
			return c.usage(fmt.Errorf("--units: %w", err))
		}
		what.Work = w
	}
	d := compare.Recordings(sideOf(sides[0]), sideOf(sides[1]), what)
	if *flags.proc != "" && len(d.Rows) == 0 {
		return fail.Errorf(fail.Nothing, "diff: no samples of a procedure %s in either recording (`backfeed prof` lists those that have some)", *flags.proc)
	}
	doc := report.NewRecordingDiff(d, *flags.lines)
	return c.print("-", format, doc, doc.Rows, doc.Text)
}

// unitsOf reads how much was done in either recording.
func unitsOf(before, after compare.Side, units []string) (*compare.Work, error) {
	var done [2]float64
	if len(units) != len(done) {
		return nil, fmt.Errorf("%d numbers, want that of OLD and that of NEW: 1000,1200", len(units))
	}
	for i, u := range units {
		n, err := strconv.ParseFloat(u, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no number", u)
		}
		done[i] = n
	}
	return compare.NewWork(before, after, done)
}

// sideOf is a recording as package compare takes it.
func sideOf(s *input.Session) compare.Side {
	return compare.Side{Recording: s.Recording, Profile: s.Profile, Named: s.Named}
}
