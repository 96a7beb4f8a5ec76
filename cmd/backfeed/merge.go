package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/store"
)

var mergeCmd = &command{
	name: "merge", args: "SRC[@WEIGHT]... [--half-life TIME] [--normalise] [--onto BINARY] -o FILE", short: "add up recordings",
	reads: srcHelp,
	long: `The order does not matter: the same recordings give the same bytes. a.bfr@0.5 counts each sample of
a.bfr half: what rounding takes from one place, the next one gets. --half-life 336h weighs what a
store holds by its age: that of the newest epoch counts whole, that of two weeks before half. With
--normalise, every source counts as much as any other, however long it was recorded, before weights.

A source that cannot be read makes the command fail, and is named; with --failure-mode all it is left
out, and the command fails if none is left.

--onto BINARY moves the samples of older builds of that program to it, as if it had been recorded:
those of images whose files have the same name, or of --image. Procedures are found again by name,
renamed ones by their code, and their blocks by instructions, by operations or by source lines. The
older builds are needed, and looked up as elsewhere: --symfs, what stores have kept. What became of
the samples is told; those of code that BINARY lacks are counted as lost. Exact counts go along where
the block is the same, instruction by instruction.`,
	run: runMerge,
}

// maxWeight bounds weights, so that samples stay countable.
const maxWeight = 1e6

func runMerge(c *cli, args []string) error {
	fs := c.flags()
	symfs := c.symfs()
	out := fs.StringP("output", "o", "", "write the recording to `file`")
	halfLife := fs.Duration("half-life", 0, "of stores, halve the weight of samples with every `time` of age")
	normalise := fs.Bool("normalise", false, "scale the sources to equally many samples of each event, before weights")
	onto := fs.String("onto", "", "move samples of older builds of a program to `file`, a newer one")
	want := fs.String("image", "", "with --onto, the older build has that `path` or build ID (default: any of the file's name)")
	mode := c.choice("failure-mode", "fail if so many sources cannot be read", "any", "all")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *halfLife < 0 {
		return c.usage(errors.New("--half-life: want a positive time"))
	}
	if *want != "" && *onto == "" {
		return c.usage(errors.New("--image: nothing without --onto"))
	}
	if err := c.wantsFile(*out, "a recording"); err != nil {
		return err
	}
	var parts []*sample.Recording
	var weights []float64
	var bad error
	for _, arg := range fs.Args() {
		before := len(c.truths)
		rec, weight, err := c.readWeighed(arg, *halfLife)
		for i := range c.truths[before:] {
			c.truths[before+i].weight = weight
		}
		switch {
		case err == nil:
			parts, weights = append(parts, rec), append(weights, weight)
		case mode.value == "any" || codeOf(err) == exitUsage:
			return err
		default:
			c.warn("%v; it is left out", err)
			bad = errors.Join(bad, err)
		}
	}
	if len(parts) == 0 {
		return fail.Errorf(fail.Nothing, "merge: no source is left: %w", bad)
	}
	if *normalise {
		parts = sample.Normalise(parts)
	}
	for i, weight := range weights {
		parts[i] = parts[i].Scale(weight)
	}
	counted, err := c.counted(parts)
	if err != nil {
		return err
	}
	sum := sample.Merge(append(parts, counted...)...)
	if *onto != "" {
		f, err := newFinder(*symfs)
		if err != nil {
			return err
		}
		defer f.close()
		f.stores = c.stores
		if sum, err = c.carryOnto(sum, *onto, *want, f); err != nil {
			return err
		}
	}
	return c.writeRecording(*out, sum)
}

