package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"
)

// An Overview is what was recorded and what matters most of it: what report prints.
type Overview struct {
	TimeHeader
	Sources    []string          `json:"sources,omitempty"` // that were read
	Seconds    *float64          `json:"seconds,omitempty"` // of processors, that the samples stand for; nil where they count something else than time
	Processors []string          `json:"processors"`
	From       string            `json:"from,omitempty"` // of a store: when the first of its epochs began, in RFC 3339
	To         string            `json:"to,omitempty"`   // and the last ended
	Hosts      int               `json:"hosts,omitempty"`
	Runs       []RunRow          `json:"runs,omitempty"`          // of recorders, as far as they are known
	Unlisted   uint64            `json:"unlisted_runs,omitempty"` // further ones
	Usage      *RunUsage         `json:"usage,omitempty"`         // of all runs of which it is known
	Lost       map[string]uint64 `json:"lost"`                    // samples, by why they have no procedure
	Findings   []Insight         `json:"findings"`
	Items      []ProcItem        `json:"items"` // procedures, those with most cycles first

	Facts []Fact   `json:"-"`
	Trust []Phrase `json:"-"` // the confidence in one line
}

// An Insight is one thing that matters, in sentences.
type Insight struct {
	ID    string   `json:"id"` // "hottest", "stalls", "profile", "layout" or "unknown"
	Title string   `json:"title"`
	Text  string   `json:"text"` // Says
	Says  []Phrase `json:"-"`
	Href  string   `json:"-"` // where more of it is; "" is nowhere
	Later bool     `json:"-"` // it is not found yet
}

// A Phrase is a piece of a sentence, which may lead somewhere.
type Phrase struct{ Text, Href string }

// Say appends to a finding.
func (f *Insight) Say(format string, args ...any) {
	f.Link("", format, args...)
}

// Link appends words to a finding that lead to href; "" is nowhere.
func (f *Insight) Link(href, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.Says = append(f.Says, Phrase{text, href})
	f.Text += text
}

// InsightsHTML lists findings.
func InsightsHTML(all []Insight) func() (template.HTML, error) {
	return func() (template.HTML, error) { return markup("findings.tmpl", all) }
}

// RecordedHTML says what was recorded, and how far it is to be trusted.
func (o *Overview) RecordedHTML() (template.HTML, error) {
	facts, err := FactsHTML(o.Facts)
	if err != nil {
		return "", err
	}
	trust, err := markup("phrases.tmpl", o.Trust)
	return facts + "<p>" + trust + "</p>\n", err
}

// Print writes the overview, and the first procedures as a table.
func (o *Overview) Print(w io.Writer, style Style) error {
	for _, f := range o.Facts {
		Fprintf(w, style, "%s: %s\n", f.Name, f.Value)
	}
	Fprintf(w, style, "%s\n", said(o.Trust))
	for _, f := range o.Findings {
		Fprintf(w, style, "\n%s\n%s\n", f.Title, f.Text)
	}
	if len(o.Items) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := NewTable(Right("lost"), Right("share"), Right("samples"), Right("executions").Drop(3), Right("CPI").Drop(2), Left("likeliest cause").Drop(1), Paths("image"), Procedures("procedure").Main())
	all := float64(max(1, o.Samples)) * o.CyclesPerSample
	for _, r := range o.Items {
		t.Row(Percent(r.Lost/all), Percent(r.Share), Integer(r.Samples), Count(orNaN(r.Executions)), Ratio(orNaN(r.CPI)), r.Cause, r.Image, r.In(style))
	}
	return t.Print(w, style)
}

func said(all []Phrase) string {
	var b strings.Builder
	for _, p := range all {
		b.WriteString(p.Text)
	}
	return b.String()
}
