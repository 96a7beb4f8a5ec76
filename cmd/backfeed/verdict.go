package main

import (
	"context"
	"errors"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/verdict"
	"backfeed/infer/compare"
)

var verdictCmd = &command{
	name: "verdict", args: "OLD NEW|OLD... vs NEW...|STORE [--units N,N|--counter NAME|--per PROC] [--deploy TIME|--old LABEL --new LABEL]", short: "say whether a new build spends less than an old one",
	long: `OLD and NEW are recordings of both builds, or of both sides of a deployment: one each, or several, those of
OLD before the word vs and those of NEW after it. Of one store, --deploy says when NEW began; --old and --new
choose by labels, --old-build and --new-build by build ID, and both sides are to be said. Each epoch is then a
recording.

With units of work, what a unit takes is compared. They are numbers, or a counter of requests in metrics
of Prometheus: a snapshot before and one after each recording, in order, or n+1 between which n recordings
lie. Of a store, one file of OpenMetrics that has the counter with times (as promtool tsdb dump-openmetrics
writes it). With --per, they are executions of a procedure that was counted (record --calibrate).

Where units are counted by kind (--kind), and samples of pprof profiles have a label with the kind they are of
(--kind-label), what each kind takes is compared, and all kinds weighed alike on both sides. The number of values
that a label has among samples, such as of requests, is no count of units: those that take less are seen less often.

Without units, code that is the same in both builds stands for the work, where both builds are at hand: NEW
takes less if it takes less for as much work there. The shares of procedures are compared where neither is known.

The interval holds sampling and what recordings of one build differ by. One recording on each side says
nothing of the latter: then nothing is claimed, unless --noise says what it is. Nothing is claimed either
where the load explains what differs: unchanged code takes more or less per unit, as all does, its procedures
have other shares, or the kinds of work have (--kind). --same-load says that it does not. ` + "`backfeed help compare`" + ` has what such comparisons find.

OLD and NEW may also be results of benchmarks in the format of go test -bench, which benchstat reads: each
is compared by the test of Mann and Whitney, with the share of false alarms held at 5 %, and so is their
geometric mean.

--fail-on worse gives exit code 5 if NEW clearly takes more, --fail-on any also if it clearly takes less.`,
	reads: symfsHelp,
	examples: `backfeed verdict old*.bfr vs new*.bfr --old-units 81,79 --new-units 80,82
backfeed verdict STORE --deploy 2h --units requests.om --counter http_requests
backfeed verdict STORE --old version=1 --new version=2 --fail-on worse`,
	run: runVerdict,
}

// asks defines the flags that say what is compared.
func (c *cli) asks() *verdict.Request {
	r := &verdict.Request{}
	for i, name := range []string{"old", "new"} {
		s := &r.Sides[i]
		s.Name = strings.ToUpper(name)
		c.fs.StringToStringVar(&s.Labels, name, nil, "of a store, "+s.Name+" is what is marked with `name=value`")
		c.fs.StringVar(&s.Build, name+"-build", "", s.Name+" is the samples of the image with this build `ID`, or one that begins so")
		c.fs.StringSliceVar(&s.Units.Values, name+"-units", nil, "units of work of "+s.Name+": `N` for each recording, or files of metrics before and after each")
	}
	c.fs.Var((*flagset.Moment)(&r.Deploy), "deploy", "of a store, OLD is before `time`, or so long ago, and NEW after")
	c.fs.StringSliceVar(&r.Units, "units", nil, "units of work: `N` of OLD and that of NEW; or a file of metrics with times, for both")
	c.fs.StringVar(&r.Counter, "counter", "", "in metrics, the counter of units with this `name`, and {label=\"value\"}")
	c.fs.StringVar(&r.Kind, "kind", "", "the `name` of the counter's label that tells kinds of work apart, to see whether their shares changed")
	c.fs.StringVar(&r.KindLabel, "kind-label", "", "samples of pprof profiles have their kind in the label of that `name`: what each kind takes is compared, all weighed alike on both sides")
	c.fs.StringVar(&r.Per, "per", "", "units are the executions of procedure `name`, as they were counted")
	c.fs.StringVar(&r.Event, "event", "", "compare samples of event `name` (default: that of which all have most)")
	c.fs.StringVar(&r.Image, "image", "", "count the samples of the image with that `path`, or file name, alone")
	c.fs.Var((*flagset.Fraction)(&r.Noise), "noise", "recordings of one build differ by this share (one standard deviation), where that is not seen")
	c.fs.BoolVar(&r.SameLoad, "same-load", false, "the load of both sides is known to be the same, as of a benchmark: claim what it might explain elsewhere")
	return r
}

func runVerdict(c *cli, args []string) error {
	fs := c.flags()
	in, format := c.inputs(), c.format()
	c.names()
	r := c.asks()
	var predicted flagset.Relative
	fs.Var(&predicted, "predicted", "the `change` that was predicted, such as -3%: the verdict says whether it is within the interval")
	work := fs.String("unit", "unit of work", "what a unit of work is called: a `name`, such as request")
	failOn := c.choice("fail-on", "what gives exit code 5", "never", "worse", "any")
	lines := fs.IntP("lines", "n", 20, "print at most `N` lines; 0 prints all")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if err := errors.Join(r.Choose(fs.Args()), c.selects(fs.Args()), input.Sampled(r.Event)); err != nil {
		return c.usage(err)
	}
	switch are, err := verdict.AreBenchmarks(r.Paths()); {
	case err != nil:
		return err
	case are:
		return c.benchmarks(r, format, failOn.Value)
	}
	r.Input = *in
	v, err := verdict.Judge(context.Background(), r)
	if err != nil {
		return err
	}
	doc := report.NewDeployed(v.Verdict, v.Event, v.Unit, report.Spent{UserOnly: v.UserOnly, Used: v.Used}, *work, *lines)
	if fs.Changed("predicted") {
		doc.Predicted = (*float64)(&predicted)
	}
	if err := c.print("-", format, doc, doc.Rows, doc.Text); err != nil {
		return err
	}
	if v.Outcome == compare.Worse && failOn.Value != "never" || v.Outcome == compare.Better && failOn.Value == "any" {
		return fail.Errorf(fail.Changed, "verdict: NEW is %s", v.Outcome)
	}
	return nil
}

// benchmarks compares the results of benchmarks.
func (c *cli) benchmarks(r *verdict.Request, format *flagset.Choice, failOn string) error {
	if err := c.fs.Refuse("it is about recordings, and these are results of benchmarks", "symfs", "old-units", "new-units", "units", "counter", "kind", "kind-label", "per", "unit",
		"event", "image", "noise", "predicted", "lines", "mangled"); err != nil {
		return c.usage(err)
	}
	all, err := verdict.Benchmarks(r.Sides[0].Paths, r.Sides[1].Paths, notices{c})
	if err != nil {
		return err
	}
	doc := report.NewBenchmarkVerdict(all)
	if err := c.print("-", format, doc, doc.Rows, doc.Text); err != nil {
		return err
	}
	if doc.Worse > 0 && failOn != "never" || doc.Better > 0 && failOn == "any" {
		return fail.Errorf(fail.Changed, "verdict: NEW is worse in %d and better in %d of %d results", doc.Worse, doc.Better, len(doc.Rows))
	}
	return nil
}
