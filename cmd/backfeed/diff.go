package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
)

var diffCmd = &command{
	name: "diff", args: "OLD NEW [--for go|llvm] [--by procedure|block] [--proc NAME] [--units N,N]", short: "say what a build would decide otherwise by another profile, or compare two recordings",
	long: `Two profiles are compared by what a build decides by them, two recordings by where time went.

OLD and NEW are profiles: of pprof for --for go, sample profiles for llvm, text or binary
(ext-binary). Nothing is compiled: the consumers publish by what rules they decide. An empty OLD
(/dev/null) makes all that NEW asks for a change.

go    calls that are hot: those with 99 % of all weight, which may be inlined at a cost of 2000
      rather than 80; and the callee that an indirect call asks for first, the one with most weight
llvm  functions that are hot or cold, by the cutoffs of the profile's summary (99 % and 99.9999 % of
      all counts); and inlined calls that are hot enough to be inlined again

Two recordings of the same workload differ in what stands at those cuts. A change is clear if it is
one of 0.5 % of the weight, or of few samples more (1.5 % for 10,000, 4.7 % for 1000: 1.5 over their
root; and 32 samples at least), and of callees, if each has as much where it leads, and leads by a factor of 2. Text and Markdown list
what is clear and sum up the others; JSON and CSV have all. How many samples a profile is made of, pprof says, and
backfeed's text for llvm; without that, 0.5 % is clear, by which short recordings can differ. The source
has the last word: a call that it lacks, or one of a function that is too large, changes nothing.

--fail-on clear gives exit code 5 if there is a clear change, or if calls with 15 % of the weight
change sides, those of fewer than 8 samples left aside; --fail-on any if there is any change.

OLD and NEW are recordings if one of them is a backfeed recording, a perf.data file or a store; two
pprof profiles are, too, with --by, --proc or --symfs. Then the table has for each procedure its share
of the samples before and after, their difference, and z, the difference in standard deviations of what
chance would give, samples being drawn at random. A difference is real if chance does not explain it:
by the test of two proportions, or Poisson's exact one where samples are few, with the share of false
alarms among all that are called real held at 5 %. Real ones come first. Two runs of one program differ
for other reasons than chance and change: backfeed stats shows by how much. Executions (runs) and CPI,
cycles per instruction, are inferred, with the confidence that they have before and after; all executions of
a recording share one unknown factor.

--by block lists basic blocks that have samples, --proc NAME all blocks of one procedure. Of two builds
of a program, procedures are matched by name, or by code if they were renamed, and blocks by their
instructions, their operations or their source lines; both builds are needed. Images are one program if
they have the same path, else the same file name, else the same name without what follows its first dot and
without a number at its end (app and app.bolt, svc1 and svc2), if neither recording has two of that name.

--units says how much was done while each was recorded, such as requests or runs: then amounts for a unit of
that are compared and not shares, of which one that falls makes all others rise. Of samples of time that is
processor time, or user time where the kernel was not recorded; then it is listed, too, what each cause costs, at least and at most, which is real if the two
are apart. Executions are for a unit as well. ` + "`backfeed help slow`" + ` has an example.`,
	reads: symfsHelp,
	examples: `backfeed diff default.pgo new.pgo --fail-on clear
backfeed diff old.prof new.prof --for llvm --format markdown
backfeed diff before.bfr after.bfr --by block --proc lookup
backfeed diff before.bfr after.bfr --units 120000,125000`,
	run: runDiff,
}

func runDiff(c *cli, args []string) error {
	fs := c.flags()
	consumer := c.choice("for", "whose decisions", "go", "llvm")
	fs.Alias("consumer", "for")
	format := c.format()
	failOn := c.choice("fail-on", "what changes give exit code 5", "never", "clear", "any")
	unclear := fs.Bool("unclear", false, "of profiles, list in tables the changes that are not clear, too")
	flags := c.diffFlags()
	if err := fs.Parse(args); err != nil || fs.NArg() != 2 {
		return c.usage(err)
	}
	changed := func(names ...string) bool { return slices.ContainsFunc(names, fs.Changed) }
	if input.IsRecording(fs.Arg(0)) || input.IsRecording(fs.Arg(1)) || changed("by", "proc", "symfs", "units") {
		if changed("for", "fail-on", "unclear") {
			return c.usage(errors.New("--for, --fail-on and --unclear are about profiles, and these are recordings"))
		}
		return c.diffRecordings(fs.Arg(0), fs.Arg(1), flags, format)
	}
	if err := fs.Refuse("it is about recordings, and these are profiles", "lines", "since", "until", "label", "between", "event", "model"); err != nil {
		return c.usage(err)
	}
	var sides [2]*feedback.Decisions
	for i, path := range fs.Args() {
		d, err := c.decisions(path, consumer.Value)
		if err != nil {
			return err
		}
		sides[i] = d
	}
	doc := report.NewDecisionDiff(consumer.Value, sides[0], sides[1])
	doc.Unclear = *unclear
	if err := c.print("-", format, doc, doc.Changes, doc.Text); err != nil {
		return err
	}
	if failOn.Value == "any" && len(doc.Changes) > 0 || failOn.Value == "clear" && doc.Differs() {
		return fail.Errorf(fail.Changed, "diff: %s would decide %d things otherwise, %d of them clearly", consumer.Value, len(doc.Changes), doc.Clear)
	}
	return nil
}

// decisions predicts what a consumer would do with the profile at path.
func (c *cli) decisions(path, consumer string) (*feedback.Decisions, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	defer f.Close()
	d, err := emit.Deciders[consumer](f)
	if err != nil {
		want := map[string]input.Wanted{"go": input.WantPprof, "llvm": input.WantLLVM}[consumer]
		return nil, input.Mistaken(path, want, fail.Errorf(fail.Nothing, "%s: %w", path, err))
	}
	return d, nil
}
