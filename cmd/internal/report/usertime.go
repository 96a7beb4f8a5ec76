package report

import (
	"io"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A Usertime is what prof --experiment usertime prints as JSON.
type Usertime struct {
	Schema  string         `json:"schema"`
	Event   string         `json:"event"`
	Stacks  UsertimeStacks `json:"stacks"`
	Rows    []UsertimeRow  `json:"items,omitempty"`
	Callers []UsertimeEdge `json:"callers,omitempty"` // with --proc
	Callees []UsertimeEdge `json:"callees,omitempty"`

	all uint64 // samples that shares are of: as those of prof, those without a place too
}

// UsertimeStacks says how far the inclusive samples can be believed.
type UsertimeStacks struct {
	Samples  uint64 `json:"samples"`
	Complete uint64 `json:"complete"`
	Cut      uint64 `json:"cut"`
	Bare     uint64 `json:"bare"`
	Deepest  int    `json:"deepest"` // frames

	uncalled uint64 // samples whose caller is not known
}

// A UsertimeRow is one procedure.
type UsertimeRow struct {
	Inclusive      uint64  `json:"inclusive"` // samples
	InclusiveShare float64 `json:"inclusive_share"`
	Exclusive      uint64  `json:"exclusive"`
	ExclusiveShare float64 `json:"exclusive_share"`
	Image          string  `json:"image,omitempty"`
	Name
}

// A UsertimeEdge is a caller or a callee of the procedure that was asked for.
type UsertimeEdge struct {
	Role    string  `json:"role"` // "caller", "itself" or "callee"
	Samples uint64  `json:"samples"`
	Share   float64 `json:"share"` // of the inclusive samples of the procedure
	Image   string  `json:"image,omitempty"`
	Name
}

func stacksOf(times *infer.CallTimes) UsertimeStacks {
	return UsertimeStacks{times.Samples, times.Complete, times.Cut, times.Bare, times.Deepest, times.Uncalled}
}

// NewUsertime lists at most so many procedures by the time in them and in what they call; 0 is
// all. It returns nil if no sample has a call stack.
func NewUsertime(p *infer.Profile, times *infer.CallTimes, most int) *Usertime {
	if times.Bare == times.Samples {
		return nil
	}
	doc := &Usertime{Schema: "backfeed.usertime/2", Event: p.Event.Name}
	doc.Stacks = stacksOf(times)
	doc.all = max(p.Samples.Total, times.Samples, 1)
	share := func(n uint64) float64 { return float64(n) / float64(doc.all) }
	for i := range times.Procs {
		t := &times.Procs[i]
		doc.Rows = append(doc.Rows, UsertimeRow{t.Inclusive, share(t.Inclusive), t.Exclusive, share(t.Exclusive), imageOf(t.CallProc), callName(t.CallProc)})
	}
	names := make([]placed, len(doc.Rows))
	for i := range doc.Rows {
		names[i] = placed{&doc.Rows[i].Name, doc.Rows[i].Image, addrOf(times.Procs[i].CallProc)}
	}
	tellApart(names)
	if most > 0 && len(doc.Rows) > most {
		doc.Rows = doc.Rows[:most]
	}
	return doc
}

// Butterfly narrows the document down to the procedures of that name, and returns their
// callers, themselves, and their callees; none if no stack has one.
func (doc *Usertime) Butterfly(times *infer.CallTimes, proc string) []UsertimeEdge {
	doc.Rows = nil
	var all []UsertimeEdge
	for i := range times.Procs {
		t := &times.Procs[i]
		if !IsNamed(t.Name(), proc) {
			continue
		}
		edge := func(role string, n uint64, p infer.CallProc) UsertimeEdge {
			return UsertimeEdge{role, n, float64(n) / float64(max(t.Inclusive, 1)), imageOf(p), callName(p)}
		}
		for _, e := range t.Callers {
			doc.Callers = append(doc.Callers, edge("caller", e.Samples, e.CallProc))
		}
		for _, e := range t.Callees {
			doc.Callees = append(doc.Callees, edge("callee", e.Samples, e.CallProc))
		}
		doc.Rows = append(doc.Rows, UsertimeRow{t.Inclusive, float64(t.Inclusive) / float64(doc.all),
			t.Exclusive, float64(t.Exclusive) / float64(doc.all), imageOf(t.CallProc), callName(t.CallProc)})
		all = append(all, doc.Callers[len(doc.Callers)-len(t.Callers):]...)
		all = append(all, edge("itself", t.Exclusive, t.CallProc))
		all = append(all, doc.Callees[len(doc.Callees)-len(t.Callees):]...)
	}
	return all
}

func imageOf(p infer.CallProc) string {
	if p.Image == nil {
		return ""
	}
	return p.Image.ID.Path
}

// addrOf is where a procedure begins; 0 is unknown.
func addrOf(p infer.CallProc) image.Addr {
	if p.Image == nil || p.Proc < 0 {
		return 0
	}
	return p.Image.Image.Symbols()[p.Proc].Addr
}

func callName(p infer.CallProc) Name {
	if name := p.Name(); name != "" {
		return NameOf(name)
	}
	return Name{Procedure: "(" + string(infer.LostNoProc) + ")"}
}

// Text prints the list as a table, and how complete stacks are.
func (doc *Usertime) Text(w io.Writer, style Style) error {
	t := NewTable(Right("inclusive"), Right("share"), Right("exclusive"), Right("share"),
		Paths("image").Drop(1), Procedures("procedure").Main())
	for _, r := range doc.Rows {
		t.Row(Amount(doc.Event, r.Inclusive), Percent(r.InclusiveShare), Amount(doc.Event, r.Exclusive), Percent(r.ExclusiveShare), r.Image, r.In(style))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	return doc.Stacks.tell(w, doc.Event, style)
}

// ButterflyText prints what Butterfly returned.
func (doc *Usertime) ButterflyText(w io.Writer, edges []UsertimeEdge, style Style) error {
	t := NewTable(Left(""), Right(AmountHead(doc.Event)), Right("share"), Paths("image").Drop(1), Procedures("procedure").Main())
	for _, e := range edges {
		t.Row(e.Role, Amount(doc.Event, e.Samples), Percent(e.Share), e.Image, e.In(style))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	for _, r := range doc.Rows {
		if _, err := Fprintf(w, style, "\n%s: %s in it and what it calls, %s of all\n", r.In(style), AmountOf(doc.Event, r.Inclusive),
			Percent(r.InclusiveShare)); err != nil {
			return err
		}
	}
	return doc.Stacks.tell(w, doc.Event, style)
}

// NoStacksOff is why time off the processor has no stack: it is recorded with whole stacks, whatever was asked for.
const NoStacksOff = "waits that nobody saw begin (event " + sample.OffCPU + ":unknown), and those whose stack could not be unwound or kept, have their place alone; " +
	"nothing to do"

// Blind says what lacks where most samples have no caller, so that inclusive samples are next to exclusive ones; "" if nothing does.
func (s *UsertimeStacks) Blind(event string) string {
	if 2*s.uncalled <= s.Samples {
		return ""
	}
	if sample.IsOff(event) {
		return Sprintf(Style{}, "%s of the time has no caller, so that inclusive times are too low: "+NoStacksOff, Share(s.uncalled, s.Samples))
	}
	return Sprintf(Style{}, "%s of the samples have no caller, so that inclusive samples are too few: perf record -g and record find callers by frame pointers, and most code is compiled without; "+
		"record with backfeed record --callers or perf record --call-graph dwarf, which need none, or compile with -fno-omit-frame-pointer; "+
		"by --callers, they are of processes that live for milliseconds, whose unwind tables come too late", Share(s.uncalled, s.Samples))
}

// tell says how complete stacks are: what is cut off, callers do not have.
func (s *UsertimeStacks) tell(w io.Writer, event string, style Style) error {
	_, err := Fprintf(w, style, "\n%s of %s: %s with a stack to where the thread began, %s with one that ends before, %s with none; deepest: %d frames\n",
		AmountOf(event, s.Samples), event, Share(s.Complete, s.Samples), Share(s.Cut, s.Samples), Share(s.Bare, s.Samples), s.Deepest)
	return err
}
