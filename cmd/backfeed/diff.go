package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/feedback/gate"
)

var diffCmd = &command{
	name: "diff", args: "OLD NEW [--for go|llvm] [--by procedure|block] [--proc NAME]", short: "say what a build would decide otherwise by another profile, or compare two recordings",
	long: `Two profiles are compared by what a build decides by them, two recordings by where time went.

OLD and NEW are profiles: of pprof for --for go, sample profiles for llvm, text or binary
(ext-binary). Nothing is compiled: the consumers publish by what rules they decide. An empty OLD
(/dev/null) makes all that NEW asks for a change.

go    calls that are hot: those with 99 % of all weight, which may be inlined at a cost of 2000
      rather than 80; and the callee that an indirect call asks for first, the one with most weight
llvm  functions that are hot or cold, by the cutoffs of the profile's summary (99 % and 99.9999 % of
      all counts); and inlined calls that are hot enough to be inlined again

Two recordings of the same workload differ in what stands at those cuts. A change is clear if it is
one of 0.5 % of the weight, or of 32 samples if that is more, and of callees, if each has as much
where it leads, and leads by a factor of 2. How many samples a profile is made of, pprof says, and
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
they have the same path, or the same file name and no other of that name was sampled.`,
	reads: symfsHelp,
	examples: `backfeed diff default.pgo new.pgo --fail-on clear
backfeed diff old.prof new.prof --for llvm --format markdown
backfeed diff before.bfr after.bfr --by block --proc lookup`,
	run: runDiff,
}

// deciders predict the decisions of a consumer.
var deciders = map[string]func(io.Reader) (*feedback.Decisions, error){"go": feedback.DecideGo, "llvm": feedback.DecideLLVM}

