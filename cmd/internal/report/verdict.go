package report

import (
	"fmt"
	"io"
	"math"
	"time"

	"backfeed/feedback/gate"
)

// A Verdict is a gate as check prints it.
type Verdict struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Limit  string `json:"limit"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason"` // what a failure means
}

// NewVerdicts returns gates as check prints them.
func NewVerdicts(gates []gate.Gate) []Verdict {
	var all []Verdict
	for _, g := range gates {
		limit := "at least "
		if g.AtMost {
			limit = "at most "
		}
		all = append(all, Verdict{g.Name, measured(g.Unit, g.Value), limit + measured(g.Unit, g.Limit), g.OK(), g.Reason})
	}
	return all
}

// measured is a number of a gate with its unit.
func measured(u gate.Unit, n float64) string {
	switch u {
	case gate.Samples:
		return Integer(uint64(n))
	case gate.Seconds:
		return time.Duration(math.Round(n * float64(time.Second))).String()
	}
	return Percent(n)
}

// Failure says what was found, what was wanted, and what that means.
func (v *Verdict) Failure() string {
	return fmt.Sprintf("%s %s, want %s: %s", v.Name, v.Value, v.Limit, v.Reason)
}

// WriteVerdicts writes the table of check.
func WriteVerdicts(w io.Writer, all []Verdict, style Style) error {
	t := NewTable(Left("check"), Right("value"), Right("limit"), Left("verdict"))
	for _, v := range all {
		verdict := "ok"
		if !v.OK {
			verdict = "FAILS"
		}
		t.Row(v.Name, v.Value, v.Limit, verdict)
	}
	return t.Print(w, style)
}
