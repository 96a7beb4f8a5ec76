package main

import (
	"io"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
)

// deepStack is how many frames of a stack usertime reads: all that Linux records
// (kernel.perf_event_max_stack, 127 unless it was raised).
const deepStack = 127

// A usertimeDoc is what prof --experiment usertime prints as JSON.
type usertimeDoc struct {
	Schema  string         `json:"schema"`
	Event   string         `json:"event"`
	Stacks  usertimeStacks `json:"stacks"`
	Rows    []usertimeRow  `json:"items,omitempty"`
	Callers []usertimeEdge `json:"callers,omitempty"` // with --proc
	Callees []usertimeEdge `json:"callees,omitempty"`
}

// usertimeStacks says how far the inclusive samples can be believed.
type usertimeStacks struct {
	Samples  uint64 `json:"samples"`
	Complete uint64 `json:"complete"`
	Cut      uint64 `json:"cut"`
	Bare     uint64 `json:"bare"`
	Deepest  int    `json:"deepest"` // frames
}

// A usertimeRow is one procedure.
type usertimeRow struct {
	Inclusive      uint64  `json:"inclusive"` // samples
	InclusiveShare float64 `json:"inclusive_share"`
	Exclusive      uint64  `json:"exclusive"`
	ExclusiveShare float64 `json:"exclusive_share"`
	Image          string  `json:"image,omitempty"`
	report.Name
}

// A usertimeEdge is a caller or a callee of the procedure that was asked for.
type usertimeEdge struct {
	Role    string  `json:"role"` // "caller", "itself" or "callee"
	Samples uint64  `json:"samples"`
	Share   float64 `json:"share"` // of the inclusive samples of the procedure
	Image   string  `json:"image,omitempty"`
	report.Name
}

// usertime shows time by call stack, that of proc by caller and callee.
func (c *cli) usertime(src *input.Session, proc string, lines int, format *choice) error {
	times := src.Profile.CallTimes(src.Recording)
	if times.Bare == times.Samples {
		return fail.Errorf(fail.Nothing, "prof: no call stacks were recorded; want perf record --call-graph fp, record, or record -a --callers")
	}
	doc := &usertimeDoc{Schema: "backfeed.usertime/2", Event: src.Profile.Event.Name}
	doc.Stacks = usertimeStacks{times.Samples, times.Complete, times.Cut, times.Bare, times.Deepest}
	if proc != "" {
		edges, err := doc.butterfly(times, proc)
		if err != nil {
			return err
		}
		return c.print("-", format, doc, edges, func(w io.Writer, style report.Style) error { return doc.writeButterfly(w, edges, style) })
	}
	share := func(n uint64) float64 { return float64(n) / float64(max(times.Samples, 1)) }
	for i := range times.Procs {
		t := &times.Procs[i]
		doc.Rows = append(doc.Rows, usertimeRow{t.Inclusive, share(t.Inclusive), t.Exclusive, share(t.Exclusive), imageOf(t.CallProc), callName(t.CallProc)})
	}
	if lines > 0 && len(doc.Rows) > lines {
		doc.Rows = doc.Rows[:lines]
	}
	return c.print("-", format, doc, doc.Rows, doc.text)
}

// butterfly returns the callers of a procedure, itself, and its callees.
func (doc *usertimeDoc) butterfly(times *infer.CallTimes, proc string) ([]usertimeEdge, error) {
	var all []usertimeEdge
	found := 0
	for i := range times.Procs {
		t := &times.Procs[i]
		if !report.IsNamed(t.Name(), proc) {
			continue
		}
		found++
		edge := func(role string, n uint64, p infer.CallProc) usertimeEdge {
			return usertimeEdge{role, n, float64(n) / float64(max(t.Inclusive, 1)), imageOf(p), callName(p)}
		}
		for _, e := range t.Callers {
			doc.Callers = append(doc.Callers, edge("caller", e.Samples, e.CallProc))
		}
		for _, e := range t.Callees {
			doc.Callees = append(doc.Callees, edge("callee", e.Samples, e.CallProc))
		}
		doc.Rows = append(doc.Rows, usertimeRow{t.Inclusive, float64(t.Inclusive) / float64(max(times.Samples, 1)),
			t.Exclusive, float64(t.Exclusive) / float64(max(times.Samples, 1)), imageOf(t.CallProc), callName(t.CallProc)})
		all = append(all, doc.Callers[len(doc.Callers)-len(t.Callers):]...)
		all = append(all, edge("itself", t.Exclusive, t.CallProc))
		all = append(all, doc.Callees[len(doc.Callees)-len(t.Callees):]...)
	}
	if found == 0 {
		return nil, fail.Errorf(fail.Nothing, "prof: %s is on no call stack", proc)
	}
	return all, nil
}

func imageOf(p infer.CallProc) string {
	if p.Image == nil {
		return ""
	}
	return p.Image.ID.Path
}

func callName(p infer.CallProc) report.Name {
	if name := p.Name(); name != "" {
		return report.NameOf(name)
	}
	return report.Name{Procedure: "(" + string(infer.LostNoProc) + ")"}
}

func (doc *usertimeDoc) text(w io.Writer, style report.Style) error {
	t := report.NewTable(report.Right("inclusive"), report.Right("share"), report.Right("exclusive"), report.Right("share"),
		report.Paths("image").Drop(1), report.Procedures("procedure").Main())
	for _, r := range doc.Rows {
		t.Row(report.Integer(r.Inclusive), report.Percent(r.InclusiveShare), report.Integer(r.Exclusive), report.Percent(r.ExclusiveShare), r.Image, r.In(style))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	return doc.tellStacks(w, style)
}

func (doc *usertimeDoc) writeButterfly(w io.Writer, edges []usertimeEdge, style report.Style) error {
	t := report.NewTable(report.Left(""), report.Right("samples"), report.Right("share"), report.Paths("image").Drop(1), report.Procedures("procedure").Main())
	for _, e := range edges {
		t.Row(e.Role, report.Integer(e.Samples), report.Percent(e.Share), e.Image, e.In(style))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	for _, r := range doc.Rows {
		if _, err := report.Fprintf(w, style, "\n%s: %s samples in it and what it calls, %s of all\n", r.In(style), report.Integer(r.Inclusive),
			report.Percent(r.InclusiveShare)); err != nil {
			return err
		}
	}
	return doc.tellStacks(w, style)
}

// tellStacks says how complete stacks are: what is cut off, callers do not have.
func (doc *usertimeDoc) tellStacks(w io.Writer, style report.Style) error {
	s := doc.Stacks
	_, err := report.Fprintf(w, style, "\n%s samples of %s: %s with a stack to where the thread began, %s with one that ends before, %s with none; deepest: %d frames\n",
		report.Integer(s.Samples), doc.Event, report.Share(s.Complete, s.Samples), report.Share(s.Cut, s.Samples), report.Share(s.Bare, s.Samples), s.Deepest)
	return err
}
