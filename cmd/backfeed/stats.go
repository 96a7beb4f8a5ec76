package main

import (
	"context"
	"errors"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/compare"
	"backfeed/sample"
)

var statsCmd = &command{
	name: "stats", args: "SRC SRC... [--symfs DIR]", short: "say how much procedures vary between recordings",
	long: `Every SRC is one set of samples; with --epochs, so is each epoch of a store. For each procedure, or
with --by image for each image, the table has its share of the samples of a set: the mean of all
sets, their standard deviation, the least and the most, the range in the sum (most less least, of the
sum over all sets), and beside the deviation the noise: the deviation that chance alone would give,
samples being drawn at random. --value samples compares numbers of samples rather than shares; then
how long a set was recorded is a difference, too.

A procedure varies if chance does not explain what it does: by a chi-square test, with the share of
false alarms among all that are said to vary held at 5 %. A dash means too few samples to tell: less
than 5 expected of some set. What varies comes first, by its range; then the rest, by its share.
Samples that were scaled, as merge does, are noisier than is said.

With --by host, the hosts of stores are compared, as their label host names them: which share of a host's samples lies
elsewhere than those of the middle host, of medians; how many samples per time it has beside that host; and how far its
newest epoch is behind. An outlier is beyond 3.5 deviations, these from the median of the absolute deviations, three times
what chance gives and 5 % of its samples; or has four times the samples, a fourth of them, or another clock. Half of the
hosts can be odd before they are the middle. --label 'host!=a|b' leaves hosts out, of any command.

Of the images of several sets those are one that have the same build ID or the same path, or, if no
set has two such, the same file name; of their procedures those of the same name.`,
	reads: symfsHelp,
	examples: `backfeed stats monday.bfr tuesday.bfr wednesday.bfr
backfeed stats /var/lib/backfeed --epochs --since 7d --by image
backfeed stats /mnt/fleet --by host`,
	run: runStats,
}

func runStats(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	by := c.choice("by", "what to compare; host compares those of a store", "procedure", "image", "host")
	value := c.choice("value", "by what", "share", "samples")
	epochs := fs.Bool("epochs", false, "make each epoch of a store a set")
	event := fs.String("event", "", "compare samples of event `name` (default: that of which all have most)")
	lines := fs.IntP("lines", "n", 20, "print at most `N` lines; 0 prints all")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if by.Value == "host" {
		if err := fs.Refuse("--by host compares all that hosts ran, by image", "symfs", "epochs", "value", "event", "mangled"); err != nil {
			return c.usage(err)
		}
		return c.statsOfHosts(fs.Args(), opt, format, *lines)
	}
	if fs.NArg() == 1 && !*epochs {
		return c.usage(errors.New("want two recordings or more, or --epochs and a store"))
	}
	if by.Value == "image" {
		if err := fs.Refuse("--by image opens no image", "symfs"); err != nil {
			return c.usage(err)
		}
	}
	if *epochs && !slices.ContainsFunc(fs.Args(), input.MayBeStore) {
		return c.usage(fs.Refuse("none of the sources is a store", "epochs"))
	}
	if err := errors.Join(c.selects(fs.Args()), input.Sampled(*event)); err != nil {
		return err
	}
	src, err := input.New(*opt)
	if err != nil {
		return err
	}
	defer src.Close()
	sets, err := src.ReadSets(context.Background(), fs.Args(), *epochs)
	if err != nil {
		return err
	}
	if len(sets) < 2 {
		return fail.Errorf(fail.Nothing, "stats: samples of %d epochs; want two or more: choose more with --since and --until", len(sets))
	}
	var named func(int, sample.ImageID) bool
	if by.Value == "procedure" {
		named = func(_ int, id sample.ImageID) bool { return src.NamesKernel(id) }
	}
	ev, err := input.Alike(sets, *event, notices{c}, named)
	if err != nil {
		return err
	}
	names := compare.NamesOf(sets)
	input.TellAlone(sets, names, notices{c})
	rows := compare.Variation(sets, src.Tallies(sets, names, by.Value == "image"), value.Value == "share")
	if by.Value == "procedure" {
		src.TellMissing(sets)
	}
	doc := report.NewStats(sets, ev.Name, value.Value, rows, *lines)
	return c.print("-", format, doc, doc.Rows, doc.Text)
}

// statsOfHosts compares the hosts of stores.
func (c *cli) statsOfHosts(paths []string, opt *input.Options, format *flagset.Choice, lines int) error {
	src, err := input.New(*opt)
	if err != nil {
		return err
	}
	defer src.Close()
	sets, err := src.Hosts(context.Background(), paths)
	if err != nil {
		return err
	}
	if len(sets) < 2 {
		return fail.Errorf(fail.Nothing, "stats: samples of %d hosts; want two or more: agents mark theirs with --label %s=NAME", len(sets), input.HostLabel)
	}
	hosts, judged := compare.Hosts(sets)
	if !judged {
		c.warn("%d hosts are too few to say that one is odd", len(hosts))
	}
	doc := report.NewHosts(hosts, lines)
	return c.print("-", format, doc, doc.Rows, doc.Text)
}
