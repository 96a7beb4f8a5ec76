package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"backfeed/feedback/gate"
)

// A Verdict is a gate as check prints it.
type Verdict struct {
	Name    string   `json:"name"`
	Value   float64  `json:"value"`
	AtLeast *float64 `json:"at_least,omitempty"` // the limit is this, or AtMost
	AtMost  *float64 `json:"at_most,omitempty"`
	Unit    string   `json:"unit"`         // of Value and the limit: "share" (of 1), "samples" or "seconds"
	Of      uint64   `json:"of,omitempty"` // samples that Value is a share of; 0 is unknown
	OK      bool     `json:"ok"`
	Reason  string   `json:"reason"` // what a failure means
}

// NewVerdicts returns gates as check prints them.
func NewVerdicts(gates []gate.Gate) []Verdict {
	all := []Verdict{}
	for _, g := range gates {
		v := Verdict{Name: g.Name, Value: g.Value, Unit: g.Unit.String(), Of: g.Of, OK: g.OK(), Reason: g.Reason}
		if g.AtMost {
			v.AtMost = &g.Limit
		} else {
			v.AtLeast = &g.Limit
		}
		all = append(all, v)
	}
	return all
}

// measured is a number of a verdict with its unit.
func (v *Verdict) measured(n float64) string {
	switch v.Unit {
	case gate.Samples.String():
		return Integer(uint64(n))
	case gate.Seconds.String():
		return time.Duration(math.Round(n * float64(time.Second))).String()
	}
	return Percent(n)
}

// limit is the limit in words.
func (v *Verdict) limit() string {
	if v.AtMost != nil {
		return "at most " + v.measured(*v.AtMost)
	}
	return "at least " + v.measured(*v.AtLeast)
}

// Failure says what was found, what was wanted, and what that means.
func (v *Verdict) Failure() string {
	return fmt.Sprintf("%s %s, want %s: %s", v.Name, v.measured(v.Value), v.limit(), v.Reason)
}

// Failures says what of all fails; "" is nothing.
func Failures(all []Verdict) string {
	var failed []string
	for i := range all {
		if !all[i].OK {
			failed = append(failed, all[i].Failure())
		}
	}
	return strings.Join(failed, "; ")
}

// WriteVerdicts writes the table of check.
func WriteVerdicts(w io.Writer, all []Verdict, style Style) error {
	t := NewTable(Left("check"), Right("value"), Left("of").Drop(1), Right("limit"), Left("verdict"))
	for i := range all {
		v := &all[i]
		verdict := "ok"
		if !v.OK {
			verdict = "FAILS"
		}
		of := ""
		if v.Of > 0 {
			of = Integer(v.Of) + " samples"
		}
		t.Row(v.Name, v.measured(v.Value), of, v.limit(), verdict)
	}
	return t.Print(w, style)
}
