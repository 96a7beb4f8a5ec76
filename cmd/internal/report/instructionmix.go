package report

import (
	"cmp"
	"io"
	"slices"

	"backfeed/infer"
	"backfeed/infer/explain"
)

// An InstructionMix is what prof --experiment mix prints as JSON.
type InstructionMix struct {
	Schema       string              `json:"schema"`
	Event        string              `json:"event"`
	Instructions float64             `json:"instructions"` // executed, inferred
	Reads        float64             `json:"reads"`        // of them, those that read memory, of any kind; without the stack's push, pop, call and return
	Writes       float64             `json:"writes"`
	Transfers    float64             `json:"transfers"`               // after which control did not go on to the next instruction
	Taken        *float64            `json:"taken"`                   // share of the conditional branches that were taken; null is unknown
	CommonFactor float64             `json:"common_factor,omitempty"` // that executions may be off by together
	Rows         []InstructionMixRow `json:"items"`
	trust        Trust
}

// An InstructionMixRow is one kind of instruction.
type InstructionMixRow struct {
	Executions float64 `json:"executions"`
	Share      float64 `json:"share"` // of all instructions
	Kind       string  `json:"kind"`
}

// NewInstructionMix says what executed instructions did: those of all procedures, or of one alone. It returns nil if none is known to have run.
func NewInstructionMix(p *infer.Profile, of *Subject) *InstructionMix {
	doc := &InstructionMix{Schema: "backfeed.mix/1", Event: p.Event.Name, CommonFactor: p.CommonFactor()}
	var mix explain.Mix
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			if of == nil || of.Result == r {
				mix.Add(ip.Image, r)
				doc.trust.Add(r)
			}
		}
	}
	if mix.Instructions == 0 {
		return nil
	}
	doc.Instructions, doc.Reads, doc.Writes, doc.Transfers = mix.Instructions, mix.Reads, mix.Writes, mix.Transfers()
	if mix.Decided > 0 {
		taken := mix.Taken / mix.Decided
		doc.Taken = &taken
	}
	for k, n := range mix.Kinds {
		if n > 0 {
			doc.Rows = append(doc.Rows, InstructionMixRow{n, n / mix.Instructions, explain.Kind(k).String()})
		}
	}
	slices.SortStableFunc(doc.Rows, func(a, b InstructionMixRow) int { return cmp.Compare(b.Executions, a.Executions) })
	return doc
}

// Text writes the table, what memory and control have of it, and how far it is known.
func (doc *InstructionMix) Text(w io.Writer, style Style) error {
	table := NewTable(Right("executions"), Right("share"), Left("kind").Main())
	for _, r := range doc.Rows {
		table.Row(Count(r.Executions), Percent(r.Share), r.Kind)
	}
	if err := table.Print(w, style); err != nil {
		return err
	}
	part := func(n float64) string { return Percent(n / doc.Instructions) }
	taken := ""
	if doc.Taken != nil {
		taken = "; of conditional branches, " + Percent(*doc.Taken) + " were taken"
	}
	t := &doc.trust
	_, err := Fprintf(w, style, "\n%s of %s instructions read memory and %s write it, beside pushes, pops, calls and returns; %s lead elsewhere than to the next one%s.\n"+
		"All is inferred; of the samples, %s are in blocks whose executions are of high or medium confidence within their procedure.\n",
		part(doc.Reads), Count(doc.Instructions), part(doc.Writes), part(doc.Transfers), taken, Share(t.Within[infer.High]+t.Within[infer.Medium], t.Samples))
	if told := toldFactor(doc.CommonFactor); err == nil && told != "" {
		_, err = Fprintf(w, style, "%s\n", told)
	}
	return err
}
