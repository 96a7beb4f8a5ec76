package main

import (
	"fmt"
	"io"
	"strings"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
)

// A trust tells how far counts are to be trusted, by the samples that lie in their
// blocks: CPI and stalls inherit it.
type trust struct {
	conf, shape mix
	samples     uint64
}

func (t *trust) add(r *infer.Result) {
	for b, n := range r.BlockSamples {
		t.conf[r.Block[b].Conf] += n
		t.shape[r.Block[b].Within] += n
		t.samples += n
	}
}

// trust is that of all procedures.
func newTrust(s *input.Session) *trust {
	t := &trust{}
	for _, ip := range s.Profile.Images {
		for _, r := range ip.Procs {
			t.add(r)
		}
	}
	return t
}

// letterOf is a confidence in a narrow column.
func letterOf(c infer.Confidence) string { return c.String()[:1] }

// A timeHeader is what all explanations of time begin with.
type timeHeader struct {
	Schema          string             `json:"schema"`
	Machine         string             `json:"machine"`
	Event           string             `json:"event"`
	Samples         uint64             `json:"samples"`
	Used            uint64             `json:"used"`              // samples
	CyclesPerSample float64            `json:"cycles_per_sample"` // of a timer's samples, at 3 GHz
	Confidence      map[string]float64 `json:"confidence"`        // shares of the used samples by that of their block's count, among all
	Within          map[string]float64 `json:"confidence_within"` // the same among those of its procedure
}

func newTimeHeader(s *input.Session, schema string, x *infer.Explainer) timeHeader {
	p, t := s.Profile, newTrust(s)
	return timeHeader{schema, p.Machine, p.Event.Name, p.Samples.Total, p.Samples.Used, x.CyclesPerSample(), t.conf.shares(), t.shape.shares()}
}

// shares returns the share of each confidence.
func (m *mix) shares() map[string]float64 {
	var all uint64
	for _, n := range m {
		all += n
	}
	shares := map[string]float64{}
	for conf, n := range m {
		shares[infer.Confidence(conf).String()] = float64(n) / float64(max(all, 1))
	}
	return shares
}

// write prints the header, and what estimates are worth.
func (h *timeHeader) write(w io.Writer, style report.Style) error {
	list := func(shares map[string]float64) string {
		var parts []string
		for conf := infer.High; conf > infer.None; conf-- {
			parts = append(parts, conf.String()+" "+report.Percent(shares[conf.String()]))
		}
		return strings.Join(parts, ", ")
	}
	_, err := report.Fprintf(w, style, "%s, %s, %d samples of %s cycles\n"+
		"Samples by how well executions are known: among all %s;\n"+
		"within their procedure %s. Cycles per execution are no better.\n",
		h.Machine, h.Event, h.Samples, report.Count(h.CyclesPerSample), list(h.Confidence), list(h.Within))
	return err
}

// A culpritRow is an infer.Culprit.
type culpritRow struct {
	Cause  string  `json:"cause"`
	Letter string  `json:"letter"`
	From   string  `json:"from,omitempty"` // address of the instruction that was waited for, if it is known
	Least  float64 `json:"least"`          // cycles per execution
	Most   float64 `json:"most"`
}

func culpritRows(s *infer.Stall) []culpritRow {
	rows := []culpritRow{}
	for _, c := range s.Culprits {
		row := culpritRow{Cause: c.Cause.String(), Letter: string(c.Cause.Letter()), Least: c.Least, Most: c.Most}
		if c.From != 0 {
			row.From = hex(c.From)
		}
		rows = append(rows, row)
	}
	return rows
}

// blameShare is the part of a stall that a culprit has to be able to explain for its letter
// to be shown.
const blameShare = 0.1

// blame returns the letters of the culprits of s that matter, the likeliest first; "?" is
// what nothing explains.
func blame(s *infer.Stall) string {
	var b strings.Builder
	for _, c := range s.Culprits {
		if c.Most >= blameShare*s.Cycles {
			b.WriteByte(c.Cause.Letter())
		}
	}
	if s.Unexplained >= blameShare*s.Cycles && s.Cycles > 0 {
		b.WriteByte('?')
	}
	return b.String()
}

// legend explains the letters of causes, in lines of at most so many characters.
func legend(width int, newline string) string {
	var parts []string
	for _, c := range infer.Causes() {
		parts = append(parts, string(c.Letter())+" "+c.String())
	}
	out, at := "", 0
	for _, part := range append(parts, "? unexplained") {
		switch {
		case out == "":
		case at+2+len(part) > width:
			out, at = out+","+newline, 0
		default:
			out, at = out+", ", at+2
		}
		out, at = out+part, at+len(part)
	}
	return out
}

// causeNamed finds a cause by name or letter.
func causeNamed(name string) (infer.Cause, error) {
	var names []string
	for _, c := range infer.Causes() {
		if name == c.String() || name == string(c.Letter()) {
			return c, nil
		}
		names = append(names, c.String())
	}
	return 0, fmt.Errorf("no cause %q: want one of %s", name, strings.Join(names, ", "))
}
