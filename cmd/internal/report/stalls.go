package report

import (
	"fmt"
	"io"
	"strings"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/explain"
	"backfeed/infer/image"
)

// ByConfidence is how many samples lie in blocks of each confidence.
type ByConfidence [infer.High + 1]uint64

// AddWithin adds the samples of r by the confidence of their blocks within the procedure.
func (m *ByConfidence) AddWithin(r *infer.Result) {
	for i, n := range r.BlockSamples {
		m[r.Block[i].Within] += n
	}
}

// Cells are the shares by falling confidence: "high 71.0% medium 19.0% low 10.0%".
func (m *ByConfidence) Cells() []string {
	var all uint64
	for _, n := range m {
		all += n
	}
	var cells []string
	for conf := infer.High; ; conf-- {
		cells = append(cells, Share(m[conf], all))
		if conf == infer.None {
			return cells
		}
	}
}

// ConfidenceColumns head what Cells returns.
func ConfidenceColumns() []Column {
	var columns []Column
	for conf := infer.High; ; conf-- {
		columns = append(columns, Right(conf.String()))
		if conf == infer.None {
			return columns
		}
	}
}

// A Trust says how far counts are to be trusted, by the samples that lie in their
// blocks: CPI and stalls inherit it.
type Trust struct {
	Conf, Within ByConfidence
	Samples      uint64
}

// Add adds the samples of r.
func (t *Trust) Add(r *infer.Result) {
	for b, n := range r.BlockSamples {
		t.Conf[r.Block[b].Conf] += n
		t.Within[r.Block[b].Within] += n
		t.Samples += n
	}
}

// Middle is the confidence within functions that the count under the middle one of the samples has.
func (t *Trust) Middle() infer.Confidence {
	var below uint64
	for conf, n := range t.Within {
		if below += n; 2*below >= t.Samples {
			return infer.Confidence(conf)
		}
	}
	return infer.None
}

// NewTrust returns that of all procedures.
func NewTrust(prof *infer.Profile) *Trust {
	t := &Trust{}
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			t.Add(r)
		}
	}
	return t
}

// letterOf is a confidence in a narrow column.
func letterOf(c infer.Confidence) string { return c.String()[:1] }

// A TimeHeader is what all explanations of time begin with.
type TimeHeader struct {
	Schema          string             `json:"schema"`
	Machine         string             `json:"machine"`
	Event           string             `json:"event"`
	Samples         uint64             `json:"samples"`
	Used            uint64             `json:"used"`              // samples
	CyclesPerSample float64            `json:"cycles_per_sample"` // of a timer's samples, by Clock
	Clock           *document.Clock    `json:"clock,omitempty"`   // of a timer's samples
	Confidence      map[string]float64 `json:"confidence"`        // shares of the used samples by that of their block's count, among all
	Within          map[string]float64 `json:"confidence_within"` // the same among those of its procedure
	CommonFactor    float64            `json:"common_factor,omitempty"`
	counted         float64            // infer.Profile.Counted
	calibrated      bool               // infer.Profile.Calibrated
}

// NewTimeHeader returns the header of a document of a schema.
func NewTimeHeader(prof *infer.Profile, schema string, x *explain.Explainer) TimeHeader {
	t := NewTrust(prof)
	return TimeHeader{schema, prof.Machine, prof.Event.Name, prof.Samples.Total, prof.Samples.Used, x.CyclesPerSample(), infer.ClockOf(prof), t.Conf.shares(), t.Within.shares(), prof.CommonFactor(), prof.Counted, prof.Calibrated}
}

