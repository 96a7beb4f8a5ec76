package report

import (
	"fmt"
	"io"
	"strings"

	"backfeed/feedback"
	"backfeed/feedback/gate"
)

// A DecisionDiff is what a consumer would decide otherwise by another profile, what diff prints
// as JSON.
type DecisionDiff struct {
	Schema   string           `json:"schema"`
	Consumer string           `json:"consumer"`
	Hot      [2]int           `json:"hot"`     // before, after
	Samples  [2]float64       `json:"samples"` // likewise; 0 is unknown
	Overlap  float64          `json:"overlap"` // of the weights
	Moved    float64          `json:"moved"`   // of the weight: what becomes hot or ceases to be
	Clear    int              `json:"clear"`
	Callers  bool             `json:"gains_callers,omitempty"` // the old profile was made without callers, which tell where indirect calls lead, the new one with them
	Changes  []DecisionChange `json:"items"`
	Unclear  bool             `json:"-"` // tables list what is not clear, too
}

// A DecisionChange is one decision that is another.
type DecisionChange struct {
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

func newDecisionChange(ch feedback.Change) DecisionChange {
	c := DecisionChange{
		Kind: ch.Kind, Site: Demangled(ch.Site), Callee: Demangled(ch.Callee), Old: Demangled(ch.Old), New: Demangled(ch.New),
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
func (ch DecisionChange) in(style Style) *DecisionChange {
	if style.Mangled {
		ch.Site, ch.Callee, ch.Old, ch.New = ch.names[0], ch.names[1], ch.names[2], ch.names[3]
	}
	return &ch
}

// NewDecisionDiff compares the decisions of a consumer by two profiles.
func NewDecisionDiff(consumer string, before, after *feedback.Decisions) *DecisionDiff {
	before, after = feedback.SameNames(before, after)
	doc := &DecisionDiff{
		Schema: "backfeed.diff/2", Consumer: consumer, Hot: [2]int{before.Hot, after.Hot}, Samples: [2]float64{before.Samples, after.Samples},
		Overlap: feedback.Overlap(before, after), Changes: []DecisionChange{},
	}
	doc.Moved = feedback.Moved(before, after)
	doc.Callers = before.Blind && !after.Blind
	for _, ch := range feedback.Diff(before, after) {
		doc.Changes = append(doc.Changes, newDecisionChange(ch))
		if ch.Clear {
			doc.Clear++
		}
	}
	return doc
}

// Differs reports whether the difference is more than two recordings of the same
// workload could have.
func (doc *DecisionDiff) Differs() bool { return doc.Clear > 0 || doc.Moved >= feedback.ClearMoved }

// Alike reports whether what is made by the old profile may stay, where no rule of its reader predicts decisions: nothing clearly
// changes, the new one is not of far more samples, and most of the weight is where it was.
func (doc *DecisionDiff) Alike() bool {
	return !doc.Differs() && !doc.Outgrown() && doc.Overlap > 1-feedback.ClearMoved
}

// Outgrown reports whether the old profile is thin, so that hardly a change can be clear, and
// the new one is of many more samples.
func (doc *DecisionDiff) Outgrown() bool {
	const more = 4
	return doc.Samples[0] > 0 && doc.Samples[0] < gate.FewSamples && doc.Samples[1] >= more*doc.Samples[0]
}

// Summary is the one line that says it all.
func (doc *DecisionDiff) Summary() string {
	return fmt.Sprintf("%d decisions change, %d of them clearly; %d were hot, %d are; %s of the weight changes sides, %s overlaps",
		len(doc.Changes), doc.Clear, doc.Hot[0], doc.Hot[1], Percent(doc.Moved), Percent(doc.Overlap))
}

// Text prints the changes that are clear as a table, or as what fits a pull request, and sums up the others.
func (doc *DecisionDiff) Text(w io.Writer, style Style) error {
	if style.Markdown {
		return doc.markdown(w, style)
	}
	listed := doc.listed(len(doc.Changes))
	if len(listed) > 0 {
		t := NewTable(Left("change"), Right("old"), Right("new"), Procedures("what").Main(), Procedures("where"))
		for _, c := range listed {
			ch := c.in(style)
			t.Row(ch.certainty(), Percent(ch.OldShare), Percent(ch.NewShare), ch.Says(), ch.Where())
		}
		if err := t.Print(w, style); err != nil {
			return err
		}
	}
	for _, line := range append(doc.rest(len(listed)), doc.Summary()) {
		if _, err := Fprintf(w, style, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the changes that tables list, so many at most; those that are clear come first.
func (doc *DecisionDiff) listed(most int) []DecisionChange {
	n := doc.Clear
	if doc.Unclear {
		n = len(doc.Changes)
	}
	return doc.Changes[:min(n, most)]
}

// rest sums up the changes that are not among the first so many.
func (doc *DecisionDiff) rest(listed int) (lines []string) {
	if more := doc.Clear - listed; more > 0 {
		lines = append(lines, fmt.Sprintf("More that are clear: %d, none of them hotter.", more))
	}
	noise := doc.Changes[max(doc.Clear, listed):]
	if len(noise) == 0 {
		return lines
	}
	hottest := 0.0
	for _, ch := range noise {
		hottest = max(hottest, ch.OldShare, ch.NewShare)
	}
	how := "two recordings of one workload can differ so"
	if !doc.Unclear {
		how += "; --unclear lists them"
	}
	return append(lines, fmt.Sprintf("Not clear: %d, each of %s of the weight or less: %s.", len(noise), Percent(hottest), how))
}

// maxMarkdown bounds the rows of a comment that people read, maxMarkdownUnclear those of one that is to list all: forges take
// 64 KiB or so.
const maxMarkdown, maxMarkdownUnclear = 50, 200

// markdown prints what fits a pull request.
func (doc *DecisionDiff) markdown(w io.Writer, style Style) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: %s.\n", doc.Consumer, doc.Summary())
	most := maxMarkdown
	if doc.Unclear {
		most = maxMarkdownUnclear
	}
	listed := doc.listed(most)
	for i, ch := range listed {
		if i == 0 {
			b.WriteString("\n| change | old | new | what | where |\n| --- | ---: | ---: | --- | --- |\n")
		}
		fmt.Fprintf(&b, "| %s %s", ch.certainty(), ch.cells(style))
	}
	for _, line := range doc.rest(len(listed)) {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cells are a row of a table in Markdown: old and new share, what and where.
func (ch DecisionChange) cells(style Style) string {
	c := ch.in(style)
	return fmt.Sprintf("| %s | %s | %s | %s |\n", Percent(c.OldShare), Percent(c.NewShare), MarkdownCode(c.Says()), MarkdownCode(c.Where()))
}

func (ch *DecisionChange) certainty() string {
	if ch.Clear {
		return "clear"
	}
	return "noise"
}

// Says tells the change in a few words.
func (ch *DecisionChange) Says() string {
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

// Where names the call or the function.
func (ch *DecisionChange) Where() string {
	if ch.Callee != "" {
		return ch.Site + " -> " + ch.Callee
	}
	return ch.Site
}