// readWeighed reads SRC or SRC@WEIGHT, and gives the weight too. A file with such
// a name is meant as it is.
func (c *cli) readWeighed(arg string, halfLife time.Duration) (*sample.Recording, float64, error) {
	path, weight := arg, 1.0
	if _, err := os.Lstat(arg); errors.Is(err, fs.ErrNotExist) {
		if i := strings.LastIndexByte(arg, '@'); i >= 0 {
			w, err := strconv.ParseFloat(arg[i+1:], 64)
			if err != nil || !(w > 0 && w <= maxWeight) {
				return nil, 0, fail.Errorf(fail.Usage, "%s: want a weight above 0 and at most %g after the @", arg, float64(maxWeight))
			}
			path, weight = arg[:i], w
		}
	}
	if halfLife == 0 {
		rec, err := c.readSource(path)
		return rec, weight, err
	}
	if path == "-" || !store.Is(path) {
		return nil, 0, fail.Errorf(fail.Usage, "%s: --half-life wants stores: nothing else says when its samples were taken", path)
	}
	rec, err := c.readAged(path, halfLife)
	return rec, weight, err
}

// readAged reads what is selected of a store, weighed by age.
func (c *cli) readAged(dir string, halfLife time.Duration) (*sample.Recording, error) {
	var parts []*sample.Recording
	err := c.eachEpoch(dir, func(e, last sample.Epoch, rec *sample.Recording) {
		age := last.To().Sub(e.To())
		if w := math.Exp2(-age.Seconds() / halfLife.Seconds()); w > 0 {
			parts = append(parts, rec.Scale(w))
		}
	})
	if err != nil {
		return nil, err
	}
	return sample.Merge(parts...), nil
}

// eachEpoch reads what is selected of a store, one stretch of time after the other; f
// is told the last one, too.
func (c *cli) eachEpoch(dir string, f func(e, last sample.Epoch, rec *sample.Recording)) error {
	s, err := c.openStore(dir)
	if err != nil {
		return err
	}
	c.stores = append(c.stores, s)
	segments, err := s.Segments()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	spans := disjoint(segments, c.selection)
	for _, e := range spans {
		rec, err := s.Read(store.Query{From: e.From(), To: e.To(), Labels: c.selection.labels})
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		f(e, spans[len(spans)-1], rec)
	}
	return nil
}

// disjoint gives the stretches of time that selected segments cover, by start,
// each as one epoch: epochs of a store may lie in longer ones.
func disjoint(segments []store.Segment, sel selection) []sample.Epoch {
	var spans []sample.Epoch
	since, until := time.Time(sel.since), time.Time(sel.until)
	slices.SortFunc(segments, func(a, b store.Segment) int { return a.Epoch.From().Compare(b.Epoch.From()) })
	for _, seg := range segments {
		e := seg.Epoch
		if !since.IsZero() && !e.To().After(since) || !until.IsZero() && !e.From().Before(until) {
			continue
		}
		if n := len(spans); n > 0 && e.From().Before(spans[n-1].To()) {
			last := &spans[n-1]
			last.Length = max(last.Length, e.Start+e.Length-last.Start)
			continue
		}
		spans = append(spans, e)
	}
	return spans
}

// wantsFile tells what is wrong with the output of a command that writes bytes.
func (c *cli) wantsFile(out, what string) error {
	switch {
	case out == "":
		return fail.Errorf(fail.Usage, "%s: -o FILE is missing; \"-\" is standard output", c.cmd.name)
	case out == "-" && isTerminal(c.stdout):
		return fail.Errorf(fail.Usage, "%s: %s is not for a terminal; name a file with -o", c.cmd.name, what)
	}
	return nil
}

// writeRecording writes a recording and tells how much is in it.
func (c *cli) writeRecording(out string, rec *sample.Recording) error {
	total := rec.Samples()
	exact := exactList(rec)
	if total == 0 && exact == "" {
		return fail.Errorf(fail.Nothing, "%s: no samples", c.cmd.name)
	}
	err := c.write(out, func(w io.Writer) error {
		_, err := w.Write(rec.Encode())
		return err
	})
	if err != nil {
		return err
	}
	if exact != "" {
		c.warn("exact counts: %s", exact)
	}
	if list := lossList(lost(rec), total); list != "" {
		c.warn("%d samples; without a place in an image: %s", total, list)
	} else if total > 0 {
		c.warn("%d samples of %s images", total, report.Integer(uint64(len(sampled(rec)))))
	}
	return nil
}