// shares returns the share of each confidence.
func (m *ByConfidence) shares() map[string]float64 {
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
func (h *TimeHeader) write(w io.Writer, style Style) error {
	list := func(shares map[string]float64) string {
		var parts []string
		for conf := infer.High; conf > infer.None; conf-- {
			parts = append(parts, conf.String()+" "+Percent(shares[conf.String()]))
		}
		return strings.Join(parts, ", ")
	}
	_, err := Fprintf(w, style, "%s, %s, %d samples of %s cycles%s\n"+
		"Confidence of executions, as shares of samples: program-wide %s;\n"+
		"within-function %s.\n",
		h.Machine, h.Event, h.Samples, Count(h.CyclesPerSample), atClock(h.Clock), list(h.Confidence), list(h.Within))
	if told := toldFactor(h.CommonFactor); err == nil && told != "" {
		_, err = Fprintf(w, style, "%s\n", told)
	} else if told := toldCounted(h.CommonFactor, h.counted); err == nil && told != "" {
		_, err = Fprintf(w, style, "%s\n", told)
	} else if err == nil && h.CommonFactor >= infer.TimeFactor && h.Used < infer.FewTotal {
		_, err = Fprintf(w, style, "Executions, and with them cycles per execution, CPI and ratios to ideal time, may be off by a factor of %g in\n"+
			"procedures with 3 samples or more, %g in others: the samples are few.%s\n",
			infer.EntryFactor(3, h.Used), infer.EntryFactor(0, h.Used), h.advice("executions"))
	} else if err == nil && h.Confidence[infer.High.String()]+h.Confidence[infer.Medium.String()] < 0.5 {
		_, err = Fprintf(w, style, "Executions, and with them cycles per execution, CPI and ratios to ideal time, may be off by a factor of %d, in loops\n"+
			"that follow pointers by more: an execution takes a fraction of a cycle or hundreds.%s\n", infer.TimeFactor, h.advice("some"))
	}
	return err
}

// advice says what counts executions, where that was not done.
func (h *TimeHeader) advice(what string) string {
	if h.calibrated {
		return ""
	}
	return " `record --calibrate` counts " + what + "."
}

// toldFactor says what all executions may be off by together, where that is told by more than time; else it is "".
func toldFactor(factor float64) string {
	if !document.Seen(factor) {
		return ""
	}
	return fmt.Sprintf("All executions, and what follows from them, may be off by one factor of up to %.2g, with 90 %% confidence.", factor)
}

// toldCounted says what executions may be off by where those of such a part of the samples were counted in another run, and nothing but
// time was sampled; else it is "".
func toldCounted(factor, part float64) string {
	if factor < infer.TimeFactor || part == 0 {
		return ""
	}
	return fmt.Sprintf("Executions in %s of the samples are as another run counted them, times one factor that time tells: it may be off by up to %d, with 90 %% confidence.", Percent(part), infer.TimeFactor)
}

// ToldEntries says what the executions of procedures may be off by: where nothing but time was sampled in all, and where executions were seen
// beside what all may be off by together. It is "" where the event itself tells them. A procedure of few samples runs as often as time and
// its callers let it, and these let it run a thousand times as often.
func ToldEntries(p *infer.Profile) string {
	switch common := p.CommonFactor(); {
	case common == 0 || common < infer.TimeFactor && p.Counted > 0:
		return toldFactor(common)
	case common < infer.TimeFactor:
		return fmt.Sprintf("%s Beside that, those of procedures are within a factor of %s; less where confidence is medium or high.", toldFactor(common), EntryFactors(p))
	}
	if told := toldCounted(p.CommonFactor(), p.Counted); told != "" {
		return told + " Others are inferred from time alone: within a factor of " + EntryFactors(p) + "."
	}
	of := ""
	if told := p.Told(); told < infer.FewTotal {
		of = fmt.Sprintf(", of %s samples", Integer(told))
	}
	if p.Calibrated {
		return fmt.Sprintf("Walks and probes told where branches go, not how often all of it runs, which time tells%s: with 90 %% confidence, executions are within a factor of %s.", of, EntryFactors(p))
	}
	return fmt.Sprintf("Executions are inferred from time alone%s: with 90 %% confidence, within a factor of %s.", of, EntryFactors(p))
}

// mostTold is no less than the number of samples from which on more of them make no factor of executions less.
const mostTold = 200

// EntryFactors lists the factors of executions by the samples of procedures, of a recording as that of p.
func EntryFactors(p *infer.Profile) string {
	var list []string
	of := "procedures with %d samples or more outside their loops"
	rest := p.EntryFactorOf(0)
	for least := uint64(mostTold); least > 0; least-- {
		if f := p.EntryFactorOf(least); f != rest && p.EntryFactorOf(least-1) != f {
			list = append(list, fmt.Sprintf("%g for "+of, f, least))
			of = "those with %d or more"
		}
	}
	return fmt.Sprintf("%s, and %g for others", strings.Join(list, ", "), rest)
}

// atClock says what clock cycles are of, in words that follow them.
func atClock(c *document.Clock) string {
	switch {
	case c == nil:
		return ""
	case c.Measured:
		return fmt.Sprintf(" at %.2f GHz, measured", c.GHz)
	}
	return fmt.Sprintf(" at %g GHz, assumed", c.GHz)
}

// AtClock is atClock of p.
func AtClock(p *infer.Profile) string { return atClock(infer.ClockOf(p)) }

// A CulpritRow is an explain.Culprit.
type CulpritRow struct {
	Cause  string  `json:"cause"`
	Letter string  `json:"letter"`
	From   string  `json:"from,omitempty"` // address of the instruction that was waited for, if it is known
	Least  float64 `json:"least"`          // cycles per execution
	Most   float64 `json:"most"`
}

func culpritRows(s *explain.Stall) []CulpritRow {
	rows := []CulpritRow{}
	for _, c := range s.Culprits {
		row := CulpritRow{Cause: c.Cause.String(), Letter: string(c.Cause.Letter()), Least: c.Least, Most: c.Most}
		if c.From != 0 {
			row.From = Hex(c.From)
		}
		rows = append(rows, row)
	}
	return rows
}

// blameShare is the part of a stall that a culprit has to be able to explain for its letter
// to be shown.
const blameShare = 0.1

// Blame returns the letters of the culprits of s that matter, the likeliest first; "?" is
// what nothing explains.
func Blame(s *explain.Stall) string {
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

// Legend explains the letters of causes, in lines of at most so many characters.
func Legend(width int, newline string) string {
	var parts []string
	for _, c := range explain.Causes() {
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

// CauseNamed finds a cause by name or letter.
func CauseNamed(name string) (explain.Cause, error) {
	var names []string
	for _, c := range explain.Causes() {
		if name == c.String() || name == string(c.Letter()) {
			return c, nil
		}
		names = append(names, c.String())
	}
	return 0, fmt.Errorf("no cause %q: want one of %s", name, strings.Join(names, ", "))
}

// Hex prints an address.
func Hex(a image.Addr) string { return fmt.Sprintf("%#x", uint64(a)) }
