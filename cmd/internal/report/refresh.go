package report

import (
	"fmt"
	"io"
	"strings"

	"backfeed/infer/document"
)

// A Refresh is what one run of the command refresh did, as JSON: refresh.schema.json of cmd/backfeed.
type Refresh struct {
	Schema  string          `json:"schema"`
	DryRun  bool            `json:"dry_run,omitempty"` // nothing was written
	Changed int             `json:"changed"`           // targets
	Failed  int             `json:"failed"`
	Targets []RefreshTarget `json:"targets"`

	// Files are what was or may have been written or removed, the lock included: paths below the configuration's directory.
	Files []string `json:"-"`
}

// States of targets and of their outputs.
const (
	RefreshNew       = "new"       // of outputs: there was none
	RefreshChanged   = "changed"   //
	RefreshUnchanged = "unchanged" //
	RefreshFailed    = "failed"    // of targets: none of its files was touched
)

// A RefreshTarget is what became of one target.
type RefreshTarget struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // of a failure

	Event   string         `json:"event,omitempty"`
	Samples uint64         `json:"samples"` // of all images that were asked for
	Used    uint64         `json:"used"`
	From    string         `json:"from,omitempty"` // of stores: RFC 3339
	To      string         `json:"to,omitempty"`
	Hosts   int            `json:"hosts,omitempty"`
	Builds  []RefreshBuild `json:"builds,omitempty"`
	Carried float64        `json:"carried,omitempty"` // share of the samples of older builds that could be carried over; where what is written is of a recorded build, of all samples, its own included
	Gates   []Verdict      `json:"checks,omitempty"`
	Hottest []RefreshProc  `json:"hottest,omitempty"`

	Outputs []RefreshOutput `json:"outputs,omitempty"`
}

// A RefreshBuild is a build that was sampled.
type RefreshBuild struct {
	ID      string `json:"build_id"`
	Path    string `json:"path"` // as recorded
	Samples uint64 `json:"samples"`
	Newest  bool   `json:"newest,omitempty"` // it is the one that the outputs are for
}

// A RefreshProc is a procedure with samples.
type RefreshProc struct {
	Name       string              `json:"name"`
	Image      string              `json:"image"`
	Share      float64             `json:"share"`      // of the samples that are used
	Confidence document.Confidence `json:"confidence"` // within the procedure: of the block with most samples
}

// A RefreshOutput is one file.
type RefreshOutput struct {
	Path    string        `json:"path"`
	File    string        `json:"file,omitempty"` // in a store, or where the path has a place for digits
	Format  string        `json:"format"`
	State   string        `json:"state"`
	SHA256  string        `json:"sha256"`
	Why     string        `json:"why"`               // it stays or changes
	Holds   []string      `json:"holds,omitempty"`   // what is in it, and what is left out
	Changes *DecisionDiff `json:"changes,omitempty"` // from what was there
	Saving  *Saving       `json:"expected_saving,omitempty"`
}

// A Saving is the share of the instructions that a build by a profile is expected to save against one without: 1 is all.
type Saving struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// A RefreshRow is a row of a run, for CSV: one for each output, and one for a target without.
type RefreshRow struct {
	Target  string `json:"target"`
	State   string `json:"state"`
	Path    string `json:"path"`
	Format  string `json:"format"`
	File    string `json:"file_state"`
	SHA256  string `json:"sha256"`
	Clear   int    `json:"clear"`
	Changes int    `json:"changes"`
	Reason  string `json:"reason"`
}

