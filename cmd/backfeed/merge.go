package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/terminal"
	"backfeed/sample"
)

var mergeCmd = &command{
	name: "merge", args: "SRC[@WEIGHT]... [--half-life TIME] [--normalise] [--onto BINARY] -o FILE", short: "add up recordings",
	reads: srcHelp,
	long: `Samples of the same code add up, whatever the order: the same recordings give the same bytes. Those of other rates stay apart
in FILE: who reads it has each count as much as it stands for, so that shares are of time.

Sources may have weights:

SRC@0.5      counts each sample of SRC half
--half-life  halves what a store holds for every such time of age; its newest epoch counts whole, and so do recordings beside it
--max-host-share 5% scales down, of a store, each host that has more of the samples
--hash-paths keeps hashes in place of the paths of programs, for those who are not to see these
--normalise  makes every source count the same, as if all had run for as long, before weights

No count becomes surer by a weight: a sample that counts for nine tells no more than one.

A source that cannot be read is named, and nothing is written. With --failure-mode all it is left out,
and the command fails only if none is left.

--onto BINARY moves the samples of older builds of that program to it, as if it had been recorded. Older
builds are the images whose files have the same name, or those of --image. Their files are needed: they are
looked up below --symfs and in stores.

A procedure is found again by name, or by its code if it was renamed. Its blocks are found by instructions,
by operations or by source lines. A table says what became of the samples; those of code that BINARY
lacks are lost. Observed counts move where the block is the same, instruction by instruction.

` + keptCallersHelp,
	examples: `backfeed merge monday.bfr tuesday.bfr@0.5 -o week.bfr
backfeed merge /var/lib/backfeed --since 7d --half-life 2d -o week.bfr
backfeed merge old.bfr --onto ./new/server -o carried.bfr`,
	run: runMerge,
}

func runMerge(c *cli, args []string) error {
	fs := c.flags()
	opt := c.inputs()
	c.names()
	var how input.MergeOptions
	out := fs.StringP("output", "o", "", "write the recording to `file`")
	fs.DurationVar(&how.HalfLife, "half-life", 0, "of stores, halve the weight of samples with every `duration` of age")
	fs.BoolVar(&how.Normalise, "normalise", false, "scale the sources to as much time, or events, before weights")
	how.MaxHost = 1
	fs.Var((*flagset.Share)(&how.MaxHost), "max-host-share", "of stores, let no host have more than this share of the samples")
	hash := fs.Bool("hash-paths", false, "keep hashes in place of the paths of programs and libraries")
	onto := fs.String("onto", "", "move samples of older builds of a program to `file`, a newer one")
	want := fs.String("image", "", "with --onto, the older build has that `path` or build ID (default: any of the file's name)")
	callers := keepsCallers(fs)
	mode := c.choice("failure-mode", "fail if so many sources cannot be read", "any", "all")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if how.HalfLife > 0 && how.MaxHost < 1 {
		return c.usage(errors.New("want --half-life or --max-host-share, not both"))
	}
	if *want != "" && *onto == "" {
		return c.usage(errors.New("--image: nothing without --onto"))
	}
	if *onto == "" {
		if err := fs.Refuse("only --onto names procedures", "mangled"); err != nil {
			return c.usage(err)
		}
	}
	if err := c.wantsFile(*out, "a recording"); err != nil {
		return err
	}
	how.LeaveOut = mode.Value == "all"
	var sources []input.Source
	for _, arg := range fs.Args() {
		source, err := input.ParseSource(arg)
		if err != nil {
			return err
		}
		sources = append(sources, source)
	}
	var paths []string
	for _, source := range sources {
		paths = append(paths, source.Path)
	}
	if err := c.selects(paths); err != nil {
		return err
	}
	if !slices.ContainsFunc(paths, input.MayBeStore) {
		if err := fs.Refuse("only stores know how old samples are, and no source is one", "half-life"); err != nil {
			return c.usage(err)
		}
		if err := fs.Refuse("only stores know hosts, and no source is one", "max-host-share"); err != nil {
			return c.usage(err)
		}
	}
	if *onto == "" && !slices.ContainsFunc(paths, input.IsCounted) && !slices.ContainsFunc(paths, input.HasStacks) {
		if err := fs.Refuse("samples need no images without --onto, only counts and stacks do, and no source has any", "symfs"); err != nil {
			return c.usage(err)
		}
	}
	if err := callers.into(opt, fs, paths); err != nil {
		return c.usage(err)
	}
	if *onto == "" && !*hash {
		src, sum, err := input.MergeSum(context.Background(), sources, how, *opt)
		if err != nil {
			return err
		}
		defer src.Close()
		src.TellBuilds(sum.ByImage())
		return c.writeRecording(*out, sum)
	}
	src, err := input.Merge(context.Background(), sources, how, *opt)
	if err != nil {
		return err
	}
	defer src.Close()
	if *onto != "" {
		carried, err := src.Onto(*onto, *want)
		if err != nil {
			err = fmt.Errorf("--onto: %w", err)
		}
		if carried != nil {
			err = errors.Join(err, report.WriteCarried(c.stderr, carried, report.Style{Mangled: c.mangled}))
		}
		if err != nil {
			return err
		}
	}
	src.TellBuilds(src.Recording.ByImage())
	if *hash {
		src.Recording = src.Recording.HashPaths()
	}
	return c.writeRecording(*out, src.Recording)
}

// wantsFile reports what is wrong with the output of a command that writes bytes.
func (c *cli) wantsFile(out, what string) error {
	switch {
	case out == "":
		return fail.Errorf(fail.Usage, "%s: -o FILE is missing; \"-\" is standard output", c.cmd.name)
	case out == "-" && terminal.Is(c.stdout):
		return fail.Errorf(fail.Usage, "%s: %s is not for a terminal; name a file with -o", c.cmd.name, what)
	}
	return nil
}

// A written is a recording, or a sum of several, as far as one knows it who writes it.
type written interface {
	Samples() uint64
	Observed(func(sample.ImageID) bool) sample.ObservedPlaces
	Lost() map[sample.Loss]uint64
	ByImage() map[sample.ImageID]uint64
	Encode() []byte
}

// writeRecording writes a recording and tells how much is in it.
func (c *cli) writeRecording(out string, rec written) error {
	total := rec.Samples()
	exact := report.Observed(rec.Observed(nil))
	if total == 0 && exact == "" {
		return fail.Errorf(fail.Nothing, "%s: no samples in any source: nothing to write", c.cmd.name)
	}
	err := c.write(out, func(w io.Writer) error {
		_, err := w.Write(rec.Encode())
		return err
	})
	if err != nil {
		return err
	}
	if exact != "" {
		c.warn("observed counts: %s", exact)
	}
	if list := report.Losses(rec.Lost(), total); list != "" {
		c.warn("%d samples; images: %d; in no image: %s", total, len(rec.ByImage()), list)
	} else if total > 0 {
		c.warn("%d samples; images: %d", total, len(rec.ByImage()))
	}
	c.tellWritten(out)
	return nil
}