func runDiff(c *cli, args []string) error {
	fs := c.flags()
	consumer := c.choice("for", "whose decisions", "go", "llvm")
	fs.alias("consumer", "for")
	format := c.format()
	failOn := c.choice("fail-on", "what changes give exit code 5", "never", "clear", "any")
	flags := c.diffFlags()
	if err := fs.Parse(args); err != nil || fs.NArg() != 2 {
		return c.usage(err)
	}
	changed := func(names ...string) bool { return slices.ContainsFunc(names, fs.Changed) }
	if isRecording(fs.Arg(0)) || isRecording(fs.Arg(1)) || changed("by", "proc", "symfs") {
		if changed("for", "fail-on") {
			return c.usage(errors.New("--for and --fail-on are about profiles, and these are recordings"))
		}
		return c.diffRecordings(fs.Arg(0), fs.Arg(1), flags, format)
	}
	if err := fs.refuse("it is about recordings, and these are profiles", "lines", "since", "until", "label", "event", "model"); err != nil {
		return c.usage(err)
	}
	var sides [2]*feedback.Decisions
	for i, path := range fs.Args() {
		d, err := c.decisions(path, consumer.value)
		if err != nil {
			return err
		}
		sides[i] = d
	}
	doc := newDiff(consumer.value, sides[0], sides[1])
	if err := c.writeDiff(doc, format); err != nil {
		return err
	}
	if failOn.value == "any" && len(doc.Changes) > 0 || failOn.value == "clear" && doc.differs() {
		return fail.Errorf(fail.Changed, "diff: %s would decide %d things otherwise, %d of them clearly", consumer.value, len(doc.Changes), doc.Clear)
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
	d, err := deciders[consumer](f)
	if err != nil {
		return nil, fail.Errorf(fail.Nothing, "%s: %w", path, err)
	}
	return d, nil
}

// A diffDoc is what diff prints as JSON.
type diffDoc struct {
	Schema   string       `json:"schema"`
	Consumer string       `json:"consumer"`
	Hot      [2]int       `json:"hot"`     // before, after
	Samples  [2]float64   `json:"samples"` // likewise; 0 is unknown
	Overlap  float64      `json:"overlap"` // of the weights
	Moved    float64      `json:"moved"`   // of the weight: what becomes hot or ceases to be
	Clear    int          `json:"clear"`
	Changes  []diffChange `json:"items"`
}

type diffChange struct {
	Kind     feedback.ChoiceKind `json:"kind"`
	Site     string              `json:"site"` // procedures in it are named as in the source
	Callee   string              `json:"callee,omitempty"`
	Old      string              `json:"old"`
	New      string              `json:"new"`
	OldShare float64             `json:"old_share"`
	NewShare float64             `json:"new_share"`
	Clear    bool                `json:"clear"`

	// As the linker names procedures, where that is another name.
	MangledSite   string    `json:"mangled_site,omitempty"`
	MangledCallee string    `json:"mangled_callee,omitempty"`
	names         [4]string // of Site, Callee, Old and New to the linker
}

func newDiffChange(ch feedback.Change) diffChange {
	c := diffChange{
		Kind: ch.Kind, Site: report.Demangled(ch.Site), Callee: report.Demangled(ch.Callee), Old: report.Demangled(ch.Old), New: report.Demangled(ch.New),
		OldShare: ch.OldShare, NewShare: ch.NewShare, Clear: ch.Clear, names: [4]string{ch.Site, ch.Callee, ch.Old, ch.New},
	}
	if c.Site != ch.Site {
		c.MangledSite = ch.Site
	}
	if c.Callee != ch.Callee {
		c.MangledCallee = ch.Callee
	}
	return c
}

// in returns ch with the names that tables of a style have.
func (ch diffChange) in(style report.Style) *diffChange {
	if style.Mangled {
		ch.Site, ch.Callee, ch.Old, ch.New = ch.names[0], ch.names[1], ch.names[2], ch.names[3]
	}
	return &ch
}

func newDiff(consumer string, before, after *feedback.Decisions) *diffDoc {
	before, after = feedback.SameNames(before, after)
	doc := &diffDoc{
		Schema: "backfeed.diff/2", Consumer: consumer, Hot: [2]int{before.Hot, after.Hot}, Samples: [2]float64{before.Samples, after.Samples},
		Overlap: feedback.Overlap(before, after), Changes: []diffChange{},
	}
	doc.Moved = feedback.Moved(before, after)
	for _, ch := range feedback.Diff(before, after) {
		doc.Changes = append(doc.Changes, newDiffChange(ch))
		if ch.Clear {
			doc.Clear++
		}
	}
	return doc
}

// differs reports whether the difference is more than two recordings of the same
// workload could have.
func (doc *diffDoc) differs() bool { return doc.Clear > 0 || doc.Moved >= feedback.ClearMoved }

// outgrown reports whether the old profile is thin, so that hardly a change can be clear, and
// the new one is of many more samples.
func (doc *diffDoc) outgrown() bool {
	const more = 4
	return doc.Samples[0] > 0 && doc.Samples[0] < gate.FewSamples && doc.Samples[1] >= more*doc.Samples[0]
}

func (c *cli) writeDiff(doc *diffDoc, format *choice) error {
	return c.print("-", format, doc, doc.Changes, func(w io.Writer, style report.Style) error {
		if style.Markdown {
			return doc.markdown(w, style)
		}
		return doc.text(w, style)
	})
}

// summary is the one line that says it all.
func (doc *diffDoc) summary() string {
	return fmt.Sprintf("%d decisions change, %d of them clearly; %d were hot, %d are; %s of the weight changes sides, %s overlaps",
		len(doc.Changes), doc.Clear, doc.Hot[0], doc.Hot[1], report.Percent(doc.Moved), report.Percent(doc.Overlap))
}

func (doc *diffDoc) text(w io.Writer, style report.Style) error {
	if len(doc.Changes) > 0 {
		t := report.NewTable(report.Left("change"), report.Right("old"), report.Right("new"), report.Procedures("what").Main(), report.Procedures("where"))
		for _, c := range doc.Changes {
			ch := c.in(style)
			t.Row(ch.certainty(), report.Percent(ch.OldShare), report.Percent(ch.NewShare), ch.says(), ch.where())
		}
		if err := t.Print(w, style); err != nil {
			return err
		}
	}
	_, err := report.Fprintf(w, style, "%s\n", doc.summary())
	return err
}

// maxMarkdown bounds the rows of a comment: forges take 64 KiB or so.
const maxMarkdown = 200

// markdown prints what fits a pull request.
func (doc *diffDoc) markdown(w io.Writer, style report.Style) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: %s.\n", doc.Consumer, doc.summary())
	for i, c := range doc.Changes {
		ch := c.in(style)
		if i == 0 {
			b.WriteString("\n| change | old | new | what | where |\n| --- | ---: | ---: | --- | --- |\n")
		}
		if i == maxMarkdown {
			fmt.Fprintf(&b, "\n%d more, none of them hotter.\n", len(doc.Changes)-i)
			break
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", ch.certainty(), report.Percent(ch.OldShare), report.Percent(ch.NewShare),
			report.MarkdownCode(ch.says()), report.MarkdownCode(ch.where()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (ch *diffChange) certainty() string {
	if ch.Clear {
		return "clear"
	}
	return "noise"
}

// says tells the change in a few words.
func (ch *diffChange) says() string {
	from, to := ch.Old, ch.New
	if from == "" {
		from = "neither"
	}
	if to == "" {
		to = "neither"
	}
	switch ch.Kind {
	case feedback.Inline:
		if ch.New == feedback.Hot {
			return "becomes hot"
		}
		return "no longer hot"
	case feedback.Devirtualise:
		return "callee " + from + " -> " + to
	}
	return from + " -> " + to
}

func (ch *diffChange) where() string {
	if ch.Callee != "" {
		return ch.Site + " -> " + ch.Callee
	}
	return ch.Site
}