// Rows are the run for a table of one row per output.
func (r *Refresh) Rows() []RefreshRow {
	var rows []RefreshRow
	for _, t := range r.Targets {
		if len(t.Outputs) == 0 {
			rows = append(rows, RefreshRow{Target: t.Name, State: t.State, Reason: t.Reason})
		}
		for _, o := range t.Outputs {
			row := RefreshRow{t.Name, t.State, o.Path, o.Format, o.State, o.SHA256, 0, 0, o.Why}
			if o.Changes != nil {
				row.Clear, row.Changes = o.Changes.Clear, len(o.Changes.Changes)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// Title is the run in a line, as of a commit or a pull request.
func (r *Refresh) Title() string {
	var changed []string
	for _, t := range r.Targets {
		for _, o := range t.Outputs {
			if o.State != RefreshUnchanged {
				changed = append(changed, o.Path)
			}
		}
	}
	switch {
	case len(changed) == 0:
		return "profiles: nothing to refresh"
	case len(changed) <= 2:
		return "profiles: refresh " + strings.Join(changed, " and ")
	}
	return fmt.Sprintf("profiles: refresh %s and %d more files", changed[0], len(changed)-1)
}

// Text prints the run, as paragraphs or for a pull request.
func (r *Refresh) Text(w io.Writer, style Style) error {
	if style.Markdown {
		return r.markdown(w, style)
	}
	var b strings.Builder
	for i := range r.Targets {
		t := &r.Targets[i]
		fmt.Fprintf(&b, "%s: %s\n", Clean(t.Name), t.says())
		for _, o := range t.Outputs {
			fmt.Fprintf(&b, "  %s: %s: %s\n", Clean(o.where()), o.State, Clean(o.Why))
			if o.State == RefreshUnchanged {
				continue
			}
			if s := o.Saving; s != nil {
				fmt.Fprintf(&b, "    expected to save %s to %s of the instructions against a build without a profile\n", Percent(s.Least), Percent(s.Most))
			}
			for _, line := range o.Holds {
				fmt.Fprintf(&b, "    %s\n", Clean(line))
			}
		}
	}
	if r.DryRun {
		b.WriteString("Nothing was written: --dry-run.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// says is what became of a target in a line.
func (t *RefreshTarget) says() string {
	if t.State == RefreshFailed {
		return "failed, and its files are as they were: " + Clean(t.Reason)
	}
	return t.State + ", " + t.evidence()
}

// evidence says what samples a target is made of.
func (t *RefreshTarget) evidence() string {
	text := fmt.Sprintf("%d samples of %s, %s used", t.Samples, Clean(t.Event), Share(t.Used, t.Samples))
	if t.From != "" {
		text += ", of " + t.From + " to " + t.To
	}
	if t.Hosts > 0 {
		text += fmt.Sprintf(", of %d hosts", t.Hosts)
	}
	if older := t.older(); older > 0 {
		text += fmt.Sprintf("; %d of older builds, %s carried over", older, Percent(t.Carried))
	}
	return text
}

// older are the samples of builds that are not the newest.
func (t *RefreshTarget) older() (n uint64) {
	for _, b := range t.Builds {
		if !b.Newest {
			n += b.Samples
		}
	}
	return n
}

// where names the file.
func (o *RefreshOutput) where() string {
	if o.File != "" {
		return o.File
	}
	return o.Path
}

// Bounds of a comment: what is more, the JSON has.
const maxRefreshRows, maxRefreshHottest = 20, 10

// markdown prints what fits a pull request: what clearly changes, where time went, and how good the samples are.
func (r *Refresh) markdown(w io.Writer, style Style) error {
	var b strings.Builder
	for i := range r.Targets {
		r.Targets[i].markdown(&b, style)
	}
	if r.DryRun {
		b.WriteString("Nothing was written: `--dry-run`.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *RefreshTarget) markdown(b *strings.Builder, style Style) {
	fmt.Fprintf(b, "### %s: %s\n\n", EscapeMarkdown(t.Name), t.State)
	if t.State == RefreshFailed {
		fmt.Fprintf(b, "Its files are as they were: %s\n\n", EscapeMarkdown(t.Reason))
	}
	for _, o := range t.Outputs {
		fmt.Fprintf(b, "- %s %s: %s\n", MarkdownCode(o.where()), o.State, EscapeMarkdown(o.Why))
		if o.State == RefreshUnchanged {
			continue
		}
		if s := o.Saving; s != nil {
			fmt.Fprintf(b, "  - expected to save %s to %s of the instructions against a build without a profile\n", Percent(s.Least), Percent(s.Most))
		}
		for _, line := range o.Holds {
			fmt.Fprintf(b, "  - %s\n", EscapeMarkdown(line))
		}
	}
	if len(t.Outputs) > 0 {
		b.WriteString("\n")
	}
	for i := 0; i < len(t.Outputs); { // of outputs that change by the same, one table
		text, paths := t.Outputs[i].clearly(style), []string{MarkdownCode(t.Outputs[i].Path)}
		for i++; i < len(t.Outputs) && text != "" && t.Outputs[i].clearly(style) == text; i++ {
			paths = append(paths, MarkdownCode(t.Outputs[i].Path))
		}
		if text != "" {
			fmt.Fprintf(b, "What the build decides otherwise by %s:\n\n%s", strings.Join(paths, ", "), text)
		}
	}
	if t.Samples == 0 {
		return
	}
	if t.State != RefreshUnchanged && len(t.Hottest) > 0 {
		b.WriteString("| share of samples | hottest procedures | confidence within |\n| ---: | --- | --- |\n")
		for _, p := range t.Hottest[:min(len(t.Hottest), maxRefreshHottest)] {
			fmt.Fprintf(b, "| %s | %s | %s |\n", Percent(p.Share), MarkdownCode(p.Name), p.Confidence)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "Made of %s.\n\n", EscapeMarkdown(t.evidence()))
	if failed := Failures(t.Gates); failed != "" {
		fmt.Fprintf(b, "Checks that fail: %s.\n\n", EscapeMarkdown(failed))
	}
}

// clearly returns the changes of an output that are clear as a table, and the sum of the others; "" if there are none.
func (o *RefreshOutput) clearly(style Style) string {
	doc := o.Changes
	if o.State != RefreshChanged || doc == nil {
		return ""
	}
	var b strings.Builder
	rows := doc.Changes[:min(doc.Clear, maxRefreshRows)]
	if len(rows) > 0 {
		b.WriteString("| old | new | what | where |\n| ---: | ---: | --- | --- |\n")
		for _, ch := range rows {
			b.WriteString(ch.cells(style))
		}
		b.WriteString("\n")
	}
	switch more, noise := doc.Clear-len(rows), len(doc.Changes)-doc.Clear; {
	case more > 0:
		fmt.Fprintf(&b, "%d more changes are clear, %d may be noise.\n\n", more, noise)
	case noise > 0:
		fmt.Fprintf(&b, "%d changes beside that may be noise.\n\n", noise)
	}
	return b.String()
}
