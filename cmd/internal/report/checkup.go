package report

import (
	"fmt"
	"io"
	"strings"
)

// A Finding is what was found out about one thing of a machine.
type Finding struct {
	Group  string `json:"group"` // "sampling", "experiments", "kernel" or "tools"
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`        // what was found, or what is missing
	Fix    string `json:"fix,omitempty"` // how to get it, if it is missing
}

// A Checkup is all findings.
type Checkup struct {
	Schema   string    `json:"schema"`
	Findings []Finding `json:"findings"`
}

// NewCheckup returns findings as other programs read them.
func NewCheckup(found []Finding) *Checkup { return &Checkup{"backfeed.doctor/1", found} }

// Text prints findings for people; fixes come after, where they have room.
func (c *Checkup) Text(w io.Writer, style Style) error {
	t := NewTable(Left(""), Left("what"), Left(""), Sentences("found"))
	for _, f := range c.Findings {
		mark := "yes"
		if !f.OK {
			mark = "no"
		}
		t.Row(f.Group, f.Name, mark, Clean(f.Detail))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	// What helps several is said once.
	var fixes []string
	names := map[string][]string{}
	for _, f := range c.Findings {
		if f.OK || f.Fix == "" {
			continue
		}
		if names[f.Fix] == nil {
			fixes = append(fixes, f.Fix)
		}
		names[f.Fix] = append(names[f.Fix], f.Name)
	}
	for _, fix := range fixes {
		fmt.Fprintf(w, "\n%s: %s.", strings.Join(names[fix], ", "), fix)
	}
	_, err := fmt.Fprintln(w)
	return err
}
